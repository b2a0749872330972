import { type IncomingMessage, STATUS_CODES } from 'node:http'

const BODY_MS = 30_000
const nothing = (): void => {}
const limits = new WeakMap<IncomingMessage, () => void>()

/** Lifts the limit of `limitBody`, for an operation that times the body itself. */
export const liftBodyLimit = (incoming: IncomingMessage): void => limits.get(incoming)?.()

/**
 * Gives a body 30 s to arrive, then answers 408 and closes the connection. refusal: the body of that answer and its type.
 * Returns a function that lifts the limit, for a caller that times the body itself.
 */
export function limitBody(incoming: IncomingMessage, refusal = { type: 'text/plain', body: '' }): () => void {
  const { 'content-length': length, 'transfer-encoding': encoding } = incoming.headers
  if (encoding === undefined && (length === undefined || length === '0')) return nothing
  const late = setTimeout(() => {
    const { type, body } = refusal
    const head = `HTTP/1.1 408 ${STATUS_CODES[408]}\r\nConnection: close\r\nContent-Type: ${type}`
    incoming.socket.end(`${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }, BODY_MS).unref()
  const lift = () => clearTimeout(late)
  incoming.once('close', lift)
  limits.set(incoming, lift)
  return lift
}
