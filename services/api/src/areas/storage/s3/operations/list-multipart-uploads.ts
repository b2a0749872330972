import { isLowerCaseUuid } from '@platform/runtime/is-uuid'
import { readCount, readEncoding } from '@platform/s3-protocol/wire/list-parameters'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import { and, asc, eq, gt, gte, or } from 'drizzle-orm'
import type { StorageDeps } from '../../deps.ts'
import { justAfter, successor, withinPrefix } from '../../objects/key-range.ts'
import { uploads } from '../../objects/table.ts'
import { writeBucketName } from '../bucket-name.ts'
import type { MultipartUpload } from '../multipart-upload.ts'
import { ownerOf } from '../owner.ts'
import { type BucketCall, type S3Reply, xmlReply } from '../s3-call.ts'

const UPLOADS_MAX = 1_000

/** Where a page begins: at a key, or after one of its uploads. */
type Start = { key: string; afterId?: string | undefined }

type Entry = { kind: 'upload'; upload: MultipartUpload } | { kind: 'prefix'; prefix: string }

interface Asked {
  prefix: string
  delimiter: string
  limit: number
}

function findUploads(
  { db, now }: Pick<StorageDeps, 'db' | 'now'>,
  bucketId: string,
  { prefix, limit }: Asked,
  { key, afterId }: Start,
): Promise<MultipartUpload[]> {
  const behind =
    afterId === undefined
      ? gte(uploads.key, key)
      : or(gt(uploads.key, key), and(eq(uploads.key, key), gt(uploads.id, afterId)))
  return db
    .select()
    .from(uploads)
    .where(
      and(
        eq(uploads.bucketId, bucketId),
        eq(uploads.kind, 's3'),
        eq(uploads.state, 'pending'),
        gt(uploads.expiresAt, now()),
        withinPrefix(uploads.key, prefix),
        behind,
      ),
    )
    .orderBy(asc(uploads.key), asc(uploads.id))
    .limit(limit)
}

/** The common prefix under which a key is listed; undefined if it is listed by itself. */
function commonPrefix(key: string, { prefix, delimiter }: Asked): string | undefined {
  const index = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length)
  return index < 0 ? undefined : key.slice(0, index + delimiter.length)
}

/** Uploads and common prefixes in order, up to one more than the limit. After a common prefix it seeks past its keys. */
async function entriesOf(
  deps: Pick<StorageDeps, 'db' | 'now'>,
  bucketId: string,
  listQuery: Asked,
  from: Start,
): Promise<Entry[]> {
  const entries: Entry[] = []
  const wanted = { ...listQuery, limit: listQuery.limit + 1 }
  for (let start: Start | undefined = from; start;) {
    const rows = await findUploads(deps, bucketId, wanted, start)
    let next: Start | undefined
    for (const upload of rows) {
      const prefix = commonPrefix(upload.key, listQuery)
      entries.push(prefix === undefined ? { kind: 'upload', upload } : { kind: 'prefix', prefix })
      if (entries.length > listQuery.limit) return entries
      next = { key: upload.key, afterId: upload.id }
      if (prefix !== undefined) {
        const behind = successor(prefix)
        next = behind === undefined ? undefined : { key: behind }
        break
      }
    }
    start = rows.length > 0 ? next : undefined
  }
  return entries
}

function readStart({ target: { query } }: BucketCall, { prefix, delimiter }: Asked): Start {
  const key = query.get('key-marker') ?? ''
  const id = query.get('upload-id-marker')
  if (key === '') return { key: '' }
  if (id !== undefined && id !== '') {
    if (!isLowerCaseUuid(id)) throw s3Failure('InvalidArgument', 'Invalid uploadId marker')
    return { key, afterId: id }
  }
  const isCommon = delimiter !== '' && key.startsWith(prefix) && key.endsWith(delimiter)
  return { key: (isCommon ? successor(key) : undefined) ?? justAfter(key) }
}

/** ListMultipartUploads: by key, then by start time. Throws InvalidArgument. */
export async function listMultipartUploads(call: BucketCall): Promise<S3Reply> {
  const { deps, bucket, target } = call
  const { query } = target
  const listQuery = {
    prefix: query.get('prefix') ?? '',
    delimiter: query.get('delimiter') ?? '',
    limit: readCount(query.get('max-uploads'), 'max-uploads', UPLOADS_MAX),
  }
  const { write, name: encodingType } = readEncoding(query.get('encoding-type'))
  const listed = listQuery.limit === 0 ? [] : await entriesOf(deps, bucket.id, listQuery, readStart(call, listQuery))
  const entries = listed.slice(0, listQuery.limit)
  const last = entries.at(-1)
  const isTruncated = listed.length > entries.length
  const owner = ownerOf(bucket)
  return xmlReply(
    writeXml('ListMultipartUploadsResult', {
      Bucket: writeBucketName(bucket),
      KeyMarker: write(query.get('key-marker') ?? ''),
      UploadIdMarker: query.get('upload-id-marker') ?? '',
      ...(isTruncated &&
        last && {
          NextKeyMarker: write(last.kind === 'prefix' ? last.prefix : last.upload.key),
          NextUploadIdMarker: last.kind === 'prefix' ? '' : last.upload.id,
        }),
      Prefix: write(listQuery.prefix),
      ...(listQuery.delimiter !== '' && { Delimiter: write(listQuery.delimiter) }),
      EncodingType: encodingType,
      MaxUploads: listQuery.limit,
      IsTruncated: isTruncated,
      Upload: entries.flatMap((entry) =>
        entry.kind === 'prefix'
          ? []
          : [
              {
                Key: write(entry.upload.key),
                UploadId: entry.upload.id,
                Initiator: owner,
                Owner: owner,
                StorageClass: 'STANDARD',
                Initiated: entry.upload.createdAt,
                ...(entry.upload.checksumAlgorithm && {
                  ChecksumAlgorithm: entry.upload.checksumAlgorithm,
                  ChecksumType: entry.upload.checksumType ?? undefined,
                }),
              },
            ],
      ),
      CommonPrefixes: entries.flatMap((entry) => (entry.kind === 'prefix' ? [{ Prefix: write(entry.prefix) }] : [])),
    }),
  )
}
