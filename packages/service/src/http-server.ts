import { randomUUID } from 'node:crypto'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import { type AddressInfo, Server as SocketServer, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'

export interface Listening {
  port: number
  /** The port as a list, the form in which all parts of a process report their ports. */
  ports: readonly number[]
  /**
   * From now on every response closes its connection, so that proxies' connection pools drain before `stop`: if a proxy sends a
   * POST on a connection just as it is closed, it cannot know whether it may retry.
   */
  drain(): void
  /** Accepts no more connections; requests on open ones are still answered. Safe to repeat. */
  refuseConnections(): Promise<void>
  /** Stops accepting, lets requests in progress finish for at most `drainMs`, then closes their connections. */
  stop(drainMs?: number): Promise<void>
}

/** The response to a request that no listener sees: its body, media type and request id, and headers beside these. */
export interface Refused {
  requestId: string
  type: string
  body: string
  headers?: Readonly<Record<string, string>>
}

/**
 * Makes the response to a request that no listener sees: 400, 408 or 431 for bytes that are not HTTP, 405 for CONNECT.
 * code: Node's error, for example HPE_INVALID_METHOD; NO_HOST; or CONNECT. peer: the remote address.
 */
export type Refusal = (status: number, code: string | undefined, peer: string | undefined) => Refused

interface ListenOptions {
  /** Maximum size of a request's headers; larger ones get 431. 16 KiB by default. */
  headerBytesMax?: number
  /** How long a whole request may take to arrive; 0 if bodies are large and the listener enforces its own limits. */
  requestTimeoutMs?: number
  /** True if the listener calls `inviteBody` before it reads a body, so that `Expect: 100-continue` waits for it. */
  isBodyInvited?: boolean
  /** Handles requests for which `isUpgrade` is true. */
  onUpgrade?: (incoming: IncomingMessage, socket: Socket, head: Buffer) => void
  /** Returns whether a request changes the protocol of its connection; other Upgrade headers are ignored (RFC 9110 §7.8). */
  isUpgrade?: (incoming: IncomingMessage) => boolean
}

/** A drained listener closes its socket when it has looked so often in vain for a request. */
const QUIET_LOOKS = 10
/**
 * And its open connections after this many. Together they last longer than a busy machine leaves a proxy without CPU: until a
 * connection is refused, it believes in this server, and what it sends next goes out on a connection that it kept.
 */
const QUIET_LOOKS_KEPT_OPEN = 100
/** Time between two looks. */
const LOOK_MS = 5
/**
 * Maximum time to hold requests, and then again to look for a tick in which no connection arrives. Here and below the time of a look
 * or tick counts up to PAUSE_MS: while the process was stopped, or had no CPU, it has looked at nothing, and connections wait.
 */
const HELD_MS_MAX = 500
/** Maximum time to wait for quiet on open connections, after the socket is closed. */
const KEPT_OPEN_MS_MAX = 2_000
const PAUSE_MS = 20
/** How long a connection that has never sent a byte may still do so. */
const SILENT_MS = 1_000
/** How long a refused client may take to close its side: a reset would take the response away from it. */
const LINGER_MS = 1_000
/** A tick of the event loop this short had nothing to do, so what it saw of the queue of connections is still true. */
const IDLE_TICK_MS = 0.1

const waiting = new WeakMap<IncomingMessage, ServerResponse>()
/** The response to the last request of each connection. */
const answers = new WeakMap<Duplex, ServerResponse>()

/** True while nothing else may be written to the response's connection: it has begun, or an earlier one is unfinished. */
export const isUnderWay = (outgoing: ServerResponse): boolean =>
  !outgoing.writableFinished && (outgoing.headersSent || outgoing.socket === null)

const refuseInWords: Refusal = (status) => ({
  requestId: randomUUID(),
  type: 'text/plain; charset=UTF-8',
  body: STATUS_CODES[status] ?? '',
})

/** Invites a client that sent `Expect: 100-continue` to send its body. Safe to repeat. */
export function inviteBody(incoming: IncomingMessage): void {
  waiting.get(incoming)?.writeContinue()
  waiting.delete(incoming)
}

/**
 * Creates a server that does not listen yet. What Node would refuse in silence or without a body gets the response of `refusal`:
 * bytes that are not HTTP, HTTP/1.1 without a Host, and CONNECT. The connection is closed after it.
 */
export function createRefusingServer(options: ServerOptions, refusal: Refusal, listener: RequestListener): Server {
  const server = createServer({ ...options, requireHostHeader: false }, (incoming, outgoing) => {
    answers.set(incoming.socket, outgoing)
    if (incoming.headers.host === undefined && incoming.httpVersion === '1.1') {
      const { headers, body } = messageOf(refusal(400, 'NO_HOST', incoming.socket.remoteAddress))
      outgoing.writeHead(400, headers).end(body)
    } else listener(incoming, outgoing)
  })
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    const answer = answers.get(socket)
    if (error.code === 'ECONNRESET' || (answer !== undefined && isUnderWay(answer))) socket.destroy()
    else refuse(socket, statusOf(error), error.code, refusal)
  })
  server.on('connect', (_, socket: Duplex) => {
    // Node reads no further request from this connection, and writes the rest of an earlier answer only while the client takes it.
    if (answers.get(socket)?.writableFinished === false) socket.destroy()
    else refuse(socket.on('error', () => socket.destroy()).resume(), 405, 'CONNECT', refusal)
  })
  return server
}

