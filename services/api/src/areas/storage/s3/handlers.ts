import type { OperationName } from '@platform/s3-protocol/wire/operations'
import { abortMultipartUpload } from './operations/abort-multipart-upload.ts'
import { answerAlways, deleteNothing, refuseAs, refuseObjectLock } from './operations/absent-configuration.ts'
import { deleteBucketCors, getBucketCors, putBucketCors } from './operations/bucket-cors.ts'
import { deleteBucketTagging, getBucketTagging, putBucketTagging } from './operations/bucket-tagging.ts'
import { completeMultipartUpload } from './operations/complete-multipart-upload.ts'
import { copyObject } from './operations/copy-object.ts'
import { createOneBucket } from './operations/create-bucket.ts'
import { createMultipartUpload } from './operations/create-multipart-upload.ts'
import { deleteOneBucket } from './operations/delete-bucket.ts'
import { deleteObject } from './operations/delete-object.ts'
import { deleteObjects } from './operations/delete-objects.ts'
import { getAcl } from './operations/get-acl.ts'
import { getBucketLocation } from './operations/get-bucket-location.ts'
import { getBucketVersioning } from './operations/get-bucket-versioning.ts'
import { getObjectAttributes } from './operations/get-object-attributes.ts'
import { getObject } from './operations/get-object.ts'
import { headBucket } from './operations/head-bucket.ts'
import { listAllBuckets } from './operations/list-buckets.ts'
import { listMultipartUploads } from './operations/list-multipart-uploads.ts'
import { listObjectVersions } from './operations/list-object-versions.ts'
import { listObjects, listObjectsV2 } from './operations/list-objects.ts'
import { listParts } from './operations/list-parts.ts'
import { deleteObjectTagging, getObjectTagging, putObjectTagging } from './operations/object-tagging.ts'
import { putAcl } from './operations/put-acl.ts'
import { putObject } from './operations/put-object.ts'
import { uploadPartCopy } from './operations/upload-part-copy.ts'
import { uploadPart } from './operations/upload-part.ts'
import type { BucketCall, KeyCall, KeyedCall, ObjectCall, S3Reply } from './s3-call.ts'

/** An operation's function, and what must exist before it is called. */
export type S3Handler =
  | { needs: 'key holder'; handle: (call: KeyCall) => Promise<S3Reply> }
  | { needs: 'bucket'; handle: (call: BucketCall) => Promise<S3Reply> }
  | { needs: 'key'; handle: (call: KeyedCall) => Promise<S3Reply> }
  | { needs: 'object'; handle: (call: ObjectCall) => Promise<S3Reply> }

const forKeyHolder = (handle: (call: KeyCall) => Promise<S3Reply>): S3Handler => ({ needs: 'key holder', handle })
const inBucket = (handle: (call: BucketCall) => Promise<S3Reply>): S3Handler => ({ needs: 'bucket', handle })
const atKey = (handle: (call: KeyedCall) => Promise<S3Reply>): S3Handler => ({ needs: 'key', handle })
const ofObject = (handle: (call: ObjectCall) => Promise<S3Reply>): S3Handler => ({ needs: 'object', handle })

/** The function of each operation. PostObject is not here: its sender is known only after its form is read. */
export const handlers: Readonly<Record<Exclude<OperationName, 'PostObject'>, S3Handler>> = {
  ListBuckets: forKeyHolder(listAllBuckets),
  CreateBucket: forKeyHolder(createOneBucket),
  HeadBucket: inBucket(headBucket),
  DeleteBucket: inBucket(deleteOneBucket),
  GetBucketLocation: inBucket(getBucketLocation),
  GetBucketVersioning: inBucket(getBucketVersioning),
  GetBucketAcl: inBucket(getAcl),
  PutBucketAcl: inBucket(putAcl),
  GetBucketCors: inBucket(getBucketCors),
  PutBucketCors: inBucket(putBucketCors),
  DeleteBucketCors: inBucket(deleteBucketCors),
  GetBucketTagging: inBucket(getBucketTagging),
  PutBucketTagging: inBucket(putBucketTagging),
  DeleteBucketTagging: inBucket(deleteBucketTagging),
  GetBucketAccelerateConfiguration: inBucket(answerAlways('AccelerateConfiguration')),
  GetBucketEncryption: inBucket(refuseAs('ServerSideEncryptionConfigurationNotFoundError')),
  DeleteBucketEncryption: inBucket(deleteNothing),
  GetBucketLifecycleConfiguration: inBucket(refuseAs('NoSuchLifecycleConfiguration')),
  DeleteBucketLifecycle: inBucket(deleteNothing),
  GetBucketLogging: inBucket(answerAlways('BucketLoggingStatus')),
  GetBucketNotificationConfiguration: inBucket(answerAlways('NotificationConfiguration')),
  // ACLs change nothing here, which S3 calls enforced ownership.
  GetBucketOwnershipControls: inBucket(
    answerAlways('OwnershipControls', { Rule: { ObjectOwnership: 'BucketOwnerEnforced' } }),
  ),
  GetBucketPolicy: inBucket(refuseAs('NoSuchBucketPolicy')),
  DeleteBucketPolicy: inBucket(deleteNothing),
  GetBucketPolicyStatus: inBucket(refuseAs('NoSuchBucketPolicy')),
  GetBucketReplication: inBucket(refuseAs('ReplicationConfigurationNotFoundError')),
  DeleteBucketReplication: inBucket(deleteNothing),
  GetBucketRequestPayment: inBucket(answerAlways('RequestPaymentConfiguration', { Payer: 'BucketOwner' })),
  GetBucketWebsite: inBucket(refuseAs('NoSuchWebsiteConfiguration')),
  DeleteBucketWebsite: inBucket(deleteNothing),
  GetObjectLockConfiguration: inBucket(refuseAs('ObjectLockConfigurationNotFoundError')),
  GetPublicAccessBlock: inBucket(refuseAs('NoSuchPublicAccessBlockConfiguration')),
  DeletePublicAccessBlock: inBucket(deleteNothing),
  ListObjectVersions: inBucket(listObjectVersions),
  ListMultipartUploads: inBucket(listMultipartUploads),
  ListObjectsV2: inBucket(listObjectsV2),
  ListObjects: inBucket(listObjects),
  DeleteObjects: inBucket(deleteObjects),
  GetObjectAcl: ofObject(getAcl),
  PutObjectAcl: ofObject(putAcl),
  GetObjectAttributes: ofObject(getObjectAttributes),
  GetObjectLegalHold: ofObject(refuseObjectLock),
  GetObjectRetention: ofObject(refuseObjectLock),
  GetObjectTagging: ofObject(getObjectTagging),
  ListParts: atKey(listParts),
  GetObject: ofObject(getObject),
  HeadObject: ofObject(getObject),
  PutObjectTagging: atKey(putObjectTagging),
  UploadPartCopy: atKey(uploadPartCopy),
  UploadPart: atKey(uploadPart),
  CopyObject: atKey(copyObject),
  PutObject: atKey(putObject),
  CreateMultipartUpload: atKey(createMultipartUpload),
  CompleteMultipartUpload: atKey(completeMultipartUpload),
  AbortMultipartUpload: atKey(abortMultipartUpload),
  DeleteObjectTagging: atKey(deleteObjectTagging),
  DeleteObject: atKey(deleteObject),
}
