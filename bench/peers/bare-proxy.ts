import { createServer } from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import { Pool } from 'undici'
import { readSettings } from './settings.ts'

// A proxy to one socket, as undici's documentation has it: the answer streams, hop-by-hop headers go. It logs nothing and looks
// nothing up.

const { port, socketPath } = readSettings('socketPath')
const pool = new Pool('http://function', { socketPath, headersTimeout: 0, bodyTimeout: 0 })

function passed(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const kept = { ...headers }
  delete kept.connection
  delete kept['keep-alive']
  delete kept['transfer-encoding']
  delete kept.upgrade
  return kept
}

createServer((incoming, outgoing) => {
  const hasBody = incoming.headers['content-length'] !== undefined || 'transfer-encoding' in incoming.headers
  pool
    .stream(
      {
        path: incoming.url ?? '/',
        method: incoming.method as 'GET',
        headers: passed(incoming.headers),
        body: hasBody ? incoming : null,
        opaque: outgoing,
      },
      ({ statusCode, headers }) => {
        outgoing.writeHead(statusCode, passed(headers))
        return outgoing
      },
    )
    .catch(() => outgoing.destroy())
})
  .on('upgrade', (incoming, client, head) => {
    void (async () => {
      try {
        const upgraded = await pool.upgrade({
          path: incoming.url ?? '/',
          protocol: 'websocket',
          headers: passed(incoming.headers),
        })
        const { socket, headers } = upgraded
        const lines = Object.entries(headers).map(([name, value]) => `${name}: ${String(value)}\r\n`)
        client.write(
          `HTTP/1.1 101 Switching Protocols\r\n${lines.join('')}connection: upgrade\r\nupgrade: websocket\r\n\r\n`,
        )
        socket.write(head)
        for (const each of [client, socket]) each.on('error', () => {})
        socket.pipe(client).pipe(socket)
      } catch {
        client.destroy()
      }
    })()
  })
  .listen(port, '127.0.0.1')
