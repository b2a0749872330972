import { randomUUID } from 'node:crypto'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { readTrace } from '@platform/service/trace'
import type { Deps } from '../deps.ts'
import type { Endpoint } from './app.ts'
import { answerTo } from './document.ts'
import { commonHeaders } from './envelope.ts'

type Answer = (incoming: IncomingMessage, outgoing: ServerResponse) => void

/** A Host header of an ordinary client. Anything else takes the general path, where it is checked. */
const HOST = /^[\w.-]+(?::\d{1,5})?$/

/**
 * Answers document endpoints directly, and leaves everything else to `otherwise`: a Request, a router, a Response and a
 * promise per request would cost as much again as Node's own part. Request id, headers, metrics and the log line are those of
 * every endpoint.
 */
export function documentsFirst(
  { recordRequest }: Pick<Deps, 'recordRequest'>,
  endpoints: readonly Endpoint[],
  otherwise: RequestListener,
): RequestListener {
  const answerWith = ({ path, cors, document }: Endpoint & Required<Pick<Endpoint, 'document'>>): Answer => {
    const operation = `GET ${path}`
    const common = commonHeaders(cors).flat()
    return (incoming, outgoing) => {
      const startedAt = performance.now()
      const requestId = randomUUID()
      const { status, headers, body } = answerTo(document(), incoming.headers['if-none-match'])
      outgoing.writeHead(status, ['x-request-id', requestId, ...common, ...headers]).end(body)
      const traceparent = typeof incoming.headers.traceparent === 'string' ? incoming.headers.traceparent : undefined
      recordRequest({
        operation,
        requestId,
        traceId: readTrace(traceparent)?.traceId,
        method: incoming.method,
        status,
        startedAt,
        details: { path },
      })
    }
  }

  const answers = new Map(
    endpoints.flatMap((endpoint) => {
      const { path, document } = endpoint
      return document ? [[path, answerWith({ ...endpoint, document })] as const] : []
    }),
  )
  return (incoming, outgoing) => {
    const isRead = incoming.method === 'GET' || incoming.method === 'HEAD'
    const answer = isRead && HOST.test(incoming.headers.host ?? '') ? answers.get(incoming.url ?? '') : undefined
    if (answer) answer(incoming, outgoing)
    else otherwise(incoming, outgoing)
  }
}
