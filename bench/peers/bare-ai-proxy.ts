import { createServer } from 'node:http'
import { Pool } from 'undici'
import { readSettings } from './settings.ts'

// A proxy to one AI provider, as undici's documentation has it: it adds the provider's key, and what comes back streams. It knows
// no caller, reads no body and counts nothing.

const { port, upstream, key } = readSettings('upstream', 'key')
const pool = new Pool(upstream, { headersTimeout: 0, bodyTimeout: 0 })
const authorization = `Bearer ${key}`

createServer((incoming, outgoing) => {
  const { 'content-type': type = 'application/json', 'content-length': length } = incoming.headers
  pool
    .stream(
      {
        path: incoming.url ?? '/',
        method: 'POST',
        headers: { authorization, 'content-type': type, ...(length !== undefined && { 'content-length': length }) },
        body: incoming,
        opaque: outgoing,
      },
      ({ statusCode, headers }) => {
        for (const name of ['content-type', 'content-length']) {
          const value = headers[name]
          if (value !== undefined) outgoing.setHeader(name, value)
        }
        outgoing.writeHead(statusCode)
        return outgoing
      },
    )
    .catch(() => outgoing.destroy())
}).listen(port, '127.0.0.1')
