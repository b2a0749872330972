import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openApiRelay } from './relay-to-api.ts'

const DEPLOYMENT = 'e3a1b1f0-0000-4000-8000-000000000001'

let api: Server
let relayed: Server
let close: () => void
let options: IncomingMessage[]
let answers: ServerResponse[]
const portOf = (server: Server) => (server.address() as AddressInfo).port
beforeEach(async () => {
  options = []
  answers = []
  api = createServer((incoming, outgoing) => {
    options.push(incoming)
    answers.push(outgoing)
  }).listen(0, '127.0.0.1')
  await once(api, 'listening')
  const relay = openApiRelay({
    apiUrl: `http://127.0.0.1:${portOf(api)}`,
    signDeployment: (id) => `${id}.signed`,
    logger: { warn: () => {} } as never,
  })
  close = () => relay.close()
  relayed = createServer((incoming, outgoing) => relay.listener(DEPLOYMENT, incoming, outgoing)).listen(0, '127.0.0.1')
  await once(relayed, 'listening')
})
afterEach(() => {
  close()
  for (const server of [api, relayed]) {
    server.closeAllConnections()
    server.close()
  }
})
const count = (n: number) => vi.waitFor(() => expect(options).toHaveLength(n), { timeout: 60_000, interval: 5 })

test('requests of one connection go to the API one after the other, however many are sent at once', async () => {
  const socket = connect(portOf(relayed), '127.0.0.1')
  const request = (n: number) => `GET /${n} HTTP/1.1\r\nHost: api\r\n\r\n`
  socket.write(Array.from({ length: 50 }, (_, n) => request(n)).join(''))
  let received = ''
  socket.setEncoding('utf8').on('data', (text: string) => void (received += text))
  for (let n = 0; n < 50; n++) {
    await count(n + 1)
    const open = await new Promise<number>((resolve, reject) =>
      api.getConnections((error, connections) => (error ? reject(error) : resolve(connections))),
    )
    expect(open).toBeLessThanOrEqual(2)
    answers[n]?.end(`answer ${n};`)
  }
  await vi.waitFor(() => expect(received.match(/answer \d+;/g)).toHaveLength(50), { timeout: 60_000 })
  expect(options.map(({ url }) => url)).toEqual(Array.from({ length: 50 }, (_, n) => `/${n}`))
  socket.destroy()
})

test('what a Function says of its own address is not believed, and headers of its connection stay behind', async () => {
  const socket = connect(portOf(relayed), '127.0.0.1')
  socket.write(
    'POST /x HTTP/1.1\r\nHost: s3.example\r\nX-Platform-Deployment: other.signed\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n' +
      'X-Real-Ip: 1.2.3.4\r\nConnection: keep-alive, x-hop\r\nX-Hop: 1\r\nTE: trailers\r\nX-Own: Yes\r\nContent-Length: 2\r\n\r\nhi',
  )
  await count(1)
  expect(options[0]?.headers).toEqual({
    host: 's3.example',
    'x-own': 'Yes',
    'content-length': '2',
    connection: 'keep-alive',
    'x-platform-deployment': `${DEPLOYMENT}.signed`,
  })
  socket.destroy()
})

test.each(['GET', 'DELETE', 'OPTIONS', 'POST'])(
  'the body of a %s never becomes a request of its own, whatever the request says of its connection',
  async (method) => {
    const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: api\r\nX-Platform-Deployment: other\r\n\r\n'
    const framings = [
      `Connection: content-length\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`,
      `Connection: keep-alive, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`,
    ]
    for (const [n, framing] of framings.entries()) {
      const socket = connect(portOf(relayed), '127.0.0.1')
      socket.write(`${method} /outer HTTP/1.1\r\nHost: api\r\n${framing}`)
      await count(n + 1)
      expect(await text(options[n]!)).toBe(smuggled)
      answers[n]?.end()
      await once(socket, 'data')
      socket.destroy()
    }
    expect(options.map(({ url }) => url)).toEqual(['/outer', '/outer'])
  },
)

test('a Function that leaves ends its request to the API', async () => {
  const socket = connect(portOf(relayed), '127.0.0.1')
  socket.write('POST /x HTTP/1.1\r\nHost: api\r\nContent-Length: 1000\r\n\r\npart')
  await count(1)
  const closed = once(answers[0]!, 'close')
  socket.destroy()
  await closed
  expect(options[0]?.complete).toBe(false)
})
