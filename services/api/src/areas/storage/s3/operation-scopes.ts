import type { ApiScope } from '@platform/auth/scopes'
import type { OperationName } from '@platform/s3-protocol/wire/operations'

const READ = 'network:storage:read'
const WRITE = 'network:storage:write'
const DELETE = 'network:storage:delete'

/** The scope that each operation needs (D70). */
export const operationScopes = {
  ListBuckets: READ,

  CreateBucket: WRITE,
  HeadBucket: READ,
  DeleteBucket: DELETE,
  GetBucketLocation: READ,
  GetBucketVersioning: READ,
  GetBucketAcl: READ,
  PutBucketAcl: WRITE,
  GetBucketCors: READ,
  PutBucketCors: WRITE,
  DeleteBucketCors: WRITE,
  GetBucketTagging: READ,
  PutBucketTagging: WRITE,
  DeleteBucketTagging: WRITE,
  GetBucketAccelerateConfiguration: READ,
  GetBucketEncryption: READ,
  DeleteBucketEncryption: WRITE,
  GetBucketLifecycleConfiguration: READ,
  DeleteBucketLifecycle: WRITE,
  GetBucketLogging: READ,
  GetBucketNotificationConfiguration: READ,
  GetBucketOwnershipControls: READ,
  GetBucketPolicy: READ,
  DeleteBucketPolicy: WRITE,
  GetBucketPolicyStatus: READ,
  GetBucketReplication: READ,
  DeleteBucketReplication: WRITE,
  GetBucketRequestPayment: READ,
  GetBucketWebsite: READ,
  DeleteBucketWebsite: WRITE,
  GetObjectLockConfiguration: READ,
  GetPublicAccessBlock: READ,
  DeletePublicAccessBlock: WRITE,
  ListObjectVersions: READ,
  ListMultipartUploads: READ,
  ListObjectsV2: READ,
  ListObjects: READ,
  DeleteObjects: DELETE,
  PostObject: WRITE,

  GetObjectAcl: READ,
  PutObjectAcl: WRITE,
  GetObjectAttributes: READ,
  GetObjectLegalHold: READ,
  GetObjectRetention: READ,
  GetObjectTagging: READ,
  ListParts: READ,
  GetObject: READ,
  HeadObject: READ,
  PutObjectTagging: WRITE,
  UploadPartCopy: WRITE,
  UploadPart: WRITE,
  CopyObject: WRITE,
  PutObject: WRITE,
  CreateMultipartUpload: WRITE,
  CompleteMultipartUpload: WRITE,
  AbortMultipartUpload: WRITE,
  DeleteObjectTagging: WRITE,
  DeleteObject: DELETE,
} as const satisfies Record<OperationName, ApiScope>

/** Operations on a public bucket that need no credential. */
export const publicOperations: ReadonlySet<OperationName> = new Set(['GetObject', 'HeadObject'])

/** Operations that store additional bytes. */
export const storesBytes: ReadonlySet<OperationName> = new Set([
  'CopyObject',
  'CreateMultipartUpload',
  'PostObject',
  'PutObject',
  'UploadPart',
  'UploadPartCopy',
])

/** True for operations that add or change something, rather than read or remove. */
export const writes = (name: OperationName): boolean =>
  operationScopes[name] === WRITE && name !== 'AbortMultipartUpload'
