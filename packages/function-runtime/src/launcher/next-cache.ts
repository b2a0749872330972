import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { EdgeCache, type Kept, keyOf } from './edge-cache.ts'
import { NextBuildPages, type PageContext, type StoredPage, tagsOfPage } from './next-build-pages.ts'
import { scopes } from './request-scope.ts'

/** Older than any lifetime of Next.js, whose longest is 2^32 s: it serves such a value while it regenerates it. */
const longAgo = -1e16
const valueBytesMax = 2_097_152
const majorMin = 16

interface FetchContext {
  kind?: string
  fetchCache?: boolean
  tags?: string[]
  softTags?: string[]
}

interface HandlerOptions {
  serverDistDir?: string
}

interface Durations {
  expire?: number
}

interface CacheEntry {
  value: ReadableStream<Uint8Array>
  tags: string[]
  stale: number
  /** Milliseconds since 1970 by this machine's clock. */
  timestamp: number
  expire: number
  revalidate: number
}

interface StoredEntry extends Omit<CacheEntry, 'value' | 'timestamp' | 'tags'> {
  value: Uint8Array
}

/** When the computation of each value began that a request did not find usable, by key. */
type Begun = Map<string, number>

interface Offer {
  cacheSocketPath: string
  /** The module being run. */
  handler: string
  /** Set if Next.js runs without an edge that caches its pages: when it was built, in milliseconds since 1970. */
  builtAt: number | undefined
}

/**
 * Makes Next.js cache results of `fetch` and `use cache` at the edge, and revalidate tags and paths there; a standalone
 * server (`builtAt`) caches its pages there too. Nothing is opened until Next.js asks.
 */
export function offerNextCache(offer: Offer): void {
  if (!existsSync(offer.cacheSocketPath)) return
  let handlers: object | undefined
  Object.defineProperty(globalThis, Symbol.for('@next/cache-handlers'), {
    get: () => (handlers ??= openHandlers(offer)),
    configurable: true,
  })
}

function openHandlers({ cacheSocketPath, handler, builtAt }: Offer): object {
  const major = majorOf(handler)
  // Older versions have cache handlers of another shape.
  if (major < majorMin && builtAt !== undefined) return {}
  const cache = new EdgeCache(cacheSocketPath)
  const FetchCache = fetchCacheOf(cache, builtAt)
  if (major < majorMin) return { FetchCache }
  const shared = useCacheOf(cache)
  return { FetchCache, DefaultCache: shared, RemoteCache: shared }
}

/** The major version of the application's Next.js; a bundle without it counts as current. */
function majorOf(handler: string): number {
  try {
    const path = createRequire(handler).resolve('next/package.json')
    return Number.parseInt((JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version, 10)
  } catch {
    return majorMin
  }
}

/** Next.js's incremental cache. */
function fetchCacheOf(cache: EdgeCache, builtAt: number | undefined): new (options: HandlerOptions) => object {
  const begunIn = new WeakMap<object, Begun>()

  return class FetchCache {
    readonly #begunOutside: Begun = new Map()
    readonly #build: NextBuildPages | undefined

    constructor(options: HandlerOptions) {
      if (builtAt !== undefined) this.#build = NextBuildPages.of(options, builtAt)
    }

    get #begun(): Begun {
      const scope = scopes.getStore()
      if (!scope) return this.#begunOutside
      const begun = begunIn.get(scope) ?? new Map<string, number>()
      begunIn.set(scope, begun)
      return begun
    }

    /** A repeated lookup in the same request keeps the first start time, unless something was revalidated in between. */
    #begin(key: string): void {
      const before = this.#begun.get(key)
      if (before === undefined || before <= cache.revalidatedAt) this.#begun.set(key, cache.now())
    }

    async get(name: string, context: FetchContext & PageContext): Promise<object | null> {
      if (context.kind === 'FETCH') return this.#getFetched(name, context)
      return builtAt === undefined ? null : this.#getPage(name, context)
    }

    async #getFetched(name: string, { tags = [], softTags = [] }: FetchContext): Promise<object | null> {
      const key = keyOf('data', name)
      const kept = await cache.find(key)
      this.#begin(key)
      if (!kept) return null
      const verdict = cache.judge([...kept.tags, ...tags, ...softTags], kept.begunAt)
      if (verdict === 'expired') return null
      return { value: kept.value, lastModified: verdict === 'stale' ? longAgo : cache.wallTimeOf(kept.begunAt) }
    }

    async #getPage(name: string, context: PageContext): Promise<object | null> {
      const key = keyOf('pages', name)
      const isKnown = await cache.refresh()
      const kept = isKnown ? await cache.find(key) : undefined
      this.#begin(key)
      if (!kept) return isKnown ? ((await this.#build?.find(cache, name, context)) ?? null) : null
      const verdict = cache.judge(kept.tags, kept.begunAt)
      if (verdict === 'expired') return null
      if (verdict === 'stale') this.#build?.markStale(cache, kept.tags)
      return { ...(kept.value as StoredPage), lastModified: cache.wallTimeOf(kept.begunAt) }
    }

    async set(name: string, value: Kept['value'], context: FetchContext & { cacheControl?: unknown }): Promise<void> {
      const isFetched = context.fetchCache === true
      if (!isFetched && builtAt === undefined) return
      const key = keyOf(isFetched ? 'data' : 'pages', name)
      const begunAt = this.#begun.get(key) ?? cache.now()
      const tags = isFetched ? (context.tags ?? []) : tagsOfPage(value)
      const kept = isFetched ? value : ({ value, cacheControl: context.cacheControl } satisfies StoredPage)
      await cache.store(key, { value: kept, tags, begunAt })
    }

    async revalidateTag(tags: string | string[], durations?: Durations): Promise<void> {
      await revalidate(cache, [tags].flat(), durations)
    }

    resetRequestCache(): void {}
  }
}

