import type { ApiScope } from '@platform/auth/scopes'
import type { RawTarget } from './raw-target.ts'
import { s3Failure } from './s3-failure.ts'

const READ = 'network:storage:read'
const WRITE = 'network:storage:write'
const DELETE = 'network:storage:delete'

type Level = 'service' | 'bucket' | 'object'

/** What an operation is told apart by: method, level, and what the query or a header must hold. */
interface Rule {
  method: string
  level: Level
  /** A parameter that makes the request this operation; `?uploads` and `?uploads=` alike. */
  marker?: string
  /** A second one. */
  and?: string
  header?: string
}

const rule = (on: string, more: Omit<Rule, 'method' | 'level'> = {}): Rule => {
  const [method, level] = on.split(' ') as [string, Level]
  return { method, level, ...more }
}

/**
 * The operations of /s3: what each is told apart by and the scope that it needs (wire.md Scopes, D70). Whoever holds no
 * scope for `anyone` may still read a public bucket.
 */
export const operations = {
  ListBuckets: { rule: rule('GET service'), scope: READ },

  CreateBucket: { rule: rule('PUT bucket'), scope: WRITE },
  HeadBucket: { rule: rule('HEAD bucket'), scope: READ },
  DeleteBucket: { rule: rule('DELETE bucket'), scope: DELETE },
  GetBucketLocation: { rule: rule('GET bucket', { marker: 'location' }), scope: READ },
  GetBucketVersioning: { rule: rule('GET bucket', { marker: 'versioning' }), scope: READ },
  GetBucketAcl: { rule: rule('GET bucket', { marker: 'acl' }), scope: READ },
  ListMultipartUploads: { rule: rule('GET bucket', { marker: 'uploads' }), scope: READ },
  ListObjectsV2: { rule: rule('GET bucket', { marker: 'list-type' }), scope: READ },
  ListObjects: { rule: rule('GET bucket'), scope: READ },
  DeleteObjects: { rule: rule('POST bucket', { marker: 'delete' }), scope: DELETE },
  PostObject: { rule: rule('POST bucket'), scope: WRITE },

  GetObjectAcl: { rule: rule('GET object', { marker: 'acl' }), scope: READ },
  GetObjectAttributes: { rule: rule('GET object', { marker: 'attributes' }), scope: READ },
  GetObjectTagging: { rule: rule('GET object', { marker: 'tagging' }), scope: READ },
  ListParts: { rule: rule('GET object', { marker: 'uploadId' }), scope: READ },
  GetObject: { rule: rule('GET object'), scope: READ },
  HeadObject: { rule: rule('HEAD object'), scope: READ },
  PutObjectTagging: { rule: rule('PUT object', { marker: 'tagging' }), scope: WRITE },
  UploadPartCopy: {
    rule: rule('PUT object', { marker: 'partNumber', and: 'uploadId', header: 'x-amz-copy-source' }),
    scope: WRITE,
  },
  UploadPart: { rule: rule('PUT object', { marker: 'partNumber', and: 'uploadId' }), scope: WRITE },
  CopyObject: { rule: rule('PUT object', { header: 'x-amz-copy-source' }), scope: WRITE },
  PutObject: { rule: rule('PUT object'), scope: WRITE },
  CreateMultipartUpload: { rule: rule('POST object', { marker: 'uploads' }), scope: WRITE },
  CompleteMultipartUpload: { rule: rule('POST object', { marker: 'uploadId' }), scope: WRITE },
  AbortMultipartUpload: { rule: rule('DELETE object', { marker: 'uploadId' }), scope: WRITE },
  DeleteObjectTagging: { rule: rule('DELETE object', { marker: 'tagging' }), scope: WRITE },
  DeleteObject: { rule: rule('DELETE object'), scope: DELETE },
} as const satisfies Record<string, { rule: Rule; scope: ApiScope }>

export type OperationName = keyof typeof operations

/** True for what adds or changes something, as opposed to reading and removing. */
export const writes = (name: OperationName): boolean =>
  operations[name].scope === WRITE && name !== 'AbortMultipartUpload'

/** What S3 has and this API has not, by the parameter that asks for it: refused by name, never answered as another. */
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

/** S3's name of what is not there, as near as the request tells. */
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
for (const [name, { rule }] of Object.entries(operations) as [OperationName, { rule: Rule }][]) {
  const place = `${rule.method} ${rule.level}`
  byPlace.set(place, [...(byPlace.get(place) ?? []), { name, rule }])
}

const levelOf = ({ bucket, key }: RawTarget): Level =>
  key !== undefined ? 'object' : bucket !== undefined ? 'bucket' : 'service'

/**
 * Which operation a request is (S3 API reference). Parameters that mean nothing here are ignored; one that makes the
 * request an operation that is not there is refused.
 *
 * Throws NotImplemented, which names the operation.
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
  // An operation without a marker is what is left, so first see whether the query asks for something else.
  if (found?.rule.marker === undefined) {
    const name = nameOfAbsent(method, level, query)
    if (name !== undefined) throw s3Failure('NotImplemented', `${name} is not implemented`)
  }
  if (!found) throw s3Failure('NotImplemented', `${method} of a ${level} is not implemented`)
  if ((found.name === 'PutObject' || found.name === 'CopyObject') && (query.has('uploadId') || query.has('partNumber')))
    throw s3Failure('InvalidArgument', 'A part needs both uploadId and partNumber')
  return found.name
}
