import type { IncomingMessage } from 'node:http'
import type { StorageDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import { throttleAddress, header } from '../../../http/exchange.ts'
import { appendBody } from '../uploads/append-body.ts'
import { ChecksumMismatch } from '../uploads/complete-upload.ts'
import { getUpload, requireStorageAccess, type Upload } from '../uploads/uploads.ts'
import { answer, progressOf } from './answer.ts'
import { tusError } from './errors.ts'
import { readChecksum, readUploadLength, readUploadOffset, requirePossibleLength } from './headers.ts'
import { OFFSET_TYPE } from './protocol.ts'
import { reachUpload } from './reach.ts'

/** Upload-Length of a PATCH: sets a deferred length, and MUST NOT change one that was set. Throws 400, 413. */
function readDeferredLength(incoming: IncomingMessage, upload: Upload): number | undefined {
  const length = readUploadLength(incoming)
  if (length === undefined) return undefined
  requirePossibleLength(length)
  if (length < upload.offset || (upload.contentLength !== null && upload.contentLength !== length))
    throw tusError('LengthChanged')
  return length
}

/**
 * Appends the body at an offset, under a lease of its own: one request writes at a time. declaredLength: of the whole upload, if
 * it was deferred until now. Returns the updated upload.
 *
 * Throws 409 for another offset, 460 or 422 if a checksum does not match, and the errors of `appendBody`.
 */
export async function append(
  exchange: RawExchange<StorageDeps>,
  upload: Upload,
  { offset, declaredLength }: { offset: number; declaredLength?: number | undefined },
): Promise<Upload> {
  const { deps, incoming } = exchange
  const checksum = readChecksum(incoming)
  const lease = await deps.uploadLeases.take(upload.id)
  try {
    // The previous writer may have moved the offset before we got the lease.
    const current = await getUpload(deps, upload.id)
    // MUST NOT change once set; another request may have set it before we got the lease.
    if (declaredLength !== undefined && current.contentLength !== null && current.contentLength !== declaredLength)
      throw tusError('LengthChanged')
    // MUST be 409, and change nothing.
    if (current.offset !== offset) throw tusError('OffsetMismatch', `The upload is at byte ${current.offset}`)
    return await appendBody(deps, exchange, lease, current, { declaredLength, checksum })
  } catch (error) {
    if (!(error instanceof ChecksumMismatch)) throw error
    throw tusError(upload.kind === 'tus' ? 'ChecksumMismatch' : 'DigestMismatch', error.message)
  } finally {
    await lease.release()
  }
}

/** PATCH: appends the body to an upload. */
export async function patch(exchange: RawExchange<StorageDeps>): Promise<void> {
  await throttleAddress(exchange)
  const { deps, incoming } = exchange
  const upload = await reachUpload(deps, exchange.path)
  await requireStorageAccess(deps, upload)
  // MUST be of this type, otherwise SHOULD be 415.
  if (header(incoming, 'content-type')?.split(';', 1)[0] !== OFFSET_TYPE) throw tusError('UnsupportedType')
  // MUST be 403, and change nothing.
  if (upload.concatenates?.startsWith('final;')) throw tusError('FinalUpload')
  const offset = readUploadOffset(incoming)
  if (offset === undefined) throw tusError('OffsetMissing')
  const appended = await append(exchange, upload, { offset, declaredLength: readDeferredLength(incoming, upload) })
  // MUST be 204 with Upload-Offset: the offset before and the bytes that were stored.
  answer(exchange, 204, progressOf(appended))
}
