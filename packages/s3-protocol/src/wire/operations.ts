import type { RawTarget } from './raw-target.ts'
import { s3Failure } from './s3-failure.ts'

type Level = 'service' | 'bucket' | 'object'

/** How to recognize an operation: method, level, and a parameter or header that must be present. */
interface Rule {
  method: string
  level: Level
  /** A query parameter; `?uploads` and `?uploads=` are equivalent. */
  marker?: string
  /** A second one. */
  and?: string
  header?: string
}

const rule = (on: string, more: Omit<Rule, 'method' | 'level'> = {}): Rule => {
  const [method, level] = on.split(' ') as [string, Level]
  return { method, level, ...more }
}

/** The implemented operations, and how to recognize each. Rules with a marker come first; the first match wins. */
const operations = {
  ListBuckets: rule('GET service'),

  CreateBucket: rule('PUT bucket'),
  HeadBucket: rule('HEAD bucket'),
  DeleteBucket: rule('DELETE bucket'),
  GetBucketLocation: rule('GET bucket', { marker: 'location' }),
  GetBucketVersioning: rule('GET bucket', { marker: 'versioning' }),
  GetBucketAcl: rule('GET bucket', { marker: 'acl' }),
  PutBucketAcl: rule('PUT bucket', { marker: 'acl' }),
  GetBucketCors: rule('GET bucket', { marker: 'cors' }),
  PutBucketCors: rule('PUT bucket', { marker: 'cors' }),
  DeleteBucketCors: rule('DELETE bucket', { marker: 'cors' }),
  GetBucketTagging: rule('GET bucket', { marker: 'tagging' }),
  PutBucketTagging: rule('PUT bucket', { marker: 'tagging' }),
  DeleteBucketTagging: rule('DELETE bucket', { marker: 'tagging' }),
  GetBucketAccelerateConfiguration: rule('GET bucket', { marker: 'accelerate' }),
  GetBucketEncryption: rule('GET bucket', { marker: 'encryption' }),
  DeleteBucketEncryption: rule('DELETE bucket', { marker: 'encryption' }),
  GetBucketLifecycleConfiguration: rule('GET bucket', { marker: 'lifecycle' }),
  DeleteBucketLifecycle: rule('DELETE bucket', { marker: 'lifecycle' }),
  GetBucketLogging: rule('GET bucket', { marker: 'logging' }),
  GetBucketNotificationConfiguration: rule('GET bucket', { marker: 'notification' }),
  GetBucketOwnershipControls: rule('GET bucket', { marker: 'ownershipControls' }),
  GetBucketPolicy: rule('GET bucket', { marker: 'policy' }),
  DeleteBucketPolicy: rule('DELETE bucket', { marker: 'policy' }),
  GetBucketPolicyStatus: rule('GET bucket', { marker: 'policyStatus' }),
  GetBucketReplication: rule('GET bucket', { marker: 'replication' }),
  DeleteBucketReplication: rule('DELETE bucket', { marker: 'replication' }),
  GetBucketRequestPayment: rule('GET bucket', { marker: 'requestPayment' }),
  GetBucketWebsite: rule('GET bucket', { marker: 'website' }),
  DeleteBucketWebsite: rule('DELETE bucket', { marker: 'website' }),
  GetObjectLockConfiguration: rule('GET bucket', { marker: 'object-lock' }),
  GetPublicAccessBlock: rule('GET bucket', { marker: 'publicAccessBlock' }),
  DeletePublicAccessBlock: rule('DELETE bucket', { marker: 'publicAccessBlock' }),
  ListObjectVersions: rule('GET bucket', { marker: 'versions' }),
  ListMultipartUploads: rule('GET bucket', { marker: 'uploads' }),
  ListObjectsV2: rule('GET bucket', { marker: 'list-type' }),
  ListObjects: rule('GET bucket'),
  DeleteObjects: rule('POST bucket', { marker: 'delete' }),
  PostObject: rule('POST bucket'),

  GetObjectAcl: rule('GET object', { marker: 'acl' }),
  PutObjectAcl: rule('PUT object', { marker: 'acl' }),
  GetObjectAttributes: rule('GET object', { marker: 'attributes' }),
  GetObjectLegalHold: rule('GET object', { marker: 'legal-hold' }),
  GetObjectRetention: rule('GET object', { marker: 'retention' }),
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

/** S3 operations that are not implemented; they are rejected by name. `operations.test.ts` compares both lists with an SDK. */
const absentOperations: Readonly<Record<string, Rule>> = {
  PutBucketAbac: rule('PUT bucket', { marker: 'abac' }),
  GetBucketAbac: rule('GET bucket', { marker: 'abac' }),
  PutBucketAccelerateConfiguration: rule('PUT bucket', { marker: 'accelerate' }),
  PutBucketAnalyticsConfiguration: rule('PUT bucket', { marker: 'analytics' }),
  GetBucketAnalyticsConfiguration: rule('GET bucket', { marker: 'analytics', and: 'id' }),
  ListBucketAnalyticsConfigurations: rule('GET bucket', { marker: 'analytics' }),
  DeleteBucketAnalyticsConfiguration: rule('DELETE bucket', { marker: 'analytics' }),
  PutBucketEncryption: rule('PUT bucket', { marker: 'encryption' }),
  PutBucketIntelligentTieringConfiguration: rule('PUT bucket', { marker: 'intelligent-tiering' }),
  GetBucketIntelligentTieringConfiguration: rule('GET bucket', { marker: 'intelligent-tiering', and: 'id' }),
  ListBucketIntelligentTieringConfigurations: rule('GET bucket', { marker: 'intelligent-tiering' }),
  DeleteBucketIntelligentTieringConfiguration: rule('DELETE bucket', { marker: 'intelligent-tiering' }),
  PutBucketInventoryConfiguration: rule('PUT bucket', { marker: 'inventory' }),
  GetBucketInventoryConfiguration: rule('GET bucket', { marker: 'inventory', and: 'id' }),
  ListBucketInventoryConfigurations: rule('GET bucket', { marker: 'inventory' }),
  DeleteBucketInventoryConfiguration: rule('DELETE bucket', { marker: 'inventory' }),
  PutBucketLifecycleConfiguration: rule('PUT bucket', { marker: 'lifecycle' }),
  PutBucketLogging: rule('PUT bucket', { marker: 'logging' }),
  UpdateBucketMetadataAnnotationTableConfiguration: rule('PUT bucket', { marker: 'metadataAnnotationTable' }),
  CreateBucketMetadataConfiguration: rule('POST bucket', { marker: 'metadataConfiguration' }),
  GetBucketMetadataConfiguration: rule('GET bucket', { marker: 'metadataConfiguration' }),
  DeleteBucketMetadataConfiguration: rule('DELETE bucket', { marker: 'metadataConfiguration' }),
  UpdateBucketMetadataInventoryTableConfiguration: rule('PUT bucket', { marker: 'metadataInventoryTable' }),
  UpdateBucketMetadataJournalTableConfiguration: rule('PUT bucket', { marker: 'metadataJournalTable' }),
  CreateBucketMetadataTableConfiguration: rule('POST bucket', { marker: 'metadataTable' }),
  GetBucketMetadataTableConfiguration: rule('GET bucket', { marker: 'metadataTable' }),
  DeleteBucketMetadataTableConfiguration: rule('DELETE bucket', { marker: 'metadataTable' }),
  PutBucketMetricsConfiguration: rule('PUT bucket', { marker: 'metrics' }),
  GetBucketMetricsConfiguration: rule('GET bucket', { marker: 'metrics', and: 'id' }),
  ListBucketMetricsConfigurations: rule('GET bucket', { marker: 'metrics' }),
  DeleteBucketMetricsConfiguration: rule('DELETE bucket', { marker: 'metrics' }),
  PutBucketNotificationConfiguration: rule('PUT bucket', { marker: 'notification' }),
  PutBucketOwnershipControls: rule('PUT bucket', { marker: 'ownershipControls' }),
  DeleteBucketOwnershipControls: rule('DELETE bucket', { marker: 'ownershipControls' }),
  PutBucketPolicy: rule('PUT bucket', { marker: 'policy' }),
  PutBucketReplication: rule('PUT bucket', { marker: 'replication' }),
  PutBucketRequestPayment: rule('PUT bucket', { marker: 'requestPayment' }),
  PutBucketVersioning: rule('PUT bucket', { marker: 'versioning' }),
  PutBucketWebsite: rule('PUT bucket', { marker: 'website' }),
  PutObjectLockConfiguration: rule('PUT bucket', { marker: 'object-lock' }),
  PutPublicAccessBlock: rule('PUT bucket', { marker: 'publicAccessBlock' }),
  CreateSession: rule('GET bucket', { marker: 'session' }),

  PutObjectAnnotation: rule('PUT object', { marker: 'annotation' }),
  GetObjectAnnotation: rule('GET object', { marker: 'annotation', and: 'annotationName' }),
  ListObjectAnnotations: rule('GET object', { marker: 'annotation' }),
  DeleteObjectAnnotation: rule('DELETE object', { marker: 'annotation' }),
  UpdateObjectEncryption: rule('PUT object', { marker: 'encryption' }),
  PutObjectLegalHold: rule('PUT object', { marker: 'legal-hold' }),
  RenameObject: rule('PUT object', { marker: 'renameObject' }),
  RestoreObject: rule('POST object', { marker: 'restore' }),
  PutObjectRetention: rule('PUT object', { marker: 'retention' }),
  SelectObjectContent: rule('POST object', { marker: 'select' }),
  GetObjectTorrent: rule('GET object', { marker: 'torrent' }),
}

/** Parameters that only restrict or shape an operation recognized by something else; any request may have them. */
const modifiers: ReadonlySet<string> = new Set(['list-type', 'partNumber', 'uploadId'])

/** Parameters that name a part of a bucket or an object. A request with one is never handled as if it had none. */
const subresources: ReadonlySet<string> = new Set(
  ([...Object.values(operations), ...Object.values(absentOperations)] as Rule[]).flatMap(({ marker }) =>
    marker === undefined || modifiers.has(marker) ? [] : [marker],
  ),
)

type NamedRule = { rule: Rule } & ({ name: OperationName } | { absent: string })

const implemented = (Object.entries(operations) as [OperationName, Rule][]).map(([name, rule]) => ({ name, rule }))
const byPlace = new Map<string, NamedRule[]>()
// Rules without a marker come last, since they match any query.
for (const named of [
  ...Object.entries(absentOperations).map(([absent, rule]) => ({ absent, rule })),
  ...implemented.filter(({ rule }) => rule.marker !== undefined),
  ...implemented.filter(({ rule }) => rule.marker === undefined),
]) {
  const place = `${named.rule.method} ${named.rule.level}`
  byPlace.set(place, [...(byPlace.get(place) ?? []), named])
}
/** Those of a request without parameters. */
const unmarkedByPlace = new Map(
  Array.from(byPlace, ([place, rules]) => [place, rules.filter(({ rule }) => rule.marker === undefined)]),
)

const levelText: Readonly<Record<Level, string>> = { service: 'the service', bucket: 'a bucket', object: 'an object' }

const levelOf = ({ bucket, key }: RawTarget): Level =>
  key !== undefined ? 'object' : bucket !== undefined ? 'bucket' : 'service'

/**
 * Determines the operation of a request (S3 API reference). Ignores unknown parameters; rejects a parameter of an operation that is
 * not implemented.
 *
 * Throws NotImplemented, which names the operation; InvalidArgument for a part with only one of its two parameters.
 */
export function readOperation(method: string, target: RawTarget, headers: ReadonlyMap<string, string>): OperationName {
  const level = levelOf(target)
  const { query } = target
  const rule = (query.size === 0 ? unmarkedByPlace : byPlace)
    .get(`${method} ${level}`)
    ?.find(
      ({ rule: { marker, and, header } }) =>
        (marker === undefined || query.has(marker)) &&
        (and === undefined || query.has(and)) &&
        (header === undefined || headers.has(header)),
    )
  if (rule && 'absent' in rule) throw s3Failure('NotImplemented', `${rule.absent} is not implemented`)
  if (rule?.rule.marker === undefined) {
    const subresource = [...query.keys()].find((name) => subresources.has(name))
    if (subresource !== undefined)
      throw s3Failure('NotImplemented', `${method} of ?${subresource} of ${levelText[level]} is not implemented`)
  }
  if (!rule) throw s3Failure('NotImplemented', `${method} of ${levelText[level]} is not implemented`)
  if ((rule.name === 'PutObject' || rule.name === 'CopyObject') && (query.has('uploadId') || query.has('partNumber')))
    throw s3Failure('InvalidArgument', 'A part needs both uploadId and partNumber')
  return rule.name
}
