import type { Answer } from '@platform/build-output/router'
import { FunctionFailure, type Lease } from '@platform/function-runtime/function-runtime'
import { callFunction, type FunctionCall } from './call-function.ts'
import {
  answerClientFailure,
  answerFailure,
  ClientLeft,
  type FunctionCaller,
  headersFor,
  unreadable,
} from './deliver-function.ts'
import type { DeployedFunction } from './deployed-site.ts'
import { flushHead } from './flush-head.ts'
import { cleanAnswerHeaders } from './headers.ts'
import { flatten, type Visit } from './visit.ts'

type MiddlewareAnswer = Extract<Answer, { kind: 'middleware' }>

/** Thrown to stop reading a pass-through answer: its headers say everything. */
class Passed extends Error {}

/** Calls a middleware and resolves with what answers next; undefined if the middleware answered by itself, streamed through. */
function passThrough(
  caller: FunctionCaller,
  visit: Visit,
  fn: DeployedFunction,
  lease: Lease,
  call: FunctionCall,
  answer: MiddlewareAnswer,
): Promise<Answer | undefined> {
  const { outgoing } = visit
  return new Promise((resolve, reject) => {
    let hasPassed = false
    const control = callFunction(lease, call, caller.timings, {
      onHead(status, received) {
        const next = answer.resume({ status, headers: received })
        if (next.kind !== 'answered') {
          hasPassed = true
          resolve(next)
          return
        }
        visit.servedBy = fn.servedBy
        visit.cacheStatus = 'bypass'
        visit.dropBody()
        const headers = cleanAnswerHeaders(next.headers, visit.hostname)
        const length = received.find(([name]) => name === 'content-length')
        const isBodiless = next.status === 204 || next.status === 304
        if (length && !isBodiless) headers.push(length)
        visit.writeHead(next.status, flatten(headers))
        if (!length) flushHead(outgoing)
      },
      onData(chunk) {
        if (hasPassed) {
          control.abort(new Passed())
          return true
        }
        return visit.write(chunk, () => control.resume())
      },
      onEnd() {
        if (hasPassed) return
        visit.end()
        resolve(undefined)
      },
      onError: reject,
    })
    outgoing.once('close', () => {
      if (!outgoing.writableFinished) control.abort(new ClientLeft())
    })
  })
}

/**
 * Calls a middleware. Resolves with what answers next; undefined if the visit has been answered, by the middleware or with its
 * failure. The request's body waits meanwhile for whatever answers.
 */
export async function deliverMiddleware(
  caller: FunctionCaller,
  visit: Visit,
  fn: DeployedFunction,
  answer: MiddlewareAnswer,
): Promise<Answer | undefined> {
  const headers = headersFor(caller, visit, undefined)
  for (const name of ['content-length', 'transfer-encoding', 'upgrade']) delete headers[name]
  visit.takeBody()
  let lease: Lease | undefined
  try {
    lease = await caller.deps.functions.acquire(fn.deploymentId, fn.id)
    if (visit.outgoing.destroyed) return undefined
    const call = { method: visit.method, path: answer.url, headers, body: null }
    const next = await passThrough(caller, visit, fn, lease, call, answer)
    if (next) visit.limitBody()
    return next
  } catch (error) {
    if (answerClientFailure(visit, error)) return undefined
    const failure = error instanceof FunctionFailure ? error : await lease?.failure()
    if (failure === undefined && lease === undefined) throw error
    visit.servedBy = fn.servedBy
    answerFailure(caller, visit, failure ?? unreadable(error), lease, fn)
    return undefined
  } finally {
    lease?.release()
  }
}
