import { isHashedPath } from '@platform/build-output/hashed-path'
import { quotedEtag } from '@platform/service/entity-tag'
import type { Validators } from '@platform/service/preconditions'
import type { ArtifactBlob, Encoding } from '../../deploy/artifacts/artifact-blobs.ts'
import { isCompressible } from '../../deploy/artifacts/compress-artifacts.ts'
import type { deploymentFiles } from '../../deploy/artifacts/table.ts'
import { assetIdOf } from '../../deploy/deployments/asset-id.ts'
import type { ServedBy } from '../../observe/request-logs/table.ts'

/** Alternating names and values, as `writeHead` accepts them. */
export type FlatHeaders = string[]

const IMMUTABLE = 'public, max-age=31536000, immutable'
const REVALIDATED = 'public, max-age=0, must-revalidate'
/** 132 of the 256 bits, as in our other entity tags. */
const TAG_LENGTH = 22

/** A file in one encoding: its bytes, and the headers of a full response. */
export interface Representation {
  blobId: string
  length: number
  isInline: boolean
  encoding: Encoding | undefined
  validators: Validators
  headers: FlatHeaders
}

/** A file uncompressed, and in the available encodings. askAgainAt: when to look for more, by performance.now(). */
export interface Representations {
  identity: Representation
  encoded: readonly Representation[]
  askAgainAt: number
}

type FileRow = typeof deploymentFiles.$inferSelect

/** A file of a deployment as the edge serves it. Everything that its responses share is computed once. */
export class DeployedFile {
  readonly path: string
  /** In hex. */
  readonly sha256: string
  readonly bytes: number
  readonly contentType: string
  readonly deploymentId: string
  readonly lastModified: Date
  /** True if responses vary by Accept-Encoding, now or once the file has been compressed. */
  readonly isNegotiated: boolean
  /** Set at the first request for it, and updated while encodings were missing. */
  representations: Representations | undefined
  #servedBy: ServedBy | undefined

  constructor(row: FileRow, lastModified: Date) {
    this.path = row.path
    this.sha256 = row.sha256.toString('hex')
    this.bytes = row.bytes
    this.contentType = row.contentType
    this.deploymentId = row.deploymentId
    this.lastModified = lastModified
    this.isNegotiated = isCompressible(row.contentType, row.bytes)
  }

  /** For the request log. objectKey: the artifact's SHA-256. */
  get servedBy(): ServedBy {
    return (this.#servedBy ??= {
      deploymentStatus: 'ACTIVE',
      deploymentAsset: { id: assetIdOf(this.deploymentId, this.path), path: this.path, objectKey: this.sha256 },
    })
  }

  /** The default Cache-Control, unless a route sets one. */
  get cacheControl(): string {
    return isHashedPath(this.path) ? IMMUTABLE : REVALIDATED
  }

  /** Each encoding is a separate representation, so it has its own entity tag (RFC 9110 §8.8.3). */
  represent(blob: ArtifactBlob, encoding?: Encoding): Representation {
    const tag = Buffer.from(this.sha256, 'hex').toString('base64url').slice(0, TAG_LENGTH)
    const etag = encoding ? `${tag}-${encoding}` : tag
    const headers = [
      'content-type',
      this.contentType,
      'content-length',
      String(blob.length),
      'etag',
      quotedEtag(etag),
      'last-modified',
      this.lastModified.toUTCString(),
      'cache-control',
      this.cacheControl,
    ]
    if (encoding) headers.push('content-encoding', encoding)
    else headers.push('accept-ranges', 'bytes')
    if (this.isNegotiated) headers.push('vary', 'Accept-Encoding')
    return {
      blobId: blob.id,
      length: blob.length,
      isInline: blob.isInline,
      encoding,
      validators: { etag, uploadedAt: this.lastModified },
      headers,
    }
  }
}
