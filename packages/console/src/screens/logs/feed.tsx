import type { ComponentChildren } from 'preact'
import type { LogLine } from '../../log/lines.ts'
import type { useFeed } from '../../log/use-feed.ts'
import { Failure } from '../../parts/notice.tsx'
import { Skeleton } from '../../parts/panel.tsx'

/** Whether more may come: not to a span that has ended. */
export const isOpenEnded = ({ to }: Readonly<Record<string, string>>): boolean =>
  to === undefined || Date.parse(to) > Date.now()

/** A list in each of its states. */
export function Feed<Line extends LogLine>({
  feed: { lines, isRead, error, again, older },
  isFiltered,
  noun,
  children,
}: {
  feed: ReturnType<typeof useFeed<Line>>
  isFiltered: boolean
  noun: string
  children: (more: {
    lines: typeof lines
    older: typeof older
    opensAtEnd: boolean
    emptyText: string
  }) => ComponentChildren
}) {
  const emptyText = isFiltered
    ? `No ${noun} fits these filters.`
    : noun === 'line'
      ? 'No Function has printed anything yet.'
      : 'Nobody has asked for anything yet. Requests show up here as they come.'
  return (
    <>
      {error && (
        <div class="mb-3">
          <Failure error={error} again={again} isStale={isRead} />
        </div>
      )}
      {isRead ? children({ lines, older, opensAtEnd: true, emptyText }) : !error && <Skeleton rows={10} />}
    </>
  )
}
