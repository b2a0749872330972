import { z } from '@hono/zod-openapi'
import { BadRequest } from '@platform/errors/api-error'
import { type KeyEncoding, readCount, readEncoding } from '@platform/s3-protocol/wire/list-parameters'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml, type XmlElements } from '@platform/s3-protocol/wire/write-xml'
import { quotedEtag } from '@platform/service/entity-tag'
import { readCursor, writeCursor } from '../../../../http/pages.ts'
import { justAfter, successor } from '../../objects/key-range.ts'
import { type KeysEntry, keysPage } from '../../objects/list-objects.ts'
import { writeBucketName } from '../bucket-name.ts'
import { ownerOf } from '../owner.ts'
import { type BucketCall, type S3Reply, xmlReply } from '../s3-call.ts'

const KEYS_MAX = 1_000

/** Parameters that all lists of objects share. */
export interface ListQuery {
  prefix: string
  delimiter: string
  limit: number
  encoding: KeyEncoding
}

/** Throws InvalidArgument. */
export function readListQuery({ target: { query } }: BucketCall): ListQuery {
  return {
    prefix: query.get('prefix') ?? '',
    delimiter: query.get('delimiter') ?? '',
    limit: readCount(query.get('max-keys'), 'max-keys', KEYS_MAX),
    encoding: readEncoding(query.get('encoding-type')),
  }
}

/** The first possible key after a marker; after a common prefix, the first key without that prefix; null if there is none. */
export function keyBehind(marker: string, { prefix, delimiter }: ListQuery): string | null {
  if (marker === '') return ''
  const isCommon = delimiter !== '' && marker.startsWith(prefix) && marker.endsWith(delimiter) && marker !== prefix
  return isCommon ? (successor(marker) ?? null) : justAfter(marker)
}

export interface Page {
  entries: KeysEntry[]
  next: string | null
}

/** from: null for a position after all possible keys. */
export async function readPage({ deps, bucket }: BucketCall, listQuery: ListQuery, from: string | null): Promise<Page> {
  const { prefix, delimiter, limit } = listQuery
  if (limit === 0 || from === null) return { entries: [], next: null }
  return keysPage(deps, bucket.id, { prefix, delimiter, from, limit })
}

/** The elements of a page. owner: undefined to leave it out. */
export function writeEntries(entries: readonly KeysEntry[], { encoding }: ListQuery, owner: XmlElements | undefined) {
  const Contents: XmlElements[] = []
  const CommonPrefixes: XmlElements[] = []
  for (const entry of entries) {
    if (entry.kind === 'prefix') CommonPrefixes.push({ Prefix: encoding.write(entry.prefix) })
    else {
      const { key, uploadedAt, etag, contentLength, checksum } = entry.object
      Contents.push({
        Key: encoding.write(key),
        LastModified: uploadedAt,
        ETag: quotedEtag(etag),
        ...(checksum && { ChecksumAlgorithm: checksum.algorithm, ChecksumType: checksum.type }),
        Size: contentLength,
        Owner: owner,
        StorageClass: 'STANDARD',
      })
    }
  }
  return { Contents, CommonPrefixes }
}

/** The key, or the common prefix. */
export const textOf = (entry: KeysEntry): string => (entry.kind === 'prefix' ? entry.prefix : entry.object.key)

const Position = z.object({ from: z.string() })

/**
 * ListObjectsV2. The continuation token is sealed, bound to this list, and stays valid when its key is deleted (D33).
 * Throws InvalidArgument.
 */
export async function listObjectsV2(call: BucketCall): Promise<S3Reply> {
  const { deps, bucket, target } = call
  const { query } = target
  if (query.get('list-type') !== '2') throw s3Failure('InvalidArgument', 'list-type must be 2')
  const listQuery = readListQuery(call)
  const { prefix, delimiter, limit, encoding } = listQuery
  const token = query.get('continuation-token')
  const startAfter = query.get('start-after')
  const of = { operation: 'ListObjectsV2', ownerId: bucket.id, filters: { prefix, delimiter } }
  const from =
    token === undefined || token === ''
      ? keyBehind(startAfter ?? '', listQuery)
      : readToken(() => readCursor(deps.sealer, of, Position, token))
  const { entries, next } = await readPage(call, listQuery, from)
  const owner = query.get('fetch-owner') === 'true' ? ownerOf(bucket) : undefined
  return xmlReply(
    writeXml('ListBucketResult', {
      Name: writeBucketName(bucket),
      Prefix: encoding.write(prefix),
      ...(delimiter !== '' && { Delimiter: encoding.write(delimiter) }),
      MaxKeys: limit,
      EncodingType: encoding.name,
      KeyCount: entries.length,
      IsTruncated: next !== null,
      ContinuationToken: token,
      ...(next !== null && { NextContinuationToken: writeCursor(deps.sealer, of, { from: next }) }),
      ...(startAfter !== undefined && { StartAfter: encoding.write(startAfter) }),
      ...writeEntries(entries, listQuery, owner),
    }),
  )
}

function readToken(read: () => { from: string }): string {
  try {
    return read().from
  } catch (error) {
    if (error instanceof BadRequest) throw s3Failure('InvalidArgument', 'The continuation token provided is incorrect')
    throw error
  }
}

/** ListObjects, which rclone and s3cmd still use: a page begins after a marker, the last key or common prefix. */
export async function listObjects(call: BucketCall): Promise<S3Reply> {
  const { bucket, target } = call
  const listQuery = readListQuery(call)
  const { prefix, delimiter, limit, encoding } = listQuery
  const marker = target.query.get('marker') ?? ''
  const { entries, next } = await readPage(call, listQuery, keyBehind(marker, listQuery))
  const last = entries.at(-1)
  return xmlReply(
    writeXml('ListBucketResult', {
      Name: writeBucketName(bucket),
      Prefix: encoding.write(prefix),
      Marker: encoding.write(marker),
      ...(next !== null && last && { NextMarker: encoding.write(textOf(last)) }),
      MaxKeys: limit,
      ...(delimiter !== '' && { Delimiter: encoding.write(delimiter) }),
      EncodingType: encoding.name,
      IsTruncated: next !== null,
      ...writeEntries(entries, listQuery, ownerOf(bucket)),
    }),
  )
}
