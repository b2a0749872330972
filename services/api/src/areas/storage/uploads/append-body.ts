import { createHash } from 'node:crypto'
import { BadRequest, PayloadTooLarge } from '@platform/errors/api-error'
import type { StorageDeps } from '../deps.ts'
import { bodyOf, type RawExchange } from '../../../http/raw-listener.ts'
import { BodyCutter } from '../objects/body-cutter.ts'
import { openUpload } from '../objects/read-object.ts'
import { receiveBlobs } from '../objects/receive-body.ts'
import { appendToUpload, ChecksumMismatch } from './complete-upload.ts'
import type { Lease } from './leases.ts'
import { type RunningHashes, resumeHashes, startHashes } from './running-hashes.ts'
import { OBJECT_BYTES_MAX, type Upload } from './uploads.ts'

/** The offset is committed this often, so a lost process costs a client at most this many bytes. */
const PIECE_BYTES = 64 * 1_048_576

/** The checksum of one body (tus 1.0.0 Upload-Checksum). */
export interface BodyChecksum {
  algorithm: 'sha1' | 'sha256' | 'md5'
  value: Buffer
}

type AppendDeps = Pick<StorageDeps, 'db' | 'now' | 'blobs' | 'logger'>

/** A body in pieces. If the client leaves, the current piece ends instead of failing, so that what arrived is kept. */
interface Body {
  /** True if no bytes are left. */
  hasEnded(): Promise<boolean>
  nextPiece(): AsyncGenerator<Buffer>
  /** Throws BadRequest if the client left early. */
  requireWhole(): void
  /** Throws BadRequest if the client left early, ChecksumMismatch if the bytes do not match. Does nothing without a checksum. */
  requireChecksum(): void
}

function openBody(exchange: RawExchange<StorageDeps>, checksum: BodyChecksum | undefined): Body {
  let isCutOff = false
  async function* bytes(): AsyncGenerator<Buffer> {
    try {
      yield* bodyOf(exchange)
    } catch (error) {
      if (!(error instanceof BadRequest)) throw error
      isCutOff = true
    }
  }
  const hash = checksum && createHash(checksum.algorithm)
  const body = new BodyCutter(bytes(), (chunk) => void hash?.update(chunk))
  const requireWhole = () => {
    if (isCutOff) throw new BadRequest('The body ended early')
  }
  return {
    hasEnded: () => body.hasEnded(),
    // A checksum covers the whole body, so that is one piece.
    nextPiece: () => body.take(checksum ? Number.MAX_SAFE_INTEGER : PIECE_BYTES, () => {}),
    requireWhole,
    requireChecksum() {
      if (!checksum) return
      requireWhole()
      if (!hash?.digest().equals(checksum.value))
        throw new ChecksumMismatch('The bytes are not what Upload-Checksum says')
    },
  }
}

/** How many more bytes an upload accepts. */
const bytesLeft = ({ contentLength, offset }: Upload): number => (contentLength ?? OBJECT_BYTES_MAX) - offset

/** Stores the next piece of a body and appends it. Returns the updated upload. */
async function appendPiece(
  deps: AppendDeps,
  lease: Lease,
  upload: Upload,
  body: Body,
  hashes: RunningHashes,
): Promise<Upload> {
  await using piece = await receiveBlobs(
    deps,
    body.nextPiece(),
    { bytesMax: bytesLeft(upload), chunks: 'owned' },
    (chunk) => hashes.update(chunk),
  )
  body.requireChecksum()
  if (piece.length === 0) return upload
  const appended = await appendToUpload(deps, lease, upload, piece, hashes)
  piece.keep()
  return appended
}

/**
 * The running hashes of an upload. A request that carries the whole upload does not need saveable state. If it breaks off, the
 * next request reads the stored bytes again; from then on states are saved.
 */
async function hashesFor(
  deps: AppendDeps,
  exchange: RawExchange<StorageDeps>,
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

interface AppendOptions {
  /** The length of the upload, if this request is the first to declare it. Stored with the first piece. */
  declaredLength?: number | undefined
  /** If given, the body is stored as a whole or not at all. */
  checksum?: BodyChecksum | undefined
}

/**
 * Appends a request's body to an upload, piece by piece: bytes that arrived before a client left are kept. Returns the updated
 * upload.
 *
 * upload: as read under the lease. Throws PayloadTooLarge if the body exceeds the upload's length, ChecksumMismatch, BadRequest
 * if the client left early, and the errors of `appendToUpload`.
 */
export async function appendBody(
  deps: AppendDeps,
  exchange: RawExchange<StorageDeps>,
  lease: Lease,
  upload: Upload,
  { declaredLength, checksum }: AppendOptions,
): Promise<Upload> {
  const { incoming } = exchange
  let current: Upload = { ...upload, contentLength: upload.contentLength ?? declaredLength ?? null }
  const left = bytesLeft(current)
  if (Number(incoming.headers['content-length'] ?? 0) > left) throw new PayloadTooLarge(left)
  const letGo = () => void incoming.destroy()
  lease.wanted.addEventListener('abort', letGo, { once: true })
  try {
    const body = openBody(exchange, checksum)
    let hashes: RunningHashes | undefined
    while (!(await body.hasEnded())) {
      hashes ??= await hashesFor(deps, exchange, lease, current)
      current = await appendPiece(deps, lease, current, body, hashes)
    }
    body.requireWhole()
    const isLengthNew = upload.contentLength === null && current.contentLength !== null
    if (isLengthNew && hashes === undefined) {
      // An empty body declares the length: no piece has stored it, and it may complete the upload.
      body.requireChecksum()
      hashes = await hashesFor(deps, exchange, lease, current)
      current = await appendToUpload(deps, lease, current, { blobs: [], length: 0 }, hashes)
    }
    return current
  } finally {
    lease.wanted.removeEventListener('abort', letGo)
  }
}
