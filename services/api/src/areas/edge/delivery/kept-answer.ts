import type { PrerenderRules } from '@platform/build-output/manifest'
import type { HeaderPairs } from '@platform/build-output/router'
import type { Lifetime } from '../isr/pages.ts'
import { readDirectives } from './response-cache.ts'

/** A partially prerendered page: its shell, and the state from which a Function generates the rest (Partial Prerendering). */
const POSTPONED_TYPE = 'application/x-nextjs-pre-render'

/** Statuses that may be stored; all others are failures, which must not replace a page. */
const KEPT_STATUSES = new Set([200, 204, 301, 302, 303, 307, 308, 404, 410])
/** More than a response's headers can hold: a page that lost a tag would survive its revalidation. */
const TAGS_MAX = 8_192
const TAG_LENGTH_MAX = 1_024

/** Headers that the platform sets, or that concern a single response. */
const notKept = new Set([
  'set-cookie',
  'content-length',
  'cache-control',
  'cdn-cache-control',
  'vercel-cdn-cache-control',
  'surrogate-control',
  'expires',
  'accept-ranges',
  'age',
  'date',
  'x-vercel-cache',
])

const valueOf = (headers: HeaderPairs, wanted: string): string | undefined =>
  headers.find(([name]) => name === wanted)?.[1]

/** True if a page is partially prerendered. */
export const isPostponed = (headers: HeaderPairs): boolean =>
  valueOf(headers, 'content-type')?.startsWith(POSTPONED_TYPE) === true

/** The headers of a response that may be shared by everybody. */
export const keptHeaders = (headers: HeaderPairs): HeaderPairs => headers.filter(([name]) => !notKept.has(name))

/** The tags that Next.js assigned to a page. */
export const tagsOf = (headers: HeaderPairs): string[] =>
  [...new Set((valueOf(headers, 'x-next-cache-tags') ?? '').split(','))]
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '' && tag.length <= TAG_LENGTH_MAX)
    .slice(0, TAGS_MAX)

const directivesOf = (headers: HeaderPairs): Map<string, string> => {
  const control = valueOf(headers, 'cache-control')
  return control === undefined ? new Map() : readDirectives([control])
}

/** True if a response may be stored for everybody. A partially prerendered page may, whatever it says about the whole. */
export function isKept(status: number, headers: HeaderPairs): boolean {
  if (!KEPT_STATUSES.has(status)) return false
  if (isPostponed(headers)) return true
  const directives = directivesOf(headers)
  return !directives.has('private') && !directives.has('no-store')
}

const secondsOf = (value: string | undefined): number | undefined =>
  value !== undefined && /^\d+$/.test(value) ? Number(value) : undefined

/** A year: what frameworks write for `never`. */
const FOR_EVER_SECONDS = 31_536_000

/**
 * How long a page may be shown that was generated at nowMs, in milliseconds since 1970: by its own `s-maxage` and
 * `stale-while-revalidate`, else by its build's rules.
 */
export function lifetimeOf(rules: PrerenderRules, headers: HeaderPairs, nowMs: number): Lifetime {
  const directives = isPostponed(headers) ? new Map<string, string>() : directivesOf(headers)
  const own = secondsOf(directives.get('s-maxage'))
  const fresh = own ?? (rules.expiration === false ? FOR_EVER_SECONDS : rules.expiration)
  const staleFor = own === undefined ? undefined : secondsOf(directives.get('stale-while-revalidate'))
  const whole = staleFor === undefined ? (rules.staleExpiration ?? FOR_EVER_SECONDS) : fresh + staleFor
  const until = (seconds: number): number => (seconds >= FOR_EVER_SECONDS ? Infinity : nowMs + seconds * 1_000)
  return { freshUntil: until(fresh), staleUntil: until(Math.max(whole, fresh)) }
}

/** A partially prerendered page. */
export interface PostponedPage {
  /** The state that the Function must be sent. */
  state: Buffer
  /** The part that every visitor gets at once. */
  shell: Buffer
  contentType: string
}

/**
 * Splits a partially prerendered page. `state-length` counts bytes; earlier versions of Next.js counted characters. HTML begins
 * with `<`, which distinguishes the two. Returns undefined for any other or malformed page.
 */
export function splitPostponed(headers: HeaderPairs, body: Buffer): PostponedPage | undefined {
  const type = valueOf(headers, 'content-type') ?? ''
  const length = Number(/;\s*state-length=(\d+)/i.exec(type)?.[1] ?? Number.NaN)
  const contentType = /;\s*origin="([^"]*)"/i.exec(type)?.[1]
  if (!(length <= body.length) || contentType === undefined) return undefined
  const stateBytes = contentType.startsWith('text/html') && body[length] !== 0x3c ? byteOffset(body, length) : length
  return { state: body.subarray(0, stateBytes), shell: body.subarray(stateBytes), contentType }
}

const byteOffset = (body: Buffer, characters: number): number =>
  Buffer.byteLength(body.toString('utf8').slice(0, characters))
