import { LRUCache } from 'lru-cache'
import type { HeaderPairs } from '@platform/build-output/router'
import { type CompressedCopies, sizeOfCopies } from './compressed-copies.ts'

const BYTES_MAX = 134_217_728
/** Longer bodies are passed on and not cached. */
export const BODY_BYTES_MAX = 4_194_304
const VARIANTS_MAX = 16
const BYTES_OF_ENTRY = 500
/** A day: nobody relies on an edge's cache for longer. */
const SECONDS_MAX = 86_400
const STORABLE = new Set([200, 301, 308, 404, 410])

/** A cached answer of a Function. */
export interface CachedResponse {
  status: number
  /** As the Function sent them; routes add theirs for each request. */
  headers: HeaderPairs
  body: Buffer
  copies: CompressedCopies
  /** By performance.now(). */
  storedAt: number
  freshUntil: number
  staleUntil: number
}

/** How long an answer may be cached, in seconds. */
export interface Freshness {
  freshSeconds: number
  staleSeconds: number
}

type RequestHeaders = Readonly<Record<string, string | string[] | undefined>>

const valuesOf = (headers: HeaderPairs, wanted: string): string[] =>
  headers.flatMap(([name, value]) => (name === wanted ? [value] : []))

/**
 * Parses the directives of Cache-Control and similar headers, names in lower case; of repeated ones the first counts (RFC 9111
 * §4.2.1).
 */
