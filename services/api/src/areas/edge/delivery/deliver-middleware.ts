import type { Answer } from '@platform/build-output/router'
import { FunctionFailure, type Lease } from '@platform/function-runtime/function-runtime'
import { beginAnswer } from './begin-answer.ts'
import { callFunction, type FunctionCall } from './call-function.ts'
import type { AnswerBody } from './compressed-body.ts'
import { answerClientFailure, answerFailure, ClientLeft, headersFor, lengthOf, unreadable } from './deliver-function.ts'
import type { DeployedFunction } from './deployed-site.ts'
import type { FunctionCaller } from './function-caller.ts'
import { cleanAnswerHeaders } from './headers.ts'
import type { Visit } from './visit.ts'

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
    let body: AnswerBody | undefined
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
        const isBodiless = next.status === 204 || next.status === 304
        const length = lengthOf(received)
        if (length !== undefined && !isBodiless) headers.push(['content-length', String(length)])
        body = beginAnswer(visit, caller.compressors, { status: next.status, headers, length })
        // The visitor has been answered, and nobody reads the rest.
        if (!body) setImmediate(() => control.abort(new ClientLeft()))
      },
      onData(chunk) {
        if (hasPassed) {
          control.abort(new Passed())
          return true
        }
        return body?.write(chunk, () => control.resume()) ?? true
      },
      onEnd() {
        if (hasPassed) return
        body?.end()
        resolve(undefined)
      },
      onError(error) {
        body?.cut?.()
        reject(error)
      },
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
