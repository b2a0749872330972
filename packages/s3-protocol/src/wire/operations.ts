import type { RawTarget } from './raw-target.ts'
import { s3Failure } from './s3-failure.ts'

type Level = 'service' | 'bucket' | 'object'

/** How an operation is recognized: method, level, and a parameter or header that must be present. */
interface Rule {
  method: string
  level: Level
  /** A query parameter; `?uploads` and `?uploads=` are alike. */
  marker?: string
  /** A second one. */
  and?: string
  header?: string
}

const rule = (on: string, more: Omit<Rule, 'method' | 'level'> = {}): Rule => {
  const [method, level] = on.split(' ') as [string, Level]
  return { method, level, ...more }
}

/** The operations that are implemented, and how each is recognized. The first rule that matches wins. */
const operations = {
  ListBuckets: rule('GET service'),

  CreateBucket: rule('PUT bucket'),
  HeadBucket: rule('HEAD bucket'),
  DeleteBucket: rule('DELETE bucket'),
  GetBucketLocation: rule('GET bucket', { marker: 'location' }),
  GetBucketVersioning: rule('GET bucket', { marker: 'versioning' }),
  GetBucketAcl: rule('GET bucket', { marker: 'acl' }),
  ListMultipartUploads: rule('GET bucket', { marker: 'uploads' }),
  ListObjectsV2: rule('GET bucket', { marker: 'list-type' }),
  ListObjects: rule('GET bucket'),
  DeleteObjects: rule('POST bucket', { marker: 'delete' }),
  PostObject: rule('POST bucket'),

  GetObjectAcl: rule('GET object', { marker: 'acl' }),
  GetObjectAttributes: rule('GET object', { marker: 'attributes' }),
  GetObjectTagging: rule('GET object', { marker: 'tagging' }),
  ListParts: rule('GET object', { marker: 'uploadId' }),
  GetObject: rule('GET object'),
  HeadObject: rule('HEAD object'),
  PutObjectTagging: rule('PUT object', { marker: 'tagging' }),
  UploadPartCopy: rule('PUT object', { marker: 'partNumber', and: 'uploadId', header: 'x-amz-copy-source' }),
  UploadPart: rule('PUT object', { marker: 'partNumber', and: 'uploadId' }),
  CopyObject: rule('PUT object', { header: 'x-amz-copy-source' }),
  PutObject: rule('PUT object'),
  CreateMultipartUpload: rule('POST object', { marker: 'uploads' }),
  CompleteMultipartUpload: rule('POST object', { marker: 'uploadId' }),
  AbortMultipartUpload: rule('DELETE object', { marker: 'uploadId' }),
  DeleteObjectTagging: rule('DELETE object', { marker: 'tagging' }),
  DeleteObject: rule('DELETE object'),
} satisfies Record<string, Rule>

export type OperationName = keyof typeof operations

/** Operations of S3 that are not implemented, by their query parameter: refused by name, never answered as another operation. */
const absent: ReadonlyMap<string, string> = new Map(
  Object.entries({
    accelerate: 'BucketAccelerateConfiguration',
    accelerateConfiguration: 'BucketAccelerateConfiguration',
    acl: 'Acl',
    analytics: 'BucketAnalyticsConfiguration',
    cors: 'BucketCors',
    encryption: 'BucketEncryption',
    'intelligent-tiering': 'BucketIntelligentTieringConfiguration',
    inventory: 'BucketInventoryConfiguration',
    'legal-hold': 'ObjectLegalHold',
    lifecycle: 'BucketLifecycleConfiguration',
    location: 'BucketLocation',
    logging: 'BucketLogging',
    metadataConfiguration: 'BucketMetadataConfiguration',
    metadataTable: 'BucketMetadataTableConfiguration',
    metrics: 'BucketMetricsConfiguration',
    notification: 'BucketNotificationConfiguration',
    'object-lock': 'ObjectLockConfiguration',
    ownershipControls: 'BucketOwnershipControls',
    policy: 'BucketPolicy',
    policyStatus: 'BucketPolicyStatus',
    publicAccessBlock: 'PublicAccessBlock',
    renameObject: 'RenameObject',
    replication: 'BucketReplication',
    requestPayment: 'BucketRequestPayment',
    restore: 'RestoreObject',
    retention: 'ObjectRetention',
    select: 'SelectObjectContent',
    session: 'CreateSession',
    tagging: 'BucketTagging',
    torrent: 'ObjectTorrent',
    uploads: 'MultipartUploads',
    versioning: 'BucketVersioning',
    versions: 'ObjectVersions',
    website: 'BucketWebsite',
  }),
)

const verbs: Readonly<Record<string, string>> = { GET: 'Get', HEAD: 'Head', PUT: 'Put', POST: 'Post', DELETE: 'Delete' }

/** S3's name of an operation that is not implemented, as near as the request tells. */
function nameOfAbsent(method: string, level: Level, query: ReadonlyMap<string, string>): string | undefined {
  for (const marker of query.keys()) {
    const noun = absent.get(marker)
    if (noun === undefined) continue
    if (marker === 'versions') return 'ListObjectVersions'
    if (marker === 'acl') return `${verbs[method] ?? method}${level === 'object' ? 'Object' : 'Bucket'}Acl`
    if (/^(Create|Restore|Rename|Select)/.test(noun)) return noun
    return `${verbs[method] ?? method}${noun}`
  }
  return undefined
}

const byPlace = new Map<string, { name: OperationName; rule: Rule }[]>()
for (const [name, rule] of Object.entries(operations) as [OperationName, Rule][]) {
  const place = `${rule.method} ${rule.level}`
  byPlace.set(place, [...(byPlace.get(place) ?? []), { name, rule }])
}

const levelOf = ({ bucket, key }: RawTarget): Level =>
  key !== undefined ? 'object' : bucket !== undefined ? 'bucket' : 'service'

/**
 * Reads which operation a request is (S3 API reference). Unknown parameters are ignored; a parameter of an operation that is
 * not implemented is refused.
 *
 * Throws NotImplemented, which names the operation; InvalidArgument for a part with only one of its two parameters.
 */
export function readOperation(method: string, target: RawTarget, headers: ReadonlyMap<string, string>): OperationName {
  const level = levelOf(target)
  const { query } = target
  const found = byPlace
    .get(`${method} ${level}`)
    ?.find(
      ({ rule: { marker, and, header } }) =>
        (marker === undefined || query.has(marker)) &&
        (and === undefined || query.has(and)) &&
        (header === undefined || headers.has(header)),
    )
  // An operation without a marker matches any query, so first see whether the query asks for something else.
  if (found?.rule.marker === undefined) {
    const name = nameOfAbsent(method, level, query)
    if (name !== undefined) throw s3Failure('NotImplemented', `${name} is not implemented`)
  }
  if (!found) throw s3Failure('NotImplemented', `${method} of a ${level} is not implemented`)
  if ((found.name === 'PutObject' || found.name === 'CopyObject') && (query.has('uploadId') || query.has('partNumber')))
    throw s3Failure('InvalidArgument', 'A part needs both uploadId and partNumber')
  return found.name
}
