import { Unavailable } from '@platform/errors/api-error'
import type { Answer, HeaderPairs } from '@platform/build-output/router'
import { FAILURE_HEADER } from './edge-messages.ts'
import { FunctionFailure, type Lease } from '@platform/function-runtime/function-runtime'
import { bareEtag, namesEtag } from '@platform/service/entity-tag'
import type { EdgeDeps } from '../deps.ts'
import { header } from '../../../http/exchange.ts'
import type { Functions } from '../functions/functions.ts'
import { mergeAnswerHeaders } from './answer-headers.ts'
import { callFunction, ClientSilent, type FunctionCall, type FunctionTimings, readCall } from './call-function.ts'
import { CollectedBody } from './collected-body.ts'
import type { DeployedFunction, DeployedSite } from './deployed-site.ts'
import { functionPage, requestTimedOut } from './function-page.ts'
import { flushHead } from './flush-head.ts'
import type { FunctionLease } from './function-lease.ts'
import type { PinnedSlots } from './pinned-slots.ts'
import { requestBody } from './request-body.ts'
import {
  BODY_BYTES_MAX,
  type CachedResponse,
  type Freshness,
  readFreshness,
  type ResponseCache,
} from './response-cache.ts'
import { flatten, type Visit } from './visit.ts'

/** What is needed to call Functions. */
export interface FunctionCaller {
  deps: Pick<EdgeDeps, 'functions' | 'logger' | 'clientAddress'>
  pinned: PinnedSlots
  timings: FunctionTimings
  cache: ResponseCache
  /** Delivers the replacement for a Function that failed. */
  deliverInstead(visit: Visit, site: DeployedSite, answer: Answer): Promise<void>
}

/** A slot's failure code for a handler that threw. */
const THREW = 'threw'

type RequestHeaders = Record<string, string | string[]>

export type FunctionAnswer = Extract<Answer, { kind: 'function' }>

/** Headers of the client, with those that the platform and the routes set. */
export function headersFor(
  { deps }: Pick<FunctionCaller, 'deps'>,
  visit: Visit,
  changes: Pick<FunctionAnswer, 'requestHeaders' | 'requestHeadersRemoved'> | undefined,
): Record<string, string | string[]> {
  const address = deps.clientAddress.exact(visit.socket.remoteAddress, header(visit.incoming, 'x-forwarded-for'))
  const headers: Record<string, string | string[]> = {
    ...(visit.headers as Record<string, string | string[]>),
    'x-forwarded-for': address,
    'x-real-ip': address,
    'x-request-id': visit.id,
  }
  // The edge has handled it. Checked first, since deleting a property makes V8 objects slow.
  if ('expect' in headers) delete headers['expect']
  if (changes) {
    for (const name of changes.requestHeadersRemoved) delete headers[name]
    for (const [name, value] of changes.requestHeaders) headers[name] = value
  }
  return headers
}

/** Headers that make frameworks act on another method or path than the request's. */
const overrides = [
  'x-http-method-override',
  'x-http-method',
  'x-method-override',
  'x-original-url',
  'x-rewrite-url',
] as const

