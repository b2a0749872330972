import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { PayloadTooLarge } from '@platform/errors/api-error'
import { newId } from '@platform/runtime/new-id'
import { and, eq, inArray } from 'drizzle-orm'
import type { StorageDeps } from '../deps.ts'
import type { ChunkOwner } from './blobs.ts'
import { BodyCutter } from './body-cutter.ts'
import { removeDeadBlobs } from './remove-blobs.ts'
import { blobs } from './table.ts'

/** Runs of bytes up to this length live in the blob's row: one commit and one read, and no file. */
const INLINE_BYTES_MAX = 16_384

/** A run of bytes that is durable, or will be once its row is committed. */
export interface NewBlob {
  id: string
  length: number
  crc32: number
  /** The bytes, if the row holds them; undefined: the driver does. */
  content?: Buffer
}

/**
 * Received bytes, held with `await using`: unless `keep` is called, they are discarded at the end of the scope, even if it
 * throws. If the process dies first, the collector finds them after a day.
 */
export interface ReceivedBlobs extends AsyncDisposable {
  blobs: NewBlob[]
  length: number
  /** Call it once something refers to the blobs. */
  keep(): void
}

/** A whole body with its hashes. */
export interface ReceivedBody extends ReceivedBlobs {
  md5: Buffer
  sha256: Buffer
}

interface ReceiveOptions {
  /** In bytes, if the client declared it. */
  length?: number | undefined
  /** Longer bodies are refused with PayloadTooLarge. */
  bytesMax: number
  /** Owned if nobody uses a chunk afterwards; borrowed by default. */
  chunks?: ChunkOwner
}

type StoreDeps = Pick<StorageDeps, 'db' | 'now' | 'blobs' | 'logger'>

/** Receives bytes without hashing them as a whole; see `receiveBody`. */
export async function receiveBlobs(
  deps: StoreDeps,
  source: AsyncIterable<Buffer>,
  { length: declared, bytesMax, chunks = 'borrowed' }: ReceiveOptions,
  hashing: (chunk: Buffer) => void,
): Promise<ReceivedBlobs> {
  if (declared !== undefined && declared > bytesMax) throw new PayloadTooLarge(bytesMax)
  let length = 0
  let stored = 0
  const body = new BodyCutter(source, (chunk) => {
    length += chunk.length
    if (length > bytesMax) throw new PayloadTooLarge(bytesMax)
    hashing(chunk)
  })
  const made: NewBlob[] = []
  try {
    const head = await body.gather(INLINE_BYTES_MAX)
    if (length > INLINE_BYTES_MAX) {
      body.putBack(head)
      while (!(await body.hasEnded())) {
        const blob = await writeBlob(deps, body, declared === undefined ? undefined : declared - stored, chunks)
        made.push(blob)
        stored += blob.length
      }
    } else if (length > 0) {
      const content = head.length === 1 && head[0] ? head[0] : Buffer.concat(head)
      made.push({ id: newId(), length, crc32: crc32(content), content })
    }
  } catch (error) {
    await body.abandon()
    await discardBlobs(deps, made)
    throw error
  }
  let isKept = false
  return {
    blobs: made,
    length,
    keep: () => void (isKept = true),
    [Symbol.asyncDispose]: async () => {
      if (!isKept) await discardBlobs(deps, made)
    },
  }
}

/**
 * Receives a body: hashes it in passing and makes it durable. If the source fails (a client that left, a wrong signature),
 * rethrows and keeps nothing of the body. An empty body has no blobs.
 *
 * Throws PayloadTooLarge, BadGateway (D22).
 */
export async function receiveBody(
  deps: StoreDeps,
  source: AsyncIterable<Buffer>,
  options: ReceiveOptions,
): Promise<ReceivedBody> {
  const md5 = createHash('md5')
  const sha256 = createHash('sha256')
  const received = await receiveBlobs(deps, source, options, (chunk) => {
    md5.update(chunk)
    sha256.update(chunk)
  })
  return { ...received, md5: md5.digest(), sha256: sha256.digest() }
}

/** Writes the next bytes as one blob of the driver; rest: the number of bytes left, if known. */
async function writeBlob(
  deps: StoreDeps,
  body: BodyCutter,
  rest: number | undefined,
  chunks: ChunkOwner,
): Promise<NewBlob> {
  const id = newId()
  const max = deps.blobs.lengthMax(rest)
  let crc = 0
  let length = 0
  const bytes = body.take(max, (chunk) => {
    crc = crc32(chunk, crc)
    length += chunk.length
  })
  // The row comes first: nobody would ever find bytes without a row.
  await deps.db.insert(blobs).values({ id, state: 'pending', length: 0, createdAt: deps.now() })
  try {
    await deps.blobs.write(id, bytes, rest === undefined ? undefined : Math.min(rest, max), chunks)
  } catch (error) {
    await discardBlobs(deps, [{ id, length, crc32: crc }])
    throw error
  }
  return { id, length, crc32: crc }
}

/**
 * Discards unreferenced blobs. Only pending ones are deleted: if a commit broke off, its result may stand. If even this fails,
 * they stay pending, and the collector finds them after a day.
 */
export async function discardBlobs(deps: StoreDeps, blobsToDiscard: readonly NewBlob[]): Promise<void> {
  const ids = blobsToDiscard.filter(({ content }) => !content).map(({ id }) => id)
  if (ids.length === 0) return
  try {
    const dead = await deps.db
      .update(blobs)
      .set({ state: 'dead', diedAt: deps.now() })
      .where(and(inArray(blobs.id, ids), eq(blobs.state, 'pending')))
      .returning({ id: blobs.id })
    await removeDeadBlobs(
      deps,
      dead.map(({ id }) => id),
    )
  } catch (error) {
    deps.logger.warn({ err: error, count: ids.length }, 'blobs that nobody wants are left to the collector')
  }
}
