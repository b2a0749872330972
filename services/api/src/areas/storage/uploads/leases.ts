import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '@platform/runtime/database'
import type { Notifications } from '@platform/runtime/notifications'
import { and, eq, isNull, sql } from 'drizzle-orm'
import { uploads } from '../objects/table.ts'

const CHANNEL = 'upload_leases'
/** How long a holder has to store what it has received. */
const PATIENCE_MS = 900
const RETRY_EVERY_MS = 50

/** The right of one request to append to an upload. */
export interface Lease {
  /** Every append is checked against it. */
  holder: string
  /** Aborted when another request wants the upload: store what was received, then release. */
  wanted: AbortSignal
  release(): Promise<void>
}

export interface UploadLeases {
  /** Takes an upload over from its current holder, within a second. */
  take(uploadId: string): Promise<Lease>
}

/**
 * Lets one request at a time append to an upload, across all processes. A later request asks the holder to let go, gives it a
 * second to store what it has received, and then takes over. Every append is checked against the lease, so anything that the
 * earlier holder still does is refused: neither a lost connection nor a killed process can lock an upload.
 */
export function openLeases({ db, notifications }: { db: Db; notifications: Notifications }): UploadLeases {
  const held = new Map<string, AbortController>()
  const letGo = (uploadId: string) => held.get(uploadId)?.abort()
  // Requests missed while not listening need no look-up: after PATIENCE_MS the requester takes over by itself.
  notifications.listen(CHANNEL, { onMessage: letGo, onListening: () => {} })

  async function tryTake(uploadId: string, holder: string, isForced: boolean): Promise<boolean> {
    const taken = await db
      .update(uploads)
      .set({ leaseHolder: holder })
      .where(and(eq(uploads.id, uploadId), isForced ? undefined : isNull(uploads.leaseHolder)))
      .returning({ id: uploads.id })
    return taken.length > 0
  }

  return {
    async take(uploadId): Promise<Lease> {
      const holder = randomUUID()
      if (!(await tryTake(uploadId, holder, false))) {
        letGo(uploadId)
        await db.execute(sql`select pg_notify(${CHANNEL}, ${uploadId})`)
        const deadline = Date.now() + PATIENCE_MS
        while (!(await tryTake(uploadId, holder, Date.now() > deadline))) {
          if (Date.now() > deadline + RETRY_EVERY_MS) break // the upload itself is gone
          await sleep(RETRY_EVERY_MS)
        }
      }
      const wanted = new AbortController()
      held.set(uploadId, wanted)
      return {
        holder,
        wanted: wanted.signal,
        async release() {
          if (held.get(uploadId) === wanted) held.delete(uploadId)
          await db
            .update(uploads)
            .set({ leaseHolder: null })
            .where(and(eq(uploads.id, uploadId), eq(uploads.leaseHolder, holder)))
        },
      }
    },
  }
}
