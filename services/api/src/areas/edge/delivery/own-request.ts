import { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'

/** A connection without a peer: accepts everything written, and is never full. */
class Sink extends Duplex {
  readonly remoteAddress = '127.0.0.1'
  bytesWritten = 0
  readonly #take: (chunk: Buffer) => boolean

  constructor(take: (chunk: Buffer) => boolean) {
    super({ allowHalfOpen: false })
    this.#take = take
  }

  override _read(): void {}

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.bytesWritten += chunk.length
    if (!this.#take(chunk)) this.destroy()
    done()
  }

  setTimeout(): this {
    return this
  }
}

/**
 * Creates an internal GET request for the server. `take` receives the response as HTTP/1.0 on the wire, its head and then its raw
 * body, and breaks it off by returning false; `destroy` of the connection does the same.
 */
export function openOwnRequest(
  { url, headers }: { url: string; headers: Record<string, string> },
  take: (chunk: Buffer) => boolean,
): { incoming: IncomingMessage; outgoing: ServerResponse; connection: Duplex } {
  const sink = new Sink(take)
  // It implements what requests and responses use of a socket here.
  const socket = sink as unknown as Socket
  const incoming = new IncomingMessage(socket)
  Object.assign(incoming, { method: 'GET', url, headers, complete: true })
  incoming.httpVersionMajor = 1
  incoming.httpVersionMinor = 0
  incoming.httpVersion = '1.0'
  incoming.push(null)
  const outgoing = new ServerResponse(incoming)
  outgoing.assignSocket(socket)
  sink.on('error', () => {})
  // As a server closes an HTTP/1.0 connection.
  outgoing.once('finish', () => sink.destroy())
  return { incoming, outgoing, connection: sink }
}
