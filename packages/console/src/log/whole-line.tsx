import { Check, Copy, X } from 'lucide-preact'
import { useId, useMemo, useState } from 'preact/hooks'
import { Button } from '../parts/button.tsx'
import { useModal } from '../parts/dialog.tsx'
import { bytes, number as figure } from '../words.ts'
import { plainText } from './escapes.ts'
import type { LogLine } from './lines.ts'

/** UTF-16 code units in one text node. */
const NODE_CHARACTERS = 65_536

/** The text in parts of a length that the browser lays out quickly; a pair of surrogates stays together. */
function partsOf(text: string): string[] {
  const parts: string[] = []
  for (let start = 0; start < text.length;) {
    const end = start + NODE_CHARACTERS
    const isInPair = /[\ud800-\udbff]/.test(text.charAt(end - 1))
    parts.push(text.slice(start, isInPair ? end - 1 : end))
    start = isInPair ? end - 1 : end
  }
  return parts
}

const COPY_WORDS = { idle: 'Copy', copied: 'Copied', refused: 'The browser refused to copy' }

/** A dialog with all of a line that is too long for its row. */
export function WholeLine({ line, number, onClose }: { line: LogLine; number: number; onClose: () => void }) {
  const { ref, close } = useModal(onClose)
  const id = useId()
  const text = useMemo(() => plainText(line.text), [line])
  const [copying, setCopying] = useState<keyof typeof COPY_WORDS>('idle')
  const copy = async (): Promise<void> => {
    setCopying(
      await navigator.clipboard.writeText(text).then(
        () => 'copied' as const,
        () => 'refused' as const,
      ),
    )
  }
  const CopyIcon = copying === 'copied' ? Check : Copy
  return (
    <dialog
      ref={ref}
      aria-labelledby={id}
      onClose={close}
      class="max-h-[calc(100dvh-2rem)] w-[min(60rem,calc(100vw-2rem))] max-w-none rounded-dialog border border-line bg-surface p-4 text-ink shadow-float backdrop:bg-[oklch(0_0_0/0.4)] sm:p-6"
    >
      <div class="mb-4 flex flex-wrap items-center gap-2">
        <h2 id={id} class="me-auto text-heading font-semibold tracking-tight">
          Line {figure(number)}{' '}
          <span class="text-body font-normal tracking-normal text-soft">{bytes(text.length)}</span>
        </h2>
        <Button onClick={() => void copy()}>
          <CopyIcon size={16} strokeWidth={1.5} aria-hidden="true" />
          <span aria-live="polite">{COPY_WORDS[copying]}</span>
        </Button>
        <Button autofocus onClick={close}>
          <X size={16} strokeWidth={1.5} aria-hidden="true" />
          Close
        </Button>
      </div>
      <pre
        tabIndex={0}
        role="region"
        aria-label={`Text of line ${figure(number)}`}
        class="max-h-[60dvh] overflow-auto rounded-control bg-sunken p-3 font-mono text-table wrap-anywhere whitespace-pre-wrap"
      >
        {partsOf(text)}
      </pre>
    </dialog>
  )
}
