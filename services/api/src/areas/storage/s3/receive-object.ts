import type { ChecksumAlgorithm } from '@platform/s3-protocol/body/checksum'
import { readBodyClaim, readRequestBody, type RequestBody } from '@platform/s3-protocol/body/read-request-body'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { bodyOf } from '../../../http/raw-listener.ts'
import type { NewObject } from '../objects/commit-object.ts'
import { receiveBody, type ReceivedBody } from '../objects/receive-body.ts'
import type { S3Call } from './s3-call.ts'

/** Maximum bytes of one request (S3 API PutObject). */
export const PUT_BYTES_MAX = 5 * 1_024 ** 3

/** A stored body that matches everything the request declared about it. Unless `keep` is called, its bytes are discarded. */
export interface ReceivedObject extends ReceivedBody {
  checksum: { algorithm: ChecksumAlgorithm; value: string } | undefined
}

/**
 * Stores a body and verifies it. length: in bytes, if known in advance. Keeps nothing of a body that does not match. Throws the
 * errors of `receiveBody` and `body.verify`.
 */
export async function receiveVerified(
  { deps, exchange }: Pick<S3Call, 'deps' | 'exchange'>,
  body: RequestBody,
  length: number | undefined,
): Promise<ReceivedObject> {
  await using unverified = new AsyncDisposableStack()
  exchange.isWorking = false
  const received = unverified.use(
    await receiveBody(deps, body.bytes, { length, bytesMax: PUT_BYTES_MAX, chunks: 'owned' }),
  )
  exchange.isWorking = true
  const checksum = body.verify(received)
  unverified.move()
  return { ...received, checksum }
}

/**
 * Receives the body of PutObject and UploadPart, in any of its encodings. wanted: an algorithm to compute even if the client does
 * not declare it.
 *
 * Throws EntityTooLarge, and the errors of `readBodyClaim`, `readRequestBody` and `receiveVerified`.
 */
export async function receiveObject(call: S3Call, wanted?: ChecksumAlgorithm): Promise<ReceivedObject> {
  const claim = readBodyClaim(call.headers, call.payloadHash)
  if (claim.length > PUT_BYTES_MAX) throw s3Failure('EntityTooLarge')
  if (wanted && !claim.checksum) claim.checksum = { algorithm: wanted, value: undefined, isTrailer: false }
  const body = await readRequestBody(bodyOf(call.exchange), claim, call.seed)
  return receiveVerified(call, body, claim.length)
}

/** The content of a new object: its blobs, length and digests. */
export const contentOf = ({ blobs, length, md5, sha256, checksum }: ReceivedObject) =>
  ({
    contentLength: length,
    etag: md5.toString('hex'),
    md5,
    sha256,
    checksum: checksum ? { ...checksum, type: 'FULL_OBJECT' } : null,
    blobs,
  }) satisfies Partial<NewObject>
