import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Answers one request. Its body is read only by whoever wants to. */
type Play = (incoming: IncomingMessage, outgoing: ServerResponse) => unknown

/** A provider that answers as a test tells it, which the mock's well-formed failures do not cover. */
export interface HostileProvider {
  baseUrl: string
  /** The requests that arrived, without their bodies. */
  requests: readonly IncomingMessage[]
  /** Answers all requests from now on. */
  play(next: Play): void
  /** Answers all requests from now on with a document, after their bodies. */
  say(document: string | Buffer, contentType?: string): void
  close(): Promise<void>
}

export async function startHostileProvider(): Promise<HostileProvider> {
  const requests: IncomingMessage[] = []
  let playing: Play = (_, outgoing) => outgoing.writeHead(500).end()
  const server = createServer((incoming, outgoing) => {
    requests.push(incoming)
    for (const each of [incoming, outgoing]) each.on('error', () => {})
    playing(incoming, outgoing)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    play: (next) => void (playing = next),
    say(document, contentType = 'application/json') {
      playing = (incoming, outgoing) =>
        incoming.on('end', () => outgoing.writeHead(200, { 'content-type': contentType }).end(document)).resume()
    },
    async close() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}
