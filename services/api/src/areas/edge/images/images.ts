import type { ImagePolicy, ImageRequest } from './image-request.ts'

/** A source's response. */
export interface SourceAnswer {
  status: number
  /** Names are in lower case. */
  headers: Readonly<Record<string, string | string[] | undefined>>
  body: Buffer
}

/** Requests a deployment's own paths. */
export interface SourceReader {
  /** The hostname at which the image was requested, with its port. */
  host: string
  protocol: 'http' | 'https'
  /**
   * Sends a request through all of the deployment's routing, anonymously: without cookies and authorization. Throws ImageRefusal
   * `image_too_large` if the body is longer than an image may be, and the signal's reason if it is aborted.
   */
  ask(path: string, query: string, signal: AbortSignal): Promise<SourceAnswer>
}

/** The deployment whose images are requested. */
export interface ImageOrigin extends SourceReader {
  deploymentId: string
  organizationId: string
  policy: ImagePolicy
  /** The file at a path of the deployment; undefined if something else answers there. */
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
  /** undefined: the client does not need it. */
  content: Buffer | AsyncIterable<Buffer> | undefined
  bytes: number
  contentType: string
  /** Without quotes. */
  etag: string
  cacheStatus: 'hit' | 'miss' | 'stale'
  cacheControl: string
}

/** Answers requests for images from memory, from the store, or by generating them. */
export interface ImageServer {
  /**
   * accept: the client's header. wantsContent: whether the client needs the body for an entity tag; if not, the content is not
   * read. Throws ImageRefusal, BadGateway (D22).
   */
  answer(
    request: ImageRequest,
    origin: ImageOrigin,
    client: { accept: string | undefined; wantsContent: (etag: string) => boolean },
  ): Promise<ImageAnswer>
  /** Drops a purged deployment's images from this process's memory; other processes are notified. */
  forget(deploymentId: string): void
  close(): void
}
