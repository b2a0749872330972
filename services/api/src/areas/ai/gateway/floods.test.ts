import { once } from 'node:events'
import { connect } from 'node:net'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { askAi } from '../../../../test/ai-asks.ts'
import { aiKeys, chatOf, mockModel, mockProvider, newEntitledOwner } from '../../../../test/ai-providers.ts'
import { usageOf } from '../../../../test/ai.ts'
import { type HostileProvider, startHostileProvider } from '../../../../test/hostile-provider.ts'
import { hurryAi } from '../../../../test/hurry-ai.ts'
import type { Owner } from '../../../../test/scenario.ts'

let provider: HostileProvider
let platform: TestPlatform
let owner: Owner
beforeAll(async () => {
  provider = await startHostileProvider()
  platform = await startPlatform({
    aiProviders: { providers: [mockProvider(provider)], models: [mockModel('any')] },
    env: aiKeys,
    aiTimings: { retryMs: 1 },
  })
  owner = await newEntitledOwner(platform)
})
afterAll(async () => {
  await platform.close()
  await provider.close()
})

const MIB = 1_048_576
const asks = {
  chat: ['/chat/completions', chatOf('any')],
  stream: ['/chat/completions', chatOf('any', { stream: true })],
  speech: ['/audio/speech', { model: 'any', input: 'x', voice: 'a' }],
  video: ['/videos', { model: 'any', prompt: 'x' }],
} as const
const chunk = `data: {"choices":[{"index":0,"delta":{"content":"${'x'.repeat(1_000)}"}}]}\n\n`
const [JSON_TYPE, SSE] = ['application/json', 'text/event-stream']

const memoryMb = (): number => process.memoryUsage().rss / MIB

/** Sends as fast as the reader accepts, until the reader leaves. */
function flood(type: string, start: string, piece: Buffer, bytesMax = Infinity) {
  const closed = Promise.withResolvers<void>()
  const flooded = { sent: 0, closed: closed.promise }
  provider.play((incoming, outgoing) => {
    incoming.resume()
    flooded.sent = 0
    outgoing.writeHead(200, { 'content-type': type }).write(start)
    outgoing.on('close', closed.resolve)
    const more = () => {
      while (!outgoing.destroyed && flooded.sent < bytesMax) {
        flooded.sent += piece.length
        if (!outgoing.write(piece)) return void outgoing.once('drain', more)
      }
      outgoing.end()
    }
    more()
  })
  return flooded
}

test.each([
  ['a JSON answer of 200 MB', asks.chat, JSON_TYPE, '{"x":"', 503],
  ['an event of 200 MB', asks.stream, SSE, 'data: {"x":"', 503],
  ['a video job of 200 MB', asks.video, JSON_TYPE, '{"x":"', 503],
] as const)('%s is given up before it is in memory', async (_, [path, body], type, start, status) => {
  const before = memoryMb()
  const flooded = flood(type, start, Buffer.alloc(65_536, 'a'), 200 * MIB)
  const answered = await askAi(platform, owner.token, path, body)
  expect([answered.status, answered.bytes.includes('"upstream_error"')]).toEqual([status, true])
  expect(flooded.sent).toBeLessThan(80 * MIB)
  expect(memoryMb() - before).toBeLessThan(300)
})

/** Stops reading once the answer has begun. */
async function ignoreAnswer({ apiUrl }: TestPlatform, token: string, path: string, body: object) {
  const { hostname, port } = new URL(apiUrl)
  const text = JSON.stringify(body)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  socket.write(
    `POST /ai/v1${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  )
  await once(socket, 'readable')
  return socket
}
const endless = [
  ['events', asks.stream, SSE, Buffer.from(chunk.repeat(60))],
  ['bytes', asks.speech, 'audio/mpeg', Buffer.alloc(65_536, 'a')],
] as const

test.each(endless)('%s wait for a reader that does not read, and end with it', async (_, [path, body], type, piece) => {
  const flooded = flood(type, '', piece)
  const socket = await ignoreAnswer(platform, owner.token, path, body)
  let before = 0
  const stands = () => {
    const { sent } = flooded
    const isStill = sent > 0 && sent === before
    before = sent
    return isStill
  }
  // Until no more is accepted, which would never happen without backpressure.
  await expect.poll(stands, { interval: 500 }).toBe(true)
  expect(flooded.sent).toBeLessThan(16 * MIB)
  socket.destroy()
  await flooded.closed
  // The provider has no end: its connection closed because the reader left, and not after reading on.
  expect(flooded.sent).toBeLessThan(16 * MIB)
  await expect.poll(() => platform.api.ai.calls.size).toBe(0)
})

test.each(endless)(
  '%s that nobody reads end when the call has taken too long',
  async (_, [path, body], type, piece) => {
    const flooded = flood(type, '', piece)
    const { token, organizationId } = await newEntitledOwner(platform)
    const socket = await hurryAi(platform, { totalMs: 1_000 }, () => ignoreAnswer(platform, token, path, body))
    await flooded.closed
    await expect.poll(() => platform.api.ai.calls.size).toBe(0)
    expect(await usageOf(platform, organizationId)).toMatchObject([{ status: 'error', errorCode: 'upstream_timeout' }])
    // A reader that resumes still gets what was written before, and then the reason for the end.
    let last = ''
    socket.on('data', (read: Buffer) => (last = (last + read.toString('latin1')).slice(-1_000)))
    await expect.poll(() => socket.closed || last.includes('"upstream_timeout"')).toBe(true)
    socket.destroy()
  },
)
