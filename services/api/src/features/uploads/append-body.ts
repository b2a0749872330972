import { createHash, type Hash } from 'node:crypto'
import { BadRequest, PayloadTooLarge } from '@platform/errors/api-error'
import type { Deps } from '../../deps.ts'
import { bodyOf, type DoorExchange } from '../../http/door.ts'
import { BodyCutter } from '../storage/body-cutter.ts'
import { discardBlobs, receiveBlobs } from '../storage/receive-body.ts'
import { openUpload } from '../storage/read-object.ts'
import type { Lease } from './leases.ts'
import { type RunningHashes, resumeHashes, startHashes } from './running-hashes.ts'
import { appendToUpload, ChecksumMismatch, OBJECT_BYTES_MAX, type Upload } from './uploads.ts'

/** Every so many bytes an offset is committed, so that a lost process costs a client no more than these. */
const PIECE_BYTES = 64 * 1_048_576

/** What a PATCH says its bytes hash to (tus 1.0.0 Upload-Checksum). */
export interface BodyChecksum {
  algorithm: 'sha1' | 'sha256' | 'md5'
  value: Buffer
}

type AppendDeps = Pick<Deps, 'db' | 'now' | 'blobs' | 'logger'>

/** A body that ends where its client leaves, and says so. */
function arriving(exchange: DoorExchange): { bytes: AsyncGenerator<Buffer>; hasBroken(): boolean } {
  let isBroken = false
  async function* bytes(): AsyncGenerator<Buffer> {
    try {
      yield* bodyOf(exchange)
    } catch (error) {
      if (!(error instanceof BadRequest)) throw error
      isBroken = true
    }
  }
  return { bytes: bytes(), hasBroken: () => isBroken }
}

/** Stores some bytes and appends them; where that is refused they are given up. */
async function appendPiece(
  deps: AppendDeps,
  lease: Lease,
  upload: Upload,
  source: AsyncIterable<Buffer>,
  hashes: RunningHashes,
  check: (length: number) => void,
): Promise<Upload> {
  const left = (upload.contentLength ?? OBJECT_BYTES_MAX) - upload.offset
  const received = await receiveBlobs(deps, source, { bytesMax: left }, (chunk) => hashes.update(chunk))
  try {
    check(received.length)
    if (received.length === 0) return upload
    return await appendToUpload(deps, lease, upload, received, hashes)
  } catch (error) {
    await discardBlobs(deps, received.blobs)
    throw error
  }
}

/**
 * The hashes of what an upload holds, to go on with. A request that brings all of it has no state to save; where it broke off,
 * the one that goes on reads what was stored once more, and from then on states are saved.
 */
async function hashesFor(
  deps: AppendDeps,
  exchange: DoorExchange,
  lease: Lease,
  upload: Upload,
): Promise<RunningHashes> {
  const withSha1 = upload.checksumSha1 !== null
  const { offset, contentLength, hashState } = upload
  if (offset === 0 && Number(exchange.incoming.headers['content-length']) === contentLength)
    return startHashes(withSha1)
  const hashes = await resumeHashes(hashState, withSha1)
  if (offset === 0 || hashState) return hashes
  exchange.isWorking = true
  for await (const chunk of openUpload(deps, upload.id)) {
    if (lease.wanted.aborted) throw new BadRequest('The body ended early')
    hashes.update(chunk)
  }
  exchange.isWorking = false
  return hashes
}

/**
 * Appends the body of a request to an upload, as far as it comes: what arrived before a client left is kept, piece by piece.
 * With a checksum it is kept whole or not at all. Answers the upload as it is then.
 *
 * Throws PayloadTooLarge for more than the upload takes, ChecksumMismatch, what `appendToUpload` throws.
 */
export async function appendBody(
  deps: AppendDeps,
  exchange: DoorExchange,
  lease: Lease,
  upload: Upload,
  checksum: BodyChecksum | undefined,
): Promise<Upload> {
  const { incoming } = exchange
  const left = (upload.contentLength ?? OBJECT_BYTES_MAX) - upload.offset
  if (Number(incoming.headers['content-length'] ?? 0) > left) throw new PayloadTooLarge(left)
  const letGo = () => void incoming.destroy()
  lease.wanted.addEventListener('abort', letGo, { once: true })
  try {
    const { bytes, hasBroken } = arriving(exchange)
    const hash: Hash | undefined = checksum && createHash(checksum.algorithm)
    const body = new BodyCutter(bytes, (chunk) => void hash?.update(chunk))
    let current = upload
    let hashes: RunningHashes | undefined
    while (!(await body.hasEnded())) {
      hashes ??= await hashesFor(deps, exchange, lease, upload)
      const source = body.take(checksum ? Number.MAX_SAFE_INTEGER : PIECE_BYTES, () => {})
      current = await appendPiece(deps, lease, current, source, hashes, () => {
        if (!checksum) return
        if (hasBroken()) throw new BadRequest('The body ended early')
        if (!hash?.digest().equals(checksum.value))
          throw new ChecksumMismatch('The bytes are not what Upload-Checksum says')
      })
    }
    if (hasBroken()) throw new BadRequest('The body ended early')
    return current
  } finally {
    lease.wanted.removeEventListener('abort', letGo)
  }
}
