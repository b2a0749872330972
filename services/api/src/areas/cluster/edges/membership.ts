import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import { and, eq, ne, sql } from 'drizzle-orm'
import { edges } from './table.ts'

/** How long an edge keeps what it owns after its last heartbeat. */
const LEASE_MS = 6_000
const BEAT_MS = 2_000

/** This process's membership among the edges, which own resources that only one of them may answer for. */
export interface Membership {
  /** Id of this process, whether or not it has joined. */
  readonly id: string
  /** From `join` until `leave`. */
  readonly hasJoined: boolean
  /**
   * A number that stays the same as long as no other edge can have taken what this one owns. undefined: its lease has lapsed, so
   * another may own it by now.
   */
  term(): number | undefined
  /**
   * Registers this edge. internalUrl: the origin at which others reach it. Resolves after the first attempt, which is retried if
   * it fails.
   */
  join(internalUrl: string): Promise<void>
  /** Releases what it owns to the other edges at once. Safe to repeat. */
  leave(): Promise<void>
}

/** Leases expire by the database's clock; this process counts from before each renewal, by a monotonic clock. */
export function openMembership({ db, logger, id }: { db: Db; logger: Logger; id: string }): Membership {
  let internalUrl: string | undefined
  let validUntil = 0
  let term = 0
  let beating: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined

  async function beat(url: string): Promise<void> {
    const askedAt = performance.now()
    const leaseUntil = sql`clock_timestamp() + ${`${LEASE_MS} milliseconds`}::interval`
    try {
      const [row] = await db
        .insert(edges)
        .values({ id, internalUrl: url, leaseUntil })
        .onConflictDoUpdate({ target: edges.id, set: { leaseUntil } })
        .returning({ isNew: sql<boolean>`xmax = 0` })
      // While the row was missing, other edges could have taken what this one owned.
      if (performance.now() >= validUntil || row?.isNew !== false) term += 1
      validUntil = askedAt + LEASE_MS
    } catch (error) {
      logger.warn({ err: error }, 'the other edges were not told that this one is there')
    }
  }
  /** The process that had this address before is gone, so nobody needs to wait for its lease. */
  async function removePredecessor(url: string): Promise<void> {
    await db
      .delete(edges)
      .where(and(eq(edges.internalUrl, url), ne(edges.id, id)))
      .catch((error: unknown) =>
        logger.warn({ err: error }, 'what was killed at this address holds its lease to its end'),
      )
  }
  function beatOnce(url: string): Promise<void> {
    beating ??= beat(url).finally(() => (beating = undefined))
    return beating
  }

  return {
    id,
    get hasJoined() {
      return internalUrl !== undefined
    },
    term: () => (performance.now() < validUntil ? term : undefined),
    async join(url) {
      internalUrl = url
      timer = setInterval(() => void beatOnce(url), BEAT_MS).unref()
      await removePredecessor(url)
      await beatOnce(url)
    },
    async leave() {
      if (internalUrl === undefined) return
      internalUrl = undefined
      clearInterval(timer)
      validUntil = 0
      await beating
      // The heartbeat may have renewed the lease.
      validUntil = 0
      await db
        .delete(edges)
        .where(eq(edges.id, id))
        .catch((error: unknown) => logger.warn({ err: error }, 'what this edge owned waits until its lease has lapsed'))
    },
  }
}
