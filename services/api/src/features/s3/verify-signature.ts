import { hash, type KeyObject, timingSafeEqual } from 'node:crypto'
import { type CanonicalUri, canonicalRequest, canonicalUris } from './canonical-request.ts'
import { PREFIX, type RawTarget } from './raw-target.ts'
import { s3Failure } from './s3-failure.ts'
import type { CredentialScope, SignatureClaim } from './signature-claim.ts'
import { hmac } from './signing-key.ts'

const SKEW_MAX_MS = 15 * 60_000

/** What of a request is signed. */
export interface SignedRequest {
  method: string
  target: RawTarget
  /** By `readRawHeaders`. */
  headers: ReadonlyMap<string, string>
  /** The names this server may have been called by, likeliest first. */
  hosts: readonly string[]
}

/** Where the signatures of a streaming body go on from (SigV4 "Transferring payload in multiple chunks"). */
export interface StreamSeed {
  signingKey: KeyObject
  signature: string
  timestamp: string
  /** `day/region/s3/aws4_request` */
  scope: string
}

/** Of latin1 text, byte for byte: what headers and paths are made of. */
export const sha256Hex = (text: string): string => hash('sha256', Buffer.from(text, 'latin1'), 'hex')

export const scopeText = ({ day, region }: Pick<CredentialScope, 'day' | 'region'>): string =>
  `${day}/${region}/s3/aws4_request`

/** True if both are the same 64 hexadecimal digits, in a time that tells nothing. */
export function sameSignature(expected: Buffer, claimed: string): boolean {
  // Anything that is no hexadecimal becomes shorter.
  const given = Buffer.from(claimed, 'hex')
  return given.length === expected.length && timingSafeEqual(given, expected)
}

/**
 * Refuses a claim by its time: 15 minutes either way for a header, from its date to its expiry for a URL (RequestTimeTooSkewed,
 * AccessDenied "Request has expired").
 */
export function checkTime({ signedAt, place }: SignatureClaim, now: Date): void {
  const age = now.getTime() - signedAt.getTime()
  if (place.kind === 'header') {
    if (Math.abs(age) > SKEW_MAX_MS) throw s3Failure('RequestTimeTooSkewed')
    return
  }
  if (age < -SKEW_MAX_MS) throw s3Failure('AccessDenied', 'Request is not valid yet')
  if (age > place.expiresInSeconds * 1_000) throw s3Failure('AccessDenied', 'Request has expired')
}

/** Refuses a claim that leaves out what has to be signed: host, and every x-amz-* header that was sent. */
export function checkSignedHeaders(claim: SignatureClaim, headers: ReadonlyMap<string, string>): void {
  const names = new Set(claim.signedHeaders)
  if (!names.has('host')) throw s3Failure('AccessDenied', 'The Host header must be signed')
  for (const name of headers.keys()) {
    if (name.startsWith('x-amz-') && !names.has(name))
      throw s3Failure('AccessDenied', `The header ${name} was sent and not signed`)
  }
  const missing = claim.signedHeaders.find((name) => !headers.has(name))
  if (missing !== undefined) throw s3Failure('AccessDenied', 'A header that was signed did not arrive')
}

/** Of no bytes. */
export const EMPTY_SHA256 = sha256Hex('')

const hasBody = (headers: ReadonlyMap<string, string>): boolean =>
  headers.has('transfer-encoding') || (headers.get('content-length') ?? '0') !== '0'

/**
 * What stands for the body in the signature: the header; in a URL also the parameter, else UNSIGNED-PAYLOAD. Older curls send
 * no header, and then a body that is not there is what they have signed.
 *
 * Throws InvalidRequest for a body of which nothing is said.
 */
export function payloadHashOf({ headers, target }: SignedRequest, claim: SignatureClaim): string {
  const declared = headers.get('x-amz-content-sha256')
  if (declared !== undefined) return declared
  if (claim.place.kind === 'query') return target.query.get('X-Amz-Content-Sha256') ?? 'UNSIGNED-PAYLOAD'
  if (!hasBody(headers)) return EMPTY_SHA256
  throw s3Failure('InvalidRequest', 'The header x-amz-content-sha256 is missing; it may be UNSIGNED-PAYLOAD')
}

interface Reading {
  uri: CanonicalUri
  host: string
}

/**
 * The ways this request may have been signed: as it came, and below `/s3` also without that. s3cmd, told `host_base = H/s3`,
 * signs `host:H/s3` and the path below it; where a proxy has mapped the root of an origin onto `/s3`, clients sign that
 * origin and the path below.
 */
function* readings({ target, hosts }: SignedRequest): Generator<Reading> {
  for (const uri of canonicalUris(target)) for (const host of hosts) yield { uri, host }
  if (target.addressing.kind !== 'prefix') return
  for (const { path, query } of canonicalUris(target)) {
    const uri = { path: path.slice(PREFIX.length) || '/', query }
    for (const host of hosts) {
      yield { uri, host: `${host}${PREFIX}` }
      yield { uri, host }
    }
  }
}

/**
 * Verifies a claim with the key's signing key of that day and region. Time and signed headers are checked by `checkTime`
 * and `checkSignedHeaders`, which need no key. Returns where the signatures of a streaming body go on.
 *
 * Throws SignatureDoesNotMatch, which says nothing of the right one.
 */
export function verifySignature(request: SignedRequest, claim: SignatureClaim, signingKey: KeyObject): StreamSeed {
  const { method, headers } = request
  const { timestamp, signedHeaders, signature } = claim
  const scope = scopeText(claim)
  const payloadHash = payloadHashOf(request, claim)
  for (const { uri, host } of readings(request)) {
    const canonical = canonicalRequest({ method, uri, host, headers, signedHeaders, payloadHash })
    const toSign = `AWS4-HMAC-SHA256\n${timestamp}\n${scope}\n${sha256Hex(canonical)}`
    if (sameSignature(hmac(signingKey, toSign), signature)) return { signingKey, signature, timestamp, scope }
  }
  throw s3Failure('SignatureDoesNotMatch')
}
