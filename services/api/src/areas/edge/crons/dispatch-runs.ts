import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import type { Signer } from '@platform/runtime/seal'
import { and, eq, gt, isNull, sql } from 'drizzle-orm'
import type { Agent } from 'undici'
import { CRON_RUNS_PATH, type CronRunRequest, SIGNATURE_HEADER } from '../delivery/edge-messages.ts'
import { edges } from '../../cluster/edges/table.ts'
import { openEdgeWatch } from '../../cluster/edges/watch-edges.ts'
import { endRun } from './end-run.ts'
import { cronRuns } from './table.ts'

const CONNECT_MS = 1_000
/** An edge answers at once whether it accepts a run. */
const TAKE_MS = 10_000
const HUNG_LOOKS = { asked: 1, taken: 4 }

type Edge = Pick<typeof edges.$inferSelect, 'id' | 'internalUrl'>

/** Hands runs of crons to edges. */
export interface CronDispatcher {
  /**
   * Hands a waiting run to an edge that accepts it. Resolves when the run has ended or is lost, or when the signal is aborted;
   * the run then continues without us. A run that no edge accepts ends as failed. Safe to repeat: a run is accepted once.
   */
  dispatch(runId: string, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

interface Options {
  db: Db
  logger: Logger
  now: () => Date
  signer: Signer
}

/** Opens a dispatcher that calls edges through their internal listeners. */
export function openCronDispatcher({ db, logger, now, signer }: Options): CronDispatcher {
  const watch = openEdgeWatch({ db, logger })
  let agent: Promise<Agent> | undefined

  /** Loads the client with the first run: most processes never have one. */
  async function openAgent(): Promise<Agent> {
    const undici = await import('undici')
    return new undici.Agent({
      connect: { timeout: CONNECT_MS },
      headersTimeout: TAKE_MS,
      bodyTimeout: 0,
      pipelining: 0,
    })
  }

  async function send({ id: edgeId, internalUrl }: Edge, runId: string) {
    const body = JSON.stringify({ edgeId, runId, sentAt: now().getTime() } satisfies CronRunRequest)
    const hung = new AbortController()
    const stopWaiting = watch.whileWaitingFor(edgeId, HUNG_LOOKS.asked, () => hung.abort())
    try {
      const client = await (agent ??= openAgent())
      const answer = await client.request({
        origin: internalUrl,
        path: CRON_RUNS_PATH,
        method: 'POST',
        headers: { 'content-type': 'application/json', [SIGNATURE_HEADER]: signer.sign(body) },
        body,
        signal: hung.signal,
      })
      return answer
    } finally {
      stopWaiting()
    }
  }

  async function isWaiting(runId: string): Promise<boolean> {
    const waiting = and(eq(cronRuns.id, runId), isNull(cronRuns.edgeId), isNull(cronRuns.completedAt))
    return (await db.$count(cronRuns, waiting)) > 0
  }

  /** Resolves once the edge has ended the run, or is gone. */
  async function follow({ id }: Edge, body: AsyncIterable<unknown> & { destroy(): unknown }, signal: AbortSignal) {
    const leave = (): void => void body.destroy()
    const stopWaiting = watch.whileWaitingFor(id, HUNG_LOOKS.taken, leave)
    signal.addEventListener('abort', leave, { once: true })
    try {
      if (signal.aborted) leave()
      for await (const _ of body);
    } catch {
      // The edge ends the run; if the edge is lost, the sweep does.
    } finally {
      stopWaiting()
      signal.removeEventListener('abort', leave)
    }
  }

  return {
    async dispatch(runId, signal) {
      const live = await db
        .select({ id: edges.id, internalUrl: edges.internalUrl })
        .from(edges)
        .where(gt(edges.leaseUntil, sql`clock_timestamp()`))
        .orderBy(sql`random()`)
      for (const edge of live) {
        try {
          const { statusCode, body } = await send(edge, runId)
          if (statusCode === 202) {
            await follow(edge, body, signal)
            return
          }
          await body.dump()
          logger.warn({ edgeId: edge.id, statusCode }, 'an edge did not take the run of a cron')
        } catch (error) {
          logger.warn({ err: error, edgeId: edge.id }, 'an edge could not be given the run of a cron')
        }
        // It may have accepted the run before it went away.
        if (!(await isWaiting(runId))) return
      }
      await endRun(db, now(), and(eq(cronRuns.id, runId), isNull(cronRuns.edgeId)), {
        error: 'No edge was there to make the request',
      })
    },
    async close() {
      watch.close()
      await (await agent)?.destroy()
    },
  }
}
