import { Conflict, NotFound } from '@platform/errors/api-error'
import { readCount } from '@platform/s3-protocol/wire/list-parameters'
import { readXml } from '@platform/s3-protocol/wire/read-xml'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import { and, eq } from 'drizzle-orm'
import { environments } from '../../applications/table.ts'
import { createBucket, deleteBucket, findBucket, listBuckets } from '../../storage/buckets.ts'
import type { Visibility } from '../../storage/table.ts'
import { readBucketName, writeBucketName } from '../bucket-name.ts'
import { bucketPath } from '../object-location.ts'
import { readSmallBody } from '../read-small-body.ts'
import { type BucketCall, type KeyCall, type S3Reply, xmlReply } from '../s3-call.ts'
import { ownerOf } from './get-acl.ts'

/** The region that S3 writes as no place at all. */
const REGION_UNWRITTEN = 'us-east-1'
const BUCKETS_MAX = 10_000
const CONFIGURATION_BYTES_MAX = 64 * 1_024

/** ListBuckets: of all environments, in pages where one asks for them. */
export async function listAllBuckets({ deps, caller, target: { query } }: KeyCall): Promise<S3Reply> {
  const prefix = query.get('prefix') ?? ''
  const after = Buffer.from(query.get('continuation-token') ?? '', 'base64url').toString()
  const count = readCount(query.get('max-buckets'), 'max-buckets', BUCKETS_MAX)
  const all = (await listBuckets(deps, caller.applicationId))
    .map((bucket) => ({ Name: writeBucketName(bucket), CreationDate: bucket.createdAt, BucketRegion: deps.s3Region }))
    .filter(({ Name }) => Name.startsWith(prefix) && Name > after)
    .toSorted((a, b) => (a.Name < b.Name ? -1 : 1))
  const page = all.slice(0, count)
  const last = page.at(-1)
  return xmlReply(
    writeXml('ListAllMyBucketsResult', {
      Buckets: { Bucket: page },
      Owner: ownerOf(caller),
      ...(prefix !== '' && { Prefix: prefix }),
      ...(all.length > page.length && last && { ContinuationToken: Buffer.from(last.Name).toString('base64url') }),
    }),
  )
}

/** Which visibility an ACL asks for. Throws AccessControlListNotSupported for what is neither. */
function visibilityOf(acl: string | undefined): Visibility {
  if (acl === 'public-read') return 'public'
  if (acl === undefined || acl === 'private') return 'private'
  throw s3Failure('AccessControlListNotSupported')
}

/**
 * CreateBucket. Any place will do. What a bucket here cannot do is refused, not forgotten.
 * Throws BucketAlreadyOwnedByYou, InvalidBucketName.
 */
export async function createOneBucket(call: KeyCall): Promise<S3Reply> {
  const { deps, caller, headers, target } = call
  const { environment: slug, name } = readBucketName(target.bucket ?? '')
  if (headers.get('x-amz-bucket-object-lock-enabled')?.toLowerCase() === 'true')
    throw s3Failure('NotImplemented', 'Object Lock is not implemented')
  if ([...headers.keys()].some((header) => header.startsWith('x-amz-grant-')))
    throw s3Failure('AccessControlListNotSupported')
  const visibility = visibilityOf(headers.get('x-amz-acl'))
  if ((headers.get('content-length') ?? '0') !== '0' || headers.has('transfer-encoding')) {
    const body = await readSmallBody(call, CONFIGURATION_BYTES_MAX)
    if (body.length > 0) readXml(body, 'CreateBucketConfiguration', 100)
  }
  const [environment] = await deps.db
    .select()
    .from(environments)
    .where(and(eq(environments.applicationId, caller.applicationId), eq(environments.slug, slug)))
  if (!environment) throw s3Failure('AccessDenied')
  try {
    await createBucket(deps, { id: caller.applicationId }, environment, { name, visibility })
  } catch (error) {
    if (!(error instanceof Conflict)) throw error
    const isOurs = await findBucket(deps, caller.applicationId, slug, name)
    throw s3Failure(isOurs ? 'BucketAlreadyOwnedByYou' : 'BucketAlreadyExists')
  }
  return { status: 200, headers: { location: bucketPath(target.addressing, target.bucket ?? '') || '/' } }
}

/** HeadBucket: it is there, and in reach. */
export const headBucket = async ({ deps }: BucketCall): Promise<S3Reply> => ({
  status: 200,
  headers: { 'x-amz-bucket-region': deps.s3Region },
})

/** DeleteBucket: with its trash, but never with live objects (D36). Throws BucketNotEmpty, NoSuchBucket. */
export async function deleteOneBucket({ deps, bucket }: BucketCall): Promise<S3Reply> {
  try {
    await deleteBucket(deps, bucket)
  } catch (error) {
    if (error instanceof Conflict) throw s3Failure('BucketNotEmpty')
    throw error instanceof NotFound ? s3Failure('NoSuchBucket') : error
  }
  return { status: 204 }
}

/** GetBucketLocation. */
export const getBucketLocation = async ({ deps }: BucketCall): Promise<S3Reply> =>
  xmlReply(writeXml('LocationConstraint', deps.s3Region === REGION_UNWRITTEN ? '' : deps.s3Region))

/** GetBucketVersioning: never was, and that is how S3 says so. */
export const getBucketVersioning = async (): Promise<S3Reply> => xmlReply(writeXml('VersioningConfiguration', {}))
