import type { StreamSeed } from '../signature/verify.ts'
import { s3Failure } from '../wire/s3-failure.ts'
import {
  algorithmOfHeader,
  type ChecksumAlgorithm,
  checksumHeader,
  isDigest,
  readAlgorithm,
  startSum,
  type Summing,
} from './checksum.ts'
import { decodeChunks, type Trailers } from './decode-chunks.ts'

/** How a body is sent, and the digests and length that the request declares for it. */
export interface BodyClaim {
  /** `signed`: the hexadecimal SHA-256 that the signature covers. */
  form:
    | { kind: 'signed'; sha256: string }
    | { kind: 'unsigned' }
    | { kind: 'chunked'; isSigned: boolean; hasTrailers: boolean }
  /** Bytes of the object; undefined for the file of a form, which declares no length. */
  length: number | undefined
  /** Content-MD5, 16 bytes. */
  md5: Buffer | undefined
  checksum: ChecksumClaim | undefined
}

/** value: base64; undefined if it comes as a trailer, or the client only names the algorithm. */
interface ChecksumClaim {
  algorithm: ChecksumAlgorithm
  value: string | undefined
  isTrailer: boolean
}

const chunkedForms: Readonly<Record<string, BodyClaim['form']>> = {
  'STREAMING-AWS4-HMAC-SHA256-PAYLOAD': { kind: 'chunked', isSigned: true, hasTrailers: false },
  'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER': { kind: 'chunked', isSigned: true, hasTrailers: true },
  'STREAMING-UNSIGNED-PAYLOAD-TRAILER': { kind: 'chunked', isSigned: false, hasTrailers: true },
}

function readBodyForm(payloadHash: string): BodyClaim['form'] {
  if (payloadHash === 'UNSIGNED-PAYLOAD') return { kind: 'unsigned' }
  if (/^[0-9a-f]{64}$/.test(payloadHash)) return { kind: 'signed', sha256: payloadHash }
  const form = chunkedForms[payloadHash]
  if (form) return form
  if (payloadHash.startsWith('STREAMING-'))
    throw s3Failure('NotImplemented', `The body form ${payloadHash.slice(0, 60)} is not supported`)
  throw s3Failure(
    'InvalidArgument',
    'x-amz-content-sha256 must be UNSIGNED-PAYLOAD, a STREAMING- form or the SHA-256 in hexadecimal',
  )
}

function readLength(text: string | undefined, name: string): number | undefined {
  if (text === undefined) return undefined
  if (!/^\d{1,15}$/.test(text)) throw s3Failure('InvalidArgument', `${name} must be a number of bytes`)
  return Number(text)
}

export function readMd5(text: string | undefined): Buffer | undefined {
  if (text === undefined) return undefined
  const md5 = Buffer.from(text, 'base64')
  if (md5.length !== 16 || md5.toString('base64') !== text) throw s3Failure('InvalidDigest')
  return md5
}

/**
 * Reads the additional checksum that a request declares: at most one header or announced trailer.
 * Throws InvalidRequest for two, and for a malformed digest.
 */
export function readChecksumClaim(headers: ReadonlyMap<string, string>): ChecksumClaim | undefined {
  const claims: ChecksumClaim[] = []
  for (const [name, value] of headers) {
    const algorithm = algorithmOfHeader(name)
    if (!algorithm) continue
    if (!isDigest(algorithm, value)) throw s3Failure('InvalidRequest', `Value for ${name} header is invalid.`)
    claims.push({ algorithm, value, isTrailer: false })
  }
  for (const name of (headers.get('x-amz-trailer') ?? '').split(',')) {
    const algorithm = algorithmOfHeader(name.trim().toLowerCase())
    if (algorithm) claims.push({ algorithm, value: undefined, isTrailer: true })
  }
  if (claims.length > 1)
    throw s3Failure(
      'InvalidRequest',
      'Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.',
    )
  const [claim] = claims
  if (claim) return claim
  const algorithmName = headers.get('x-amz-sdk-checksum-algorithm')
  return algorithmName === undefined
    ? undefined
    : { algorithm: readAlgorithm(algorithmName), value: undefined, isTrailer: false }
}

/**
 * Reads what the headers declare of the body. payloadHash: by `payloadHashOf`.
 * Throws MissingContentLength, InvalidArgument, InvalidDigest, InvalidRequest, NotImplemented.
 */
