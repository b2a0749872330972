import type { ComponentChildren, JSX } from 'preact'
import { useId } from 'preact/hooks'

const base =
  'inline-flex items-center justify-center gap-2 min-h-8 max-w-full px-3 py-1 rounded-control text-body sm:whitespace-nowrap pointer-coarse:min-h-11 aria-disabled:cursor-not-allowed aria-disabled:opacity-60 forced-colors:border'

const kinds = {
  main: 'bg-accent text-on-accent font-medium hover:opacity-90',
  quiet: 'border border-edge bg-surface text-ink hover:bg-sunken',
  plain: 'text-ink hover:bg-sunken',
  danger: 'border border-bad text-bad bg-surface hover:bg-bad-tint',
} as const

export type ButtonKind = keyof typeof kinds

/** The look of a button, for links that stand in a button's place. */
export const buttonClass = (kind: ButtonKind): string => `${base} ${kinds[kind]}`

type ButtonProps = Omit<JSX.ButtonHTMLAttributes, 'disabled' | 'class'> & {
  kind?: ButtonKind
  class?: string
  type?: 'button' | 'submit'
  /** Why it cannot be pressed; it stays reachable, and says so. */
  reason?: string | undefined
  children: ComponentChildren
}

export function Button({
  kind = 'quiet',
  type = 'button',
  reason,
  onClick,
  class: more = '',
  children,
  ...rest
}: ButtonProps) {
  const id = useId()
  if (reason === undefined)
    return (
      <button {...rest} type={type} class={`${buttonClass(kind)} ${more}`} onClick={onClick}>
        {children}
      </button>
    )
  return (
    <>
      <button
        {...rest}
        type="button"
        class={`${buttonClass(kind)} ${more}`}
        aria-disabled="true"
        aria-describedby={id}
        title={reason}
      >
        {children}
      </button>
      <span id={id} class="sr-only">
        {reason}
      </span>
    </>
  )
}
