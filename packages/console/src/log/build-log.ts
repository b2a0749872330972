import {
  type BuildLog,
  type Deployment,
  follow,
  getDeployment,
  listBuildLogs,
  needsSignIn,
  pagesOf,
  streamBuildLog,
} from '@platform/sdk'
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

/** The build log of a deployment: what there is, by pages, and then by a stream for as long as it is under way. */
export function useBuildLog({ id, applicationId }: Pick<Deployment, 'id' | 'applicationId'>): ReadLog {
  const platform = usePlatform()
  const cache = useQueryClient()
  const lines = useMemo(() => new LogLines(), [id])
  const [isRead, setRead] = useState(false)
  const [error, setError] = useState<Error>()
  const [attempt, setAttempt] = useState(0)
  useEffect(() => {
    const leaving = new AbortController()
    const isStale = (): unknown => cache.invalidateQueries({ queryKey: ofApplication(applicationId) })
    /** Reads what comes after the lines that are there. */
    const catchUp = async (signal: AbortSignal): Promise<void> => {
      const after = lines.lastAt
      const params = { id, limit: PAGE, ...(after !== undefined && { 'createdAt[gt]': after }) }
      for await (const { items } of pagesOf(listBuildLogs, platform, params, { signal }))
        lines.append(items.map(lineOf))
      setRead(true)
    }
    let status: string | undefined
    const changed = (now: string): void => {
      if (status !== undefined && status !== now) isStale()
      status = now
    }
    const source: LiveSource = {
      async follow({ signal, onState, onBeat }) {
        await catchUp(signal)
        const options = { signal, onState, onBeat, lastEventId: lines.lastId }
        for await (const event of follow(streamBuildLog, platform, { id }, options))
          if (event.event === 'log') lines.append([lineOf(event.data)])
          else if (event.event === 'status') changed(event.data.status)
        isStale()
      },
      async poll(signal) {
        // Asked first, so that no line before the end is missed.
        const { status: now } = await getDeployment(platform, { id }, { signal })
        await catchUp(signal)
        changed(now)
        return now === 'ACTIVE' || now === 'FAILED'
      },
    }
    setError(undefined)
    keepLive(source, leaving.signal).catch((failure: Error) => {
      // The cache tells the session.
      if (needsSignIn(failure)) isStale()
      setError(failure)
    })
    return () => leaving.abort()
  }, [platform, cache, lines, id, applicationId, attempt])
  return { lines, isRead, error, again: () => setAttempt(attempt + 1) }
}
