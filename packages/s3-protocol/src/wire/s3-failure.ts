import { S3Error } from '@platform/errors/s3-error'

/** Every error code in use, with its status and its default message. */
const failures = {
  AccessControlListNotSupported: [400, 'The bucket does not allow ACLs; its visibility decides who may read'],
  AccessDenied: [403, 'Access Denied'],
  /** radosgw's code; S3 itself has no quotas. */
  QuotaExceeded: [403, 'The quota is exceeded.'],
  AccessForbidden: [403, 'CORSResponse: This CORS request is not allowed'],
  AuthorizationHeaderMalformed: [400, 'The authorization header is malformed'],
  AuthorizationQueryParametersError: [400, 'The authorization query parameters are malformed'],
  BadRequest: [400, 'The request is not valid'],
  BadDigest: [400, 'The body does not match the digest that was sent with it'],
  BucketAlreadyExists: [409, 'The bucket name is taken'],
  BucketAlreadyOwnedByYou: [409, 'You own a bucket of this name already'],
  BucketNotEmpty: [409, 'The bucket still holds objects'],
  EntityTooLarge: [400, 'The body is larger than one request may send'],
  EntityTooSmall: [400, 'A part other than the last is smaller than 5 MiB'],
  ExpiredToken: [400, 'The token has expired'],
  IncompleteBody: [400, 'The body does not have the length that the request declared'],
  InternalError: [500, 'Internal error'],
  InvalidAccessKeyId: [403, 'The access key id does not exist'],
  InvalidArgument: [400, 'Invalid argument'],
  InvalidBucketName: [400, 'The bucket name is not valid'],
  InvalidDigest: [400, 'Content-MD5 is not a valid digest'],
  InvalidPart: [400, 'A part was never uploaded, or its ETag is another'],
  InvalidPartOrder: [400, 'The parts are not in ascending order'],
  InvalidPartNumber: [416, 'The part does not exist in the object'],
  InvalidRange: [416, 'The range does not lie within the object'],
  InvalidRequest: [400, 'The request is not valid'],
  InvalidStorageClass: [400, 'The only storage class is STANDARD'],
  InvalidTag: [400, 'A tag is not valid'],
  InvalidToken: [400, 'The token is not valid'],
  InvalidURI: [400, 'The URI could not be read'],
  KeyTooLongError: [400, 'The key is longer than 1024 bytes'],
  MalformedACLError: [400, 'The XML is not well-formed or not an access control policy'],
  MalformedPOSTRequest: [400, 'The body is not well-formed multipart/form-data'],
  MalformedTrailerError: [400, 'The trailers are not those that were announced'],
  MalformedXML: [400, 'The XML is not well-formed or not what this operation takes'],
  MaxMessageLengthExceeded: [400, 'The request is too long'],
  MaxPostPreDataLengthExceededError: [400, 'The fields in front of the file are too long'],
  MetadataTooLarge: [400, 'Metadata is limited to 2048 bytes'],
  MethodNotAllowed: [405, 'The method does not exist for this resource'],
  MissingContentLength: [411, 'Content-Length is required'],
  MissingRequestBodyError: [400, 'The request has no body'],
  MissingSecurityHeader: [400, 'The request lacks a required header'],
  NoSuchBucket: [404, 'The bucket does not exist'],
  NoSuchBucketPolicy: [404, 'The bucket policy does not exist'],
  NoSuchCORSConfiguration: [404, 'The CORS configuration does not exist'],
  NoSuchKey: [404, 'The key does not exist'],
  NoSuchLifecycleConfiguration: [404, 'The lifecycle configuration does not exist'],
  NoSuchPublicAccessBlockConfiguration: [404, 'The public access block configuration was not found'],
  NoSuchTagSet: [404, 'The TagSet does not exist'],
  NoSuchUpload: [404, 'The upload does not exist; it may have been completed or aborted'],
  NoSuchVersion: [404, 'The version does not exist'],
  NoSuchWebsiteConfiguration: [404, 'The bucket does not have a website configuration'],
  NotImplemented: [501, 'Not implemented'],
  ObjectLockConfigurationNotFoundError: [404, 'Object Lock configuration does not exist for this bucket'],
  PreconditionFailed: [412, 'At least one of the preconditions does not hold'],
  ReplicationConfigurationNotFoundError: [404, 'The replication configuration was not found'],
  RequestTimeTooSkewed: [403, 'The request time differs too much from the time here'],
  ServerSideEncryptionConfigurationNotFoundError: [404, 'The server-side encryption configuration was not found'],
  SignatureDoesNotMatch: [
    403,
    'The signature does not match the request. Check the secret access key, the signing method and that nothing on the way changes the request',
  ],
  UnexpectedContent: [400, 'The request has both an ACL header and a body; only one of them may say what is granted'],
  XAmzContentChecksumMismatch: [400, 'The checksum does not match the body'],
  XAmzContentSHA256Mismatch: [400, 'x-amz-content-sha256 does not match the body'],
} as const satisfies Record<string, readonly [status: number, message: string]>

export type S3Code = keyof typeof failures

/** Creates the error of a code. details: further elements of its document (S3 API "Error responses"). */
export function s3Failure(code: S3Code, message?: string, details?: Record<string, string>): S3Error {
  const [status, usual] = failures[code]
  return new S3Error(status, code, message ?? usual, details && { details })
}
