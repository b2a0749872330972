import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { apiKey, Platform } from '../src/index.ts'

/** A request as the server received it. */
export interface Received {
  method: string
  path: string
  headers: IncomingMessage['headers']
  body: Buffer
}

/** What the server does with a request. */
export type Behaviour = (response: ServerResponse, request: Received) => unknown

export const secret = `svc_secret_${'S'.repeat(43)}`

export const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Behaviour =>
  (response) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))

/** Ends the connection before a byte of the answer. */
export const reset: Behaviour = (response) => void response.socket?.resetAndDestroy()

/** Ends the connection in the middle of the body. */
export const resetInBody: Behaviour = (response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
  response.write('{"id":"', () => response.socket?.resetAndDestroy())
}

/** Ends the answer properly, and its JSON in the middle. */
export const halfJson: Behaviour = (response) =>
  response.writeHead(200, { 'content-type': 'application/json' }).end(`{"secret":"${secret}`)

/**
 * A server in the place of the platform: each request takes the next behaviour of the script, and the last one stays. Exchanges of
 * keys are answered with the tokens `token-1`, `token-2` … of 300 s, unless `exchange` says otherwise. Ends with the test.
 */
export async function startHostileServer(script: Behaviour[], exchange?: Behaviour) {
  const requests: Received[] = []
  const exchanges: Received[] = []
  const server: Server = createServer((incoming, response) => {
    void (async () => {
      const received: Received = {
        method: incoming.method ?? '',
        path: incoming.url ?? '',
        headers: incoming.headers,
        body: await buffer(incoming),
      }
      if (received.path === '/oauth2/token') {
        exchanges.push(received)
        const token = { access_token: `token-${exchanges.length}`, token_type: 'Bearer', expires_in: 300 }
        return (exchange ?? json(200, token))(response, received)
      }
      requests.push(received)
      return (script.length > 1 ? script.shift() : script[0])?.(response, received)
    })()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    baseUrl,
    requests,
    exchanges,
    /** With an API key. */
    platform: new Platform({ baseUrl, credential: apiKey({ id: 'key-1', secret }) }),
  }
}