export function readBodyClaim(
  headers: ReadonlyMap<string, string>,
  payloadHash: string,
): BodyClaim & { length: number } {
  const form = readBodyForm(payloadHash)
  if (!headers.has('content-length') && !headers.has('transfer-encoding')) throw s3Failure('MissingContentLength')
  const length =
    form.kind === 'chunked'
      ? readLength(headers.get('x-amz-decoded-content-length'), 'x-amz-decoded-content-length')
      : readLength(headers.get('content-length'), 'Content-Length')
  if (length === undefined) throw s3Failure('MissingContentLength')
  return { form, length, md5: readMd5(headers.get('content-md5')), checksum: readChecksumClaim(headers) }
}

/** Digests and length of the bytes that arrived, as the caller computed them. */
interface Arrived {
  md5: Buffer
  sha256: Buffer
  length: number
}

export interface RequestBody {
  /** The object's bytes. */
  bytes: AsyncIterable<Buffer>
  /**
   * Verifies what the request declared against what arrived. Call it once, after `bytes` has been read to its end and before
   * the bytes are used. Returns the additional checksum in base64, if there is one.
   *
   * Throws XAmzContentSHA256Mismatch, BadDigest, IncompleteBody, MalformedTrailerError.
   */
  verify(arrived: Arrived): { algorithm: ChecksumAlgorithm; value: string } | undefined
}

function summed(source: AsyncIterable<Buffer>, sum: Summing): AsyncIterable<Buffer> {
  return (async function* () {
    for await (const chunk of source) {
      sum.update(chunk)
      yield chunk
    }
  })()
}

/** Returns the checksum in the trailers. Throws if an announced trailer is missing, or an unannounced checksum arrived. */
function trailerValue(trailers: Trailers, claim: ChecksumClaim | undefined): string | undefined {
  for (const name of trailers.keys()) {
    if (algorithmOfHeader(name) && (!claim || name !== checksumHeader(claim.algorithm)))
      throw s3Failure('MalformedTrailerError', `The trailer ${name} was not announced`)
  }
  const value = claim && trailers.get(checksumHeader(claim.algorithm))
  if (claim?.isTrailer && value === undefined)
    throw s3Failure('MalformedTrailerError', 'A trailer that was announced did not come')
  if (claim && value !== undefined && !isDigest(claim.algorithm, value))
    throw s3Failure('InvalidRequest', `Value for ${checksumHeader(claim.algorithm)} trailer is invalid.`)
  return value
}

/**
 * Reads the bytes of an object from a request's body, in whichever form it is sent. seed: by `verifySignature`, if the request is
 * signed. Throws InvalidRequest for signed chunks in an unsigned request.
 */
export async function readRequestBody(
  incoming: AsyncIterable<Buffer>,
  claim: BodyClaim,
  seed: StreamSeed | undefined,
): Promise<RequestBody> {
  const { form, length, checksum } = claim
  let source = incoming
  let trailers: Trailers = new Map()
  if (form.kind === 'chunked' && length !== undefined) {
    if (form.isSigned && !seed) throw s3Failure('InvalidRequest', 'Signed chunks need a signed request')
    const { isSigned, hasTrailers } = form
    const decoded = decodeChunks(incoming, { seed: isSigned ? seed : undefined, hasTrailers, decodedLength: length })
    source = decoded.body
    trailers = decoded.trailers
  }
  const sum = checksum && (await startSum(checksum.algorithm))
  return {
    bytes: sum ? summed(source, sum) : source,
    verify(arrived) {
      if (length !== undefined && arrived.length !== length) throw s3Failure('IncompleteBody')
      if (form.kind === 'signed' && arrived.sha256.toString('hex') !== form.sha256)
        throw s3Failure('XAmzContentSHA256Mismatch')
      if (claim.md5 && !arrived.md5.equals(claim.md5)) throw s3Failure('BadDigest')
      const promised = trailerValue(trailers, checksum) ?? checksum?.value
      if (!checksum || !sum) return undefined
      const value = sum.digest().toString('base64')
      if (promised !== undefined && promised !== value)
        throw s3Failure('BadDigest', `The ${checksum.algorithm} you specified did not match the calculated checksum.`)
      return { algorithm: checksum.algorithm, value }
    },
  }
}
