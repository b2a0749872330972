import { createHash } from 'node:crypto'
import type { HeaderPairs } from '@platform/build-output/router'

/** How long something may be shown. Milliseconds since 1970; Infinity: forever. */
export interface Lifetime {
  /** From then on it is regenerated. */
  freshUntil: number
  /** From then on it must not be shown. */
  staleUntil: number
}

/** What the build left to be shown until a page is generated. */
export interface Fallback extends Lifetime {
  tags: readonly string[]
  bytes: number
}

/** A stored page. */
export interface KeptPage {
  status: number
  headers: HeaderPairs
  bytes: number
  blobId: string
  /** undefined: too long to keep in memory; read it from the store. */
  body: Buffer | undefined
  /** Milliseconds since 1970, by the database's clock. */
  begunAt: number
}

/** What can be shown: a page or, if there is none, the caller's fallback. */
export interface Found extends Lifetime {
  page: KeptPage | undefined
}

/** The exclusive right to regenerate a page. */
interface Claim {
  /** By the database's clock. */
  begunAt: Date
  /** failed: nobody tries again for 10 s. */
  end(outcome: 'made' | 'failed'): Promise<void>
}

/** Generated pages of Prerender Functions, in Postgres and the object store, partly cached in memory. */
export interface IsrPages {
  /** Looks in memory only. */
  peek(deploymentId: string, key: string): Found | undefined
  /** fallback: shown if there is no page. Throws the database's error if nothing is known. */
  find(deploymentId: string, key: string, fallback: Fallback | undefined): Promise<Found | undefined>
  /** Counts the compressed copies that the caller keeps of a page: in all `bytes`. They go when the page leaves this memory. */
  countCopies(deploymentId: string, key: string, found: Found, bytes: number): void
  /** Stores pages; those of one call all or none. A stored page that was begun later stays. Throws BadGateway (D22). */
  store(deploymentId: string, pages: readonly NewPage[]): Promise<void>
  /** The current time, by the clock that decides whether a page was begun before its tags were revalidated. */
  begin(): Promise<Date>
  /**
   * Lets one caller among all edges regenerate a page; undefined if another one does, or failed recently, or has stored one since.
   * groupKey: the page that stands for its group. shown: the page that the caller found to be old, and when that was begun.
   */
  claim(
    deploymentId: string,
    groupKey: string,
    shown: { key: string; begunAt: number | undefined },
  ): Promise<Claim | undefined>
}

/** A generated page. */
export interface NewPage {
  /** When generation began, by the database's clock. */
  begunAt: Date
  /** From `pageKey`. */
  key: string
  /** Path of its Function in the output. */
  path: string
  status: number
  headers: HeaderPairs
  tags: readonly string[]
  body: Buffer
  /** undefined: forever. */
  freshUntil: Date | undefined
  staleUntil: Date | undefined
}

/** The key of a page: a hash of everything it varies by. */
export const pageKey = (parts: readonly unknown[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex')
