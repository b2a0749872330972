import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openAiRequest, askAi, ownHeaders, usageEventOf } from '../../../test/ai-asks.ts'
import { aiKeys, chatOf, mockModel, mockProvider, newEntitledOwner } from '../../../test/ai-providers.ts'
import { type HostileProvider, startHostileProvider } from '../../../test/hostile-provider.ts'
import type { Owner } from '../../../test/scenario.ts'
import { usageOf } from '../../../test/ai.ts'

let provider: HostileProvider
let platform: TestPlatform
/** Waits for little. */
let hasty: TestPlatform
let owner: Owner
let hastyOwner: Owner
const unhandled: unknown[] = []
const note = (error: unknown) => void unhandled.push(error)
beforeAll(async () => {
  provider = await startHostileProvider()
  const options = {
    aiProviders: { providers: [mockProvider(provider, 'mock', { responses: true })], models: [mockModel('any')] },
    env: aiKeys,
  }
  platform = await startPlatform({ ...options, aiTimings: { retryMs: 1, leftMs: 100, idleMs: 2_000 } })
  hasty = await startPlatform({ ...options, aiTimings: { retryMs: 1, totalMs: 700 } })
  owner = await newEntitledOwner(platform)
  hastyOwner = await newEntitledOwner(hasty)
  process.on('uncaughtException', note).on('unhandledRejection', note)
})
afterAll(async () => {
  process.off('uncaughtException', note).off('unhandledRejection', note)
  await platform.close()
  await hasty.close()
  await provider.close()
})
afterEach(() => {
  const [error] = unhandled.splice(0)
  if (error !== undefined) throw error
})

const MIB = 1_048_576
const asks = {
  chat: ['/chat/completions', chatOf('any')],
  stream: ['/chat/completions', chatOf('any', { stream: true })],
  response: ['/responses', { model: 'any', input: 'x', stream: true }],
  speech: ['/audio/speech', { model: 'any', input: 'x', voice: 'a' }],
  transcription: ['/audio/transcriptions', { model: 'any', input_audio: { data: 'AAAA', format: 'wav' } }],
  video: ['/videos', { model: 'any', prompt: 'x' }],
} as const
const good =
  '{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"x"}}],"output":[],"text":"x","status":"pending"}'
const chunk = `data: {"choices":[{"index":0,"delta":{"content":"${'x'.repeat(1_000)}"}}]}\n\n`
const [JSON_TYPE, SSE] = ['application/json', 'text/event-stream']
const raw =
  (text: string | Buffer): Parameters<HostileProvider['play']>[0] =>
  (incoming) =>
    void incoming.on('end', () => incoming.socket.end(text)).resume()

/** Answers that are none. */
const oddities: Record<string, string> = {
  'no HTTP': 'SSH-2.0-x\r\n',
  nothing: '',
  'half a head': 'HTTP/1.1 200 OK\r\nContent-Type: appl',
  'a status of its own': 'HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\n{}',
  'a status of four digits': 'HTTP/1.1 2000 Odd\r\nContent-Length: 2\r\n\r\n{}',
  '101': 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx',
  '204': 'HTTP/1.1 204 No Content\r\n\r\n',
  '205': 'HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n',
  '206': 'HTTP/1.1 206 Partial\r\nContent-Length: 2\r\n\r\n{}',
  '304': 'HTTP/1.1 304 Not Modified\r\n\r\n',
  ...Object.fromEntries(
    [300, 301, 302, 303, 307, 308].map((status) => [
      `${status}`,
      `HTTP/1.1 ${status} Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 2\r\n\r\n{}`,
    ]),
  ),
  'only 100s': 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(1_000),
  'a length that is too long': `HTTP/1.1 200 OK\r\nContent-Type: ${JSON_TYPE}\r\nContent-Length: 9999\r\n\r\n${good}`,
  'a length that is too short': `HTTP/1.1 200 OK\r\nContent-Type: ${JSON_TYPE}\r\nContent-Length: 7\r\n\r\n${good}`,
  'two lengths': `HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 9\r\n\r\n${good}`,
  'a length and chunks': `HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n`,
  'a broken chunk': `HTTP/1.1 200 OK\r\nContent-Type: ${JSON_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":zz\r\n`,
  'gzip that nobody asked for': `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx`,
  'a header of 100 kB': `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(100_000)}\r\nContent-Length: 2\r\n\r\n{}`,
  'ten thousand headers': `HTTP/1.1 200 OK\r\n${'X: y\r\n'.repeat(10_000)}Content-Length: 2\r\n\r\n{}`,
  'an endless reason': `HTTP/1.1 200 ${'O'.repeat(200_000)}`,
}

