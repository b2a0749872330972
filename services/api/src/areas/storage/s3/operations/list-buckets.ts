import { readCount } from '@platform/s3-protocol/wire/list-parameters'
import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import { listBuckets } from '../../objects/buckets.ts'
import { writeBucketName } from '../bucket-name.ts'
import { ownerOf } from '../owner.ts'
import { type KeyCall, type S3Reply, xmlReply } from '../s3-call.ts'

const BUCKETS_MAX = 10_000

/** ListBuckets: the buckets of all environments, for a Function those of its own (D9), paginated if `max-buckets` is given. */
export async function listAllBuckets({ deps, caller, target: { query } }: KeyCall): Promise<S3Reply> {
  const prefix = query.get('prefix') ?? ''
  const after = Buffer.from(query.get('continuation-token') ?? '', 'base64url').toString()
  const count = readCount(query.get('max-buckets'), 'max-buckets', BUCKETS_MAX)
  const all = (
    await listBuckets(deps, caller.applicationId, caller.kind === 'function' ? caller.environmentId : undefined)
  )
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
