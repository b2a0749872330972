import type { HeaderPairs } from '@platform/build-output/router'
import type { Lease } from '@platform/function-runtime/function-runtime'
import { bareEtag, namesEtag } from '@platform/service/entity-tag'
import { mergeAnswerHeaders, statusFor } from './answer-headers.ts'
import { readCall } from './call-function.ts'
import { copyIn } from './compressed-copies.ts'
import type { DeployedFunction, DeployedSite } from './deployed-site.ts'
import type { FunctionAnswer, FunctionCaller } from './function-caller.ts'
import { negotiate } from './negotiate-encoding.ts'
import { BODY_BYTES_MAX, type CachedResponse, type Freshness, readFreshness } from './response-cache.ts'
import { flatten, type Visit } from './visit.ts'

type RequestHeaders = Record<string, string | string[]>

/** Headers that make frameworks act on another method or path than the request's. */
const overrides = [
  'x-http-method-override',
  'x-http-method',
  'x-method-override',
  'x-original-url',
  'x-rewrite-url',
] as const

/** True if an answer may be cached: it depends only on the key and is not one person's. */
export function isCacheable(visit: Visit): boolean {
  const { method } = visit
  const { headers } = visit.incoming
  return (
    visit.pin === undefined &&
    !visit.isUncached &&
    (method === 'GET' || method === 'HEAD') &&
    !visit.hasBody &&
    !overrides.some((name) => headers[name] !== undefined) &&
    headers.authorization === undefined &&
    headers.range === undefined &&
    headers.upgrade === undefined &&
    !headers.cookie?.includes('__prerender_bypass=')
  )
}

/**
 * The cache key: everything that an answer depends on except the headers in its Vary: the visitor's request, and what routes made
 * of it.
 */
export const keyOf = (site: DeployedSite, visit: Visit, answer: FunctionAnswer): string =>
  // None of the first six can contain a line feed.
  `${site.id}\n${visit.hostname}\n${visit.path}\n${visit.query}\n${answer.path}\n${answer.url}\n${
    answer.requestHeaders.length + answer.requestHeadersRemoved.length === 0
      ? ''
      : JSON.stringify([answer.requestHeaders, answer.requestHeadersRemoved])
  }`

/** Answers with a cached answer, compressed once for all that accept it, or with 304. */
export async function sendCached(
  { cache, compressors }: FunctionCaller,
  visit: Visit,
  answer: FunctionAnswer,
  key: string,
  { response: cached, isFresh }: { response: CachedResponse; isFresh: boolean },
): Promise<void> {
  visit.cacheStatus = isFresh ? 'hit' : 'stale'
  const status = statusFor(cached.status, answer)
  const own = mergeAnswerHeaders(answer, cached.headers, visit.hostname).filter(
    ([name]) => name !== 'content-length' && name !== 'age',
  )
  const age = String(Math.floor((performance.now() - cached.storedAt) / 1_000))
  own.push(['age', age], ['x-cache', isFresh ? 'HIT' : 'STALE'])
  const negotiated = negotiate(visit, status, own, cached.body.length)
  const encoded = negotiated?.encoded
  const plain = negotiated?.plain ?? own
  const headers = encoded?.headers ?? plain
  const { 'if-none-match': ifNoneMatch, 'if-modified-since': ifModifiedSince } = visit.incoming.headers
  const etag = headers.find(([name]) => name === 'etag')?.[1]
  const modified = headers.find(([name]) => name === 'last-modified')?.[1]
  if (status === 200 && (ifNoneMatch !== undefined || ifModifiedSince !== undefined)) {
    const isCurrent =
      ifNoneMatch === undefined
        ? modified !== undefined && modified === ifModifiedSince
        : etag !== undefined && namesEtag(ifNoneMatch, bareEtag(etag))
    if (isCurrent) {
      visit.send(304, flatten(headers.filter(([name]) => name !== 'content-type' && name !== 'content-encoding')))
      return
    }
  }
  if (encoded && visit.method === 'HEAD') {
    visit.send(status, flatten(headers))
    return
  }
  const found =
    encoded &&
    copyIn(cached.copies, encoded.encoding, compressors, { length: cached.body.length, read: () => cached.body }, () =>
      cache.recount(key),
    )
  const copy = found instanceof Promise ? await found : found
  if (copy) visit.send(status, flatten(headers), copy)
  else visit.send(status, [...flatten(plain), 'content-length', String(cached.body.length)], cached.body)
}

/** Freshness of an answer; undefined: it must not be cached. A cookie forbids that even if the client does not get it. */
export const freshnessOf = (status: number, received: HeaderPairs, sent: HeaderPairs): Freshness | undefined =>
  received.some(([name]) => name === 'set-cookie') ? undefined : readFreshness(status, sent)

/** Calls the Function again for a stale answer, anonymously, and caches the new one if allowed. */
export async function renew(
  caller: FunctionCaller,
  visit: Visit,
  site: DeployedSite,
  fn: DeployedFunction,
  answer: FunctionAnswer,
  key: string,
  received: RequestHeaders,
): Promise<void> {
  const { cache, deps, timings } = caller
  const renewal = cache.beginRenewal(key, received)
  if (!renewal) return
  const headers = { ...received }
  for (const name of ['cookie', 'if-none-match', 'if-modified-since', 'content-length', 'x-request-id'])
    if (!renewal.variesBy.includes(name)) delete headers[name]
  let lease: Lease | undefined
  try {
    lease = await deps.functions.acquire(fn.deploymentId, fn.id)
    const call = { method: 'GET', path: answer.url, headers, body: null }
    const response = await readCall(lease, call, timings, fn.deploymentId, BODY_BYTES_MAX)
    const sent = mergeAnswerHeaders(answer, response.headers, visit.hostname)
    const freshness = freshnessOf(statusFor(response.status, answer), response.headers, sent)
    if (freshness) cache.store(key, headers, response, sent, freshness)
    // The new answer must not be cached, so the cached one is no longer valid.
    else if (response.status < 500) cache.drop(key)
  } catch (error) {
    // The stale answer stays in use until it expires.
    deps.logger.info({ err: error, deploymentId: site.id, function: fn.path }, 'a kept answer was not renewed')
  } finally {
    lease?.release()
    renewal.end()
  }
}
