import { useEffect, useId, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import type { ComponentChildren } from 'preact'
import { controlClass } from '../../parts/field.tsx'
import { useAddress } from '../../platform/query.ts'
import type { FilterField } from './filters.ts'

/** A value that a filter may have, and how many there are of it, where that is known. */
export interface Suggestion {
  value: string
  words: string
}

interface ControlProps {
  field: FilterField
  /** What the address says; empty: nothing. */
  value: string
  problem: string | undefined
  suggestions?: readonly Suggestion[] | undefined
  /** Called when somebody comes to the field. */
  onFocus?: () => void
}

/** An instant as an input of the browser shows it, in its time zone; empty for none. */
function localOf(instant: string): string {
  const at = new Date(instant)
  if (Number.isNaN(at.getTime())) return ''
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

/** What was typed or chosen, as it stands in the address. */
function addressed({ kind, name }: FilterField, text: string): string | undefined {
  const value = text.trim()
  if (value === '') return undefined
  if (kind === 'time') return Number.isNaN(Date.parse(value)) ? undefined : new Date(value).toISOString()
  return name === 'method' || name === 'country' ? value.toUpperCase() : value
}

/** A filter: what is typed or chosen goes to the address, and what is wrong with the address stands at the field. */
export function FilterControl({ field, value, problem, suggestions = [], onFocus }: ControlProps) {
  const { name, label, kind, placeholder } = field
  const { route } = useLocation()
  const address = useAddress()
  const id = useId()
  const shown = kind === 'time' ? localOf(value) : value
  const [text, setText] = useState(shown)
  useEffect(() => setText(shown), [shown])
  const apply = (typed: string): void => {
    const next = addressed(field, typed)
    if ((next ?? '') !== value) route(address({ [name]: next, request: undefined, line: undefined }))
  }
  const told = problem === undefined ? undefined : `${id}-problem`
  const isKnown = value === '' || suggestions.some((each) => each.value === value)
  const common = { id, 'aria-invalid': problem !== undefined, 'aria-describedby': told, onFocus } as const
  return (
    <div class="flex min-w-0 flex-col gap-1">
      <label for={id} class="text-note text-soft">
        {label}
      </label>
      {kind === 'choice' || (kind === 'id' && suggestions.length > 0) ? (
        <select
          {...common}
          class={`${controlClass} w-full`}
          value={value}
          onChange={(event) => apply(event.currentTarget.value)}
        >
          <option value="">Any</option>
          {!isKnown && <option value={value}>{value}</option>}
          {suggestions.map((each) => (
            <option key={each.value} value={each.value}>
              {each.words}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...common}
          type={kind === 'time' ? 'datetime-local' : 'text'}
          step={kind === 'time' ? 1 : undefined}
          value={text}
          list={suggestions.length > 0 ? `${id}-list` : undefined}
          placeholder={placeholder}
          autocomplete="off"
          spellcheck={false}
          class={`${controlClass} w-full placeholder:text-faint`}
          onInput={(event) => setText(event.currentTarget.value)}
          onChange={(event) => apply(event.currentTarget.value)}
        />
      )}
      {kind !== 'id' && suggestions.length > 0 && (
        <datalist id={`${id}-list`}>
          {suggestions.map((each) => (
            <option key={each.value} value={each.value} label={each.words} />
          ))}
        </datalist>
      )}
      <Problem id={told}>{problem}</Problem>
    </div>
  )
}

/** What is wrong at a field. id: by which the field names it. */
export const Problem = ({ id, children }: { id: string | undefined; children: ComponentChildren }) =>
  id === undefined ? null : (
    <p id={id} role="alert" class="max-w-[40ch] break-words text-bad">
      {children}
    </p>
  )
