import type { Prepared } from './request.ts'

export interface CallOptions {
  /** Ends waiting, sleeping and reading at once; the call then throws the signal's reason. */
  signal?: AbortSignal | undefined
  /** For the whole call with its retries. Default 120,000; of inference 600,000. */
  timeoutMs?: number | undefined
  /** For a single try, from the request to the end of the answer. Default 30,000; of inference 600,000. */
  tryMs?: number | undefined
  /** How often the request may be sent again after a failure that can pass. Default 3; of inference 1. */
  retries?: number | undefined
  /** Of a creation. Default: a UUIDv7 for each call. */
  idempotencyKey?: string | undefined
  /** Told of each answer, failures included. */
  onResponse?: ((answer: { status: number; headers: Headers }) => void) | undefined
}

/** What is made of an answer while its try lasts. */
export type Read<T> = (answer: Response) => Promise<T>

/** What sends a request: the global `fetch`, or what takes its place. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** A platform, as credentials and operations use it. */
export interface Sender {
  /** Without a slash at its end. */
  readonly baseUrl: string
  readonly fetch: Fetch
  /**
   * Sends a request, again where it may be repeated. read: what is made of the answer, while the try lasts. Throws PlatformError, and
   * the signal's reason.
   */
  send<T>(request: Prepared, options?: CallOptions, read?: Read<T>): Promise<T>
}
