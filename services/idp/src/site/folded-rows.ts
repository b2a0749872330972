import { html } from 'hono/html'
import type { Markup } from './answer-page.ts'

/**
 * A list of rows, each an `<li>`; those beyond `shownMax` are folded away, so that what stands below the list is not far down.
 * One more row is no longer than the line that would fold it.
 */
export function foldedRows(rows: readonly Markup[], { shownMax, noun }: { shownMax: number; noun: string }): Markup {
  const shown = rows.length > shownMax + 1 ? shownMax : rows.length
  const folded = rows.slice(shown)
  return html`<ul class="rows">
      ${rows.slice(0, shown)}
    </ul>
    ${
      folded.length === 0
        ? ''
        : html`<details>
            <summary>${folded.length} more ${noun}</summary>
            <ul class="rows">
              ${folded}
            </ul>
          </details>`
    }`
}
