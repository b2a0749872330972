import { needsSignIn } from '@platform/sdk'
import { useQueryClient } from '@tanstack/preact-query'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { keepLive } from '../platform/live.ts'
import { number } from '../words.ts'
import { LogFeed, type FeedSource, ROWS_MAX } from './feed.ts'
import type { LogLine, LogLines } from './lines.ts'
import type { Older } from './older.tsx'

interface ReadFeed<Line extends LogLine> {
  lines: LogLines<Line>
  isRead: boolean
  error: Error | undefined
  again: () => void
  older: Older
  /** Whether the line that was named is not there, and no page that may still be read has it. */
  isMissing: boolean
}

interface FeedOptions {
  isLive: boolean
  /** From so many on, the platform may not have counted all. */
  totalMax?: number | undefined
  /** A line for which older pages are read until it is there. */
  named?: Pick<LogLine, 'at' | 'id'> | undefined
}

/** The lines of a feed, kept up to date while the component is there. create: called for each key. */
export function useFeed<Line extends LogLine>(
  create: () => FeedSource<Line>,
  key: string,
  { isLive, totalMax = Infinity, named }: FeedOptions,
): ReadFeed<Line> {
  const cache = useQueryClient()
  const feed = useMemo(() => new LogFeed(create()), [key])
  const [error, setError] = useState<Error>()
  const [attempt, setAttempt] = useState(0)
  const [isLoading, setLoading] = useState(false)
  const leaving = useRef(new AbortController())
  const fail = (signal: AbortSignal) => (failure: Error) => {
    if (signal.aborted) return
    // The cache tells the session.
    if (needsSignIn(failure)) void cache.invalidateQueries()
    setError(failure)
  }
  useEffect(() => {
    leaving.current = new AbortController()
    const { signal } = leaving.current
    const run = async (): Promise<void> => {
      await feed.readNewest(signal)
      if (isLive) await keepLive(feed.live, signal)
    }
    setError(undefined)
    run().catch(fail(signal))
    return () => leaving.current.abort()
  }, [feed, isLive, attempt])

  const { isRead, hasOlder, isFull, total } = feed.state.value
  const canLoad = hasOlder && !isFull && !isLoading && !error
  const load = (): void => {
    const { signal } = leaving.current
    setLoading(true)
    feed
      .readOlder(signal)
      .catch(fail(signal))
      .finally(() => setLoading(false))
  }
  const isThere = named === undefined || feed.lines.lineOf(named) !== undefined
  // Ids are times.
  const mayCome = hasOlder && !isFull && named !== undefined && (feed.lines.first?.id ?? named.id) >= named.id
  const wantsOlder = isRead && !isThere && mayCome && canLoad
  useEffect(() => {
    if (wantsOlder) load()
  }, [wantsOlder])
  return {
    lines: feed.lines,
    isRead,
    error,
    again: () => setAttempt(attempt + 1),
    older: {
      load: canLoad ? load : undefined,
      isLoading,
      total: { count: total, isAtLeast: total >= totalMax },
      reason:
        hasOlder && isFull
          ? `No more than ${number(ROWS_MAX)} are kept here: narrow the filter for older ones`
          : undefined,
    },
    isMissing: isRead && !isThere && !mayCome && !isLoading,
  }
}
