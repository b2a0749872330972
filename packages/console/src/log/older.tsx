import { ArrowUp } from 'lucide-preact'
import { Button } from '../parts/button.tsx'
import { counted, number } from '../words.ts'

/** How the lines before the first one of a log come. */
export interface Older {
  /** Reads some of them; undefined while there are none, while they are read, or while no more are kept in the page. */
  load: (() => void) | undefined
  /** Lines that there are in all, as far as is known. isAtLeast: or more. */
  total: { count: number; isAtLeast: boolean }
  isLoading: boolean
  /** Why no more are loaded, if it is so. */
  reason: string | undefined
}

/** How much of a log is in the page, and the way to more of it. size: rows that are here. */
export function OlderBar({
  older: { load, total, isLoading, reason },
  size,
  noun,
}: {
  older: Older
  size: number
  noun: string
}) {
  const isMore = load !== undefined || isLoading || reason !== undefined
  return (
    <div class="flex min-h-10 flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-2 py-1 text-table text-soft">
      {isMore && (
        <Button kind="plain" reason={isLoading ? 'They are on their way' : reason} onClick={() => load?.()}>
          <ArrowUp size={16} strokeWidth={1.5} aria-hidden="true" />
          Load older
        </Button>
      )}
      <p class="tabular-nums">
        {isMore && total.count > size
          ? `The newest ${number(size)} of ${number(total.count)}${total.isAtLeast ? ' or more' : ''} ${noun}s`
          : `${counted(Math.max(total.count, size), noun)}${isMore ? ' so far' : ''}`}
        {reason !== undefined && `. ${reason}`}
      </p>
    </div>
  )
}
