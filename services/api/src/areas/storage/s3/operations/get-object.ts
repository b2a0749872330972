import { checksumHeader } from '@platform/s3-protocol/body/checksum'
import { isNotModified } from '@platform/s3-protocol/wire/check-conditions'
import { readPartNumber } from '@platform/s3-protocol/wire/part-number'
import { requireRange } from '@platform/s3-protocol/wire/range'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import type { ByteRange } from '@platform/service/byte-range'
import { quotedEtag } from '@platform/service/entity-tag'
import { isRangeCurrent } from '@platform/service/preconditions'
import { and, asc, eq, isNotNull, sql } from 'drizzle-orm'
import type { StorageDeps } from '../../deps.ts'
import { headerValue } from '../../objects/object-headers.ts'
import { openObject } from '../../objects/read-object.ts'
import { objectBlobs } from '../../objects/table.ts'
import type { NamedObject } from '../find-access.ts'
import { writeDescription } from '../object-description.ts'
import type { ObjectCall, S3Reply } from '../s3-call.ts'

/** Response headers that a signed request may override, by parameter (S3 API GetObject). */
const overrides = {
  'response-cache-control': 'cache-control',
  'response-content-disposition': 'content-disposition',
  'response-content-encoding': 'content-encoding',
  'response-content-language': 'content-language',
  'response-content-type': 'content-type',
  'response-expires': 'expires',
} as const

/** Throws InvalidRequest for an anonymous request, InvalidArgument for a control character. */
function readOverrides({ caller, target }: ObjectCall): Record<string, string> {
  const headers: Record<string, string> = {}
  if (target.parameters.length === 0) return headers
  for (const [parameter, header] of Object.entries(overrides)) {
    const value = target.query.get(parameter)
    if (value === undefined) continue
    if (caller.kind === 'anonymous')
      throw s3Failure('InvalidRequest', 'Response headers cannot be chosen in an anonymous request')
    // oxlint-disable-next-line no-control-regex -- characters that would end a header
    if (/[\x00-\x1f\x7f]/.test(value)) throw s3Failure('InvalidArgument', `${parameter} holds a control character`)
    headers[header] = headerValue(value)
  }
  return headers
}

/** The bytes of an object that a request selects. */
interface Selection {
  /** undefined: all of it. */
  range: ByteRange | undefined
  /** Set if the request reads a part of a multipart upload. */
  part?: { count: number; checksum: string | null }
}

/**
 * Finds the range of a part, the number of parts, and the part's checksum, by the object's algorithm. An object that was not
 * uploaded in parts is its own part 1. Throws InvalidPartNumber.
 */
async function findPart(
  { db }: Pick<StorageDeps, 'db'>,
  { id, contentLength }: NamedObject,
  partNumber: number,
): Promise<Selection> {
  const parts = await db
    .select({
      part: objectBlobs.part,
      length: sql<number>`sum(${objectBlobs.length})`.mapWith(Number),
      checksum: sql<string | null>`min(${objectBlobs.partChecksum})`,
    })
    .from(objectBlobs)
    .where(and(eq(objectBlobs.objectId, id), isNotNull(objectBlobs.part)))
    .groupBy(objectBlobs.part)
    .orderBy(asc(objectBlobs.part))
  const rangeOf = (start: number, length: number): ByteRange | undefined =>
    contentLength === 0 ? undefined : { start, end: start + length - 1 }
  if (parts.length === 0 && partNumber === 1) return { range: rangeOf(0, contentLength) }
  let start = 0
  for (const { part, length, checksum } of parts) {
    if (part === partNumber) return { range: rangeOf(start, length), part: { count: parts.length, checksum } }
    start += length
  }
  throw s3Failure('InvalidPartNumber')
}

/**
 * The checksum of the answer's bytes, if the client requests it: that of the object or of one part, with the object's checksum
 * type. A range has none.
 */
function checksumHeaders(
  { headers }: ObjectCall,
  { checksum, contentLength }: NamedObject,
  { range, part }: Selection,
): Record<string, string> {
  if (!checksum || headers.get('x-amz-checksum-mode')?.toUpperCase() !== 'ENABLED') return {}
  const isWhole = range === undefined || range.end - range.start + 1 === contentLength
  const value = part ? part.checksum : isWhole ? checksum.value : null
  return value === null ? {} : { [checksumHeader(checksum.algorithm)]: value, 'x-amz-checksum-type': checksum.type }
}

/** Headers of every answer about the object. */
function describe(object: NamedObject): Record<string, string> {
  const headers = writeDescription(object)
  headers.etag = quotedEtag(object.etag)
  headers['last-modified'] = object.uploadedAt.toUTCString()
  headers['accept-ranges'] = 'bytes'
  // Uploaded content never runs as a page of this origin (D51).
  headers['content-security-policy'] = 'sandbox'
  const tagCount = Object.keys(object.tags).length
  if (tagCount > 0) headers['x-amz-tagging-count'] = String(tagCount)
  return headers
}

/** Reads which bytes are requested: a part, a range, or all. */
async function readAsked({ deps, headers, target }: ObjectCall, object: NamedObject): Promise<Selection> {
  const part = target.query.get('partNumber')
  const rangeHeader = headers.get('range')
  if (part !== undefined) {
    if (rangeHeader !== undefined) throw s3Failure('InvalidRequest', 'Cannot specify both Range header and partNumber')
    return findPart(deps, object, readPartNumber(part))
  }
  const isCurrent = rangeHeader === undefined || isRangeCurrent(headers.get('if-range'), object)
  return { range: isCurrent ? requireRange(rangeHeader, object.contentLength) : undefined }
}

/**
 * GetObject and HeadObject: conditions, ranges, parts, response header overrides (S3 API). A small object's bytes came with its
 * row; others are read while they are sent.
 *
 * Throws PreconditionFailed, InvalidRange, InvalidPartNumber, InvalidRequest, InvalidArgument.
 */
export async function getObject(call: ObjectCall): Promise<S3Reply> {
  const { deps, exchange, found, headers: requestHeaders } = call
  const { object, first } = found
  const chosen = readOverrides(call)
  const headers = describe(object)
  if (isNotModified(requestHeaders, object)) {
    const { etag, 'last-modified': lastModified, 'cache-control': cacheControl } = headers
    return {
      status: 304,
      headers: {
        ...(etag !== undefined && { etag }),
        ...(lastModified !== undefined && { 'last-modified': lastModified }),
        ...(cacheControl !== undefined && { 'cache-control': cacheControl }),
      },
    }
  }
  const selection = await readAsked(call, object)
  const { range, part } = selection
  Object.assign(headers, chosen, checksumHeaders(call, object, selection))
  if (part) headers['x-amz-mp-parts-count'] = String(part.count)
  const { contentLength } = object
  const length = range ? range.end - range.start + 1 : contentLength
  headers['content-length'] = String(length)
  // An empty part has no range.
  if (range && length > 0) headers['content-range'] = `bytes ${range.start}-${range.end}/${contentLength}`
  const status = range ? 206 : 200
  if (exchange.incoming.method === 'HEAD') return { status, headers }
  if (length === 0) return { status, headers, body: Buffer.alloc(0) }
  return { status, headers, body: openObject(deps, object, first, { ...(range && { range }), chunks: 'borrowed' }) }
}
