import { Unavailable } from '@platform/errors/api-error'
import type { Answer, HeaderPairs } from '@platform/build-output/router'
import { FAILURE_HEADER } from './edge-messages.ts'
import { FunctionFailure, type Lease } from '@platform/function-runtime/function-runtime'
import { bareEtag, namesEtag } from '@platform/service/entity-tag'
import type { Deps } from '../../deps.ts'
import { header } from '../../http/exchange.ts'
import type { Functions } from '../functions/functions.ts'
import { mergeAnswerHeaders } from './answer-headers.ts'
import { callFunction, ClientSilent, type FunctionCall, type FunctionTimings, readCall } from './call-function.ts'
import { CollectedBody } from './collected-body.ts'
import type { DeployedFunction, DeployedSite } from './deployed-site.ts'
import { functionPage, requestTimedOut } from './function-page.ts'
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

/** What Functions are called with. */
export interface FunctionCaller {
  deps: Pick<Deps, 'functions' | 'logger' | 'clientAddress'>
  pinned: PinnedSlots
  timings: FunctionTimings
  cache: ResponseCache
  /** Answers with what takes the place of a Function that failed. */
  deliverInstead(visit: Visit, site: DeployedSite, answer: Answer): Promise<void>
}

/** What a slot says of a handler that threw. */
const THREW = 'threw'

type RequestHeaders = Record<string, string | string[]>

export type FunctionAnswer = Extract<Answer, { kind: 'function' }>

/** Headers of the client, with what the platform and the routes set. */
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
  // The edge has answered it. An object from which nothing is deleted stays a fast one.
  if ('expect' in headers) delete headers['expect']
  if (changes) {
    for (const name of changes.requestHeadersRemoved) delete headers[name]
    for (const [name, value] of changes.requestHeaders) headers[name] = value
  }
  return headers
}

/** Headers that make frameworks answer for another method or path than the request names. */
const overrides = [
  'x-http-method-override',
  'x-http-method',
  'x-method-override',
  'x-original-url',
  'x-rewrite-url',
] as const

/** An answer may come from the cache, and go there, only if it depends on nothing but the key and is not one person's. */
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

/** All that an answer depends on but for the headers that it names itself: what the visitor asked, and what routes made of it. */
const keyOf = (site: DeployedSite, visit: Visit, answer: FunctionAnswer): string =>
  // None of the first six can hold a line feed.
  `${site.id}\n${visit.hostname}\n${visit.path}\n${visit.query}\n${answer.path}\n${answer.url}\n${
    answer.requestHeaders.length + answer.requestHeadersRemoved.length === 0
      ? ''
      : JSON.stringify([answer.requestHeaders, answer.requestHeadersRemoved])
  }`

/** The status that the client gets: a route's replaces a Function's 200 alone. */
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

/** Freshness of an answer; undefined: it must not be kept. A cookie forbids that even where the client does not get it. */
const freshnessOf = (status: number, received: HeaderPairs, sent: HeaderPairs): Freshness | undefined =>
  received.some(([name]) => name === 'set-cookie') ? undefined : readFreshness(status, sent)

/** Asks the Function again for what is stale, as nobody in particular, and keeps its answer if that may be kept. */
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
    // It may not be kept any more, so what was kept is not right any more.
    else if (response.status < 500) cache.drop(key)
  } catch (error) {
    // What is stale goes on to be used until its time is over.
    deps.logger.info({ err: error, deploymentId: site.id, function: fn.path }, 'a kept answer was not renewed')
  } finally {
    lease?.release()
    renewal.end()
  }
}

/** Passes a call on to a slot, and its answer to the client. Rejects with what went wrong, whether or not the answer had begun. */
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
        // An answer that comes in its own time is seen to have begun.
        const length = headers.find(([name]) => name === 'content-length')?.[1]
        if (length === undefined) outgoing.flushHeaders()
        else lengthAhead = Number(length)
      },
      onData(chunk) {
        keeping?.add(chunk)
        // The end of a body that is whole follows in the same tick, and the head, the body and the end are one write.
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

/** A Function's answer that the site has a page of its own for. */
class Replaced extends Error {
  readonly answer: Answer
  constructor(answer: Answer) {
    super('The site has a page of its own for this answer')
    this.answer = answer
  }
}

/** The site's own page for a Function that threw; undefined: it has none, or that page's Function threw itself. */
function insteadOf(visit: Visit, answer: FunctionAnswer, status: number, headers: HeaderPairs): Answer | undefined {
  if (status !== 500 || visit.hasFailed || !answer.fail) return undefined
  if (!headers.some(([name, value]) => name === FAILURE_HEADER && value === THREW)) return undefined
  visit.hasFailed = true
  const instead = answer.fail(500)
  return instead.kind === 'status' ? undefined : instead
}

/** Whether a request may be sent twice, where a connection was closed as it was used again. */
const isRepeatable = ({ method, body }: FunctionCall): boolean =>
  body === null && (method === 'GET' || method === 'HEAD')

/**
 * Answers with what a Function answers, or with what is kept of it unless `mayKeep` is false. A Function that cannot answer is a page of the platform: 502
 * `function_crashed`, 503 `function_overloaded`, 504 `function_timeout`, 507 `function_out_of_memory`; an answer that had begun is
 * cut off.
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

/** The slot that answers a visit: its own where it came by a sticky URL. */
export const acquireFor = (
  { deps: { functions }, pinned }: FunctionCaller,
  { pin }: Visit,
  fn: DeployedFunction,
): Promise<FunctionLease> => (pin ? pinned.acquire(fn, pin) : functions.acquire(fn.deploymentId, fn.id))

/** What to answer where a slot lives, but its answer broke off or was none that HTTP knows. */
export const unreadable = (error: unknown): FunctionFailure =>
  new FunctionFailure(
    'function_crashed',
    `Its answer could not be read: ${error instanceof Error ? error.message : 'it closed the connection'}.`,
    error,
  )

/** Whether a call failed by its client, which is answered where it is there. Nothing of that is in the Function's log. */
export function answerClientFailure(visit: Visit, error: unknown): boolean {
  if (error instanceof ClientSilent) {
    if (visit.outgoing.headersSent) visit.outgoing.destroy()
    else visit.sendPage(requestTimedOut)
  }
  return error instanceof ClientSilent || error instanceof ClientLeft
}

/** Throws what is no fault of a Function: no slot was had, or the edge that has it went away. Its Function's log says nothing of that. */
export function throwUnlessOfFunction(error: unknown, lease: FunctionLease | undefined): void {
  if (lease === undefined || error instanceof Unavailable) throw error
  if (lease.isRemote) throw new Unavailable('The edge that has the slot went away', error)
}

/** Why a call of a slot did not come to its end: by its client, its Function or its slot. */
export async function failureOf(error: Error, lease: FunctionLease): Promise<Error> {
  if (error instanceof ClientSilent || error instanceof FunctionFailure) return error
  return (await lease.failure()) ?? unreadable(error)
}

/** Writes down in a Function's log what its slot does not say of itself, since it lives. */
export function sayFailure(
  functions: Functions,
  fn: Pick<DeployedFunction, 'deploymentId' | 'path'>,
  { slot }: FunctionLease,
  requestId: string | undefined,
  { code, cause, message }: FunctionFailure,
): void {
  if (code === 'function_timeout' || cause !== undefined)
    functions.say(fn.deploymentId, fn.path, { slot, requestId, level: 'ERROR', message })
}

/** Answers with a failure of a Function. The edge that has its slot tells its log. */
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
