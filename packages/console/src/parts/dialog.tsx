import type { ComponentChildren, RefObject } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { Button, type ButtonKind } from './button.tsx'

/**
 * A dialog that is open as long as it is drawn.
 *
 * close: closes it, so that the browser gives the focus back, and has told `onClose` when it returns. The browser's own event comes later,
 * when the next question may be open already.
 */
export function useModal(onClose: () => void): { ref: RefObject<HTMLDialogElement>; close: () => void } {
  const ref = useRef<HTMLDialogElement>(null)
  const isClosed = useRef(false)
  useEffect(() => {
    ref.current?.showModal()
  }, [])
  const close = (): void => {
    if (isClosed.current) return
    isClosed.current = true
    ref.current?.close()
    onClose()
  }
  return { ref, close }
}

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
  const { ref, close } = useModal(onClose)
  const id = useId()
  return (
    <dialog
      ref={ref}
      aria-labelledby={id}
      onClose={close}
      class="w-[min(30rem,calc(100vw-2rem))] rounded-dialog border border-line bg-surface p-6 text-ink shadow-float backdrop:bg-[oklch(0_0_0/0.4)]"
    >
      <h2 id={id} class="mb-3 text-heading font-semibold tracking-tight">
        {title}
      </h2>
      {children(close)}
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
  /** close: as the harmless answer does. */
  onConfirm: (close: () => void) => void
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
            <Button kind={kind} reason={isBusy ? 'Under way' : reason} onClick={() => onConfirm(close)}>
              {verb}
            </Button>
          </div>
        </>
      )}
    </Modal>
  )
}
