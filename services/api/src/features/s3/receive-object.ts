import type { ChecksumAlgorithm } from '@platform/s3-protocol/body/checksum'
import { readBodyClaim, readRequestBody, type RequestBody } from '@platform/s3-protocol/body/read-request-body'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { bodyOf } from '../../http/door.ts'
import { discardBlobs, type Received, receiveBody } from '../storage/receive-body.ts'
import type { S3Call } from './s3-call.ts'

/** What one request may send (S3 API PutObject). */
export const PUT_BYTES_MAX = 5 * 1_024 ** 3

/** A body that came whole and is what was promised of it. */
export interface Settled {
  received: Received
  checksum: { algorithm: ChecksumAlgorithm; value: string } | undefined
}

/** Takes in bytes and holds them against what was promised; what is not so is discarded before this throws. */
export async function settleBody(
  { deps, exchange }: Pick<S3Call, 'deps' | 'exchange'>,
  body: RequestBody,
  length: number | undefined,
): Promise<Settled> {
  exchange.isWorking = false
  const received = await receiveBody(deps, body.bytes, { length, bytesMax: PUT_BYTES_MAX })
  exchange.isWorking = true
  try {
    return { received, checksum: body.verify(received) }
  } catch (error) {
    await discardBlobs(deps, received.blobs)
    throw error
  }
}

/** Makes something of a body, or gives its bytes up where that fails. */
export async function adoptOrDiscard<T>(
  { deps }: Pick<S3Call, 'deps'>,
  settled: Settled,
  adopt: (settled: Settled) => Promise<T>,
): Promise<T> {
  try {
    return await adopt(settled)
  } catch (error) {
    await discardBlobs(deps, settled.received.blobs)
    throw error
  }
}

/**
 * Takes in the body of PutObject and UploadPart, in whichever form it comes. isAdopted: what to do with it; when that
 * throws, nothing of the body stays.
 *
 * Throws EntityTooLarge, what `readBodyClaim` and `readRequestBody` throw.
 */
export async function receiveObject<T>(
  call: S3Call,
  adopt: (settled: Settled) => Promise<T>,
  /** An algorithm that is wanted, whether the client declares it or not. */
  wanted?: ChecksumAlgorithm,
): Promise<T> {
  const claim = readBodyClaim(call.headers, call.payloadHash)
  if (claim.length > PUT_BYTES_MAX) throw s3Failure('EntityTooLarge')
  if (wanted && !claim.checksum) claim.checksum = { algorithm: wanted, value: undefined, isTrailer: false }
  const body = await readRequestBody(bodyOf(call.exchange), claim, call.seed)
  const settled = await settleBody(call, body, claim.length)
  return adoptOrDiscard(call, settled, adopt)
}
