import { once } from 'node:events'
import { readdir, readlink } from 'node:fs/promises'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
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
  platform = await startPlatform({
    aiProviders: { providers: [mockProvider(provider, 'mock', { responses: true })], models: [mockModel('any')] },
    env: aiKeys,
    aiTimings: { retryMs: 1, leftMs: 200 },
  })
  owner = await newEntitledOwner(platform)
  process.on('uncaughtException', note).on('unhandledRejection', note)
})
afterAll(async () => {
  process.off('uncaughtException', note).off('unhandledRejection', note)
  await platform.close()
  await provider.close()
})

const MIB = 1_048_576
/** True if no memory is held for bodies: then the whole budget of the process can be taken. */
function isNothingHeld(): boolean {
  const { bodies } = platform.api.ai
  const taken: string[] = []
  try {
    for (const caller of ['a', 'b']) {
      bodies.take(caller, 128 * MIB)
      taken.push(caller)
    }
    return true
  } catch {
    return false
  } finally {
    for (const caller of taken) bodies.give(caller, 128 * MIB)
  }
}

/** Files of transcriptions that this process has open. */
async function openFiles(): Promise<string[]> {
  const links = await Promise.all(
    (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')),
  )
  return links.filter((link) => link.includes('platform-audio-'))
}

/** Whatever the outcome of a request, it leaves nothing behind. */
afterEach(async () => {
  await vi.waitUntil(async () => isNothingHeld() && (await openFiles()).length === 0, { timeout: 60_000 })
  const [error] = unhandled.splice(0)
  if (error !== undefined) throw error
})

interface RawAnswer {
  status: number
  body: string
}

/** Sends pieces unchanged, and reads until a response arrives or the connection ends. */
async function sendRaw(
  path: string,
  headers: string[],
  pieces: (string | Buffer)[],
  { leave }: { leave?: 'reset' | 'end' } = {},
): Promise<RawAnswer> {
  const { hostname, port } = new URL(platform.apiUrl)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  await once(socket, 'connect')
  let text = ''
  const isOver = Promise.withResolvers<void>()
  socket.once('close', isOver.resolve).on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
    if (/\r\n\r\n[^]*\}$/.test(text)) isOver.resolve()
  })
  const head = [
    `POST ${path} HTTP/1.1`,
    `Host: ${hostname}:${port}`,
    `Authorization: Bearer ${owner.token}`,
    ...headers,
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  for (const piece of pieces) {
    if (socket.destroyed) break
    if (!socket.write(piece)) await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => {})
    await sleep(2)
  }
  if (leave === 'reset') socket.resetAndDestroy()
  else if (leave === 'end') socket.end()
  await isOver.promise
  socket.destroy()
  const [first = '', ...rest] = text.split('\r\n\r\n')
  return { status: Number(first.split(' ')[1] ?? 0), body: rest.join('\r\n\r\n') }
}

const chunked = (bytes: string | Buffer): Buffer => {
  const data = Buffer.from(bytes)
  return Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from('\r\n')])
}
const json = 'Content-Type: application/json'
const chatPath = '/ai/v1/chat/completions'
const good =
  '{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x"}}]}'

describe('memory of JSON bodies is given back', () => {
  const chat = JSON.stringify({ ...chatOf('any'), messages: [{ role: 'user', content: 'x' }] })
  const large = JSON.stringify(chatOf('any', { user: 'u'.repeat(5 * MIB) }))
  test.each<[string, string[], (string | Buffer)[], { leave?: 'reset' | 'end' }, number]>([
    ['sent whole', [json, `Content-Length: ${chat.length}`], [chat], {}, 200],
    ['in chunks', [json, 'Transfer-Encoding: chunked'], [chunked(large), '0\r\n\r\n'], {}, 200],
    [
      'half sent and reset',
      [json, `Content-Length: ${Buffer.byteLength(large)}`],
      [large.slice(0, 3 * MIB)],
      { leave: 'reset' },
      0,
    ],
    [
      'half sent and ended',
      [json, `Content-Length: ${Buffer.byteLength(large)}`],
      [large.slice(0, 3 * MIB)],
      { leave: 'end' },
      400,
    ],
    ['half a chunk and reset', [json, 'Transfer-Encoding: chunked'], ['ffffff\r\n', large], { leave: 'reset' }, 0],
    ['of a broken chunk', [json, 'Transfer-Encoding: chunked'], [chunked(large), 'zz\r\n'], {}, 400],
    ['far over-long by its header', [json, `Content-Length: ${200 * MIB}`], [], {}, 413],
    [
      'over-long by its header',
      [json, `Content-Length: ${33 * MIB}`],
      Array<Buffer>(33).fill(Buffer.alloc(MIB)),
      {},
      413,
    ],
    [
      'over-long, of a client that asks first',
      [json, `Content-Length: ${33 * MIB}`, 'Expect: 100-continue'],
      [],
      {},
      413,
    ],
    [
      'over-long in chunks',
      [json, 'Transfer-Encoding: chunked'],
      [...Array<Buffer>(32).fill(chunked('x'.repeat(MIB))), chunked('x')],
      {},
      413,
    ],
    ['of another type', ['Content-Type: text/plain', `Content-Length: ${Buffer.byteLength(large)}`], [large], {}, 422],
    ['no JSON', [json, `Content-Length: ${5 * MIB}`], ['{'.repeat(5 * MIB)], {}, 400],
  ])('%s', async (_, headers, pieces, options, status) => {
    provider.say(good)
    expect((await sendRaw(chatPath, headers, pieces, options)).status).toBe(status)
  })

  test('refused since too much is under way, and the connection is not left hanging', async () => {
    const { userId } = owner.person
    platform.api.ai.bodies.take(userId, 127 * MIB)
    try {
      const { status, body } = await sendRaw(chatPath, [json, `Content-Length: ${Buffer.byteLength(large)}`], [large])
      expect([status, body]).toEqual([503, expect.stringContaining('"service_unavailable"')])
    } finally {
      platform.api.ai.bodies.give(userId, 127 * MIB)
    }
  })
})