/** Next.js answers a route handler's request before it has revalidated its tags. */
function revalidate(cache: EdgeCache, tags: readonly string[], durations: Durations | undefined): Promise<void> {
  const revalidating = cache.revalidate(tags, expireSecondsOf(durations))
  scopes.getStore()?.holdAnswer(revalidating)
  return revalidating
}

/** Next.js expires tags at once if they are revalidated without a profile. */
const expireSecondsOf = (durations: Durations | undefined): number | undefined => (durations ? durations.expire : 0)

/** A Next.js cache handler, for `use cache` and `use cache: remote`. */
function useCacheOf(cache: EdgeCache): object {
  /** Callers of `get` wait here for a value that is being computed. */
  const pending = new Map<string, Promise<void>>()

  async function store(key: string, entry: CacheEntry): Promise<void> {
    const { value: stream, timestamp, tags, ...rest } = entry
    // The entry itself says that it cannot be reused.
    if (rest.expire === 0) {
      await stream.cancel()
      return
    }
    const value = await collect(stream)
    const begunAt = cache.timeOfId(timestamp)
    await cache.store(key, { value: { ...rest, value } satisfies StoredEntry, tags, begunAt })
  }

  return {
    async get(name: string, softTags: string[]): Promise<CacheEntry | undefined> {
      const key = keyOf('data', name)
      await pending.get(key)
      const kept = await cache.find(key)
      if (!kept) return undefined
      const { value, ...rest } = kept.value as StoredEntry
      const verdict = cache.judge([...kept.tags, ...softTags], kept.begunAt)
      if (verdict === 'expired') return undefined
      return {
        ...rest,
        ...(verdict === 'stale' && { revalidate: -1 }),
        tags: [...kept.tags],
        timestamp: cache.wallTimeOf(kept.begunAt),
        value: streamOf(value),
      }
    },
    /** Never rejects: the page that needed the value is served all the same. */
    async set(name: string, entry: Promise<CacheEntry>): Promise<void> {
      const key = keyOf('data', name)
      const storing = (async () => {
        try {
          await store(key, await entry)
        } catch (error) {
          console.warn('A result of `use cache` was not kept:', error instanceof Error ? error.message : error)
        }
      })()
      pending.set(key, storing)
      await storing
      if (pending.get(key) === storing) pending.delete(key)
    },
    async refreshTags(): Promise<void> {
      await cache.refresh()
    },
    async getExpiration(tags: string[]): Promise<number> {
      await cache.refresh()
      const now = cache.now()
      const expired = tags.map((name) => {
        const tag = cache.tag(name)
        return tag && tag.expiredAt !== null && tag.expiredAt <= now ? cache.wallTimeOf(tag.staleAt) : 0
      })
      return Math.max(0, ...expired)
    },
    async updateTags(tags: string[], durations?: Durations): Promise<void> {
      await revalidate(cache, tags, durations)
    },
  }
}

async function collect(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of stream) {
    length += chunk.length
    if (length > valueBytesMax) throw new Error(`it is longer than ${valueBytesMax} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

const streamOf = (bytes: Uint8Array): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      controller.enqueue(bytes)
      controller.close()
    },
  })
