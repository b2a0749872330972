import { and, eq, isNotNull, ne, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Db } from './database.ts'
import type { Sealer } from './seal.ts'

/** Small enough to fit in memory, whatever the rows seal. */
const RESEALED_AT_ONCE = 500

/** The columns of a table whose rows hold a sealed value. */
export interface SealedColumns {
  /** Unique. */
  id: PgColumn
  ciphertext: PgColumn
  kekId: PgColumn
}

/**
 * Reseals every value of a table that is not under the sealer's current master key, a batch at a time. Safe to repeat, and while
 * others write: a value that was changed or deleted meanwhile is left alone.
 *
 * contextOf: the associated data of the row with this id. Returns the number of resealed values. Throws if one is sealed under a
 * master key that the sealer does not have.
 */
export async function resealRows(
  { db, sealer }: { db: Db; sealer: Sealer },
  { id, ciphertext, kekId }: SealedColumns,
  contextOf: (id: string) => string,
): Promise<number> {
  const { table } = id
  for (let resealed = 0; ;) {
    const rows = (await db
      .select({ id, ciphertext, kekId })
      .from(table)
      .where(and(ne(kekId, sealer.kekId), isNotNull(ciphertext)))
      .limit(RESEALED_AT_ONCE)) as { id: string; ciphertext: Buffer; kekId: string }[]
    for (const row of rows) {
      const context = contextOf(row.id)
      const sealed = sealer.seal(sealer.open(row, context), context)
      const { count } = await db.execute(sql`
        update ${table} set ${sql.identifier(ciphertext.name)} = ${sql.param(sealed.ciphertext, ciphertext)},
          ${sql.identifier(kekId.name)} = ${sealed.kekId}
        where ${eq(id, row.id)} and ${eq(ciphertext, row.ciphertext)}`)
      resealed += count
    }
    if (rows.length < RESEALED_AT_ONCE) return resealed
  }
}
