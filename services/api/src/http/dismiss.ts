import type { IncomingMessage, ServerResponse } from 'node:http'

/** How long a client may go on sending a body that nobody reads before the connection is closed under it. */
const LINGER_MS = 2_000
/** The rest of a body up to this is read, so that the connection can be used again. */
const READ_BYTES_MAX = 65_536

/**
 * Call it before an answer is written. A client that is answered in the middle of its body can read the answer, and then has to go:
 * nobody reads the rest of a large body, nor waits for that of a small one.
 */
export function dismiss(incoming: IncomingMessage, outgoing: ServerResponse): void {
  if (incoming.complete) return
  const { 'content-length': length } = incoming.headers
  if (length === undefined || Number(length) > READ_BYTES_MAX) outgoing.setHeader('connection', 'close')
  outgoing.once('finish', () => {
    incoming.resume()
    const cut = setTimeout(() => incoming.socket.destroy(), LINGER_MS).unref()
    incoming.once('close', () => clearTimeout(cut))
  })
}
