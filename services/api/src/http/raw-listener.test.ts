import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { listen } from '@platform/service/http-server'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { bodyOf, type RawExchange, createRawListener } from './raw-listener.ts'
import { sendContent } from './send-content.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

/**
 * Starts a listener that checks for silence ten times a second, and connects to it. A test whose client is not to be silent takes a
 * longer watchMs, since on a busy machine 100 ms may pass between two of its lines.
 */
async function open(handle: (exchange: RawExchange) => Promise<void>, watchMs = 100): Promise<Socket> {
  const allow = { methods: 'PUT', headers: 'Content-Type' }
  const listener = createRawListener(platform.api, { name: 'test', exposedHeaders: '', allow, watchMs, handle })
  const server = await listen(listener, '127.0.0.1', 0, undefined, { requestTimeoutMs: 0, isBodyInvited: true })
  onTestFinished(() => server.stop(0))
  const socket = connect(server.port, '127.0.0.1').on('error', () => {})
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  return socket
}
/** `once` from node:events rejects on a connection error, and the listener may well reset it. */
const closed = (socket: Socket): Promise<unknown> => new Promise((resolve) => socket.once('close', resolve))
const head = (length: number, more = '') =>
  `PUT /files/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${length}\r\n${more}\r\n`

test('a client that stops in the middle of its body is let go, and what waited for it is freed', async () => {
  const freed = Promise.withResolvers<unknown>()
  const socket = await open(async (exchange) => {
    try {
      for await (const chunk of bodyOf(exchange)) expect(chunk.length).toBeGreaterThan(0)
    } catch (error) {
      freed.resolve(error)
      throw error
    }
  })
  socket.write(`${head(1_000_000)}some bytes`)
  await closed(socket)
  expect(await freed.promise).toMatchObject({ status: 400, message: 'The body ended early' })
})

test('a client that sends a byte now and then is let go as well', async () => {
  const socket = await open(async (exchange) => {
    for await (const chunk of bodyOf(exchange)) expect(chunk.length).toBeGreaterThan(0)
  })
  socket.write(head(1_000_000))
  const dripping = setInterval(() => socket.write('x'), 20)
  onTestFinished(() => clearInterval(dripping))
  await closed(socket)
})

test('a client that stops reading is let go, and the reading for it ends, in its turn or behind another', async () => {
  const ended: string[] = []
  const bothEnded = Promise.withResolvers<void>()
  const socket = await open(async ({ outgoing, requestId }) => {
    async function* endless(): AsyncGenerator<Buffer> {
      try {
        for (;;) yield Buffer.alloc(65_536)
      } finally {
        ended.push(requestId)
        if (ended.length === 2) bothEnded.resolve()
      }
    }
    await sendContent(outgoing, { status: 200 }, endless())
  })
  socket.write(head(0, 'X-Request-Id: first-one\r\n') + head(0, 'X-Request-Id: second-one\r\n'))
  socket.pause()
  await bothEnded.promise
  expect(ended.toSorted()).toEqual(['first-one', 'second-one'])
})

test('a client that keeps up is not, nor one that the platform is busy for', async () => {
  const watchMs = 1_000
  const socket = await open(async (exchange) => {
    let length = 0
    for await (const chunk of bodyOf(exchange)) length += chunk.length
    exchange.isWorking = true
    await sleep(2.5 * watchMs)
    exchange.outgoing.end(String(length))
  }, watchMs)
  const answered = once(socket, 'data') as Promise<[Buffer]>
  socket.write(head(25 * 20_000))
  for (let n = 0; n < 25; n++) {
    socket.write(Buffer.alloc(20_000))
    await sleep(watchMs / 10)
  }
  expect((await answered)[0].toString()).toContain('200 OK')
})

test('a body is asked for when it is wanted, and not before a refusal (RFC 9110 §10.1.1)', async () => {
  const expecting = head(4, 'Expect: 100-continue\r\n')
  const refused = await open(async (exchange) => {
    exchange.outgoing.writeHead(403).end()
  }, 5_000)
  refused.write(expecting)
  expect(((await once(refused, 'data')) as [Buffer])[0].toString()).toMatch(/^HTTP\/1\.1 403 /)
  const taken = await open(async (exchange) => {
    for await (const chunk of bodyOf(exchange)) expect(chunk.toString()).toBe('body')
    exchange.outgoing.end()
  }, 5_000)
  taken.write(expecting)
  expect(((await once(taken, 'data')) as [Buffer])[0].toString()).toMatch(/^HTTP\/1\.1 100 /)
  taken.write('body')
  expect(((await once(taken, 'data')) as [Buffer])[0].toString()).toMatch(/^HTTP\/1\.1 200 /)
})
