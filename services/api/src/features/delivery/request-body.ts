import type { IncomingMessage, ServerResponse } from 'node:http'
import { PassThrough, type Readable } from 'node:stream'

/** How long a client may go on sending a body whose request is answered. */
const REST_MS = 30_000

/**
 * The body of a request, for an HTTP client that destroys what it no longer reads. Destroying the request itself would stop its
 * connection from reading, so that the next request there is never answered; here the rest of the body is read and dropped.
 */
export function requestBody(incoming: IncomingMessage, outgoing: ServerResponse): Readable {
  const body = new PassThrough()
  const { socket } = incoming
  const onGone = (): void => void body.destroy(new Error('The client left within its body'))
  incoming.once('error', onGone)
  incoming.once('close', () => {
    if (!incoming.complete) onGone()
  })
  // Its reader may be gone already.
  body.on('error', () => {})
  body.once('close', () => {
    incoming.unpipe(body)
    incoming.resume()
  })
  outgoing.once('finish', () => {
    if (incoming.complete) return
    const late = setTimeout(() => socket.destroy(), REST_MS).unref()
    incoming.once('close', () => clearTimeout(late))
  })
  return incoming.pipe(body)
}
