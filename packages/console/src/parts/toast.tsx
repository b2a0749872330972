import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { Button } from './button.tsx'

interface Message {
  text: string
  /** What its button says and does, such as Undo. */
  action?: { word: string; act: () => void } | undefined
}

const message = signal<Message | undefined>(undefined)
const SHOWN_MS = 8_000

/** Says that something was done, and mostly offers to undo it. Never for errors, which stay where they happened. */
export function tell(text: string, action?: Message['action']): void {
  message.value = { text, action }
}

/** The one place where such messages appear: for 8 s, and as long as the pointer or the focus is on them. */
export function Toast() {
  const { value } = message
  const [isHeld, hold] = useState(false)
  useEffect(() => {
    if (!value || isHeld) return
    const timer = setTimeout(() => (message.value = undefined), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [value, isHeld])
  return (
    <div
      role="status"
      class="fixed start-4 bottom-4 z-20 max-w-[calc(100vw-2rem)] [body:has(#as-a-command)_&]:top-16 [body:has(#as-a-command)_&]:bottom-auto"
    >
      {value && (
        <div
          class="flex items-center gap-4 rounded-control border border-line bg-surface py-2 ps-4 pe-2 shadow-float"
          onPointerEnter={() => hold(true)}
          onPointerLeave={() => hold(false)}
          onFocusIn={() => hold(true)}
          onFocusOut={() => hold(false)}
        >
          {value.text}
          {value.action && (
            <Button
              kind="plain"
              onClick={() => {
                message.value = undefined
                value.action?.act()
              }}
            >
              {value.action.word}
            </Button>
          )}
        </div>
      )}
    </div>
  )
}
