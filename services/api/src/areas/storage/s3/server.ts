import type { RequestListener } from 'node:http'
import type { S3Error } from '@platform/errors/s3-error'
import { preflightHeaders } from '@platform/service/cors'
import { withHoistedHeaders } from '@platform/s3-protocol/signature/hoisted-headers'
import { type OperationName, readOperation } from '@platform/s3-protocol/wire/operations'
import { readRawHeaders } from '@platform/s3-protocol/wire/raw-headers'
import { type RawTarget, readTarget } from '@platform/s3-protocol/wire/raw-target'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import type { StorageDeps } from '../deps.ts'
import { throttleAddress } from '../../../http/exchange.ts'
import { type RawExchange, createRawListener } from '../../../http/raw-listener.ts'
import { sendContent } from '../../../http/send-content.ts'
import { noAccess } from '../../tenancy/products/product-access.ts'
import { FULL } from '../objects/stored-bytes.ts'
import { addressingAt, type Place } from './addressing.ts'
import { admit, authorize } from './authorize.ts'
import { applyCors, decidePreflight } from './cors.ts'
import type { NamedBucket } from './find-access.ts'
import { handlers } from './handlers.ts'
import { operationScopes, publicOperations, storesBytes, writes } from './operation-scopes.ts'
import { postObject } from './operations/post-object.ts'
import type { S3Reply } from './s3-call.ts'

/** The operation, or the error to report once the caller is authenticated. */
function tryReadOperation(
  method: string,
  target: RawTarget,
  headers: ReadonlyMap<string, string>,
): { name: OperationName } | { refusal: S3Error } {
  try {
    return { name: readOperation(method, target, headers) }
  } catch (error) {
    return { refusal: error as S3Error }
  }
}

function checkVersion({ query }: RawTarget): void {
  const version = query.get('versionId')
  if (version !== undefined && version !== '' && version !== 'null')
    throw s3Failure('InvalidArgument', 'Invalid version id specified')
}

/** Refuses a request that expects another bucket owner, given as an application's id (S3 API x-amz-expected-bucket-owner). */
function checkOwner(headers: ReadonlyMap<string, string>, { applicationId }: NamedBucket): void {
  const expected = headers.get('x-amz-expected-bucket-owner')
  if (expected !== undefined && expected !== applicationId) throw s3Failure('AccessDenied')
}

/** A request that has been read but not authenticated. */
interface Read {
  target: RawTarget
  /** The headers as sent. */
  sent: ReadonlyMap<string, string>
  /** The same plus those that a presigned URL carries. */
  headers: ReadonlyMap<string, string>
  found: { name: OperationName } | { refusal: S3Error }
}

function read({ deps, incoming, url }: RawExchange<StorageDeps>, place: Place): Read {
  const target = readTarget(url, addressingAt(deps, place, incoming.headers.host ?? ''))
  const sent = readRawHeaders(incoming.rawHeaders)
  const headers = withHoistedHeaders(sent, target)
  return { target, sent, headers, found: tryReadOperation(incoming.method ?? '', target, headers) }
}

async function answer(exchange: RawExchange<StorageDeps>, place: Place, admitted: Promise<void>): Promise<S3Reply> {
  const { deps } = exchange
  const { target, sent, headers, found } = read(exchange, place)
  const name = 'name' in found ? found.name : undefined
  if (name) exchange.operation = `s3:${name}`
  if (name === 'PostObject') {
    await admitted
    return postObject(exchange, target, sent)
  }
  const handler = name && handlers[name]
  const { caller, named, payloadHash, seed } = await authorize(exchange, {
    target,
    headers: sent,
    isObjectAsked: handler?.needs === 'object',
    isWrite: name !== undefined && writes(name),
    scope: name && operationScopes[name],
    isOpen: name !== undefined && publicOperations.has(name),
    admitted,
  })
  await applyCors(exchange, named.bucket)
  if ('refusal' in found) throw found.refusal
  if (!handler) throw s3Failure('NotImplemented')
  if (named.isReadOnly && writes(name)) throw s3Failure('AccessDenied', noAccess('storage'))
  if (named.isFull && storesBytes.has(name)) throw s3Failure('QuotaExceeded', FULL)
  const { bucket, found: object } = named
  const { key = '' } = target
  exchange.isWorking = true
  const call = { deps, exchange, target, headers, caller, payloadHash, seed }
  if (handler.needs === 'key holder') {
    if (caller.kind === 'anonymous') throw s3Failure('AccessDenied')
    return handler.handle({ ...call, caller })
  }
  if (!bucket) throw s3Failure('NoSuchBucket', undefined, { BucketName: target.bucket ?? '' })
  checkOwner(headers, bucket)
  if (handler.needs === 'bucket') return handler.handle({ ...call, bucket })
  checkVersion(target)
  if (handler.needs === 'key') return handler.handle({ ...call, bucket, key, found: object })
  if (!object) throw s3Failure('NoSuchKey', undefined, { Key: key })
  return handler.handle({ ...call, bucket, key, found: object })
}

