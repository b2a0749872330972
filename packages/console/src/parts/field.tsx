import { PlatformError } from '@platform/sdk'
import type { ComponentChildren, JSX } from 'preact'
import { useId } from 'preact/hooks'

export const controlClass =
  'h-9 max-w-full rounded-control border border-edge bg-surface px-3 text-body text-ink pointer-coarse:h-11 pointer-coarse:text-field aria-invalid:border-bad'

type FieldProps = Omit<JSX.InputHTMLAttributes, 'label'> & {
  label: string
  hint?: ComponentChildren
  /** What is wrong with what was typed. */
  problem?: string | undefined
  value: string
  onText: (text: string) => void
}

export function Field({ label, hint, problem, value, onText, ...rest }: FieldProps) {
  const id = useId()
  const told = [hint !== undefined && `${id}-hint`, problem !== undefined && `${id}-problem`].filter(Boolean).join(' ')
  return (
    <div class="flex max-w-[30rem] flex-col gap-1">
      <label for={id} class="font-medium">
        {label}
      </label>
      <input
        {...rest}
        id={id}
        value={value}
        class={`${controlClass} w-full`}
        aria-invalid={problem !== undefined}
        aria-describedby={told === '' ? undefined : told}
        onInput={(event) => onText(event.currentTarget.value)}
      />
      {hint !== undefined && (
        <p id={`${id}-hint`} class="text-note text-soft">
          {hint}
        </p>
      )}
      {problem !== undefined && (
        <p id={`${id}-problem`} role="alert" class="text-bad">
          {problem}
        </p>
      )}
    </div>
  )
}

/** What the platform says about one member of what was sent, such as `/name`; undefined if nothing. */
export const problemOf = (error: Error | null, property: string): string | undefined =>
  error instanceof PlatformError ? error.errors.find((each) => each.property === property)?.message : undefined

/** Whether an error is told at the fields it is about. */
export const isAtField = (error: Error | null, properties: readonly string[]): boolean =>
  properties.some((property) => problemOf(error, property) !== undefined)