export function readDirectives(values: readonly string[]): Map<string, string> {
  const directives = new Map<string, string>()
  for (const part of values.join(',').matchAll(/([\w-]+)(?:\s*=\s*(?:"([^"]*)"|([^\s,;]*)))?/g)) {
    const name = part[1]?.toLowerCase() ?? ''
    if (!directives.has(name)) directives.set(name, part[2] ?? part[3] ?? '')
  }
  return directives
}

const secondsOf = (value: string | undefined): number =>
  value !== undefined && /^\d+$/.test(value) ? Math.min(Number(value), SECONDS_MAX) : 0

/**
 * How long an answer may be cached for everyone (RFC 9111 §3, RFC 9213, RFC 5861); undefined: not at all. The answer must say so
 * by `s-maxage` or by CDN-Cache-Control, which takes precedence over Cache-Control.
 */
export function readFreshness(status: number, headers: HeaderPairs): Freshness | undefined {
  if (!STORABLE.has(status) || headers.some(([name]) => name === 'set-cookie')) return undefined
  // Most answers have neither header.
  if (!headers.some(([name]) => name === 'cache-control' || name === 'cdn-cache-control')) return undefined
  const own = readDirectives(valuesOf(headers, 'cache-control'))
  const ofCdn = valuesOf(headers, 'cdn-cache-control')
  const directives = ofCdn.length > 0 ? readDirectives(ofCdn) : own
  for (const each of [own, directives]) if (each.has('private') || each.has('no-store')) return undefined
  if (directives.has('no-cache')) return undefined
  if (valuesOf(headers, 'vary').some((value) => value.split(',').some((name) => name.trim() === '*'))) return undefined
  const lifetime = directives.get('s-maxage') ?? (ofCdn.length > 0 ? directives.get('max-age') : undefined)
  const freshSeconds = secondsOf(lifetime) - secondsOf(valuesOf(headers, 'age')[0])
  const staleSeconds = secondsOf(directives.get('stale-while-revalidate'))
  if (lifetime === undefined || freshSeconds <= 0) return undefined
  return { freshSeconds, staleSeconds }
}

/** The headers that an answer varies by, sorted. */
function variesBy(headers: HeaderPairs): string[] {
  const names = valuesOf(headers, 'vary').flatMap((value) => value.split(','))
  return [...new Set(names.map((name) => name.trim().toLowerCase()).filter((name) => name !== ''))].toSorted()
}

const variantOf = (names: readonly string[], headers: RequestHeaders): string =>
  JSON.stringify(names.map((name) => headers[name] ?? null))

interface Variants {
  names: string[]
  /** Responses by the values of those headers. */
  responses: Map<string, CachedResponse>
  bytes: number
}

/** Answers of Functions that may be shared by equal requests, in this process's memory. */
export interface ResponseCache {
  /** The cached answer for a key and the headers that the Function would get, fresh or stale; undefined if there is none. */
  find(key: string, headers: RequestHeaders): { response: CachedResponse; isFresh: boolean } | undefined
  /** headers: those that the Function got. sent: those that went to the client, whose Vary counts. */
  store(
    key: string,
    headers: RequestHeaders,
    response: Pick<CachedResponse, 'status' | 'headers' | 'body'>,
    sent: HeaderPairs,
    freshness: Freshness,
  ): void
  /** Counts the bytes of a key's answers again, after one got a compressed copy. */
  recount(key: string): void
  /** Forgets all answers of a key. */
  drop(key: string): void
  /**
   * Claims the renewal of a stale answer: one caller renews it, and the others use it as it is. Returns undefined if another
   * caller renews it. The claim lists the headers that the answers vary by; call `end` when done.
   */
  beginRenewal(key: string, headers: RequestHeaders): { variesBy: readonly string[]; end(): void } | undefined
}

const sizeOf = ({ headers, body, copies }: CachedResponse): number =>
  headers.reduce(
    (sum, [name, value]) => sum + name.length + value.length,
    body.length + sizeOfCopies(copies) + BYTES_OF_ENTRY,
  )

const sizeOfAll = (key: string, responses: Variants['responses']): number =>
  responses.values().reduce((sum, each) => sum + sizeOf(each), key.length)

/** Caches 128 MiB, evicting the least recently used, and at most 16 variants per key. */
export function openResponseCache(bytesMax = BYTES_MAX): ResponseCache {
  const cache = new LRUCache<string, Variants>({ maxSize: bytesMax, sizeCalculation: ({ bytes }) => bytes })
  const renewing = new Set<string>()

  return {
    find(key, headers) {
      const variants = cache.get(key)
      const response = variants?.responses.get(variantOf(variants.names, headers))
      const nowMs = performance.now()
      if (!response || nowMs >= response.staleUntil) return undefined
      return { response, isFresh: nowMs < response.freshUntil }
    },
    store(key, headers, { status, headers: received, body }, sent, { freshSeconds, staleSeconds }) {
      const names = variesBy(sent)
      const known = cache.peek(key)
      // If an answer varies by other headers than the last one, earlier variants are unusable.
      const responses =
        known && known.names.join() === names.join() ? new Map(known.responses) : new Map<string, CachedResponse>()
      const variant = variantOf(names, headers)
      const storedAt = performance.now()
      const freshUntil = storedAt + freshSeconds * 1_000
      responses.delete(variant)
      responses.set(variant, {
        status,
        headers: received,
        body,
        copies: {},
        storedAt,
        freshUntil,
        staleUntil: freshUntil + staleSeconds * 1_000,
      })
      for (const oldest of responses.keys()) {
        if (responses.size <= VARIANTS_MAX) break
        responses.delete(oldest)
      }
      cache.set(key, { names, responses, bytes: sizeOfAll(key, responses) })
    },
    recount(key) {
      const known = cache.peek(key)
      // A new object: the cache counts a value that it has already only once.
      if (known) cache.set(key, { ...known, bytes: sizeOfAll(key, known.responses) })
    },
    drop(key) {
      cache.delete(key)
    },
    beginRenewal(key, headers) {
      const names = cache.peek(key)?.names ?? []
      const renewal = `${key}\n${variantOf(names, headers)}`
      if (renewing.has(renewal)) return undefined
      renewing.add(renewal)
      return { variesBy: names, end: () => void renewing.delete(renewal) }
    },
  }
}
