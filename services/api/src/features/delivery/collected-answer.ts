import { once } from 'node:events'
import { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { CollectedBody } from './collected-body.ts'

/** More than the headers of any answer. */
const HEAD_BYTES_MAX = 262_144
const END_OF_HEAD = '\r\n\r\n'

/** An answer in memory. */
interface CollectedAnswer {
  status: number
  /** Names in lower case; the last of several. */
  headers: Record<string, string>
  body: Buffer
}

/** The end of a connection that leads nowhere: it takes what is written, and is never full. */
class Sink extends Duplex {
  readonly remoteAddress = '127.0.0.1'
  bytesWritten = 0
  readonly #collected: CollectedBody
  /** Set where the answer is longer than it may be. */
  isTooLong = false

  constructor(collected: CollectedBody) {
    super({ allowHalfOpen: false })
    this.#collected = collected
  }

  override _read(): void {}

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.bytesWritten += chunk.length
    if (!this.#collected.add(chunk)) {
      this.isTooLong = true
      this.destroy()
    }
    done()
  }

  setTimeout(): this {
    return this
  }
}

/**
 * Makes a GET of this process's own, hands it to whoever answers requests, and collects the answer. A body longer than bytesMax is
 * answered with `undefined`; so is one of too many that are collected of a deployment.
 *
 * Rejects with the signal's reason where it is aborted, and with an error where the answer breaks off.
 */
export async function collectAnswer(
  {
    url,
    headers,
    deploymentId,
    bytesMax,
  }: { url: string; headers: Record<string, string>; deploymentId: string; bytesMax: number },
  signal: AbortSignal,
  answer: (incoming: IncomingMessage, outgoing: ServerResponse) => void,
): Promise<CollectedAnswer | undefined> {
  signal.throwIfAborted()
  const collected = new CollectedBody(deploymentId, bytesMax + HEAD_BYTES_MAX)
  const sink = new Sink(collected)
  // Of a socket it has what requests and answers here use.
  const socket = sink as unknown as Socket
  const incoming = new IncomingMessage(socket)
  Object.assign(incoming, { method: 'GET', url, headers, complete: true })
  // An answer to HTTP/1.0 is its head and then its body as it is.
  incoming.httpVersionMajor = 1
  incoming.httpVersionMinor = 0
  incoming.httpVersion = '1.0'
  incoming.push(null)
  const outgoing = new ServerResponse(incoming)
  outgoing.assignSocket(socket)
  sink.on('error', () => {})
  const abort = () => void sink.destroy()
  signal.addEventListener('abort', abort, { once: true })
  // As a server does with the connection of HTTP/1.0.
  outgoing.once('finish', () => sink.destroy())
  const closed = once(outgoing, 'close')
  try {
    answer(incoming, outgoing)
    await closed
    signal.throwIfAborted()
    if (sink.isTooLong) return undefined
    if (!outgoing.writableFinished) throw new Error('The answer broke off')
    const whole = collected.whole() ?? Buffer.alloc(0)
    const end = whole.indexOf(END_OF_HEAD)
    const lines = whole.toString('latin1', 0, end).split('\r\n').slice(1)
    const pairs = lines.map((line): [string, string] => {
      const at = line.indexOf(':')
      return [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()]
    })
    const body = whole.subarray(end + END_OF_HEAD.length)
    return body.length > bytesMax
      ? undefined
      : { status: outgoing.statusCode, headers: Object.fromEntries(pairs), body }
  } finally {
    signal.removeEventListener('abort', abort)
    collected.forget()
    sink.destroy()
  }
}
