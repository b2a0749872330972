import { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'

/** The end of a connection that leads nowhere: it takes what is written, and is never full. */
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
 * A GET of this process's own, for whoever answers requests. `take` is given the answer as it is on the wire of HTTP/1.0, its head and
 * then its body as it is, and breaks it off with false; so does `destroy` of the connection.
 */
export function openOwnRequest(
  { url, headers }: { url: string; headers: Record<string, string> },
  take: (chunk: Buffer) => boolean,
): { incoming: IncomingMessage; outgoing: ServerResponse; connection: Duplex } {
  const sink = new Sink(take)
  // Of a socket it has what requests and answers here use.
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
  // As a server does with the connection of HTTP/1.0.
  outgoing.once('finish', () => sink.destroy())
  return { incoming, outgoing, connection: sink }
}
