import { observeRequest } from '@platform/service/metrics'
import { readTrace } from '@platform/service/trace'
import type { Deps } from '../deps.ts'

export type Header = readonly [name: string, value: string]

/** What every answer of an endpoint carries besides its request id. */
export const commonHeaders = (cors: boolean): readonly Header[] => [
  ['x-content-type-options', 'nosniff'],
  ...(cors
    ? ([
        ['access-control-allow-origin', '*'],
        ['access-control-expose-headers', 'www-authenticate, retry-after, x-request-id'],
      ] as const)
    : []),
]

interface AnsweredRequest {
  /** Method and path of the endpoint, or `unknown`; never what a client made up. */
  operation: string
  requestId: string
  traceparent: string | undefined
  method: string
  /** Without its query, which may hold secrets. */
  path: string
  status: number
  clientId?: string | undefined
  /** By performance.now(). */
  startedAt: number
}

/** Counts each request that was answered and writes its line in the log. */
export function createRecord({ logger }: Pick<Deps, 'logger'>): (request: AnsweredRequest) => void {
  // The members of its lines are named below and none is a secret: looking for some would be a tenth of what a document costs.
  const requestLog = logger.child({}, { redact: [] })
  return ({ operation, requestId, traceparent, method, path, status, clientId, startedAt }) => {
    const durationMs = performance.now() - startedAt
    observeRequest(operation, status, durationMs)
    requestLog.info(
      {
        requestId,
        traceId: traceparent === undefined ? undefined : readTrace(traceparent, undefined)?.traceId,
        method,
        path,
        status,
        clientId,
        durationMs: Math.round(durationMs * 10) / 10,
      },
      'request',
    )
  }
}
