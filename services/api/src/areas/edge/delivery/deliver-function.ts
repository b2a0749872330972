import { Unavailable } from '@platform/errors/api-error'
import type { Answer, HeaderPairs } from '@platform/build-output/router'
import { FAILURE_HEADER } from './edge-messages.ts'
import { FunctionFailure } from '@platform/function-runtime/function-runtime'
import { header } from '../../../http/exchange.ts'
import type { Functions } from '../functions/functions.ts'
import { mergeAnswerHeaders, statusFor } from './answer-headers.ts'
import { beginAnswer } from './begin-answer.ts'
import { freshnessOf, isCacheable, keyOf, renew, sendCached } from './cached-answers.ts'
import { callFunction, ClientSilent, type FunctionCall } from './call-function.ts'
import { CollectedBody } from './collected-body.ts'
import type { AnswerBody } from './compressed-body.ts'
import type { DeployedFunction, DeployedSite } from './deployed-site.ts'
import { functionPage, requestTimedOut } from './function-page.ts'
import type { FunctionAnswer, FunctionCaller } from './function-caller.ts'
import type { FunctionLease } from './function-lease.ts'
import { requestBody } from './request-body.ts'
import { BODY_BYTES_MAX } from './response-cache.ts'
import type { Visit } from './visit.ts'

/** A slot's failure code for a handler that threw. */
const THREW = 'threw'

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

/** Bytes of a body, as its Content-Length says; undefined: there is none. */
export function lengthOf(headers: HeaderPairs): number | undefined {
  const length = headers.find(([name]) => name === 'content-length')?.[1]
  return length === undefined ? undefined : Number(length)
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
    let body: AnswerBody | undefined
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
        const headersSent: HeaderPairs = [...sent, ['x-cache', freshness ? 'MISS' : 'BYPASS']]
        const length = lengthOf(headers)
        body = beginAnswer(visit, caller.compressors, { status, headers: headersSent, length })
        if (body === visit) lengthAhead = length
        // The visitor has been answered: what is left of the body is only good for the cache.
        if (!body && !keeping) setImmediate(() => control.abort(new ClientLeft()))
      },
      onData(chunk) {
        const isKept = keeping?.add(chunk) ?? false
        if (!body) {
          if (keeping && !isKept) control.abort(new ClientLeft())
          return true
        }
        // The end of a complete body follows in the same tick, so head, body and end become one write.
        if (chunk.length === lengthAhead) {
          whole = chunk
          return true
        }
        return body.write(chunk, () => control.resume())
      },
      onEnd() {
        keep?.()
        keeping?.forget()
        body?.end(whole)
        resolve()
      },
      onError(error) {
        keeping?.forget()
        body?.cut?.()
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
    const sent = sendCached(caller, visit, answer, key, kept)
    if (!kept.isFresh) void renew(caller, visit, site, fn, answer, key, headers)
    await sent
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
