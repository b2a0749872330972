import { isUuid } from '@platform/runtime/is-uuid'
import { readAuthClaim } from '@platform/s3-protocol/signature/claim'
import { type CorsRequest, corsRuleHeaders } from '@platform/s3-protocol/wire/cors-rules'
import { type RawTarget, readTarget } from '@platform/s3-protocol/wire/raw-target'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { S3Error } from '@platform/errors/s3-error'
import type { StorageDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import { header } from '../../../http/exchange.ts'
import { addressingAt, type Place } from './addressing.ts'
import { findCorsRules } from './bucket-configuration.ts'
import { readBucketName } from './bucket-name.ts'
import { findPublic, findSigner, type NamedBucket } from './find-access.ts'

/**
 * A preflight's answer: a bucket rule's headers; permission for any origin while the bucket is still unknown; or the operator's
 * origins.
 */
export type PreflightAnswer =
  | { kind: 'rule'; headers: Record<string, string> }
  | { kind: 'anyone' }
  | { kind: 'default' }

const DEFAULT: PreflightAnswer = { kind: 'default' }

/** The request that a preflight announces. */
function announcedBy({ incoming }: RawExchange<StorageDeps>): CorsRequest {
  const names = header(incoming, 'access-control-request-headers') ?? ''
  return {
    origin: incoming.headers.origin ?? '',
    method: incoming.headers['access-control-request-method'] ?? '',
    headers: names
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== ''),
  }
}

/**
 * The bucket that a presigned URL names, in the application of its key. Nothing is verified: a preflight lacks headers that may
 * be signed.
 */
async function findPresigned(
  { deps }: RawExchange<StorageDeps>,
  keyId: string,
  name: string,
): Promise<NamedBucket | null> {
  if (!isUuid(keyId)) return null
  const signer = await findSigner(deps.db, keyId, { bucket: readBucketName(name), key: undefined, isWrite: false })
  if (!signer) return null
  const { key, named } = signer
  return key.environmentId === null || key.environmentId === named.environmentId ? named.bucket : null
}

/**
 * Finds the bucket whose rules decide: by the key of a presigned URL, or by the slug of a public bucket. 'later': the request's
 * credential is in a header or a form, which a preflight does not have.
 */
async function findBucketOf(
  exchange: RawExchange<StorageDeps>,
  target: RawTarget,
  { method, headers }: CorsRequest,
): Promise<NamedBucket | null | 'later'> {
  const { bucket: name, key } = target
  if (name === undefined) return null
  const claim = readAuthClaim(target, new Map())
  if (claim.kind === 'signature') return findPresigned(exchange, claim.claim.keyId, name)
  const isForm = method === 'POST' && key === undefined
  if (isForm || headers.some((announced) => announced.toLowerCase() === 'authorization')) return 'later'
  if (method !== 'GET' && method !== 'HEAD') return null
  return (await findPublic(exchange.deps.db, name, undefined)).bucket
}

/**
 * Decides a preflight (docs/decisions/0037-preflights-tell-nothing-of-buckets.md). A missing bucket, one without rules, and one
 * whose rules do not allow the request all get the same answer.
 */
export async function decidePreflight(exchange: RawExchange<StorageDeps>, place: Place): Promise<PreflightAnswer> {
  const { deps, incoming, url } = exchange
  const announced = announcedBy(exchange)
  try {
    const target = readTarget(url, addressingAt(deps, place, incoming.headers.host ?? ''))
    const bucket = await findBucketOf(exchange, target, announced)
    if (bucket === 'later') return { kind: 'anyone' }
    const rules = bucket && (await findCorsRules(deps, bucket))
    const allowed = rules && corsRuleHeaders(rules, announced)
    return allowed ? { kind: 'rule', headers: allowed } : DEFAULT
  } catch (error) {
    // An invalid URL is refused when the request itself arrives.
    if (error instanceof S3Error) return DEFAULT
    throw error
  }
}

/** True for a browser's request from a page of another origin, whose preflight could not be decided yet. */
const isUndecided = ({ incoming: { headers } }: RawExchange<StorageDeps>): boolean =>
  headers.authorization !== undefined &&
  headers['sec-fetch-mode'] === 'cors' &&
  headers['sec-fetch-site'] !== 'same-origin'

/**
 * Lets a page read the answer if the rules of the bucket allow it; otherwise the operator's origins may, as everywhere. Costs
 * nothing without an Origin header. bucket: null if there is none.
 *
 * Throws AccessForbidden for a page that neither allows, if its preflight was answered before that was known.
 */
export async function applyCors(exchange: RawExchange<StorageDeps>, bucket: NamedBucket | null): Promise<void> {
  const { deps, incoming, outgoing } = exchange
  const { origin } = incoming.headers
  if (origin === undefined) return
  const rules = bucket && (await findCorsRules(deps, bucket))
  const allowed = rules && corsRuleHeaders(rules, { origin, method: incoming.method ?? '', headers: [] })
  if (allowed) {
    outgoing.removeHeader('access-control-expose-headers')
    for (const [name, value] of Object.entries(allowed)) outgoing.setHeader(name, value)
  } else if (!deps.corsOrigins.has(origin) && isUndecided(exchange)) throw s3Failure('AccessForbidden')
}
