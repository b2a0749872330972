import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { isDeepStrictEqual } from 'node:util'
import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { aiModel, aiProvidersOf } from '../../../../test/ai-asks.ts'
import { aiKeys, newEntitledOwner } from '../../../../test/ai-providers.ts'
import type { Owner } from '../../../../test/scenario.ts'
import { openSender, type RawAnswer } from '../../../../test/send.ts'

let mock: MockUpstream
let platform: TestPlatform
let sender: ReturnType<typeof openSender>
let owner: Owner
beforeAll(async () => {
  mock = await startMockUpstream()
  const models = ['compat', 'plain', 'anthropic'].map((provider) => aiModel(provider, 'fine'))
  platform = await startPlatform({ aiProviders: { providers: aiProvidersOf(mock), models }, env: aiKeys })
  sender = openSender(platform.apiUrl)
  owner = await newEntitledOwner(platform)
})
afterAll(async () => {
  sender.close()
  await platform.close()
  await mock.close()
})

const post = (path: string, body: string | Buffer, headers: Record<string, string | string[]> = {}) =>
  sender.send({
    method: 'POST',
    path: `/ai/v1${path}`,
    token: owner.token,
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
/** Returns undefined for an error of the caller's in the gateway's format, else what came instead. */
function oddityOf({ status, body, text, headers }: RawAnswer): unknown {
  const { message, type, param, code } = (body as { error?: Record<string, unknown> } | undefined)?.error ?? {}
  const isShaped =
    isDeepStrictEqual(body, { error: { message, type, param, code } }) &&
    [message, type, param ?? '', code ?? ''].every((each) => typeof each === 'string') &&
    headers['content-type'] === 'application/json; charset=UTF-8'
  return isShaped && status >= 400 && status < 500 ? undefined : { status, text: text.slice(0, 1_000) }
}

const operations = ['/chat/completions', '/responses', '/audio/speech', '/audio/transcriptions', '/videos'] as const
const member = {
  '/chat/completions': 'messages',
  '/responses': 'input',
  '/audio/speech': 'input',
  '/audio/transcriptions': 'input_audio',
  '/videos': 'prompt',
}

describe('paths and methods that there are not', () => {
  const paths = [
    '',
    '/',
    '/chat',
    '/chat/completions/',
    '/chat%2Fcompletions',
    '/chat/completions%00',
    '//chat/completions',
    '/Chat/Completions',
    '/models/%',
    '/models/%E0%A4%A',
    '/models/%00',
    '/models/..%2F..',
    '/models/a%0d%0aX:y',
    '/models/' + 'm'.repeat(8_000),
    '/models/',
    '/models//',
    '/videos/..',
    '/videos/%2e%2e/content',
    '/videos/x/content',
    '/videos/%00/content',
    '/videos/models/content',
    '/videos/0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10/content/x',
    '/responses/resp_1',
    '/responses/../models',
    '/%2e%2e/oauth2/token',
    '/embeddings',
    '/;x',
  ]
  test.each(paths)('%s', async (path) => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'SEARCH']) {
      const answered = await sender.send({ method, path: `/ai/v1${path}`, token: owner.token })
      if (answered.status !== 200) expect(oddityOf(answered)).toBeUndefined()
      else expect([method, answered.body]).toEqual(['GET', expect.objectContaining({ object: expect.any(String) })])
    }
  })

  test.each(operations)('%s answers no other method', async (path) => {
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'])
      expect(
        oddityOf(await sender.send({ method, path: `/ai/v1${path}`, token: owner.token, body: '{}' })),
      ).toBeUndefined()
  })
})

const deep = (depth: number, open = '[', close = ']') => `${open.repeat(depth)}${close.repeat(depth)}`
const bodies: Record<string, string | Buffer> = {
  nothing: '',
  null: 'null',
  'a number': '1e999',
  'an array': '[]',
  'a text': '"x"',
  'UTF-16': Buffer.from('{"model":"compat/fine"}', 'utf16le'),
  'UTF-16 with its mark': Buffer.from('\ufeff{"model":"compat/fine"}', 'utf16le'),
  'invalid UTF-8': Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
  'an encoded surrogate': Buffer.from([0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d]),
  NUL: '\0',
  'two documents': '{}{}',
  '100,000 brackets': deep(100_000),
  '100,000 brackets that stay open': '['.repeat(100_000),
  '20 MB of brackets': deep(10_000_000),
  '20 MB of empty objects': `{"model":"nope","x":[${'{},'.repeat(6_600_000)}0]}`,
  'a model that is an object': '{"model":{}}',
  'a model of 1 MB': `{"model":"${'m'.repeat(1_048_576)}"}`,
}

