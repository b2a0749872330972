import { NotFound } from '@platform/errors/api-error'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import type { ByteRange } from '@platform/service/byte-range'
import { and, asc, eq, getTableColumns, isNull, sql } from 'drizzle-orm'
import type { StorageDeps } from '../deps.ts'
import type { ChunkOwner } from './blobs.ts'
import type { StoredObject } from './commit-object.ts'
import { blobs, objectBlobs, objects, uploadBlobs } from './table.ts'

const liveByKey = and(
  eq(objects.bucketId, sql.placeholder('bucketId')),
  eq(objects.key, sql.placeholder('key')),
  isNull(objects.deletedAt),
)

const objectByKey = lazyPrepared((db) => db.select().from(objects).where(liveByKey).prepare('object_by_key'))

/** The live object under a key. */
export async function findObject(
  { db }: Pick<StorageDeps, 'db'>,
  bucketId: string,
  key: string,
): Promise<StoredObject | undefined> {
  const [object] = await objectByKey(db).execute({ bucketId, key })
  return object
}

/** The first blob of an object, with its bytes if its row has them. */
interface FirstBlob {
  id: string
  length: number
  content: Buffer | null
}

const objectWithContent = lazyPrepared((db) =>
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

/** The live object under a key, with its first blob: for most objects, the whole content. */
export async function findObjectWithContent(
  { db }: Pick<StorageDeps, 'db'>,
  bucketId: string,
  key: string,
): Promise<{ object: StoredObject; first: FirstBlob | null } | undefined> {
  const [row] = await objectWithContent(db).execute({ bucketId, key })
  return row
}

/** A blob of a sequence, without its bytes. */
const piece = { id: blobs.id, length: blobs.length, isInline: sql<boolean>`${blobs.content} is not null` }
type Piece = { [name in keyof typeof piece]: name extends 'length' ? number : name extends 'id' ? string : boolean }

const piecesOfObject = ({ db }: Pick<StorageDeps, 'db'>, objectId: string): Promise<Piece[]> =>
  db
    .select(piece)
    .from(objectBlobs)
    .innerJoin(blobs, eq(blobs.id, objectBlobs.blobId))
    .where(eq(objectBlobs.objectId, objectId))
    .orderBy(asc(objectBlobs.n))

const piecesOfUpload = ({ db }: Pick<StorageDeps, 'db'>, uploadId: string): Promise<Piece[]> =>
  db
    .select(piece)
    .from(uploadBlobs)
    .innerJoin(blobs, eq(blobs.id, uploadBlobs.blobId))
    .where(eq(uploadBlobs.uploadId, uploadId))
    .orderBy(asc(uploadBlobs.part), asc(uploadBlobs.n))

async function* readPieces(
  deps: Pick<StorageDeps, 'db' | 'blobs'>,
  pieces: readonly Piece[],
  { start, end }: ByteRange,
  chunks: ChunkOwner,
): AsyncGenerator<Buffer> {
  let offset = 0
  for (const { id, length, isInline } of pieces) {
    const from = Math.max(start - offset, 0)
    const to = Math.min(end - offset, length - 1)
    offset += length
    if (from > to) continue
    if (isInline) {
      const [row] = await deps.db.select({ content: blobs.content }).from(blobs).where(eq(blobs.id, id))
      if (!row?.content) throw new Error(`Blob ${id} is gone while it was read`)
      yield row.content.subarray(from, to + 1)
    } else yield* deps.blobs.read(id, { start: from, end: to }, chunks)
  }
}

/** Throws NotFound if the object was purged after it was found: its pieces are deleted with it, all at once. */
async function* readObject(
  deps: Pick<StorageDeps, 'db' | 'blobs'>,
  id: string,
  range: ByteRange,
  chunks: ChunkOwner,
): AsyncGenerator<Buffer> {
  const pieces = await piecesOfObject(deps, id)
  if (pieces.length === 0) throw new NotFound('Object')
  yield* readPieces(deps, pieces, range, chunks)
}

/** Requested bytes: as one buffer if a row holds them, else chunk by chunk. */
export type Content = Buffer | AsyncIterable<Buffer>

interface Reading {
  /** The whole object by default. */
  range?: ByteRange
  /** Who owns the chunks; the reader by default. */
  chunks?: ChunkOwner
}

/**
 * Opens an object's bytes, or a range of them, read only as far as requested. first: the object's first blob, if it was found
 * together with it.
 */
export function openObject(
  deps: Pick<StorageDeps, 'db' | 'blobs'>,
  { id, contentLength, blobCount }: Pick<StoredObject, 'id' | 'contentLength' | 'blobCount'>,
  first: FirstBlob | null,
  { range = { start: 0, end: contentLength - 1 }, chunks = 'owned' }: Reading = {},
): Content {
  if (contentLength === 0) return Buffer.alloc(0)
  if (blobCount === 1 && first)
    return first.content ? first.content.subarray(range.start, range.end + 1) : deps.blobs.read(first.id, range, chunks)
  return readObject(deps, id, range, chunks)
}

/** The bytes of an upload so far; each chunk is borrowed until the next is requested. */
export async function* openUpload(deps: Pick<StorageDeps, 'db' | 'blobs'>, id: string): AsyncGenerator<Buffer> {
  yield* readPieces(deps, await piecesOfUpload(deps, id), { start: 0, end: Number.MAX_SAFE_INTEGER }, 'borrowed')
}

/** Yields content as chunks, whichever form it has. */
export async function* chunksOf(content: Content): AsyncGenerator<Buffer> {
  if (Buffer.isBuffer(content)) yield content
  else yield* content
}
