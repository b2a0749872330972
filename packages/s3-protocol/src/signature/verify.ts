import type { KeyObject } from 'node:crypto'
import { isAscii } from '../wire/raw-headers.ts'
import type { RawTarget } from '../wire/raw-target.ts'
import { s3Failure } from '../wire/s3-failure.ts'
import { type CanonicalUri, canonicalRequest, canonicalUris } from './canonical-request.ts'
import type { CredentialScope, FormClaim, SignatureClaim } from './claim.ts'
import { EMPTY_SHA256, hmacHex, sameSignature, sha256Hex } from './hash.ts'

const SKEW_MAX_MS = 15 * 60_000

/** The signed parts of a request. */
export interface SignedRequest {
  method: string
  target: RawTarget
  /** By `readRawHeaders`. */
  headers: ReadonlyMap<string, string>
  /** The possible host names of this server, likeliest first. */
  hosts: readonly string[]
}

/** The state from which the chunk signatures of a streaming body continue (SigV4 "Transferring payload in multiple chunks"). */
export interface StreamSeed {
  signingKey: KeyObject
  signature: string
  timestamp: string
  /** `day/region/s3/aws4_request` */
  scope: string
}

const scopeText = ({ day, region }: Pick<CredentialScope, 'day' | 'region'>): string =>
  `${day}/${region}/s3/aws4_request`

/**
 * Checks the time of a claim: within 15 minutes of now for a header, between date and expiry for a URL.
 * Throws RequestTimeTooSkewed, AccessDenied.
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

/** Checks that host and every x-amz-* header are signed, and that every signed header arrived. Throws AccessDenied. */
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

const hasBody = (headers: ReadonlyMap<string, string>): boolean =>
  headers.has('transfer-encoding') || (headers.get('content-length') ?? '0') !== '0'

/**
 * Returns the payload hash covered by the signature: x-amz-content-sha256; in a URL also the parameter, else UNSIGNED-PAYLOAD. Old
 * versions of curl send no header and sign the hash of an empty body.
 *
 * Throws InvalidRequest for a body without a declared hash.
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
 * Yields the ways this request may have been signed: as received, and below a prefix also without the prefix. s3cmd, configured
 * with `host_base = H/s3`, signs `host:H/s3` and the path below it; if a proxy maps the root of an origin onto `/s3`, clients sign
 * that origin and the path below.
 */
function* readings({ target, hosts }: SignedRequest): Generator<Reading> {
  for (const uri of canonicalUris(target)) for (const host of hosts) yield { uri, host }
  if (target.addressing.kind !== 'prefix') return
  const { prefix } = target.addressing
  for (const { path, query } of canonicalUris(target)) {
    const uri = { path: path.slice(prefix.length) || '/', query }
    for (const host of hosts) {
      yield { uri, host: `${host}${prefix}` }
      yield { uri, host }
    }
  }
}

/**
 * Returns the headers with metadata in UTF-8; undefined if that is as sent. Some clients sign metadata as UTF-8 and give it as text
 * to an HTTP library that sends latin1, such as Python's http.client. Both are the same text.
 */
function inUtf8(
  headers: ReadonlyMap<string, string>,
  { signedHeaders }: SignatureClaim,
): ReadonlyMap<string, string> | undefined {
  const latin1 = signedHeaders.filter((name) => name.startsWith('x-amz-meta-') && !isAscii(headers.get(name) ?? ''))
  if (latin1.length === 0) return undefined
  const encoded = new Map(headers)
  for (const name of latin1) encoded.set(name, Buffer.from(headers.get(name) ?? '').toString('latin1'))
  return encoded
}

/**
 * Verifies a claim with the signing key of its day and region. Time and signed headers are checked by `checkTime` and
 * `checkSignedHeaders`, which need no key. Returns the seed for the signatures of a streaming body.
 *
 * Throws SignatureDoesNotMatch, which never reveals the right signature.
 */
export function verifySignature(request: SignedRequest, claim: SignatureClaim, signingKey: KeyObject): StreamSeed {
  const { method, headers } = request
  const { timestamp, signedHeaders, signature } = claim
  const scope = scopeText(claim)
  const payloadHash = payloadHashOf(request, claim)
  const isSignatureOf = (signed: ReadonlyMap<string, string>): boolean => {
    for (const { uri, host } of readings(request)) {
      const canonical = canonicalRequest({ method, uri, host, headers: signed, signedHeaders, payloadHash })
      const toSign = `AWS4-HMAC-SHA256\n${timestamp}\n${scope}\n${sha256Hex(canonical)}`
      if (sameSignature(hmacHex(signingKey, toSign), signature)) return true
    }
    return false
  }
  if (!isSignatureOf(headers)) {
    const encoded = inUtf8(headers, claim)
    if (!encoded || !isSignatureOf(encoded)) throw s3Failure('SignatureDoesNotMatch')
  }
  return { signingKey, signature, timestamp, scope }
}

/** Verifies the signature of a form's policy, which is signed in base64, as sent. Throws SignatureDoesNotMatch. */
export function verifyPolicy(policy: string, { signature }: FormClaim, signingKey: KeyObject): void {
  if (!sameSignature(hmacHex(signingKey, policy), signature)) throw s3Failure('SignatureDoesNotMatch')
}
