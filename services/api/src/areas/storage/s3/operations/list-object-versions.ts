import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import { writeBucketName } from '../bucket-name.ts'
import { ownerOf } from '../owner.ts'
import { type BucketCall, type S3Reply, xmlReply } from '../s3-call.ts'
import { keyBehind, readListQuery, readPage, textOf, writeEntries } from './list-objects.ts'

/** The version of every object in a bucket that never had versioning (S3 user guide, "How S3 Versioning works"). */
const NULL_VERSION = 'null'

/**
 * ListObjectVersions: each live object is the only version of its key. A page begins after a key or common prefix, by
 * `key-marker`; as keys have no further versions, `version-id-marker` has no effect.
 *
 * Throws InvalidArgument.
 */
export async function listObjectVersions(call: BucketCall): Promise<S3Reply> {
  const { bucket, target } = call
  const listQuery = readListQuery(call)
  const { prefix, delimiter, limit, encoding } = listQuery
  const keyMarker = target.query.get('key-marker') ?? ''
  const versionMarker = target.query.get('version-id-marker') ?? ''
  if (versionMarker !== '' && keyMarker === '')
    throw s3Failure('InvalidArgument', 'A version-id marker cannot be specified without a key marker.')
  if (versionMarker !== '' && versionMarker !== NULL_VERSION)
    throw s3Failure('InvalidArgument', 'Invalid version id specified')
  const { entries, next } = await readPage(call, listQuery, keyBehind(keyMarker, listQuery))
  const last = entries.at(-1)
  const { Contents, CommonPrefixes } = writeEntries(entries, listQuery, ownerOf(bucket))
  return xmlReply(
    writeXml('ListVersionsResult', {
      Name: writeBucketName(bucket),
      Prefix: encoding.write(prefix),
      KeyMarker: encoding.write(keyMarker),
      VersionIdMarker: versionMarker,
      ...(next !== null &&
        last && {
          NextKeyMarker: encoding.write(textOf(last)),
          ...(last.kind === 'object' && { NextVersionIdMarker: NULL_VERSION }),
        }),
      MaxKeys: limit,
      ...(delimiter !== '' && { Delimiter: encoding.write(delimiter) }),
      EncodingType: encoding.name,
      IsTruncated: next !== null,
      Version: Contents.map((object) => ({ ...object, VersionId: NULL_VERSION, IsLatest: true })),
      CommonPrefixes,
    }),
  )
}
