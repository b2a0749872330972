import { type Db, isForeignKeyViolation } from '@platform/runtime/database'
import { and, asc, eq, inArray, sql } from 'drizzle-orm'
import { isrData, isrTotals } from './table.ts'

/** Limits for a deployment's data; the oldest values are evicted. */
const LIMITS = { bytesMax: 134_217_728, entriesMax: 20_000 }
/** When a limit is reached, usage is reduced to this share, so that not every value has to evict others. */
const KEPT_SHARE = 0.95
const EVICTED_AT_ONCE = 500
/** Size of a row beside its value. */
const BYTES_OF_ENTRY = 200

/** A value written by a cache handler. */
interface NewData {
  key: string
  value: Buffer
  tags: readonly string[]
}

/** Reads a value of a deployment; undefined if there is none. */
export async function readData({ db }: { db: Db }, deploymentId: string, key: string): Promise<Buffer | undefined> {
  const [row] = await db
    .select({ value: isrData.value })
    .from(isrData)
    .where(and(eq(isrData.deploymentId, deploymentId), eq(isrData.key, key)))
  return row?.value
}

/** Evicts the oldest values while there are too many. */
async function makeRoom(
  tx: Db,
  deploymentId: string,
  totals: { dataBytes: number; data: number },
  { bytesMax, entriesMax }: typeof LIMITS,
): Promise<void> {
  while (totals.dataBytes > bytesMax || totals.data > entriesMax) {
    const oldest = await tx
      .select({ key: isrData.key, bytes: isrData.bytes })
      .from(isrData)
      .where(eq(isrData.deploymentId, deploymentId))
      .orderBy(asc(isrData.storedAt))
      .limit(EVICTED_AT_ONCE)
    const gone: string[] = []
    for (const { key, bytes } of oldest) {
      if (totals.dataBytes <= bytesMax * KEPT_SHARE && totals.data <= entriesMax * KEPT_SHARE) break
      gone.push(key)
      totals.dataBytes -= bytes
      totals.data -= 1
    }
    if (gone.length === 0) return
    await tx.delete(isrData).where(and(eq(isrData.deploymentId, deploymentId), inArray(isrData.key, gone)))
  }
}

/**
 * Stores a value in place of its key's previous one, and makes room for it. message: sent to every edge on the channel once it is
 * stored. Safe to repeat, and in several processes at once; stores nothing for a deleted deployment.
 */
export async function storeData(
  { db }: { db: Db },
  deploymentId: string,
  { key, value, tags }: NewData,
  { channel, message }: { channel: string; message: string },
  limits = LIMITS,
): Promise<void> {
  try {
    await db.transaction(async (tx) => {
      await tx.insert(isrTotals).values({ deploymentId }).onConflictDoNothing()
      // Locks the row, so that counts and sizes are updated one at a time.
      const [totals = { dataBytes: 0, data: 0 }] = await tx
        .select({ dataBytes: isrTotals.dataBytes, data: isrTotals.data })
        .from(isrTotals)
        .where(eq(isrTotals.deploymentId, deploymentId))
        .for('no key update')
      const own = and(eq(isrData.deploymentId, deploymentId), eq(isrData.key, key))
      const [before] = await tx.delete(isrData).where(own).returning({ bytes: isrData.bytes })
      const bytes = value.length + BYTES_OF_ENTRY
      await tx.insert(isrData).values({
        deploymentId,
        key,
        value,
        tags: [...tags],
        bytes,
        storedAt: sql`clock_timestamp()`,
      })
      const sums = {
        dataBytes: totals.dataBytes + bytes - (before?.bytes ?? 0),
        data: totals.data + (before ? 0 : 1),
      }
      await makeRoom(tx, deploymentId, sums, limits)
      await tx.update(isrTotals).set(sums).where(eq(isrTotals.deploymentId, deploymentId))
      await tx.execute(sql`select pg_notify(${channel}, ${message})`)
    })
  } catch (error) {
    if (!isForeignKeyViolation(error)) throw error
  }
}
