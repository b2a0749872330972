import { Conflict } from '@platform/errors/api-error'
import { readXml } from '@platform/s3-protocol/wire/read-xml'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { and, eq } from 'drizzle-orm'
import { environments } from '../../../tenancy/applications/table.ts'
import { createBucket, findBucket } from '../../objects/buckets.ts'
import type { Visibility } from '../../objects/table.ts'
import { readBucketName } from '../bucket-name.ts'
import { bucketPath } from '../object-location.ts'
import { readSmallBody } from '../read-small-body.ts'
import type { KeyCall, S3Reply } from '../s3-call.ts'

/** The only region in which S3 lets owners create a bucket again that they already have (API CreateBucket). */
const REGION_OF_REPEATS = 'us-east-1'
const CONFIGURATION_BYTES_MAX = 64 * 1_024
const ELEMENTS_MAX = 200

/** The visibility that a canned ACL requests. Throws AccessControlListNotSupported for any other ACL. */
function visibilityOf(acl: string | undefined): Visibility {
  if (acl === 'public-read') return 'public'
  if (acl === undefined || acl === 'private') return 'private'
  throw s3Failure('AccessControlListNotSupported')
}

/** Throws MalformedXML, and NotImplemented for anything other than a region. */
function checkConfiguration(body: Buffer): void {
  const { children } = readXml(body, 'CreateBucketConfiguration', ELEMENTS_MAX)
  const more = children.find(({ name }) => name !== 'LocationConstraint')
  if (more) throw s3Failure('NotImplemented', `${more.name.slice(0, 100)} of a new bucket is not implemented`)
}

/**
 * CreateBucket. Accepts any location constraint; refuses features that buckets here lack rather than ignoring them. In us-east-1
 * it may be repeated, unless that would change the bucket.
 *
 * Throws BucketAlreadyOwnedByYou, BucketAlreadyExists, InvalidBucketName, NotImplemented, AccessControlListNotSupported.
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
    if (body.length > 0) checkConfiguration(body)
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
    const existing = await findBucket(deps, caller.applicationId, slug, name)
    if (!existing) throw s3Failure('BucketAlreadyExists')
    const isAsAsked = !headers.has('x-amz-acl') || existing.visibility === visibility
    if (deps.s3Region !== REGION_OF_REPEATS || !isAsAsked) throw s3Failure('BucketAlreadyOwnedByYou')
  }
  return { status: 200, headers: { location: bucketPath(target.addressing, target.bucket ?? '') || '/' } }
}
