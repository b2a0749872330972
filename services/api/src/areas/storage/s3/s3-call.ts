import type { StreamSeed } from '@platform/s3-protocol/signature/verify'
import type { RawTarget } from '@platform/s3-protocol/wire/raw-target'
import type { ApplicationActor } from '../../../http/actor.ts'
import type { StorageDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import type { Content } from '../objects/read-object.ts'
import type { FoundObject, NamedBucket } from './find-access.ts'

/** The authenticated sender of a request. */
export type Caller = ApplicationActor | { kind: 'anonymous' }

/** An authorized request. */
export interface S3Call {
  deps: StorageDeps
  exchange: RawExchange<StorageDeps>
  target: RawTarget
  /** Names in lower case, values as latin1; includes headers that a presigned URL carries in its query. */
  headers: ReadonlyMap<string, string>
  caller: Caller
  /** x-amz-content-sha256, or its substitute (`payloadHashOf`). */
  payloadHash: string
  /** Where the chunk signatures of a streaming body continue; undefined if the request is not signed. */
  seed: StreamSeed | undefined
}

/** A request of an API key or a Function, which act for their application. */
export interface KeyCall extends S3Call {
  caller: ApplicationActor
}

export interface BucketCall extends S3Call {
  bucket: NamedBucket
}

export interface KeyedCall extends BucketCall {
  key: string
  /** The live object under the key, if the operation needs it. */
  found: FoundObject | null
}

export interface ObjectCall extends KeyedCall {
  found: FoundObject
}

/** An answer, without the headers common to all answers. */
export interface S3Reply {
  status: number
  headers?: Record<string, string>
  body?: string | Content
}

export const xmlReply = (body: string, headers: Record<string, string> = {}): S3Reply => ({
  status: 200,
  headers: { 'content-type': 'application/xml', ...headers },
  body,
})
