import { NotFound } from '@platform/errors/api-error'
import type { Db } from '@platform/runtime/database'
import { sql } from 'drizzle-orm'
import type { NewBlob } from './receive-body.ts'
import { blobs } from './table.ts'

/**
 * Makes received blobs live, within the transaction that makes an upload or object refer to them. Throws NotFound if one was
 * discarded meanwhile because it took longer than a day.
 */
export async function activateBlobs(tx: Db, time: Date, newBlobs: readonly NewBlob[]): Promise<void> {
  const inline = newBlobs.filter(({ content }) => content)
  if (inline.length > 0)
    await tx.insert(blobs).values(inline.map((blob) => ({ ...blob, state: 'live' as const, createdAt: time })))
  const outside = newBlobs.filter(({ content }) => !content)
  if (outside.length === 0) return
  const rows = outside.map(({ id, length, crc32 }) => ({ id, length, crc32 }))
  const enlivened = await tx.execute(sql`update ${blobs} b set state = 'live', length = p.length, crc32 = p.crc32
    from json_to_recordset(${JSON.stringify(rows)}::json) as p(id uuid, length bigint, crc32 bigint)
    where b.id = p.id and b.state = 'pending' returning b.id`)
  if (enlivened.length < outside.length) throw new NotFound('Upload')
}
