import { randomBytes } from 'node:crypto'

/** The trace that a request belongs to (W3C Trace Context). */
export interface Trace {
  /** 32 hexadecimal digits. */
  traceId: string
  /** Two hexadecimal digits: whether the caller samples. */
  flags: string
  /** Data of tracing systems; passed on unread. */
  state: string | undefined
}

const ZEROS = /^0+$/
const STATE_LENGTH_MAX = 512

/** Reads `traceparent` and `tracestate`. Returns undefined unless `traceparent` is valid, as the standard says. */
export function readTrace(traceparent: string | undefined, tracestate?: string): Trace | undefined {
  if (traceparent === undefined) return undefined
  const parts = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(traceparent)
  const [, version = 'ff', traceId = '0', parentId = '0', flags = '00', more] = parts ?? []
  if (version === 'ff' || (version === '00' && more !== undefined)) return undefined
  if (ZEROS.test(traceId) || ZEROS.test(parentId)) return undefined
  return { traceId, flags, state: tracestate?.slice(0, STATE_LENGTH_MAX) }
}

/** Returns the headers that propagate a trace to another service, under a span of its own. */
export function traceHeaders(trace: Trace | undefined): Record<string, string> {
  if (!trace) return {}
  const { traceId, flags, state } = trace
  const traceparent = `00-${traceId}-${randomBytes(8).toString('hex')}-${flags}`
  return { traceparent, ...(state && { tracestate: state }) }
}
