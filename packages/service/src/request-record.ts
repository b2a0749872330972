import type { Logger } from '@platform/runtime/logger'
import { observeRequest } from './metrics.ts'

/** A completed request. */
export interface AnsweredRequest {
  /** The operation or endpoint, also for metrics: one of a small set, never text from the client. */
  operation: string
  requestId: string
  traceId: string | undefined
  method: string | undefined
  status: number
  /** From performance.now(). */
  startedAt: number
  /** The thrown error, if any. */
  failure?: unknown
  /** Further members of the log line, for example the caller. Never a secret, a query or a body. */
  details: object
}

/**
 * Returns a function that counts a completed request and logs its line: at `error` with the failure for a 500, at `warn` for any
 * other 5xx, which means that a dependency is unavailable, and at `info` for the rest.
 */
export function createRequestRecord(logger: Logger): (request: AnsweredRequest) => void {
  // Redacting secrets in every line would cost 10 µs; the members used here are not secret.
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
