import type { Signer } from '@platform/runtime/seal'
import type { Core } from '../../core.ts'
import { endpointsOf } from '../../http/endpoints-of.ts'
import type { Blobs } from './objects/blobs.ts'
import type { UploadLeases } from './uploads/leases.ts'

export interface StoragePorts {
  blobs: Blobs
  /** Signs the URLs by which private objects are read. */
  accessSigner: Signer
  /** The domain suffix of buckets' hostnames, with the port if it is not the scheme's default. */
  objectsDomain: string
}

export interface StorageDeps extends Core, StoragePorts {
  uploadLeases: UploadLeases
  /** The domain below which S3 serves buckets as hosts, with the port if it is not the scheme's default; undefined: none. */
  s3Domain: string | undefined
  /** The region that S3 clients are given. */
  s3Region: string
}

export const { endpoint } = endpointsOf<StorageDeps>()
