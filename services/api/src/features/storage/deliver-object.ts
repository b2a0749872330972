import type { IncomingHttpHeaders } from 'node:http'
import { ApiError, BadRequest, Forbidden, NotFound, PreconditionFailed } from '@platform/errors/api-error'
import { preparedOnce } from '@platform/runtime/prepared-once'
import { evaluatePreconditions, isRangeCurrent, quotedEtag } from '@platform/s3-protocol/wire/preconditions'
import { readRange } from '@platform/s3-protocol/wire/read-range'
import { and, eq, getTableColumns, isNull, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import type { DoorExchange } from '../../http/door.ts'
import type { ServedBy } from '../request-logs/table.ts'
import { secondsLeft } from './access-url.ts'
import type { ByteRange } from './blobs.ts'
import type { StoredObject } from './commit-object.ts'
import { headersOf, headerValue } from './object-headers.ts'
import { openObject, sendContent } from './read-object.ts'
import { blobs, buckets, objectBlobs, objects } from './table.ts'

/** Where an object is asked for: the bucket's slug, and the key as its bytes. */
export interface DeliveryTarget {
  slug: string
  key: string
  query: URLSearchParams
  /** True on an origin that is not the bucket's own. */
  isSandboxed: boolean
}

/** 416: the range does not touch the object. */
class RangeNotSatisfiable extends ApiError {
  constructor(length: number) {
    super(416, 'The range does not touch the object', { headers: { 'content-range': `bytes */${length}` } })
  }
}
/** 405: objects are read here and nothing else. */
class MethodNotAllowed extends ApiError {
  constructor() {
    super(405, 'Objects are read with GET and HEAD', { headers: { allow: 'GET, HEAD, OPTIONS' } })
  }
}

/** The bucket of a slug, and the live object under the key with where its content begins: one statement. */
const findTarget = preparedOnce((db) =>
  db
    .select({
      bucket: {
        id: buckets.id,
        name: buckets.name,
        slug: buckets.slug,
        visibility: buckets.visibility,
        applicationId: buckets.applicationId,
      },
      object: getTableColumns(objects),
      first: { id: blobs.id, length: blobs.length, content: blobs.content },
    })
    .from(buckets)
    .leftJoin(
      objects,
      and(eq(objects.bucketId, buckets.id), eq(objects.key, sql.placeholder('key')), isNull(objects.deletedAt)),
    )
    .leftJoin(objectBlobs, and(eq(objectBlobs.objectId, objects.id), eq(objectBlobs.n, 0)))
    .leftJoin(blobs, eq(blobs.id, objectBlobs.blobId))
    .where(and(eq(buckets.slug, sql.placeholder('slug')), isNull(buckets.deletedAt)))
    .prepare('delivery_target'),
)

/** A key as the path of a URL writes it; `/` and whatever else is not escaped stands for itself. Throws BadRequest. */
export function keyOfPath(path: string): string {
  try {
    const key = decodeURIComponent(path)
    if (key !== '' && !key.includes('\0')) return key
  } catch {
    // not UTF-8
  }
  throw new BadRequest('The path is not the key of an object')
}

/**
 * Content-Disposition for a download under a name: once in ASCII for old clients, once in UTF-8 (RFC 6266, RFC 8187).
 */
export function downloadAs(name: string): string {
  const plain = name.replaceAll(/[^\x20-\x7e]/g, '_').replaceAll(/["\\]/g, '_')
  const encoded = encodeURIComponent(name.toWellFormed()).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}

const one = (headers: IncomingHttpHeaders, name: string): string | undefined => {
  const value = headers[name]
  return Array.isArray(value) ? value.join(',') : value
}

/** What every answer about the object says of it. */
function describe(
  object: StoredObject,
  target: DeliveryTarget,
  privateFor: number | undefined,
): Record<string, string> {
  const headers = headersOf(object)
  headers.etag = quotedEtag(object.etag)
  headers['last-modified'] = object.uploadedAt.toUTCString()
  headers['accept-ranges'] = 'bytes'
  if (target.isSandboxed) headers['content-security-policy'] = 'sandbox'
  // What a signed URL let through is the reader's own, and for no longer than the URL is good.
  if (privateFor !== undefined) headers['cache-control'] = `private, max-age=${Math.floor(privateFor)}`
  else headers['cache-control'] ??= 'public, no-cache'
  const download = target.query.get('download')
  if (download !== null)
    headers['content-disposition'] = headerValue(downloadAs(download || (object.key.split('/').at(-1) ?? '')))
  return headers
}

/** What a delivery tells the log of served requests. */
export interface Delivered {
  applicationId: string
  servedBy: ServedBy
}

/**
 * Answers a GET or HEAD of an object at the edge: a public one as it is, a private one by a signed URL, which is held
 * against the row each time, so that an object in the trash answers nobody (D40, storage.md Delivery).
 *
 * told: called as soon as it is known whose bucket was asked. Throws NotFound, Forbidden, PreconditionFailed and their like.
 */
export async function deliverObject(
  deps: Deps,
  { incoming, outgoing }: DoorExchange,
  target: DeliveryTarget,
  told: (delivered: Delivered) => void,
): Promise<void> {
  const [found] = await findTarget(deps.db).execute({ slug: target.slug, key: target.key })
  if (!found) throw new NotFound('Bucket')
  const { bucket, object, first } = found
  const storageBucket = { id: bucket.id, name: bucket.name, slug: bucket.slug }
  const servedBy: ServedBy = object
    ? { storageBucket, storageObject: { id: object.id, key: object.key, contentType: object.contentType } }
    : { storageBucket }
  told({ applicationId: bucket.applicationId, servedBy })
  if (incoming.method !== 'GET' && incoming.method !== 'HEAD') throw new MethodNotAllowed()

  let privateFor: number | undefined
  if (bucket.visibility === 'private') {
    const access = target.query.get('access')
    privateFor = object && access !== null ? secondsLeft(deps, object, access) : undefined
    // The same for an object that is not there: without authority nothing is to be learned.
    if (privateFor === undefined) throw new Forbidden('The URL is not signed, or its time is over')
  }
  if (!object) throw new NotFound('Object')

  const given = incoming.headers
  const headers = describe(object, target, privateFor)
  const verdict = evaluatePreconditions(
    {
      ifMatch: one(given, 'if-match'),
      ifNoneMatch: one(given, 'if-none-match'),
      ifModifiedSince: one(given, 'if-modified-since'),
      ifUnmodifiedSince: one(given, 'if-unmodified-since'),
    },
    object,
  )
  if (verdict === 'failed') throw new PreconditionFailed()
  if (verdict === 'not modified') {
    const { etag = '', 'last-modified': lastModified = '', 'cache-control': cacheControl = '' } = headers
    outgoing.writeHead(304, { etag, 'last-modified': lastModified, 'cache-control': cacheControl }).end()
    return
  }
  const { contentLength } = object
  const asked = isRangeCurrent(one(given, 'if-range'), object)
    ? readRange(one(given, 'range'), contentLength)
    : undefined
  if (asked === 'unsatisfiable') throw new RangeNotSatisfiable(contentLength)
  const range: ByteRange = asked ?? { start: 0, end: contentLength - 1 }
  headers['content-length'] = String(range.end - range.start + 1)
  if (asked) headers['content-range'] = `bytes ${range.start}-${range.end}/${contentLength}`
  const head = { status: asked ? 206 : 200, headers }
  if (incoming.method === 'HEAD') outgoing.writeHead(head.status, headers).end()
  else await sendContent(outgoing, head, openObject(deps, object, first, { range, chunks: 'lent' }))
}
