import type { ComponentChildren } from 'preact'
import { Dialog } from '../../parts/dialog.tsx'
import { useHeadingAfter } from './heading-after.ts'

/** Asks before a secret is lost by leaving the page. */
export function LeaveQuestion({
  title,
  onLeave,
  onStay,
  children,
}: {
  title: string
  onLeave: () => void
  onStay: () => void
  children: ComponentChildren
}) {
  useHeadingAfter()
  return (
    <Dialog title={title} verb="Leave" kind="danger" harmless="Stay" onConfirm={onLeave} onClose={onStay}>
      {children}
    </Dialog>
  )
}