const form = '/ai/v1/audio/transcriptions'
test.each([
  ['chat', chatPath, json],
  ['form', form, 'Content-Type: multipart/form-data; boundary=B'],
])(
  'a client that sends a %s of 40 MiB before it listens can send all of it, and learns why it is refused',
  async (_, path, type) => {
    const { hostname, port } = new URL(platform.apiUrl)
    const socket = connect(Number(port), hostname)
    await once(socket, 'connect')
    const send = promisify((bytes: string | Buffer, sent: (error?: Error | null) => void) => socket.write(bytes, sent))
    const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${owner.token}\r\n${type}\r\nContent-Length: ${40 * MIB}\r\n\r\n`
    await send(head)
    for (let n = 0; n < 40; n++) await send(Buffer.alloc(MIB, 'x'))
    expect((await text(socket)).split('\r\n')[0]).toBe('HTTP/1.1 413 Payload Too Large')
  },
)

const part = (disposition: string, content: string, more = '') =>
  `--B\r\nContent-Disposition: form-data${disposition}\r\n${more}\r\n${content}\r\n`
const model = part('; name="model"', 'any')
const file = part('; name="file"; filename="a.wav"', 'RIFF sound')
const large = part('; name="file"; filename="a.wav"', 'R'.repeat(2 * MIB))
const END = '--B--\r\n'
const multipart = (boundary = 'B') => `Content-Type: multipart/form-data; boundary=${boundary}`
const whole = (text: string, boundary?: string): [string[], string[]] => [
  [multipart(boundary), `Content-Length: ${Buffer.byteLength(text)}`],
  [text],
]

describe('forms', () => {
  const forms: [string, string, number][] = [
    ['that is right', model + file + END, 200],
    ['with the file first', file + model + END, 200],
    ['of an empty file', model + part('; name="file"; filename="a.wav"', '') + END, 200],
    ['with two models', model + model + file + END, 422],
    ['without a file', model + END, 422],
    ['of two files', model + file + file + END, 400],
    ['of a file under another name', model + part('; name="other"; filename="a"', 'x') + END, 400],
    ['with a part without a name', model + file + part('', 'x') + END, 400],
    ['with a file without a name', model + part('; filename="a.wav"', 'x') + END, 400],
    [
      'with a file without a filename',
      model + part('; name="file"', 'RIFF', 'Content-Type: application/octet-stream\r\n') + END,
      200,
    ],
    ['with an empty name', model + file + part('; name=""', 'x') + END, 200],
    ['with a part that has no headers', `${model}${file}--B\r\n\r\nx\r\n${END}`, 200],
    ['whose filename is a path', model + part('; name="file"; filename="../../etc/passwd"', 'x') + END, 200],
    ['whose filename breaks the line', model + part('; name="file"; filename="a%0d%0aX: y\\"; b"', 'x') + END, 200],
    ['whose filename is not ASCII', model + part('; name="file"; filename="töne🎈.wav"', 'x') + END, 200],
    ['whose filename is encoded', model + part(`; name="file"; filename*=foo''%ff%0d%0aX`, 'x') + END, 422],
    [
      'of a charset that nobody has',
      model + file + part('; name="prompt"', 'xäy', 'Content-Type: text/plain; charset=foo\r\n') + END,
      200,
    ],
    [
      'in UTF-16',
      model + file + part('; name="prompt"', 'xäy', 'Content-Type: text/plain; charset=utf-16le\r\n') + END,
      200,
    ],
    [
      'with a name like a member of objects',
      model + file + part('; name="__proto__"', 'x') + part('; name="constructor"', 'x') + END,
      200,
    ],
    ['of 10,000 parts', model + file + part('; name="a"', 'x').repeat(10_000) + END, 400],
    ['of 10,000 files', model + file.repeat(10_000) + END, 400],
    ['of 10,000 parts without names', model + part('', 'x').repeat(10_000) + file + END, 400],
    ['without its last boundary, in a file', model + large, 400],
    ['without its last boundary, in a second file', model + file + large, 400],
    ['without its last boundary, in a field', model + file + part('; name="a"', 'x'), 400],
    ['without its last boundary, in a header', `${model}${file}--B\r\nContent-Dispo`, 400],
    ['without its last boundary, in a part that is skipped', `${model}${file}${part('', 'x')}`, 400],
    ['that is empty', '', 400],
    ['of nothing but its end', END, 422],
    ['with a long field', model + file + part('; name="prompt"', 'x'.repeat(70_000)) + END, 400],
    [
      'with a long header',
      model + part('; name="file"; filename="a"', 'x', `X-A: ${'y'.repeat(100_000)}\r\n`) + END,
      200,
    ],
    ['with bytes behind its end', model + file + END + 'x'.repeat(100_000), 200],
  ]
  test.each(forms)('%s', async (_, text, status) => {
    provider.say('{"text":"x"}')
    const answered = await sendRaw(form, ...whole(text))
    expect([answered.status, status < 400 || answered.body.includes('"invalid_request_error"')]).toEqual([status, true])
  })

  test.each([
    ['of 300 characters', 'b'.repeat(300)],
    ['that is empty', ''],
  ])('a boundary %s is refused', async (_, boundary) => {
    expect((await sendRaw(form, ...whole(model + file + END, boundary))).status).toBe(400)
  })

  test.each<[string, 'reset' | 'end']>([
    ['resets', 'reset'],
    ['ends', 'end'],
  ])('a client that %s the connection in the middle of a file leaves nothing behind', async (_, leave) => {
    const headers = [multipart(), `Content-Length: ${10 * MIB}`]
    const status = leave === 'end' ? 400 : 0
    expect(await sendRaw(form, headers, [model, large.slice(0, MIB), 'x'.repeat(MIB)], { leave })).toMatchObject({
      status,
    })
    const encoding = [multipart(), 'Transfer-Encoding: chunked']
    expect(await sendRaw(form, encoding, [chunked(model + large)], { leave })).toMatchObject({ status })
  })

  test('a file that is too large is refused while it comes', async () => {
    const start = chunked(`${model}--B\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n`)
    // The last piece has to be read whole: unread data on a closing connection may reset it before the response arrives.
    const sizes = [...Array<number>(31).fill(MIB), MIB - 1_000, 2_000]
    const pieces = [start, ...sizes.map((bytes) => chunked('x'.repeat(bytes)))]
    expect((await sendRaw(form, [multipart(), 'Transfer-Encoding: chunked'], pieces)).status).toBe(413)
  })
})

describe('a transcription whose provider does not read it', () => {
  const text = model + part('; name="file"; filename="a.wav"', 'R'.repeat(8 * MIB)) + END
  const plays: [string, Parameters<HostileProvider['play']>[0], number][] = [
    [
      'answers at once',
      (_, outgoing) => outgoing.writeHead(200, { 'content-type': 'application/json' }).end('{"text":"x"}'),
      200,
    ],
    ['refuses at once', (_, outgoing) => outgoing.writeHead(400).end('{}'), 400],
    ['refuses at once and closes', (_, outgoing) => outgoing.writeHead(400, { connection: 'close' }).end('{}'), 400],
    ['resets', (incoming) => incoming.socket.resetAndDestroy(), 503],
    ['resets in the middle', (incoming) => void incoming.once('data', () => incoming.socket.resetAndDestroy()), 503],
    [
      'answers and resets',
      (incoming, outgoing) => {
        outgoing.writeHead(200, { 'content-type': 'application/json' }).write('{')
        setTimeout(() => incoming.socket.resetAndDestroy(), 20)
      },
      503,
    ],
  ]
  test.each(plays)('%s', async (_, play, status) => {
    provider.play(play)
    expect((await sendRaw(form, ...whole(text))).status).toBe(status)
  })

  test('and hangs until the client leaves', async () => {
    provider.play(() => {})
    for (const stream of ['false', 'true']) {
      const sent = await sendRaw(form, ...whole(part('; name="stream"', stream) + text), { leave: 'reset' })
      expect(sent.status).toBe(0)
    }
  })
})
