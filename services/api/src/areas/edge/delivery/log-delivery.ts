import type { EdgeDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import type { ServedBy } from '../../observe/request-logs/table.ts'
import { hostOf } from './targets.ts'

/** The application whose request it was, and what answered it. */
export interface Delivered {
  applicationId: string
  servedBy: ServedBy
}

/**
 * Starts observing a delivery; call it before anything is sent. Call the returned function with the owner of the request; once
 * the response is over, however it ends, the request is logged.
 */
export function observeDelivery({
  deps,
  incoming,
  outgoing,
  path,
  url,
}: RawExchange<EdgeDeps>): (delivered: Delivered) => void {
  const startedAt = new Date()
  const sentBefore = incoming.socket.bytesWritten
  const write = (delivered: Delivered) => {
    const bytesSent = incoming.socket.bytesWritten - sentBefore
    const length = Number(outgoing.getHeader('content-length') ?? 0)
    const hasBody = incoming.method !== 'HEAD' && outgoing.statusCode !== 304
    deps.requestLog.write({
      ...delivered,
      method: incoming.method ?? 'GET',
      hostname: hostOf(incoming),
      path,
      query: url.slice(path.length + 1),
      protocol: `HTTP/${incoming.httpVersion}`,
      status: outgoing.statusCode,
      requestBodyBytes: 0,
      // If a response broke off, it is unknown how many of the sent bytes were its head.
      responseBodyBytes: hasBody ? Math.min(length || bytesSent, bytesSent) : 0,
      bytesSent,
      startedAt,
      completedAt: new Date(),
      requestHeaders: incoming.headers,
      responseHeaders: outgoing.getHeaders() as Record<string, string>,
    })
  }
  return (delivered) => void outgoing.once('close', () => write(delivered))
}
