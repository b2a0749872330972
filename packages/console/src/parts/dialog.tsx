import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { Button, type ButtonKind } from './button.tsx'

/**
 * A window above the page, which Escape closes and which keeps the focus. children: with what closes it; one of them has `autofocus`. The
 * browser gives the focus back.
 */
export function Modal({
  title,
  onClose,
  children,
}: {
  title: string
  onClose: () => void
  children: (close: () => void) => ComponentChildren
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
      {children(() => dialog.current?.close())}
    </dialog>
  )
}

/** A question before something that cannot be undone, or that others will see. The first focus is on the harmless answer. */
export function Dialog({
  title,
  verb,
  kind = 'main',
  isBusy = false,
  reason,
  harmless = 'Keep as it is',
  onConfirm,
  onClose,
  children,
}: {
  title: string
  /** What the button does, such as `Cancel deployment`. */
  verb: string
  kind?: ButtonKind
  isBusy?: boolean
  /** Why it cannot be done yet. */
  reason?: string | undefined
  /** What the other button says. */
  harmless?: string
  onConfirm: () => void
  onClose: () => void
  children: ComponentChildren
}) {
  return (
    <Modal title={title} onClose={onClose}>
      {(close) => (
        <>
          <div class="flex flex-col gap-3">{children}</div>
          <div class="mt-6 flex flex-wrap justify-end gap-2">
            <Button autofocus onClick={close}>
              {harmless}
            </Button>
            <Button kind={kind} reason={isBusy ? 'Under way' : reason} onClick={onConfirm}>
              {verb}
            </Button>
          </div>
        </>
      )}
    </Modal>
  )
}
