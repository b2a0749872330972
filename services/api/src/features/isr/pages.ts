import { createHash } from 'node:crypto'
import type { HeaderPairs } from '@platform/build-output/router'

/** How long something may be shown. Milliseconds since 1970; Infinity: for ever. */
export interface Lifetime {
  /** From then on it is made anew. */
  freshUntil: number
  /** From then on it must not be shown. */
  staleUntil: number
}

/** What a build left to be shown until a page was made. */
export interface Fallback extends Lifetime {
  tags: readonly string[]
  bytes: number
}

/** A page as it is kept. */
export interface KeptPage {
  status: number
  headers: HeaderPairs
  bytes: number
  blobId: string
  /** undefined: it is long, and has to be read. */
  body: Buffer | undefined
  /** Milliseconds since 1970, by the clock of the database. */
  begunAt: number
}

/** What there is to show: a page; or, without one, the fallback that was asked with. */
export interface Found extends Lifetime {
  page: KeptPage | undefined
}

/** The making of a page anew. */
interface Claim {
  /** By the clock of the database. */
  begunAt: Date
  /** failed: nobody tries again for 10 s. */
  end(outcome: 'made' | 'failed'): Promise<void>
}

/** Pages of Prerender Functions that were made, in Postgres and the object store, with a part of them in memory. */
export interface IsrPages {
  /** What is in memory. */
  peek(deploymentId: string, key: string): Found | undefined
  /** fallback: what is shown where there is no page. Throws what the database threw where nothing is known. */
  find(deploymentId: string, key: string, fallback: Fallback | undefined): Promise<Found | undefined>
  /** Stores pages, those of one call all or none. One that was begun later stays. Throws BadGateway (D22). */
  store(deploymentId: string, pages: readonly NewPage[]): Promise<void>
  /** The time, by the clock that tells whether a page was begun before its tags were revalidated. */
  begin(): Promise<Date>
  /** Lets one caller among all edges make a page anew; undefined: another does, or failed a moment ago. */
  claim(deploymentId: string, key: string): Promise<Claim | undefined>
}

/** A page that was made. */
export interface NewPage {
  /** When that began, by the clock of the database. */
  begunAt: Date
  /** Of `pageKey`. */
  key: string
  /** Of its Function in the output. */
  path: string
  status: number
  headers: HeaderPairs
  tags: readonly string[]
  body: Buffer
  /** undefined: for ever. */
  freshUntil: Date | undefined
  staleUntil: Date | undefined
}

/** The key of a page: of what it differs by. */
export const pageKey = (parts: readonly unknown[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex')