describe('bodies', () => {
  describe.each(operations)('%s', (path) => {
    test.each(Object.entries(bodies))('of %s is refused', async (_, body) =>
      expect(oddityOf(await post(path, body))).toBeUndefined(),
    )
    test.each([
      'text/plain',
      'application/json, application/json',
      'multipart/form-data',
      'multipart/form-data; boundary=',
      'application/x-www-form-urlencoded',
      'x',
      '',
      'application/json; charset=utf-16',
      '*/*',
    ])('of the type %s is refused', async (type) =>
      expect(oddityOf(await post(path, '{"model":"nope"}', { 'content-type': type }))).toBeUndefined(),
    )
    test('of the encoding gzip is refused', async () =>
      expect(
        oddityOf(await post(path, Buffer.from('1f8b0800', 'hex'), { 'content-encoding': 'gzip' })),
      ).toBeUndefined())
  })

  const nested = deep(100_000)
  const objects = deep(100_000, '{"a":', '}').replace('}', '1}')
  const chat = (model: string, more: string) => `{"model":"${model}","messages":[{"role":"user","content":"x"}]${more}}`
  const deepOnes: [string, string, string][] = ['compat/fine', 'plain/fine', 'anthropic/fine', 'local/echo'].flatMap(
    (model) =>
      [nested, objects].flatMap((value): [string, string, string][] => [
        [`${model} ${value.slice(0, 4)} beside the messages`, '/chat/completions', chat(model, `,"x":${value}`)],
        [
          `${model} ${value.slice(0, 4)} in tools`,
          '/chat/completions',
          chat(model, `,"tools":[{"type":"function","function":{"name":"f","parameters":${value}}}]`),
        ],
        [`${model} ${value.slice(0, 4)} in metadata`, '/chat/completions', chat(model, `,"metadata":${value}`)],
        [
          `${model} ${value.slice(0, 4)} in content`,
          '/chat/completions',
          `{"model":"${model}","messages":[{"role":"user","content":${value}}]}`,
        ],
        [`${model} ${value.slice(0, 4)} in input`, '/responses', `{"model":"${model}","input":${value}}`],
        [`${model} ${value.slice(0, 4)} of a response`, '/responses', `{"model":"${model}","input":"x","x":${value}}`],
      ]),
  )
  test.each<[string, string, string]>([
    ...deepOnes,
    ['speech', '/audio/speech', `{"model":"compat/fine","input":"x","voice":"a","x":${nested}}`],
    [
      'transcription',
      '/audio/transcriptions',
      `{"model":"compat/fine","input_audio":{"data":"AAAA","format":"wav"},"x":${nested}}`,
    ],
    ['video', '/videos', `{"model":"compat/fine","prompt":"x","x":${nested}}`],
  ])('nested 100,000 deep are refused: %s', async (_, path, body) =>
    expect(oddityOf(await post(path, body))).toBeUndefined(),
  )

  test('a video nested as deep, under an Idempotency-Key, is refused', async () => {
    const body = `{"model":"compat/fine","prompt":"x","x":${nested}}`
    expect(oddityOf(await post('/videos', body, { 'idempotency-key': 'k' }))).toBeUndefined()
  })

  // Distinct member names take longest to parse: a few megabytes of them took seconds.
  const membersOf = (count: number, from = 0) =>
    `{${Array.from({ length: count }, (_, n) => `"a${from + n}":1`).join(',')}}`
  const objectsOf = (count: number, each: number) =>
    `[${Array.from({ length: count }, (_, n) => membersOf(each, n * each)).join(',')}]`
  test.each([
    ['an object of more than 10000 members', membersOf(10_001)],
    ['more than 100000 members', objectsOf(1_001, 100)],
    ['more than 1000000 elements', `[${'1,'.repeat(1_000_001)}1]`],
  ])('%s are refused, wherever they stand', async (what, value) => {
    for (const [path, body] of [
      ['/chat/completions', chat('local/echo', `,"x":${value}`)],
      ['/chat/completions', chat('local/echo', `,"metadata":${value}`)],
      ['/chat/completions', `{"model":"local/echo","messages":[{"role":"user","content":"x","x":${value}}]}`],
      ['/responses', `{"model":"local/echo","input":"x","x":${value}}`],
      ['/videos', `{"model":"local/echo-video","prompt":"x","x":${value}}`],
    ] as const) {
      const { status, body: answered } = await post(path, body)
      const message = expect.stringContaining(what) as string
      expect([status, answered]).toMatchObject([400, { error: { code: 'invalid_json', message } }])
    }
  })

  test('so many members are taken', async () => {
    expect((await post('/chat/completions', chat('local/echo', `,"x":${membersOf(10_000)}`))).status).toBe(200)
    expect((await post('/chat/completions', chat('local/echo', `,"x":${objectsOf(990, 100)}`))).status).toBe(200)
  })

  test('members of prototypes, members that are there twice and a byte order mark go to the provider as any other', async () => {
    const more =
      ',"__proto__":{"model":"mock/other","stream":true},"constructor":{"prototype":1},"temperature":2,"temperature":0'
    const answered = await post('/chat/completions', `\ufeff${chat('compat/fine', more)}`)
    expect(answered.status).toBe(200)
    const { raw, model } = mock.ledger.at(-1)!
    expect(model).toBe('mock/fine')
    expect(JSON.parse(raw.toString())).toEqual(JSON.parse(chat('mock/fine', more)))
  })
})

