import type { ComponentChildren, RefObject } from 'preact'
import { useId, useLayoutEffect } from 'preact/hooks'
import { controlClass } from '../../parts/field.tsx'
import { erase } from './secrets.ts'

/**
 * A field of several lines. Its text is in its element alone, and is erased there when the field goes, since state and closures of components
 * outlive them. area: where the owner of the form reads the text.
 */
export function SecretArea({
  area,
  label,
  initial = '',
  hint,
  problems = [],
  rows,
  isMasked = false,
  autofocus = false,
  onInput,
}: {
  area: RefObject<HTMLTextAreaElement>
  label: string
  initial?: string
  hint?: ComponentChildren
  /** What is wrong with what was typed, each a sentence without a full stop. */
  problems?: readonly string[]
  rows: number
  isMasked?: boolean
  autofocus?: boolean
  onInput: () => void
}) {
  const id = useId()
  useLayoutEffect(() => {
    const field = area.current
    if (field && autofocus) field.focus()
    return () => field && erase(field)
  }, [])
  const told = [hint !== undefined && `${id}-hint`, problems.length > 0 && `${id}-problem`].filter(Boolean).join(' ')
  return (
    <div class="flex max-w-[40rem] flex-col gap-1">
      <label for={id} class="font-medium">
        {label}
      </label>
      <textarea
        ref={area}
        id={id}
        rows={rows}
        defaultValue={initial}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        class={`${controlClass} h-auto w-full py-2 font-mono break-all pointer-coarse:h-auto ${isMasked ? '[-webkit-text-security:disc]' : ''}`}
        aria-invalid={problems.length > 0}
        aria-describedby={told === '' ? undefined : told}
        onInput={onInput}
      />
      {hint !== undefined && (
        <p id={`${id}-hint`} class="text-note text-soft">
          {hint}
        </p>
      )}
      {problems.length > 0 && (
        <ul id={`${id}-problem`} role="alert" class="text-bad">
          {problems.slice(0, PROBLEMS_SHOWN).map((problem) => (
            <li key={problem} class="break-words">
              {problem}
            </li>
          ))}
          {problems.length > PROBLEMS_SHOWN && <li>and {problems.length - PROBLEMS_SHOWN} more</li>}
        </ul>
      )}
    </div>
  )
}

const PROBLEMS_SHOWN = 8
