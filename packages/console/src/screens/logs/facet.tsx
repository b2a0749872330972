import { useId } from 'preact/hooks'
import { useAddress } from '../../platform/query.ts'
import { number } from '../../words.ts'
import { Problem } from './filter-control.tsx'
import type { FilterField } from './filters.ts'

const chip =
  'inline-flex min-h-8 items-center gap-1.5 rounded-control border px-2.5 py-1 text-table whitespace-nowrap pointer-coarse:min-h-11'

/** A filter of few values as links, each with how many there are of it, where that is known. */
export function Facet({
  field: { name, label, choices = [] },
  value,
  problem,
  counts,
  tones = {},
}: {
  field: FilterField
  /** The one that is chosen; undefined: none. */
  value: string | undefined
  problem: string | undefined
  /** By value; undefined: not known. */
  counts: ReadonlyMap<string, number> | undefined
  /** Classes, by value. */
  tones?: Readonly<Record<string, string>>
}) {
  const id = useId()
  const address = useAddress()
  // What does not occur is no choice, but one that is made stays.
  const offered = choices.filter((choice) => choice === value || counts === undefined || (counts.get(choice) ?? 0) > 0)
  const told = problem === undefined ? undefined : `${id}-problem`
  return (
    <div role="group" aria-labelledby={id} aria-describedby={told} class="flex min-w-0 flex-col gap-1">
      <span id={id} class="text-note text-soft">
        {label}
      </span>
      <div class="flex flex-wrap gap-1">
        {[undefined, ...offered].map((choice) => {
          const isOn = choice === value
          const count = choice === undefined ? undefined : counts?.get(choice)
          return (
            <a
              key={choice ?? ''}
              href={address({ [name]: choice, request: undefined, line: undefined })}
              aria-current={isOn ? 'true' : undefined}
              class={`${chip} ${isOn ? 'border-accent bg-accent-tint text-accent' : 'border-line bg-surface hover:bg-sunken'}`}
            >
              <span class={choice === undefined || isOn ? '' : (tones[choice] ?? '')}>{choice ?? 'Any'}</span>
              {count !== undefined && <span class={`tabular-nums ${isOn ? '' : 'text-soft'}`}>{number(count)}</span>}
            </a>
          )
        })}
      </div>
      <Problem id={told}>{problem}</Problem>
    </div>
  )
}
