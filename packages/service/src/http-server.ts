import { createServer, type IncomingMessage, type RequestListener, type ServerResponse, STATUS_CODES } from 'node:http'
import { type AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'

export interface Listening {
  port: number
  /** The same, as every part of a process tells its ports. */
  ports: readonly number[]
  /**
   * From now on every answer closes its connection, so that the pools of proxies empty themselves before `stop`: a proxy that
   * sends a POST on a connection just as it is closed cannot know whether it may send it again.
   */
  drain(): void
  /** Accepts no connection any more; those that are open are still answered. Safe to repeat. */
  refuseConnections(): Promise<void>
  /** Stops accepting, lets what is under way finish for at most `drainMs`, then cuts it. */
  stop(drainMs?: number): Promise<void>
}

/**
 * What is answered to bytes that are not HTTP: the body, its type and the id of the answer.
 * code: what Node found wrong, such as HPE_INVALID_METHOD. peer: the address at the other end of the connection.
 */
export type Refusal = (
  status: number,
  code: string | undefined,
  peer: string | undefined,
) => { requestId: string; type: string; body: string }

interface ListenOptions {
  /** Of a request's headers; more are answered with 431. 16 KiB unless said. */
  headerBytesMax?: number
  /** How long a whole request may take to arrive; 0 where bodies are large and the listener watches over them. */
  requestTimeoutMs?: number
  /** True where the listener calls `inviteBody` before it reads one, so that `Expect: 100-continue` waits for it. */
  isBodyInvited?: boolean
  /** Answers requests that `isUpgrade` names. */
  onUpgrade?: (incoming: IncomingMessage, socket: Socket, head: Buffer) => void
  /** Whether a request changes the protocol of its connection; every other Upgrade header is ignored (RFC 9110 §7.8). */
  isUpgrade?: (incoming: IncomingMessage) => boolean
}

/** While a drained listener closes, requests are held until none has arrived for this long. */
const QUIET_MS = 50
/** The longest that they are held. */
const HELD_MS_MAX = 500
/** A tick of the event loop that took no longer than this had nothing to do: no connection waits to be accepted. */
const IDLE_TURN_MS = 0.1

const waiting = new WeakMap<IncomingMessage, ServerResponse>()
/** The answer to the last request of each connection. */
const answers = new WeakMap<Duplex, ServerResponse>()

/** True while nothing else may be written to the connection of an answer: it has begun, or one before it is not over. */
export const isUnderWay = (outgoing: ServerResponse): boolean =>
  !outgoing.writableFinished && (outgoing.headersSent || outgoing.socket === null)

function isAnswering(socket: Duplex): boolean {
  const answer = answers.get(socket)
  return answer !== undefined && isUnderWay(answer)
}

/** Tells a client that asked first (`Expect: 100-continue`) to send its body. Safe to repeat. */
export function inviteBody(incoming: IncomingMessage): void {
  waiting.get(incoming)?.writeContinue()
  waiting.delete(incoming)
}

/**
 * Listens on host:port (0: any free port). Rejects with the system's error when the port is taken.
 * Headers must arrive within 10 s, give or take the second between two checks, and the whole request within 30 s; 16 KiB of
 * headers is Node's own limit (431). Repeated headers are joined by commas, so that one which allows a single
 * value reads as malformed: a proxy might have used the other value.
 */
export async function listen(
  listener: RequestListener,
  host: string,
  port: number,
  refusal?: Refusal,
  {
    requestTimeoutMs = 30_000,
    headerBytesMax = 16_384,
    isBodyInvited = false,
    onUpgrade,
    isUpgrade = () => false,
  }: ListenOptions = {},
): Promise<Listening> {
  const limits = {
    requestTimeout: requestTimeoutMs,
    headersTimeout: 10_000,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: 65_000,
  }
  let isDraining = false
  let arrivedAt = 0
  let held: (() => void)[] | undefined
  let closing: Promise<void> | undefined
  /** When the last connection of the closed server is gone. */
  let ended: Promise<void> | undefined
  const options = {
    ...limits,
    maxHeaderSize: headerBytesMax,
    joinDuplicateHeaders: true,
    shouldUpgradeCallback: isUpgrade,
  }
  const server = createServer(options, (incoming, outgoing) => {
    if (refusal) answers.set(incoming.socket, outgoing)
    if (isDraining) outgoing.shouldKeepAlive = false
    if (!held) return listener(incoming, outgoing)
    arrivedAt = performance.now()
    held.push(() => listener(incoming, outgoing))
  })
  if (isBodyInvited)
    server.on('checkContinue', (incoming: IncomingMessage, outgoing: ServerResponse) => {
      waiting.set(incoming, outgoing)
      server.emit('request', incoming, outgoing)
    })
  const upgraded = new Set<Duplex>()
  if (onUpgrade)
    server.on('upgrade', (incoming: IncomingMessage, socket: Socket, head: Buffer) => {
      upgraded.add(socket)
      socket.once('close', () => upgraded.delete(socket))
      onUpgrade(incoming, socket, head)
    })
  // Nobody knows another expectation, and RFC 9110 §10.1.1 lets a server ignore it; Node would answer 417 unseen by the log.
  server.on('checkExpectation', (incoming, outgoing) => server.emit('request', incoming, outgoing))
  if (refusal)
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
      if (isAnswering(socket)) socket.destroy()
      else refuseUnreadable(error, socket, refusal)
    })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })

  /**
   * On close the kernel resets the connections that it has accepted and Node has not yet, and their requests are lost. So a
   * drained listener first holds new requests, which makes a proxy prefer a less busy server, and then closes in a tick of the
   * event loop in which no connection arrived.
   */
  async function closeQuietly(): Promise<void> {
    if (isDraining) {
      held = []
      const until = (arrivedAt = performance.now()) + HELD_MS_MAX
      const isQuiet = () => performance.now() - arrivedAt >= QUIET_MS || performance.now() >= until
      while (!isQuiet()) await sleep(QUIET_MS / 10)
      for (let before = performance.now(); before < until + HELD_MS_MAX; before = performance.now()) {
        await setImmediate()
        if (performance.now() - before <= IDLE_TURN_MS) break
      }
    }
    ended = new Promise((resolve) => server.close(() => resolve()))
    for (const serve of held?.splice(0) ?? []) serve()
    held = undefined
  }

  const { port: listensOn } = server.address() as AddressInfo
  return {
    port: listensOn,
    ports: [listensOn],
    drain: () => void (isDraining = true),
    refuseConnections: () => (closing ??= closeQuietly()),
    async stop(drainMs = 25_000) {
      await (closing ??= closeQuietly())
      const cut = setTimeout(() => {
        server.closeAllConnections()
        for (const socket of upgraded) socket.destroy()
      }, drainMs)
      await ended
      clearTimeout(cut)
    },
  }
}

/** Answers what Node could not read as a request, as it does by itself, but with a body. */
function refuseUnreadable(error: NodeJS.ErrnoException, socket: Duplex, refusal: Refusal): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400
  const { requestId, type, body } = refusal(
    status,
    error.code,
    socket instanceof Socket ? socket.remoteAddress : undefined,
  )
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Connection: close',
    `X-Request-Id: ${requestId}`,
    `Content-Type: ${type}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
