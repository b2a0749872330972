import type { IncomingMessage, ServerResponse } from 'node:http'

/** How long a client may keep sending a body that nobody reads before we close the connection. */
const LINGER_MS = 2_000
/** A remaining body up to this size is read and discarded, so that the connection can be reused. */
const READ_BYTES_MAX = 65_536

/**
 * Stops receiving a body that we answer early. Call it before writing the answer. The client can still read the whole answer; the
 * connection is then closed if the body is large, or if the rest of a small one does not arrive within 2 s.
 */
export function dismiss(incoming: IncomingMessage, outgoing: ServerResponse): void {
  if (incoming.complete) return
  // A destroyed request has no socket any more, whatever the types say.
  const socket = incoming.socket as IncomingMessage['socket'] | null
  const { 'content-length': length } = incoming.headers
  const closes = length === undefined || Number(length) > READ_BYTES_MAX
  if (closes) {
    outgoing.setHeader('connection', 'close')
    // Node would close the connection right after the answer. If bytes of the body are unread then, the kernel resets the
    // connection and drops the unsent rest of the answer. So we end only our half, and read on (RFC 9112 §9.6).
    if (socket) socket.destroySoon = () => void socket.end()
  }
  outgoing.once('finish', () => {
    incoming.resume()
    const cut = setTimeout(() => socket?.destroy(), LINGER_MS).unref()
    incoming.once('close', () => {
      clearTimeout(cut)
      if (closes) socket?.destroy()
    })
  })
}
