import { one, type Db } from '@platform/runtime/database'
import { and, eq, sql } from 'drizzle-orm'
import { edges } from '../../cluster/edges/table.ts'
import { stickyPins } from './table.ts'

type PinId = Pick<typeof stickyPins.$inferSelect, 'functionId' | 'keyHash'>

/** The owner of a pin's slot. internalUrl: set for a running edge. */
export interface OwnedPin {
  edgeId: string
  internalUrl: string | null
  slot: number | null
  instance: string | null
  expiresAt: Date
}

/** A pin outlives its URLs by this, so that URLs signed within one minute write it once. */
const MARGIN_MS = 60_000

/**
 * Returns the owner of a pin: the edge that has it while its lease lives, else this one, which takes it over in the same
 * statement. The pin lives at least until expiresAt.
 */
export async function takePin(
  db: Db,
  edgeId: string,
  { functionId, keyHash }: PinId,
  expiresAt: Date,
): Promise<OwnedPin> {
  // The lock reads the newest version: after waiting for the pin, the statement's snapshot would be outdated, and it might take
  // the pin of an edge that has renewed its lease meanwhile.
  const leaseUntil = sql`(select e.lease_until from ${edges} e where e.id = ${stickyPins.edgeId} for share)`
  return one(
    await db
      .insert(stickyPins)
      .values({ functionId, keyHash, edgeId, expiresAt: new Date(expiresAt.getTime() + MARGIN_MS) })
      .onConflictDoUpdate({
        target: [stickyPins.functionId, stickyPins.keyHash],
        set: {
          edgeId: sql`case when ${leaseUntil} > clock_timestamp() then ${stickyPins.edgeId} else excluded.edge_id end`,
          expiresAt: sql`greatest(${stickyPins.expiresAt}, excluded.expires_at)`,
        },
      })
      .returning({
        edgeId: stickyPins.edgeId,
        internalUrl: sql<string | null>`(select e.internal_url from ${edges} e where e.id = ${stickyPins.edgeId})`,
        slot: stickyPins.slot,
        instance: stickyPins.instance,
        expiresAt: stickyPins.expiresAt,
      }),
  )
}

/** Records the slot that an owner chose, and its process. Returns false if the pin no longer belongs to this edge. */
export async function choosePinnedSlot(
  db: Db,
  edgeId: string,
  { functionId, keyHash }: PinId,
  chosen: { slot: number; instance: string },
): Promise<boolean> {
  const updated = await db
    .update(stickyPins)
    .set(chosen)
    .where(and(eq(stickyPins.functionId, functionId), eq(stickyPins.keyHash, keyHash), eq(stickyPins.edgeId, edgeId)))
    .returning({ slot: stickyPins.slot })
  return updated.length > 0
}
