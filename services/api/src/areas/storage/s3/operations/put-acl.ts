import { ALL_USERS, type Grant, readAclDocument } from '@platform/s3-protocol/wire/read-acl'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { readSmallBody } from '../read-small-body.ts'
import type { NamedBucket } from '../find-access.ts'
import type { BucketCall, S3Reply } from '../s3-call.ts'

const BODY_BYTES_MAX = 64 * 1_024

/** Canned ACLs that match what already holds, by the visibility of the bucket. */
const cannedAcls: Readonly<Record<NamedBucket['visibility'], readonly string[]>> = {
  private: ['private', 'bucket-owner-full-control'],
  public: ['public-read'],
}

/** True if the grants equal those in the answers of GetBucketAcl and GetObjectAcl. */
function areAsTheyAre(grants: readonly Grant[], { applicationId, visibility }: NamedBucket): boolean {
  const texts = grants.map(({ grantee, permission }) =>
    'id' in grantee ? `${grantee.id.toLowerCase()} ${permission}` : `${grantee.uri} ${permission}`,
  )
  const actual = [`${applicationId} FULL_CONTROL`, ...(visibility === 'public' ? [`${ALL_USERS} READ`] : [])]
  return texts.length === actual.length && actual.every((text) => texts.includes(text))
}

/**
 * PutBucketAcl and PutObjectAcl: accepted if nothing would change, since only a bucket's visibility decides who may read it and
 * its objects, and that is set at creation. So `private` is refused for a public bucket, whose objects would stay public.
 *
 * Throws AccessControlListNotSupported, MalformedACLError, MissingSecurityHeader, UnexpectedContent.
 */
export async function putAcl(call: BucketCall): Promise<S3Reply> {
  const { headers, bucket } = call
  const canned = headers.get('x-amz-acl')
  const body = await readSmallBody(call, BODY_BYTES_MAX)
  if ([...headers.keys()].some((name) => name.startsWith('x-amz-grant-')))
    throw s3Failure('AccessControlListNotSupported')
  if (canned !== undefined && body.length > 0) throw s3Failure('UnexpectedContent')
  if (canned === undefined && body.length === 0)
    throw s3Failure('MissingSecurityHeader', 'The request needs x-amz-acl or an access control policy')
  const isAsItIs =
    canned === undefined ? areAsTheyAre(readAclDocument(body), bucket) : cannedAcls[bucket.visibility].includes(canned)
  if (!isAsItIs) throw s3Failure('AccessControlListNotSupported')
  return { status: 200 }
}