describe.each(Object.entries(asks))('%s', (name, [path, body]) => {
  test.each(Object.entries(oddities))('%s becomes 503', async (_, text) => {
    provider.play(raw(text))
    const answered = await askAi(platform, owner.token, path, body)
    // Bytes of sound that are cut off, or are none, cannot be told from a sound.
    const isBytes = name === 'speech' && [0, 200].includes(answered.status)
    expect([answered.status, answered.body]).toEqual(
      isBytes
        ? [answered.status, answered.body]
        : [503, { error: { message: expect.any(String), type: 'api_error', param: null, code: expect.any(String) } }],
    )
    await usageEventOf(platform, answered.headers['x-service-request-id'])
    platform.api.ai.circuits.succeeded('mock operator')
    platform.api.ai.circuits.succeeded('mock operator any')
  })

  test.each([
    ['HTTP/1.0', `HTTP/1.0 200 OK\r\nContent-Type: ${JSON_TYPE}\r\n\r\n${good}`],
    [
      'early hints',
      `HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: ${good.length}\r\n\r\n${good}`,
    ],
    [
      'trailers',
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Set-Cookie\r\n\r\n${good.length.toString(16)}\r\n${good}\r\n0\r\nSet-Cookie: a=b\r\n\r\n`,
    ],
  ])('%s is an answer as any other', async (_, text) => {
    provider.play(raw(text))
    const answered = await askAi(platform, owner.token, path, body)
    expect([answered.status, answered.headers['set-cookie']]).toEqual([
      name === 'stream' || name === 'response' ? 503 : name === 'video' ? 202 : 200,
      undefined,
    ])
  })

  test.each([200, 302, 400, 401, 429, 500])('of the headers of %s none reaches the caller', async (status) => {
    provider.play((incoming, outgoing) => {
      const headers = {
        'content-type': name === 'stream' || name === 'response' ? SSE : 'text/html',
        'set-cookie': ['a=b', 'c=d'],
        'alt-svc': 'h3=":443"',
        'strict-transport-security': 'max-age=9',
        'access-control-allow-origin': '*',
        location: 'http://127.0.0.1:1/',
        'content-security-policy': 'x',
        'x-request-id': 'theirs',
        'x-service-request-id': 'theirs',
        'content-disposition': 'attachment',
        'cache-control': 'public',
        refresh: '0',
        link: '</x>',
        etag: '"x"',
        'content-encoding': 'identity',
      }
      incoming.on('end', () => outgoing.writeHead(status, headers).end(good)).resume()
    })
    const { headers } = await askAi(platform, owner.token, path, body)
    expect(Object.keys(headers).filter((each) => !ownHeaders.has(each))).toEqual([])
    expect([
      headers['x-request-id'],
      headers['cache-control'] ?? 'no-store',
      headers['content-type'],
    ]).not.toContainEqual(expect.stringMatching(/theirs|public|html/))
    platform.api.ai.circuits.succeeded('mock operator any')
  })

  test('clients that leave at any moment leave nothing unheard', async () => {
    const stages: Parameters<HostileProvider['play']>[0][] = [
      () => {},
      (_, outgoing) => outgoing.writeHead(200, { 'content-type': SSE }).flushHeaders(),
      (_, outgoing) => outgoing.writeHead(200, { 'content-type': SSE }).write(chunk),
      (_, outgoing) => outgoing.writeHead(200, { 'content-type': JSON_TYPE }).write('{'),
      (_, outgoing) => outgoing.writeHead(200, { 'content-type': SSE }).end(`${chunk}data: [DONE]\n\n`),
      (incoming) => incoming.socket.resetAndDestroy(),
    ]
    for (const stage of stages)
      for (const ms of [0, 5, 30]) {
        provider.play(stage)
        const asked = openAiRequest(platform, owner.token, path, body)
        await sleep(ms)
        asked.leave()
        await asked.answer
      }
    await sleep(300)
    expect(platform.api.ai.calls.size).toBe(0)
  })
})

const memoryMb = (): number => process.memoryUsage().rss / MIB

/** Sends as fast as the reader takes it, until that leaves. */
function flood(type: string, start: string, piece: Buffer, bytesMax = Infinity) {
  const flooded = { sent: 0, closedAt: 0 }
  provider.play((incoming, outgoing) => {
    incoming.resume()
    flooded.sent = 0
    outgoing.writeHead(200, { 'content-type': type }).write(start)
    outgoing.on('close', () => (flooded.closedAt = performance.now()))
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

describe('floods', () => {
  test.each([
    ['a JSON answer of 200 MB', asks.chat, JSON_TYPE, '{"x":"', 503],
    ['an event of 200 MB', asks.stream, SSE, 'data: {"x":"', 200],
    ['a video job of 200 MB', asks.video, JSON_TYPE, '{"x":"', 503],
  ] as const)('%s is given up before it is in memory', async (_, [path, body], type, start, status) => {
    const before = memoryMb()
    const flooded = flood(type, start, Buffer.alloc(65_536, 'a'), 200 * MIB)
    const answered = await askAi(platform, owner.token, path, body)
    expect([answered.status, answered.bytes.includes('"upstream_error"')]).toEqual([status, true])
    expect(flooded.sent).toBeLessThan(80 * MIB)
    expect(memoryMb() - before).toBeLessThan(300)
  })

  /** Reads nothing, once the answer has begun. */
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

  test.each(endless)(
    '%s wait for a reader that does not read, and end with it',
    async (_, [path, body], type, piece) => {
      const flooded = flood(type, '', piece)
      const socket = await ignoreAnswer(platform, owner.token, path, body)
      await sleep(500)
      const { sent } = flooded
      await sleep(500)
      expect([flooded.sent - sent, sent < 16 * MIB]).toEqual([0, true])
      const leftAt = performance.now()
      socket.destroy()
      await expect.poll(() => flooded.closedAt).toBeGreaterThan(0)
      expect(flooded.closedAt - leftAt).toBeLessThan(100)
      await expect.poll(() => platform.api.ai.calls.size).toBe(0)
    },
  )

  test.each(endless)(
    '%s that nobody reads end when the call has taken too long',
    async (_, [path, body], type, piece) => {
      const flooded = flood(type, '', piece)
      const before = (await usageOf(hasty, hastyOwner.organizationId)).length
      const socket = await ignoreAnswer(hasty, hastyOwner.token, path, body)
      await expect.poll(() => flooded.closedAt).toBeGreaterThan(0)
      await expect.poll(() => hasty.api.ai.calls.size).toBe(0)
      expect((await usageOf(hasty, hastyOwner.organizationId)).slice(before)).toMatchObject([
        { status: 'error', errorCode: 'upstream_timeout' },
      ])
      // What was written before is still there for a reader that comes back, and then why there is no more.
      let last = ''
      socket.on('data', (read: Buffer) => (last = (last + read.toString('latin1')).slice(-1_000)))
      await expect.poll(() => socket.closed || last.includes('"upstream_timeout"')).toBe(true)
      socket.destroy()
    },
  )
})
