import { TooManyStreams, Unavailable } from '@platform/errors/api-error'
import { STREAM_SLOTS_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import { newId } from '@platform/runtime/new-id'
import { and, count, eq, gt, lt, sql } from 'drizzle-orm'
import { openStreams } from './table.ts'

/** Maximum open streams per resource, across all processes (D86). */
const STREAMS_MAX = 20
const RENEWED_EVERY_MS = 15_000
/** Two renewals may fail. The streams of a killed process count this long. */
const LEASE_MS = 3 * RENEWED_EVERY_MS

/** The cap on open streams, across all processes. */
export interface StreamSlots {
  /**
   * Takes one of the slots of a resource, such as `activity:<application id>`. Returns a function that releases it, which is safe
   * to call again. Throws TooManyStreams if all are taken, Unavailable after `refuseNew`.
   */
  take(resource: string): Promise<() => void>
  /** Refuses new streams in this process from now on: it is stopping. */
  refuseNew(): void
}

/**
 * Counts the open streams of each resource in Postgres, so that the cap holds across all processes. A process renews all rows of
 * its open streams every 15 s; rows that are not renewed no longer count.
 */
export function openStreamSlots(
  { db, now, logger }: { db: Db; now: () => Date; logger: Logger },
  renewedEveryMs = RENEWED_EVERY_MS,
): StreamSlots & { close(): Promise<void> } {
  const processId = newId()
  /** The resources of open streams, by the id of their row. */
  const held = new Map<string, string>()
  let isClosing = false
  const leaseEnd = () => new Date(now().getTime() + LEASE_MS)

  const renewing = setInterval(() => {
    if (held.size === 0) return
    // Inserts rows again that expired during a long database outage. Rows that could not be released expire.
    const expiresAt = leaseEnd()
    db.insert(openStreams)
      .values([...held].map(([id, resource]) => ({ id, resource, processId, expiresAt })))
      .onConflictDoUpdate({ target: openStreams.id, set: { expiresAt } })
      .catch((error: unknown) => logger.warn({ err: error }, 'open streams could not be renewed; tried again soon'))
  }, renewedEveryMs).unref()

  async function release(id: string): Promise<void> {
    held.delete(id)
    await db
      .delete(openStreams)
      .where(eq(openStreams.id, id))
      .catch((error: unknown) => logger.warn({ err: error }, 'a closed stream counts until its lease is over'))
  }

  return {
    async take(resource) {
      if (isClosing) throw new Unavailable('This process is stopping; connect again')
      const id = newId()
      await db.transaction(async (tx) => {
        // Counting and inserting is atomic per resource: of two concurrent calls the second counts the first.
        await tx.execute(sql`select pg_advisory_xact_lock(${STREAM_SLOTS_LOCK_CLASS}, hashtext(${resource}))`)
        const of = and(eq(openStreams.resource, resource), gt(openStreams.expiresAt, now()))
        const [open] = await tx.select({ count: count() }).from(openStreams).where(of)
        if ((open?.count ?? 0) >= STREAMS_MAX) throw new TooManyStreams(STREAMS_MAX)
        await tx.insert(openStreams).values({ id, resource, processId, expiresAt: leaseEnd() })
      })
      held.set(id, resource)
      let isReleased = false
      return () => {
        if (isReleased) return
        isReleased = true
        void release(id)
      }
    },
    refuseNew() {
      isClosing = true
    },
    async close() {
      clearInterval(renewing)
      if (held.size === 0) return
      await db
        .delete(openStreams)
        .where(eq(openStreams.processId, processId))
        .catch((error: unknown) => logger.warn({ err: error }, 'open streams count until their lease is over'))
    },
  }
}

/** Deletes the rows of killed processes. */
export async function discardLostStreams({ db, now }: { db: Db; now: () => Date }): Promise<void> {
  await db.delete(openStreams).where(lt(openStreams.expiresAt, now()))
}
