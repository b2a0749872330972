import type { Logger } from '@platform/runtime/logger'
import { observeRequest } from './metrics.ts'

/** A request that was answered. */
export interface AnsweredRequest {
  /** The operation or endpoint, for metrics too: one of a few, never text that a client made up. */
  operation: string
  requestId: string
  traceId: string | undefined
  method: string | undefined
  status: number
  /** By performance.now(). */
  startedAt: number
  /** What was thrown, if anything was. */
  failure?: unknown
  /** Further members of the line, such as the caller. Never a secret, a query or a body. */
  details: object
}

/**
 * Counts each answered request and writes its line in the log: `error` with the failure for a 500, `warn` for any other 5xx,
 * which means that a dependency is away, and `info` for the rest.
 */
export function createRequestRecord(logger: Logger): (request: AnsweredRequest) => void {
  // Looking for secrets among the members of every line would cost 10 µs; those named here are none.
  const requestLogger = logger.child({}, { redact: [] })
  return ({ operation, requestId, traceId, method, status, startedAt, failure, details }) => {
    const durationMs = performance.now() - startedAt
    observeRequest(operation, status, durationMs)
    const line = {
      requestId,
      traceId,
      operation,
      method,
      ...details,
      status,
      durationMs: Math.round(durationMs * 10) / 10,
    }
    if (status === 500) logger.error({ ...line, err: failure }, 'request failed')
    else if (status > 500) logger.warn({ ...line, err: failure }, 'a dependency is away')
    else requestLogger.info(line, 'request')
  }
}
