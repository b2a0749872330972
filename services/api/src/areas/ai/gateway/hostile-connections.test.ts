import { setTimeout as sleep } from 'node:timers/promises'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openAiRequest, askAi, ownHeaders, usageEventOf } from '../../../../test/ai-asks.ts'
import { aiKeys, chatOf, mockModel, mockProvider, newEntitledOwner } from '../../../../test/ai-providers.ts'
import { type HostileProvider, startHostileProvider } from '../../../../test/hostile-provider.ts'
import type { Owner } from '../../../../test/scenario.ts'

let provider: HostileProvider
let platform: TestPlatform
let owner: Owner
const unhandled: unknown[] = []
const note = (error: unknown) => void unhandled.push(error)
beforeAll(async () => {
  provider = await startHostileProvider()
  const options = {
    aiProviders: { providers: [mockProvider(provider, 'mock', { responses: true })], models: [mockModel('any')] },
    env: aiKeys,
  }
  platform = await startPlatform({ ...options, aiTimings: { retryMs: 1, leftMs: 100 } })
  owner = await newEntitledOwner(platform)
  process.on('uncaughtException', note).on('unhandledRejection', note)
})
afterAll(async () => {
  process.off('uncaughtException', note).off('unhandledRejection', note)
  await platform.close()
  await provider.close()
})
afterEach(() => {
  const [error] = unhandled.splice(0)
  if (error !== undefined) throw error
})

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

/** Invalid answers. */
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
    // Audio bytes that are cut off or invalid cannot be told from valid audio.
    const isBytes = name === 'speech' && [0, 200].includes(answered.status)
    expect([answered.status, answered.body]).toEqual(
      isBytes
        ? [answered.status, answered.body]
        : [503, { error: { message: expect.any(String), type: 'api_error', param: null, code: expect.any(String) } }],
    )
    await usageEventOf(platform, answered.headers['x-service-request-id'])
    platform.api.ai.circuits.closeAll()
  })

  test.each([
    ['HTTP/1.0', `HTTP/1.0 200 OK\r\nContent-Type: ${name === 'speech' ? 'audio/mpeg' : JSON_TYPE}\r\n\r\n${good}`],
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
    platform.api.ai.circuits.closeAll()
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
        const options = openAiRequest(platform, owner.token, path, body)
        await sleep(ms)
        options.leave()
        await options.answer
      }
    await expect.poll(() => platform.api.ai.calls.size).toBe(0)
  })
})
