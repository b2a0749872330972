import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import { and, eq, ne, sql } from 'drizzle-orm'
import { edges } from './table.ts'

/** How long others leave to an edge what it owns after it last said that it is there. */
const LEASE_MS = 6_000
const BEAT_MS = 2_000

/** A process among the edges, which own what one of them alone may answer for. */
export interface Membership {
  /** Of this process, whether or not it has joined. */
  readonly id: string
  /** From `join` until `leave`. */
  readonly hasJoined: boolean
  /**
   * A number that stays the same as long as nobody can have taken what this edge owns. undefined: its lease has lapsed, so another
   * may have it by now.
   */
  term(): number | undefined
  /** internalUrl: the origin at which other edges reach this one. Resolves after the first try to tell them, which may fail and is repeated. */
  join(internalUrl: string): Promise<void>
  /** Leaves what it owns to the others at once. Safe to repeat. */
  leave(): Promise<void>
}

/** Leases are counted by the clock of the database, and here by one that is never set, from before each renewal. */
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
      // Without a row nothing kept the others from taking what it owned.
      if (performance.now() >= validUntil || row?.isNew !== false) term += 1
      validUntil = askedAt + LEASE_MS
    } catch (error) {
      logger.warn({ err: error }, 'the other edges were not told that this one is there')
    }
  }
  /** Whoever had this address is not there any more, and need not be waited for. */
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
      // That may have renewed it.
      validUntil = 0
      await db
        .delete(edges)
        .where(eq(edges.id, id))
        .catch((error: unknown) => logger.warn({ err: error }, 'what this edge owned waits until its lease has lapsed'))
    },
  }
}
