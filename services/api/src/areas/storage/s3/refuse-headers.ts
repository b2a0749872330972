import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import type { Bucket } from '../objects/buckets.ts'

/** Headers of unimplemented features; a client that gets a 200 would rely on them. */
const ABSENT = [
  'x-amz-server-side-encryption',
  'x-amz-copy-source-server-side-encryption',
  'x-amz-object-lock-',
  'x-amz-website-redirect-location',
  'x-amz-write-offset-bytes',
  'x-amz-if-match-',
]

/**
 * Refuses a write with headers of unimplemented features (S3 API common request headers). Accepts ACLs that change nothing: a
 * private object, and a public one in a public bucket.
 *
 * Throws NotImplemented, InvalidStorageClass, AccessControlListNotSupported.
 */
export function refuseHeaders(headers: ReadonlyMap<string, string>, visibility: Bucket['visibility']): void {
  for (const [name, value] of headers) {
    if (!name.startsWith('x-amz-')) continue
    if (ABSENT.some((prefix) => name.startsWith(prefix)))
      throw s3Failure('NotImplemented', `The header ${name} asks for something that is not implemented`)
    if (name === 'x-amz-storage-class' && value !== 'STANDARD') throw s3Failure('InvalidStorageClass')
    if (name.startsWith('x-amz-grant-')) throw s3Failure('AccessControlListNotSupported')
    if (name === 'x-amz-acl' && !isAsItIs(value, visibility)) throw s3Failure('AccessControlListNotSupported')
  }
}

const isAsItIs = (acl: string, visibility: Bucket['visibility']): boolean =>
  acl === 'bucket-owner-full-control' ||
  acl === 'bucket-owner-read' ||
  acl === (visibility === 'public' ? 'public-read' : 'private') ||
  // rclone sends it with every write, to public buckets too; the object stays as public as its bucket.
  acl === 'private'
