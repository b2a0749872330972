import { ApiError, Forbidden, NotFound, PreconditionFailed } from '@platform/errors/api-error'
import { type ByteRange, readRange } from '@platform/service/byte-range'
import { quotedEtag } from '@platform/service/entity-tag'
import { isRangeCurrent, evaluatePreconditions } from '@platform/service/preconditions'
import type { EdgeDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import { header } from '../../../http/exchange.ts'
import { sendContent } from '../../../http/send-content.ts'
import { requireGivenOnce } from '../../../http/validate.ts'
import type { ServedBy } from '../../observe/request-logs/table.ts'
import { secondsLeft } from '../../storage/objects/access-url.ts'
import type { StoredObject } from '../../storage/objects/commit-object.ts'
import { headersOf, headerValue } from '../../storage/objects/object-headers.ts'
import { openObject } from '../../storage/objects/read-object.ts'
import { findObject } from './find-object.ts'
import type { Delivered } from './log-delivery.ts'
import type { ObjectTarget } from './targets.ts'

/** 416: the range lies outside the object. */
class RangeNotSatisfiable extends ApiError {
  constructor(length: number) {
    super(416, 'The range does not touch the object', { headers: { 'content-range': `bytes */${length}` } })
  }
}
/** 405: objects are read-only here. */
class MethodNotAllowed extends ApiError {
  constructor() {
    super(405, 'Objects are read with GET and HEAD', { headers: { allow: 'GET, HEAD, OPTIONS' } })
  }
}

/** Content-Disposition for a download under a name: in ASCII for old clients, and in UTF-8 (RFC 6266, RFC 8187). */
function downloadAs(name: string): string {
  const plain = name.replaceAll(/[^\x20-\x7e]/g, '_').replaceAll(/["\\]/g, '_')
  const encoded = encodeURIComponent(name.toWellFormed()).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}

/** Headers of a response with the object, 304 included. privateForSeconds: until the signed URL expires. */
function describe(
  object: StoredObject,
  target: ObjectTarget,
  privateForSeconds: number | undefined,
): Record<string, string> {
  const headers = headersOf(object)
  headers.etag = quotedEtag(object.etag)
  headers['last-modified'] = object.uploadedAt.toUTCString()
  headers['accept-ranges'] = 'bytes'
  if (target.isSandboxed) headers['content-security-policy'] = 'sandbox'
  // Only the reader may cache the response to a signed URL, and no longer than the URL is valid.
  if (privateForSeconds !== undefined) headers['cache-control'] = `private, max-age=${Math.floor(privateForSeconds)}`
  else headers['cache-control'] ??= 'public, no-cache'
  const download = target.query.get('download')
  if (download !== null)
    headers['content-disposition'] = headerValue(downloadAs(download || (object.key.split('/').at(-1) ?? '')))
  return headers
}

/**
 * Answers a GET or HEAD of an object: a public one for anybody, a private one for the holder of a signed URL. The URL is checked
 * against the row each time, so an object in the trash is never delivered (D40, storage.md Delivery).
 *
 * onFound: called with the bucket's owner as soon as it is known. Throws NotFound, ValidationFailed, Forbidden, PreconditionFailed,
 * MethodNotAllowed, RangeNotSatisfiable, BadGateway.
 */
export async function deliverObject(
  { deps, incoming, outgoing }: RawExchange<EdgeDeps>,
  target: ObjectTarget,
  onFound: (delivered: Delivered) => void,
): Promise<void> {
  const [row] = await findObject(deps.db).execute({ slug: target.slug, key: target.key })
  if (!row) throw new NotFound('Bucket')
  const { bucket, object, first } = row
  const storageBucket = { id: bucket.id, name: bucket.name, slug: bucket.slug }
  const servedBy: ServedBy = object
    ? { storageBucket, storageObject: { id: object.id, key: object.key, contentType: object.contentType } }
    : { storageBucket }
  onFound({ applicationId: bucket.applicationId, servedBy })
  if (incoming.method !== 'GET' && incoming.method !== 'HEAD') throw new MethodNotAllowed()

  requireGivenOnce(['access', 'download'], (name) => target.query.getAll(name))
  let privateForSeconds: number | undefined
  if (bucket.visibility === 'private') {
    const access = target.query.get('access')
    privateForSeconds = object && access !== null ? secondsLeft(deps, object, access) : undefined
    // A missing object gives the same answer: without authorization nothing can be learned.
    if (privateForSeconds === undefined) throw new Forbidden('The URL is not signed, or its time is over')
  }
  if (!object) throw new NotFound('Object')

  const headers = describe(object, target, privateForSeconds)
  const verdict = evaluatePreconditions(
    {
      ifMatch: header(incoming, 'if-match'),
      ifNoneMatch: header(incoming, 'if-none-match'),
      ifModifiedSince: header(incoming, 'if-modified-since'),
      ifUnmodifiedSince: header(incoming, 'if-unmodified-since'),
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
  const part = isRangeCurrent(header(incoming, 'if-range'), object)
    ? readRange(header(incoming, 'range'), contentLength)
    : undefined
  if (part === 'unsatisfiable') throw new RangeNotSatisfiable(contentLength)
  const range: ByteRange = part ?? { start: 0, end: contentLength - 1 }
  headers['content-length'] = String(range.end - range.start + 1)
  if (part) headers['content-range'] = `bytes ${range.start}-${range.end}/${contentLength}`
  const head = { status: part ? 206 : 200, headers }
  if (incoming.method === 'HEAD') outgoing.writeHead(head.status, headers).end()
  else await sendContent(outgoing, head, openObject(deps, object, first, { range, chunks: 'borrowed' }))
}
