import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What a browser's requests to one origin go through, and may be stopped by; those to others always pass. */
export interface ForwardProxy {
  /** For `proxy` of a browser context; loopback has to be taken from its bypass list. */
  settings: { server: string; bypass: string }
  /** Paths of requests to the origin whose answer has not ended. */
  readonly open: ReadonlySet<string>
  /** Answers requests with a status instead, as something in front of an overloaded server does, and ends those that are open. */
  answer(status: 429 | 503): void
  /** Ends what is open, and accepts nothing more, as while a server starts anew. */
  cut(): void
  mend(): void
  close(): Promise<void>
}

/** Starts an HTTP proxy on a free port of 127.0.0.1. */
export async function startForwardProxy(origin: string): Promise<ForwardProxy> {
  const open = new Set<string>()
  const endings = new Set<() => void>()
  let mode: 'open' | 'cut' | 429 | 503 = 'open'

  function forward(url: URL, incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { method, headers } = incoming
    const sent = request(url, { method, headers: { ...headers, connection: 'close' } }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      answer.on('error', () => outgoing.destroy())
      answer.pipe(outgoing)
    })
    sent.on('error', () => outgoing.destroy())
    incoming.pipe(sent)
    if (url.origin !== origin) return
    // Two windows may have the same path open.
    const name = `${url.pathname} ${Math.random()}`
    const end = (): void => {
      sent.destroy()
      outgoing.destroy()
    }
    open.add(name)
    endings.add(end)
    outgoing.on('close', () => {
      open.delete(name)
      endings.delete(end)
      sent.destroy()
    })
  }

  const server = createServer((incoming, outgoing) => {
    const url = new URL(incoming.url ?? '/', origin)
    if (url.origin !== origin || mode === 'open') return forward(url, incoming, outgoing)
    if (mode === 'cut') return void incoming.socket.destroy()
    outgoing.writeHead(mode, { 'access-control-allow-origin': '*', 'retry-after': '1' }).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const stopAll = (next: typeof mode): void => {
    mode = next
    for (const end of endings) end()
  }
  return {
    settings: { server: `http://127.0.0.1:${port}`, bypass: '<-loopback>' },
    open,
    answer: stopAll,
    cut: () => stopAll('cut'),
    mend: () => (mode = 'open'),
    async close() {
      stopAll('cut')
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}
