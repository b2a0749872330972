import { ApiError } from '@platform/errors/api-error'
import { CHECKSUM_ALGORITHMS, OFFSET_TYPE, VERSION } from './protocol.ts'

/** Every error of the protocol itself: its status, default message and headers. */
const refusals = {
  /** MUST be 412 with Tus-Version. */
  UnsupportedVersion: [412, `Expected Tus-Resumable: ${VERSION}`, { 'tus-version': VERSION }],
  /** SHOULD be 415. */
  UnsupportedType: [415, `Expected Content-Type: ${OFFSET_TYPE}`],
  /** SHOULD be 410 while the server remembers the upload, else 404. */
  UploadExpired: [410, 'The upload has expired'],
  UploadFailed: [410, 'The upload failed'],
  OffsetMissing: [400, 'Upload-Offset is missing'],
  /** MUST be 409. */
  OffsetMismatch: [409, 'The upload is at another byte'],
  MalformedLength: [400, 'The header is not a number of bytes'],
  LengthMissing: [400, 'Expected either Upload-Length or Upload-Defer-Length: 1'],
  /** MUST NOT be changed once it is set. */
  LengthChanged: [400, 'Upload-Length is not the length that was declared'],
  MalformedMetadata: [400, 'Upload-Metadata is not a list of names with values in base64'],
  TargetMissing: [400, 'Upload-Metadata has to name applicationId and bucket'],
  /** MAY be 400. */
  UnsupportedChecksum: [400, `Upload-Checksum takes ${CHECKSUM_ALGORITHMS.join(', ')}`],
  /** MAY be 460. */
  ChecksumMismatch: [460, 'The bytes are not what Upload-Checksum says'],
  /** For an upload session: the bytes differ from those the session declared (storage.md). */
  DigestMismatch: [422, 'The bytes are not what was declared'],
  MalformedConcat: [400, 'Upload-Concat is neither partial nor final'],
  NotPartial: [400, 'Only partial uploads can be put together'],
  PartCount: [400, 'Too few or too many partial uploads'],
  /** concatenation-unfinished is not supported. */
  PartUnfinished: [409, 'A partial upload is not finished'],
  /** MUST be 403. */
  FinalUpload: [403, 'A concatenation takes no bytes of its own'],
} as const satisfies Record<string, readonly [status: number, message: string, headers?: Record<string, string>]>

/** Creates the error of a name, to be thrown. */
export function tusError(name: keyof typeof refusals, message?: string): ApiError {
  const [status, usual, headers]: readonly [number, string, Record<string, string>?] = refusals[name]
  return new ApiError(status, message ?? usual, headers && { headers })
}