describe('members that a provider may take for others', () => {
  const secret = 'http://169.254.169.254/'
  const content = (part: object) => ({ messages: [{ role: 'user', content: [part] }] })
  const input = (item: object) => ({ input: [item] })
  test.each<[param: string, path: string, body: object]>([
    [
      'messages[0].content[0].image_url.URL',
      '/chat/completions',
      content({ type: 'image_url', image_url: { url: 'data:,x', URL: secret } }),
    ],
    [
      'messages[0].content[0].Image_URL',
      '/chat/completions',
      content({ type: 'image_url', image_url: { url: 'data:,x' }, Image_URL: { url: secret } }),
    ],
    [
      'messages[0].content[0].file.File_ID',
      '/chat/completions',
      content({ type: 'file', file: { file_data: 'data:,x', File_ID: 'file_1' } }),
    ],
    ['input[0].Image_URL', '/responses', input({ type: 'input_image', Image_URL: secret })],
    ['input[0].ID', '/responses', input({ type: 'item_reference', ID: 'msg_of_others' })],
    ['tools[0].Server_URL', '/responses', { input: 'x', tools: [{ type: 'mcp', Server_URL: secret }] }],
    [
      'tools[0].Vector_Store_IDs',
      '/responses',
      { input: 'x', tools: [{ type: 'file_search', Vector_Store_IDs: ['vs'] }] },
    ],
  ])('%s of %s', async (param, path, body) => {
    const before = mock.ledger.length
    const { status, body: answered } = await post(path, JSON.stringify({ ...body, model: 'compat/fine' }))
    expect([status, answered]).toMatchObject([400, { error: { code: 'unsupported_parameter', param } }])
    expect(mock.ledger).toHaveLength(before)
  })

  test('are none in schemas, headers of tools and notes', async () => {
    const properties = { URL: { type: 'string' }, Model: { type: 'string' } }
    const tools = [
      { type: 'function', function: { name: 'f', parameters: { type: 'object', properties } } },
      { type: 'mcp', headers: { Id: 'x' } },
    ]
    const body = { model: 'compat/fine', messages: [{ role: 'user', content: 'x' }], tools, metadata: { Model: 'x' } }
    expect((await post('/chat/completions', JSON.stringify(body))).status).toBe(200)
  })

  test.each(['Model', 'MODEL', 'mOdel', '\u017ftream', 'Max_Tokens', 'Tools', 'Conversation'])('%s', async (name) => {
    const before = mock.ledger.length
    const answered = await post(
      '/chat/completions',
      `{"model":"compat/fine","messages":[{"role":"user","content":"x"}],"${name}":"mock/other"}`,
    )
    expect([answered.status, answered.body]).toMatchObject([
      400,
      { error: { code: 'unsupported_parameter', param: name } },
    ])
    const form = ['model', name, 'file'].map(
      (field) =>
        `--B\r\nContent-Disposition: form-data; name="${field}"${field === 'file' ? '; filename="a"' : ''}\r\n\r\ncompat/fine\r\n`,
    )
    const sent = await post('/audio/transcriptions', `${form.join('')}--B--\r\n`, {
      'content-type': 'multipart/form-data; boundary=B',
    })
    expect([sent.status, sent.body]).toMatchObject([400, { error: { code: 'unsupported_parameter', param: name } }])
    expect(mock.ledger.length).toBe(before)
  })

  test('others pass in any case', async () => {
    expect(
      (await post('/chat/completions', '{"model":"compat/fine","messages":[{"role":"user","content":"x"}],"topK":3}'))
        .status,
    ).toBe(200)
    expect(mock.ledger.at(-1)?.body).toMatchObject({ topK: 3 })
  })
})

describe('headers', () => {
  test.each<[string, Record<string, string | string[]>]>([
    ['two organizations', { 'x-organization-id': ['a', 'b'] }],
    ['an organization that is no id', { 'x-organization-id': '../x' }],
    ['an end user of 8 kB', { 'x-end-user-id': 'u'.repeat(8_000) }],
    ['two types', { 'content-type': ['application/json', 'text/plain'] }],
    ['a token that is none', { authorization: 'Bearer a b' }],
    [
      'a key of an idempotent request that is too long',
      { 'idempotency-key': 'k'.repeat(8_000), 'x-organization-id': 'x' },
    ],
  ])('%s', async (_, headers) => {
    for (const path of operations)
      expect(oddityOf(await post(path, `{"model":"nope","${member[path]}":"x"}`, headers))).toBeUndefined()
  })

  test('who asks before it sends is told to go on, or is refused without', async () => {
    const ask = async (path: string, length: number) => {
      const { hostname, port } = new URL(platform.apiUrl)
      const socket = connect(Number(port), hostname)
      const body = '{"model":"local/echo","messages":[{"role":"user","content":"x"}]}'
      socket.write(
        `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${owner.token}\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: ${length || body.length}\r\n\r\n`,
      )
      socket.once('data', (chunk) => {
        if (String(chunk).startsWith('HTTP/1.1 100')) socket.write(body)
      })
      return text(socket)
    }
    expect(await ask('/ai/v1/chat/completions', 0)).toMatch(/^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 OK/)
    expect(await ask('/ai/v1/chat/completions', 40_000_000)).toMatch(/^HTTP\/1.1 413 [^]*"request_too_large"/)
  })
})