/** True if an answer may be cached: it depends only on the key and is not one person's. */
function isCacheable(visit: Visit): boolean {
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
const keyOf = (site: DeployedSite, visit: Visit, answer: FunctionAnswer): string =>
  // None of the first six can contain a line feed.
  `${site.id}\n${visit.hostname}\n${visit.path}\n${visit.query}\n${answer.path}\n${answer.url}\n${
    answer.requestHeaders.length + answer.requestHeadersRemoved.length === 0
      ? ''
      : JSON.stringify([answer.requestHeaders, answer.requestHeadersRemoved])
  }`

/** The status for the client: a route's status replaces only a Function's 200. */
export const statusFor = (status: number, answer: Pick<FunctionAnswer, 'status'>): number =>
  status === 200 ? (answer.status ?? 200) : status

function sendCached(visit: Visit, answer: FunctionAnswer, cached: CachedResponse, isFresh: boolean): void {
  visit.cacheStatus = isFresh ? 'hit' : 'stale'
  const status = statusFor(cached.status, answer)
  const headers = mergeAnswerHeaders(answer, cached.headers, visit.hostname).filter(
    ([name]) => name !== 'content-length' && name !== 'age',
  )
  const age = String(Math.floor((performance.now() - cached.storedAt) / 1_000))
  headers.push(['age', age], ['x-cache', isFresh ? 'HIT' : 'STALE'])
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
  visit.send(status, [...flatten(headers), 'content-length', String(cached.body.length)], cached.body)
}

/** Freshness of an answer; undefined: it must not be cached. A cookie forbids that even if the client does not get it. */
const freshnessOf = (status: number, received: HeaderPairs, sent: HeaderPairs): Freshness | undefined =>
  received.some(([name]) => name === 'set-cookie') ? undefined : readFreshness(status, sent)

/** Calls the Function again for a stale answer, anonymously, and caches the new one if allowed. */
async function renew(
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

/** Forwards a call to a slot, and the answer to the client. Rejects with the error, whether or not the answer had begun. */
function passOn(
  caller: FunctionCaller,
  visit: Visit,
  site: DeployedSite,
  lease: FunctionLease,
  call: FunctionCall,
  answer: FunctionAnswer,
  key: string | undefined,
): Promise<void> {
  const { outgoing } = visit
  return new Promise((resolve, reject) => {
    let keep: (() => void) | undefined
    let keeping: CollectedBody | undefined
    let lengthAhead: number | undefined
    let whole: Buffer | undefined
    const control = callFunction(lease, call, caller.timings, {
      onSent: (bytes) => void (visit.requestBodyBytes += bytes),
      isClientDue: () =>
        call.body?.readableLength === 0 && !visit.incoming.complete && visit.incoming.readableLength === 0,
      onHead(received, headers) {
        const instead = insteadOf(visit, answer, received, headers)
        if (instead) {
          control.abort(new Replaced(instead))
          return
        }
        const status = statusFor(received, answer)
        const sent = mergeAnswerHeaders(answer, headers, visit.hostname)
        const freshness = key === undefined ? undefined : freshnessOf(status, headers, sent)
        visit.cacheStatus = freshness ? 'miss' : 'bypass'
        if (key !== undefined && freshness && visit.method === 'GET') {
          const kept = (keeping = new CollectedBody(site.id, BODY_BYTES_MAX))
          keep = () => {
            const body = kept.whole()
            if (body) caller.cache.store(key, call.headers, { status: received, headers, body }, sent, freshness)
          }
        }
        visit.writeHead(status, [...flatten(sent), 'x-cache', freshness ? 'MISS' : 'BYPASS'])
        // The client sees at once that a streamed answer has begun.
        const length = headers.find(([name]) => name === 'content-length')?.[1]
        if (length === undefined) flushHead(outgoing)
        else lengthAhead = Number(length)
      },
      onData(chunk) {
        keeping?.add(chunk)
        // The end of a complete body follows in the same tick, so head, body and end become one write.
        if (chunk.length === lengthAhead) {
          whole = chunk
          return true
        }
        return visit.write(chunk, () => control.resume())
      },
      onEnd() {
        keep?.()
        keeping?.forget()
        visit.end(whole)
        resolve()
      },
      onError(error) {
        keeping?.forget()
        reject(error)
      },
    })
    outgoing.once('close', () => {
      if (!outgoing.writableFinished) control.abort(new ClientLeft())
    })
  })
}

export class ClientLeft extends Error {}

/** A Function's answer that the site replaces with a page of its own. */
class Replaced extends Error {
  readonly answer: Answer
  constructor(answer: Answer) {
    super('The site has a page of its own for this answer')
    this.answer = answer
  }
}

/** The site's own page for a Function that threw; undefined if it has none, or if that page's Function threw itself. */
function insteadOf(visit: Visit, answer: FunctionAnswer, status: number, headers: HeaderPairs): Answer | undefined {
  if (status !== 500 || visit.hasFailed || !answer.fail) return undefined
  if (!headers.some(([name, value]) => name === FAILURE_HEADER && value === THREW)) return undefined
  visit.hasFailed = true
  const instead = answer.fail(500)
  return instead.kind === 'status' ? undefined : instead
}

/** True if a request may be sent again after a reused connection turned out to be closed. */
const isRepeatable = ({ method, body }: FunctionCall): boolean =>
  body === null && (method === 'GET' || method === 'HEAD')

/**
 * Answers with a Function's answer, or with a cached one unless `mayKeep` is false. If the Function cannot answer, the platform
 * sends a page: 502 `function_crashed`, 503 `function_overloaded`, 504 `function_timeout`, 507 `function_out_of_memory`; an
 * answer that had begun is cut off.
 */
export async function deliverFunction(
  caller: FunctionCaller,
  visit: Visit,
  site: DeployedSite,
  fn: DeployedFunction,
  answer: FunctionAnswer,
  mayKeep = true,
): Promise<void> {
  const { cache } = caller
  visit.servedBy = fn.servedBy
  const key = mayKeep && isCacheable(visit) ? keyOf(site, visit, answer) : undefined
  const headers = headersFor(caller, visit, answer)
  const kept = key === undefined ? undefined : cache.find(key, headers)
  if (key !== undefined && kept) {
    sendCached(visit, answer, kept.response, kept.isFresh)
    if (!kept.isFresh) void renew(caller, visit, site, fn, answer, key, headers)
    return
  }
  visit.cacheStatus = 'bypass'
  visit.takeBody()
  const call: FunctionCall = {
    method: visit.method,
    path: answer.url,
    headers,
    body: visit.hasBody ? requestBody(visit.incoming, visit.outgoing) : null,
  }
  for (let tries = 1; ; tries++) {
    let lease: FunctionLease | undefined
    try {
      lease = await acquireFor(caller, visit, fn)
      if (visit.outgoing.destroyed) return
      await passOn(caller, visit, site, lease, call, answer, key)
      return
    } catch (error) {
      if (error instanceof Replaced) {
        await caller.deliverInstead(visit, site, error.answer)
        return
      }
      if (answerClientFailure(visit, error)) return
      const failure = error instanceof FunctionFailure ? error : await lease?.failure()
      const isLost = failure === undefined && lease !== undefined && !visit.outgoing.headersSent
      if (isLost && tries === 1 && isRepeatable(call)) continue
      if (failure === undefined) throwUnlessOfFunction(error, lease)
      answerFailure(caller, visit, failure ?? unreadable(error), lease, fn)
      return
    } finally {
      lease?.release()
    }
  }
}

/** Leases the slot for a visit: the pinned one if it came by a sticky URL. */
export const acquireFor = (
  { deps: { functions }, pinned }: FunctionCaller,
  { pin }: Visit,
  fn: DeployedFunction,
): Promise<FunctionLease> => (pin ? pinned.acquire(fn, pin) : functions.acquire(fn.deploymentId, fn.id))

/** The failure of a live slot whose answer broke off or was not valid HTTP. */
export const unreadable = (error: unknown): FunctionFailure =>
  new FunctionFailure(
    'function_crashed',
    `Its answer could not be read: ${error instanceof Error ? error.message : 'it closed the connection'}.`,
    error,
  )

/**
 * True if a call failed because of its client, which is answered if it is still there. The Function's log does not mention it.
 */
export function answerClientFailure(visit: Visit, error: unknown): boolean {
  if (error instanceof ClientSilent) {
    if (visit.outgoing.headersSent) visit.outgoing.destroy()
    else visit.sendPage(requestTimedOut)
  }
  return error instanceof ClientSilent || error instanceof ClientLeft
}

/**
 * Throws errors that are not the Function's fault: no slot was available, or the edge that has it went away. The Function's log
 * does not mention them.
 */
export function throwUnlessOfFunction(error: unknown, lease: FunctionLease | undefined): void {
  if (lease === undefined || error instanceof Unavailable) throw error
  if (lease.isRemote) throw new Unavailable('The edge that has the slot went away', error)
}

/** Why a call did not complete: because of its client, its Function or its slot. */
export async function failureOf(error: Error, lease: FunctionLease): Promise<Error> {
  if (error instanceof ClientSilent || error instanceof FunctionFailure) return error
  return (await lease.failure()) ?? unreadable(error)
}

/** Failures that the log shows beside each of their requests, whatever the slot says of its end. */
const saidOfRequests: ReadonlySet<string> = new Set(['function_timeout', 'function_out_of_memory'])

/** Logs a failure beside its request: one that the slot does not log itself, since it is still alive, and those above. */
export function sayFailure(
  functions: Functions,
  fn: Pick<DeployedFunction, 'deploymentId' | 'path'>,
  { slot }: FunctionLease,
  requestId: string | undefined,
  { code, cause, message }: FunctionFailure,
): void {
  if (saidOfRequests.has(code) || cause !== undefined)
    functions.say(fn.deploymentId, fn.path, { slot, requestId, level: 'ERROR', message })
}

/** Answers with a Function's failure. The edge that has the slot writes to its log. */
export function answerFailure(
  { deps: { functions } }: FunctionCaller,
  visit: Visit,
  failure: FunctionFailure,
  lease: FunctionLease | undefined,
  fn: DeployedFunction,
): void {
  if (lease && !lease.isRemote) sayFailure(functions, fn, lease, visit.id, failure)
  if (visit.outgoing.headersSent) visit.outgoing.destroy()
  else {
    const page = functionPage(failure.code)
    visit.sendPage({ ...page, headers: { ...page.headers, 'x-request-id': visit.id } })
  }
}
