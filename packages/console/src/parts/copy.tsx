import { Check, Copy as CopyIcon } from 'lucide-preact'
import { useState } from 'preact/hooks'
import { shortId } from '../words.ts'

/** Puts a text on the clipboard, and says so. text: a function, where it is not to be kept. what: completes "Copy …". */
export function Copy({ text, what }: { text: string | (() => string); what: string }) {
  const [state, setState] = useState<'idle' | 'copied' | 'refused'>('idle')
  const copy = async (): Promise<void> => {
    const outcome = await navigator.clipboard.writeText(typeof text === 'string' ? text : text()).then(
      () => 'copied' as const,
      () => 'refused' as const,
    )
    setState(outcome)
    setTimeout(() => setState('idle'), 2_000)
  }
  const Icon = state === 'copied' ? Check : CopyIcon
  const word = { idle: `Copy ${what}`, copied: 'Copied', refused: 'The browser refused to copy' }[state]
  return (
    <button
      type="button"
      class="inline-grid size-6 shrink-0 place-items-center rounded-badge text-soft hover:bg-sunken hover:text-ink pointer-coarse:size-11"
      title={word}
      onClick={() => void copy()}
    >
      <Icon size={16} strokeWidth={1.5} aria-hidden="true" />
      <span class="sr-only" aria-live="polite">
        {word}
      </span>
    </button>
  )
}

/** A line to type into a terminal. */
export function Command({ text }: { text: string }) {
  return (
    <div class="flex items-start gap-2 rounded-control bg-sunken py-2 ps-3 pe-2">
      <code class="min-w-0 grow font-mono text-table break-all whitespace-pre-wrap">{text}</code>
      <Copy text={text} what="the command" />
    </div>
  )
}

/** An id, cut in the middle; the whole of it under the pointer and on the clipboard. */
export function Id({ id, what = 'the id' }: { id: string; what?: string }) {
  return (
    <span class="inline-flex items-center gap-1 font-mono text-note">
      <span title={id}>{shortId(id)}</span>
      <Copy text={id} what={what} />
    </span>
  )
}
