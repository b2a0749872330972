import { html } from 'hono/html'
import type { Markup } from './answer-page.ts'
import { timeWordsIn } from './time-words.ts'

/** Created by the first page that needs it: formats take 40 ms, a third of the service's start. */
let inUtc: ReturnType<typeof timeWordsIn> | undefined

/**
 * A time for people, in UTC until the script has put it into the browser's time zone. The exact time shows when it is pointed
 * at or has the focus; inside of a link or a summary (`isInside`), when that has it.
 */
export function moment(time: Date, now: Date, { isInside = false }: { isInside?: boolean } = {}): Markup {
  inUtc ??= timeWordsIn('UTC')
  const { rough, exact } = inUtc(time, now)
  return html`<time datetime="${time.toISOString()}" ${isInside ? '' : html`tabindex="0"`}
    ><span>${rough}</span><span class="exact">${exact}</span></time
  >`
}
