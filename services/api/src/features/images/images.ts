import type { ImagePolicy, ImageRequest } from './image-request.ts'

/** What a source answered. */
export interface SourceAnswer {
  status: number
  /** Names in lower case. */
  headers: Readonly<Record<string, string | string[] | undefined>>
  body: Buffer
}

/** Asks a deployment for its own paths. */
export interface SourceReader {
  /** The hostname that images are asked at, with its port. */
  host: string
  protocol: 'http' | 'https'
  /**
   * Asks through all of its routing, as nobody in particular: without cookies and authorization. Throws ImageRefusal
   * `image_too_large` for a longer body than an image may have, and the signal's reason where it is aborted.
   */
  ask(path: string, query: string, signal: AbortSignal): Promise<SourceAnswer>
}

/** The deployment whose images are asked for. */
export interface ImageOrigin extends SourceReader {
  deploymentId: string
  organizationId: string
  policy: ImagePolicy
  /** The file that a path of the deployment leads to. undefined: something else answers there. */
  findFile(path: string, query: string): SourceFile | undefined
}

/** A file of a deployment, which never changes. */
export interface SourceFile {
  /** In hex. */
  sha256: string
  bytes: number
  cacheControl: string | undefined
  read(): Promise<Buffer>
}

/** An image to send. */
export interface ImageAnswer {
  /** undefined: it is not wanted. */
  content: Buffer | AsyncIterable<Buffer> | undefined
  bytes: number
  contentType: string
  /** Without quotes. */
  etag: string
  cacheStatus: 'hit' | 'miss' | 'stale'
  cacheControl: string
}

/** Answers requests for images, from memory, from the store, or by making them. */
export interface ImageServer {
  /**
   * accept: the client's. wantsContent: whether the client has to be sent the image of an entity tag; else nothing of it is read.
   * Throws ImageRefusal, BadGateway (D22).
   */
  answer(
    request: ImageRequest,
    origin: ImageOrigin,
    client: { accept: string | undefined; wantsContent: (etag: string) => boolean },
  ): Promise<ImageAnswer>
  /** Drops what is in memory of a deployment that this process purged; others hear of it. */
  forget(deploymentId: string): void
  close(): void
}