/**
 * Listens on host:port (0: any free port). Rejects with the system's error if the port is taken.
 * Headers must arrive within 10 s, give or take the second between two checks, and the whole request within 30 s; 16 KiB of
 * headers is Node's own limit (431). Repeated headers are joined by commas, so a repeated single-value header reads as
 * malformed: a proxy might have used the other value.
 */
export async function listen(
  listener: RequestListener,
  host: string,
  port: number,
  refusal: Refusal = refuseInWords,
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
  /** Requests since the last look. */
  let arrived = 0
  let held: (() => void)[] | undefined
  let closing: Promise<void> | undefined
  /** Resolves when the last connection of the closed server has ended. */
  let ended: Promise<void> | undefined
  const options = {
    ...limits,
    maxHeaderSize: headerBytesMax,
    joinDuplicateHeaders: true,
    shouldUpgradeCallback: isUpgrade,
  }
  const server = createRefusingServer(options, refusal, (incoming, outgoing) => {
    arrived++
    if (isDraining) outgoing.shouldKeepAlive = false
    if (!held) return listener(incoming, outgoing)
    held.push(() => listener(incoming, outgoing))
  })
  if (isBodyInvited)
    server.on('checkContinue', (incoming: IncomingMessage, outgoing: ServerResponse) => {
      waiting.set(incoming, outgoing)
      server.emit('request', incoming, outgoing)
    })
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  const upgraded = new Set<Duplex>()
  if (onUpgrade)
    server.on('upgrade', (incoming: IncomingMessage, socket: Socket, head: Buffer) => {
      upgraded.add(socket)
      socket.once('close', () => upgraded.delete(socket))
      onUpgrade(incoming, socket, head)
    })
  // No other expectation is in use, and RFC 9110 §10.1.1 lets a server ignore it; Node would respond with 417, unlogged.
  server.on('checkExpectation', (incoming, outgoing) => server.emit('request', incoming, outgoing))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })

  /** Waits until no request has arrived in so many looks in a row, 5 ms apart, for at most maxMs. */
  async function untilQuiet(looksInARow: number, maxMs: number): Promise<void> {
    let spentMs = 0
    for (let looks = 0; looks < looksInARow && spentMs < maxMs;) {
      arrived = 0
      const before = performance.now()
      await sleep(LOOK_MS)
      // The timer is due before the event loop has read what arrived meanwhile.
      await setImmediate()
      spentMs += Math.min(performance.now() - before, PAUSE_MS)
      looks = arrived > 0 ? 0 : looks + 1
    }
  }

  /** Closes one connection that waits for a request; false if none does. http.Server knows which do, and closes all of them. */
  function closeOneIdle(): boolean {
    let isClosed = false
    for (const socket of sockets)
      socket.destroy = () => {
        if (isClosed) return socket
        isClosed = true
        return Socket.prototype.destroy.call(socket)
      }
    server.closeIdleConnections()
    for (const socket of sockets) socket.destroy = Socket.prototype.destroy
    return isClosed
  }

  /**
   * On close the kernel resets connections that it has accepted but Node has not yet, and their requests are lost. So a drained
   * listener first holds new requests, which makes a proxy prefer a less busy server, and then closes its socket in a tick of the
   * event loop in which no connection arrived. Connections that a proxy keeps open are closed only afterwards: a request may be on
   * its way on one of them until a refused connection has told the proxy that this server is down. Each response closes one. The others
   * are closed one in each tick, since closing all of them takes milliseconds in which nobody looks for requests.
   */
  async function closeQuietly(): Promise<void> {
    if (isDraining) {
      held = []
      await untilQuiet(QUIET_LOOKS, HELD_MS_MAX)
      // The first close of a process takes a fifth of a millisecond longer, in which connections come that it then resets.
      new SocketServer().close()
      // Node accepts one connection in each tick, however many are waiting.
      let accepted = 0
      server.on('connection', () => accepted++)
      for (let spentMs = 0; spentMs < HELD_MS_MAX;) {
        const from = performance.now()
        // Who has slept is less likely to lose the CPU between the last look and the close.
        if (accepted === 0) await sleep(1)
        accepted = 0
        const before = performance.now()
        await setImmediate()
        const after = performance.now()
        if (accepted === 0 && after - before <= IDLE_TICK_MS) break
        spentMs += Math.min(after - from, PAUSE_MS)
      }
    }
    // http.Server's own close would first close the idle connections, one after the other.
    ended = new Promise((resolve) => SocketServer.prototype.close.call(server, () => resolve()))
    for (const serve of held?.splice(0) ?? []) serve()
    held = undefined
    if (isDraining) {
      await untilQuiet(QUIET_LOOKS_KEPT_OPEN, KEPT_OPEN_MS_MAX)
      do await setImmediate()
      while (closeOneIdle())
    }
    server.close()
  }

  const { port: listensOn } = server.address() as AddressInfo
  return {
    port: listensOn,
    ports: [listensOn],
    drain: () => void (isDraining = true),
    refuseConnections: () => (closing ??= closeQuietly()),
    async stop(drainMs = 25_000) {
      await (closing ??= closeQuietly())
      // Browsers connect ahead. To Node such a connection is busy with its first request.
      const hush = setTimeout(() => {
        for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
      }, SILENT_MS)
      const cut = setTimeout(() => {
        server.closeAllConnections()
        for (const socket of upgraded) socket.destroy()
      }, drainMs)
      await ended
      clearTimeout(hush)
      clearTimeout(cut)
    },
  }
}

const statusOf = ({ code }: NodeJS.ErrnoException): number =>
  code === 'HPE_HEADER_OVERFLOW' ? 431 : code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400

const messageOf = ({ requestId, type, body, headers }: Refused) => ({
  headers: {
    Connection: 'close',
    'X-Request-Id': requestId,
    'Content-Type': type,
    'Content-Length': String(Buffer.byteLength(body)),
    ...headers,
  },
  body,
})

/** Responds on a connection that has no request Node would answer, and closes it. */
function refuse(socket: Duplex, status: number, code: string | undefined, refusal: Refusal): void {
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const { headers, body } = messageOf(
    refusal(status, code, socket instanceof Socket ? socket.remoteAddress : undefined),
  )
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`)
  const cut = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(cut))
}
