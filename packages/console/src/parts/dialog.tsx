import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { Button, type ButtonKind } from './button.tsx'

/** A question before something that cannot be undone, or that others will see. The first focus is on the harmless answer. */
export function Dialog({
  title,
  verb,
  kind = 'main',
  isBusy = false,
  onConfirm,
  onClose,
  children,
}: {
  title: string
  /** What the button does, such as `Cancel deployment`. */
  verb: string
  kind?: ButtonKind
  isBusy?: boolean
  onConfirm: () => void
  onClose: () => void
  children: ComponentChildren
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    dialog.current?.showModal()
  }, [])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onClose={onClose}
      class="w-[min(30rem,calc(100vw-2rem))] rounded-dialog border border-line bg-surface p-6 text-ink shadow-float backdrop:bg-[oklch(0_0_0/0.4)]"
    >
      <h2 id={id} class="mb-3 text-heading font-semibold tracking-tight">
        {title}
      </h2>
      <div class="flex flex-col gap-3">{children}</div>
      <div class="mt-6 flex flex-wrap justify-end gap-2">
        <Button autofocus onClick={() => dialog.current?.close()}>
          Keep as it is
        </Button>
        <Button kind={kind} reason={isBusy ? 'Under way' : undefined} onClick={onConfirm}>
          {verb}
        </Button>
      </div>
    </dialog>
  )
}
