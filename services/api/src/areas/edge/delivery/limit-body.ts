import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import { isUnderWay } from '@platform/service/http-server'

const BODY_MS = 30_000
/** Time to read the answer before the connection is closed. */
const LINGER_MS = 2_000
const nothing = (): void => {}

/**
 * Limits a body to 30 s. After that the client is answered 408, unless an answer to this or an earlier request of the connection
 * has begun, and the connection is closed, so that whatever reads the body learns of it. Returns a function that lifts the limit,
 * for callers that time the body themselves.
 */
export function limitBody(incoming: IncomingMessage, outgoing: ServerResponse, bodyMs = BODY_MS): () => void {
  const { 'content-length': length, 'transfer-encoding': encoding } = incoming.headers
  if (encoding === undefined && (length === undefined || length === '0')) return nothing
  const { socket } = incoming
  const late = setTimeout(() => {
    if (isUnderWay(outgoing) || !socket.writable) {
      socket.destroy()
      return
    }
    socket.end(`HTTP/1.1 408 ${STATUS_CODES[408]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
    const cut = setTimeout(() => socket.destroy(), LINGER_MS).unref()
    socket.once('close', () => clearTimeout(cut))
  }, bodyMs).unref()
  const lift = () => clearTimeout(late)
  incoming.once('close', lift)
  return lift
}
