import { type BuildLog, type Deployment, follow, listBuildLogs, needsSignIn, streamBuildLog } from '@platform/sdk'
import { useQueryClient } from '@tanstack/preact-query'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { usePlatform } from '../platform/api.ts'
import { ofApplication } from '../platform/deployments.ts'
import { keepLive, type LiveSource } from '../platform/live.ts'
import { type LogLine, LogLines } from './lines.ts'

interface ReadLog {
  lines: LogLines
  /** Whether all lines that there were at the beginning are there. */
  isRead: boolean
  error: Error | undefined
  /** Begins again after an error. */
  again: () => void
}

const PAGE = 1_000

const lineOf = ({ id, createdAt, type, message }: BuildLog): LogLine => ({
  id,
  at: createdAt,
  level: type,
  text: message,
})

/**
 * The build log of a deployment: what there is, by pages, and then by a stream for as long as it is under way. isLive: whether it is. When that
 * ends, what came last is read, whatever the stream has said.
 */
export function useBuildLog(
  { id, applicationId }: Pick<Deployment, 'id' | 'applicationId'>,
  { isLive }: { isLive: boolean },
): ReadLog {
  const platform = usePlatform()
  const cache = useQueryClient()
  const lines = useMemo(() => new LogLines(), [id])
  const [isRead, setRead] = useState(false)
  const [error, setError] = useState<Error>()
  const [attempt, setAttempt] = useState(0)
  useEffect(() => {
    const leaving = new AbortController()
    const isStale = (): unknown => cache.invalidateQueries({ queryKey: ofApplication(applicationId) })
    /** Reads what comes after the lines that are there; what is read is shown at once. */
    const catchUp = async (signal: AbortSignal): Promise<void> => {
      for (;;) {
        const after = lines.lastAt
        const params = { id, limit: PAGE, ...(after !== undefined && { 'createdAt[gt]': after }) }
        const { items } = await listBuildLogs(platform, params, { signal })
        lines.append(items.map(lineOf))
        setRead(true)
        if (items.length < PAGE) return
      }
    }
    const source: LiveSource = {
      async follow({ signal, onState, onBeat }) {
        await catchUp(signal)
        let status: string | undefined
        const options = { signal, onState, onBeat, lastEventId: lines.lastId }
        for await (const event of follow(streamBuildLog, platform, { id }, options)) {
          if (event.event === 'log') lines.append([lineOf(event.data)])
          if (event.event !== 'status') continue
          if (status !== undefined) isStale()
          ;({ status } = event.data)
        }
        isStale()
      },
      async poll(signal) {
        await catchUp(signal)
        // Whoever shows the deployment sees when it has ended.
        isStale()
        return false
      },
    }
    setError(undefined)
    const read = isLive ? keepLive(source, leaving.signal) : catchUp(leaving.signal)
    read.catch((failure: Error) => {
      if (leaving.signal.aborted) return
      // The cache tells the session.
      if (needsSignIn(failure)) isStale()
      setError(failure)
    })
    return () => leaving.abort()
  }, [platform, cache, lines, id, applicationId, isLive, attempt])
  return { lines, isRead, error, again: () => setAttempt(attempt + 1) }
}
