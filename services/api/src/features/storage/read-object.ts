import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { preparedOnce } from '@platform/runtime/prepared-once'
import { and, asc, eq, getTableColumns, isNull, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import type { StoredObject } from './commit-object.ts'
import { blobs, objectBlobs, objects, uploadBlobs } from './table.ts'

/** Bytes of an object, the first and the last one included. */
export interface ByteRange {
  start: number
  end: number
}

const liveByKey = and(
  eq(objects.bucketId, sql.placeholder('bucketId')),
  eq(objects.key, sql.placeholder('key')),
  isNull(objects.deletedAt),
)

const objectByKey = preparedOnce((db) => db.select().from(objects).where(liveByKey).prepare('object_by_key'))

/** The live object under a key. */
export async function findObject(
  { db }: Pick<Deps, 'db'>,
  bucketId: string,
  key: string,
): Promise<StoredObject | undefined> {
  const [object] = await objectByKey(db).execute({ bucketId, key })
  return object
}

/** The first blob of an object, and its bytes where its row has them. */
interface FirstBlob {
  id: string
  length: number
  content: Buffer | null
}

const objectWithContent = preparedOnce((db) =>
  db
    .select({
      object: getTableColumns(objects),
      first: { id: blobs.id, length: blobs.length, content: blobs.content },
    })
    .from(objects)
    .leftJoin(objectBlobs, and(eq(objectBlobs.objectId, objects.id), eq(objectBlobs.n, 0)))
    .leftJoin(blobs, eq(blobs.id, objectBlobs.blobId))
    .where(liveByKey)
    .prepare('object_with_content'),
)

/** The live object under a key with where its content begins: for most objects, all there is to read. */
export async function findObjectWithContent(
  { db }: Pick<Deps, 'db'>,
  bucketId: string,
  key: string,
): Promise<{ object: StoredObject; first: FirstBlob | null } | undefined> {
  const [found] = await objectWithContent(db).execute({ bucketId, key })
  return found
}

/** A blob of a sequence, without its bytes. */
const piece = { id: blobs.id, length: blobs.length, isInline: sql<boolean>`${blobs.content} is not null` }
type Piece = { [name in keyof typeof piece]: name extends 'length' ? number : name extends 'id' ? string : boolean }

const piecesOfObject = ({ db }: Pick<Deps, 'db'>, objectId: string): Promise<Piece[]> =>
  db
    .select(piece)
    .from(objectBlobs)
    .innerJoin(blobs, eq(blobs.id, objectBlobs.blobId))
    .where(eq(objectBlobs.objectId, objectId))
    .orderBy(asc(objectBlobs.n))

const piecesOfUpload = ({ db }: Pick<Deps, 'db'>, uploadId: string): Promise<Piece[]> =>
  db
    .select(piece)
    .from(uploadBlobs)
    .innerJoin(blobs, eq(blobs.id, uploadBlobs.blobId))
    .where(eq(uploadBlobs.uploadId, uploadId))
    .orderBy(asc(uploadBlobs.part), asc(uploadBlobs.n))

async function* readPieces(
  deps: Pick<Deps, 'db' | 'blobs'>,
  pieces: Promise<Piece[]>,
  { start, end }: ByteRange,
): AsyncGenerator<Buffer> {
  let offset = 0
  for (const { id, length, isInline } of await pieces) {
    const from = Math.max(start - offset, 0)
    const to = Math.min(end - offset, length - 1)
    offset += length
    if (from > to) continue
    if (isInline) {
      const [row] = await deps.db.select({ content: blobs.content }).from(blobs).where(eq(blobs.id, id))
      if (!row?.content) throw new Error(`Blob ${id} is gone while it was read`)
      yield row.content.subarray(from, to + 1)
    } else yield* deps.blobs.read(id, { start: from, end: to }) as AsyncIterable<Buffer>
  }
}

/**
 * An object's bytes, or a range of them: at once where a row holds them, else as a stream that reads no further than its
 * reader. first: from `findObjectWithContent`, where that was asked.
 */
export function openObject(
  deps: Pick<Deps, 'db' | 'blobs'>,
  { id, contentLength, blobCount }: Pick<StoredObject, 'id' | 'contentLength' | 'blobCount'>,
  first: FirstBlob | null,
  range: ByteRange = { start: 0, end: contentLength - 1 },
): Buffer | Readable {
  if (contentLength === 0) return Buffer.alloc(0)
  if (blobCount === 1 && first)
    return first.content ? first.content.subarray(range.start, range.end + 1) : deps.blobs.read(first.id, range)
  return Readable.from(readPieces(deps, piecesOfObject(deps, id), range), { objectMode: false })
}

/** The bytes that an upload holds so far. */
export const openUpload = (deps: Pick<Deps, 'db' | 'blobs'>, id: string): AsyncIterable<Buffer> =>
  readPieces(deps, piecesOfUpload(deps, id), { start: 0, end: Number.MAX_SAFE_INTEGER })

/** Sends what `openObject` opened behind a head that was written. A reader who leaves ends the reading. */
export async function sendContent(outgoing: ServerResponse, content: Buffer | Readable): Promise<void> {
  if (Buffer.isBuffer(content)) outgoing.end(content)
  else await pipeline(content, outgoing)
}