/**
 * Refuses an OPTIONS request that is no preflight, in AWS's words. Counted as preflights are. Throws BadRequest, and the errors of
 * `readTarget` for an invalid URL.
 */
async function refuseOptions(exchange: RawExchange<StorageDeps>, place: Place): Promise<never> {
  await throttleAddress(exchange)
  read(exchange, place)
  if (exchange.incoming.headers.origin === undefined)
    throw s3Failure('BadRequest', 'Insufficient information. Origin request header needed.')
  throw s3Failure('BadRequest', 'Invalid Access-Control-Request-Method: null')
}

async function handle(exchange: RawExchange<StorageDeps>, place: Place): Promise<void> {
  const { outgoing, requestId } = exchange
  outgoing.setHeader('x-amz-request-id', requestId)
  if (exchange.incoming.method === 'OPTIONS') return refuseOptions(exchange, place)
  const admitted = admit(exchange)
  const { status, headers, body } = await answer(exchange, place, admitted).catch(async (error: unknown) => {
    // Exceeding the request limit is reported before any other error (D18).
    await admitted
    throw error
  })
  exchange.isWorking = false
  if (body !== undefined && typeof body !== 'string') {
    await sendContent(outgoing, { status, headers }, body)
    return
  }
  if (!outgoing.headersSent) {
    const length = typeof body === 'string' ? { 'content-length': String(Buffer.byteLength(body)) } : {}
    const none = body === undefined && exchange.incoming.method !== 'HEAD' && status !== 204 && status !== 304
    outgoing.writeHead(status, { ...(none && { 'content-length': '0' }), ...length, ...headers })
  }
  outgoing.end(body)
}

/** What pages on the operator's origins may send, and what an undecided preflight allows. */
const allow = { methods: 'GET, HEAD, PUT, POST, DELETE', headers: '*, Authorization' }
const PREFLIGHT_MAX_AGE_SECONDS = 7_200

async function answerPreflight(
  exchange: RawExchange<StorageDeps>,
  place: Place,
): Promise<{ status: number; headers: Record<string, string> } | undefined> {
  const answer = await decidePreflight(exchange, place)
  switch (answer.kind) {
    case 'rule':
      return { status: 200, headers: { 'content-length': '0', ...answer.headers } }
    case 'anyone':
      return {
        status: 204,
        headers: {
          'access-control-allow-origin': exchange.incoming.headers.origin ?? '',
          ...preflightHeaders({ ...allow, maxAgeSeconds: PREFLIGHT_MAX_AGE_SECONDS }),
        },
      }
    case 'default':
      return undefined
  }
}

/** Serves S3: requests signed with SigV4, requests with a key's token, and anonymous reads of public buckets (D42, D44). */
export const createS3Listener = (deps: StorageDeps, place: Place): RequestListener =>
  createRawListener(deps, {
    name: 's3',
    isS3: true,
    exposedHeaders:
      'ETag, Content-Range, Content-Length, Accept-Ranges, Last-Modified, Location, Retry-After, x-amz-request-id, x-amz-mp-parts-count, x-amz-checksum-crc32, x-amz-checksum-crc32c, x-amz-checksum-crc64nvme, x-amz-checksum-sha1, x-amz-checksum-sha256, x-amz-checksum-type, X-Request-Id, *',
    allow,
    // Even without CORS_ORIGINS, since a bucket's rules may allow an origin at any time.
    headers: { vary: 'Origin' },
    preflight: (exchange) => answerPreflight(exchange, place),
    handle: (exchange) => handle(exchange, place),
  })
