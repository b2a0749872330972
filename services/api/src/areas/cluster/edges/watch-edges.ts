import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import { inArray, sql } from 'drizzle-orm'
import { edges } from './table.ts'

const LOOK_MS = 1_000

interface Waiter {
  edgeId: string
  /** How many consecutive looks have to find the lease lapsed. */
  looks: number
  lapsed: number
  onHung: () => void
}

/** Detects that an edge hangs while something waits for it: its connections stay open, but it stops renewing its lease. */
export interface EdgeWatch {
  /**
   * Calls onHung once, after the lease was found lapsed `looks` times in a row, a second apart. After a database outage all
   * leases have lapsed, and four looks leave time to renew them. An edge that has left, whose row is gone, still finishes what it
   * began. Returns a function that stops waiting.
   */
  whileWaitingFor(edgeId: string, looks: number, onHung: () => void): () => void
  close(): void
}

/** Checks all awaited edges with one query a second, and sends none while nothing waits. */
export function openEdgeWatch({ db, logger }: { db: Db; logger: Logger }): EdgeWatch {
  const waiters = new Set<Waiter>()
  let isLooking = false
  let timer: NodeJS.Timeout | undefined

  function pause(): void {
    clearInterval(timer)
    timer = undefined
  }

  async function look(): Promise<void> {
    if (isLooking) return
    const waiting = [...waiters]
    if (waiting.length === 0) {
      pause()
      return
    }
    isLooking = true
    try {
      const rows = await db
        .select({ id: edges.id, hasLapsed: sql<boolean>`${edges.leaseUntil} <= clock_timestamp()` })
        .from(edges)
        .where(inArray(edges.id, [...new Set(waiting.map(({ edgeId }) => edgeId))]))
      const lapsed = new Set(rows.flatMap(({ id, hasLapsed }) => (hasLapsed ? [id] : [])))
      for (const waiter of waiting) {
        waiter.lapsed = lapsed.has(waiter.edgeId) ? waiter.lapsed + 1 : 0
        if (waiter.lapsed >= waiter.looks && waiters.delete(waiter)) waiter.onHung()
      }
    } catch (error) {
      logger.warn({ err: error }, 'the database does not say whether other edges are there')
    } finally {
      isLooking = false
    }
  }

  return {
    whileWaitingFor(edgeId, looks, onHung) {
      const waiter = { edgeId, looks, lapsed: 0, onHung }
      waiters.add(waiter)
      timer ??= setInterval(() => void look(), LOOK_MS).unref()
      return () => void waiters.delete(waiter)
    },
    close: pause,
  }
}
