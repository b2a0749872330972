import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'

interface Listening {
  port: number
  /** Stops accepting, lets what is under way finish for at most `drainMs`, then cuts it. */
  stop(drainMs?: number): Promise<void>
}

/** What a request that is none is told; without it the answer has no body. */
export type Refusal = (status: number) => { type: string; body: string }

interface ListenOptions {
  /** How long a whole request may take to arrive; 0 where bodies are large and the listener watches over them. */
  requestTimeoutMs?: number
  /** True where the listener calls `inviteBody` before it reads one, so that `Expect: 100-continue` waits for it. */
  isBodyInvited?: boolean
}

const waiting = new WeakMap<IncomingMessage, ServerResponse>()

/** Tells a client that asked first (`Expect: 100-continue`) to send its body. Safe to repeat. */
export function inviteBody(incoming: IncomingMessage): void {
  waiting.get(incoming)?.writeContinue()
  waiting.delete(incoming)
}

/**
 * Listens on host:port (0: any free port). Rejects with the system's error when the port is taken.
 * Headers must arrive within 10 s and the whole request within 30 s; 16 KiB of headers is Node's own limit (431). A header
 * that may come once and came twice reads as one that is wrong: a proxy might have looked at the other.
 */
export async function listen(
  listener: RequestListener,
  host: string,
  port: number,
  refusal?: Refusal,
  { requestTimeoutMs = 30_000, isBodyInvited = false }: ListenOptions = {},
): Promise<Listening> {
  const limits = { requestTimeout: requestTimeoutMs, headersTimeout: 10_000, keepAliveTimeout: 65_000 }
  const server = createServer({ ...limits, joinDuplicateHeaders: true }, listener)
  if (isBodyInvited)
    server.on('checkContinue', (incoming: IncomingMessage, outgoing: ServerResponse) => {
      waiting.set(incoming, outgoing)
      server.emit('request', incoming, outgoing)
    })
  // Nobody knows another expectation, and RFC 9110 §10.1.1 lets a server ignore it; Node would answer 417 unseen by the log.
  server.on('checkExpectation', (incoming, outgoing) => server.emit('request', incoming, outgoing))
  if (refusal)
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => refuseUnreadable(error, socket, refusal))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  return { port: (server.address() as AddressInfo).port, stop: (drainMs = 25_000) => drain(server, drainMs) }
}

/** Answers what Node could not read as a request, as it does by itself, but with a body. */
function refuseUnreadable(error: NodeJS.ErrnoException, socket: Duplex, refusal: Refusal): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400
  const { type, body } = refusal(status)
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Connection: close',
    `Content-Type: ${type}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

function drain(server: Server, drainMs: number): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => server.closeAllConnections(), drainMs)
    server.close(() => {
      clearTimeout(cut)
      resolve()
    })
    server.closeIdleConnections()
  })
}
