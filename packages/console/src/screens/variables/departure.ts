import type { RefObject } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { tell } from '../../parts/toast.tsx'
import type { VariableStore } from './store.ts'

/** Tells whoever edits a variable that somebody else deleted it, and moves the focus on where it was in a row that goes. */
export function useDeparture({
  id,
  key,
  isEditing,
  row,
  store,
}: {
  id: string
  key: string
  isEditing: boolean
  row: RefObject<HTMLTableRowElement>
  store: VariableStore
}): void {
  const isOpen = useRef(isEditing)
  isOpen.current = isEditing
  useLayoutEffect(
    () => () => {
      if (!store.isGone(id)) return
      if (isOpen.current) tell(`${key} was deleted meanwhile: what you typed is not saved`)
      if (row.current) leave(row.current, isOpen.current)
    },
    [],
  )
}

/** Puts the focus at the next variable, if it is in this row or in the form below it. */
function leave(row: HTMLTableRowElement, isOpen: boolean): void {
  const parts = [row, isOpen ? row.nextElementSibling : null]
  if (!parts.some((part) => part?.contains(document.activeElement))) return
  const buttons = [...(row.closest('table')?.querySelectorAll<HTMLElement>('[data-delete]') ?? [])]
  const own = buttons.findIndex((button) => row.contains(button))
  const next = buttons[own + 1] ?? buttons[own - 1] ?? document.getElementById('new-variable')
  next?.focus()
}
