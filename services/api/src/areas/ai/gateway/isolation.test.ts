import { type MockRequest, type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, inArray } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type AiAnswer,
  type AiAsk,
  aiAsks,
  aiModel,
  aiProvidersOf,
  askAi,
  ownHeaders,
} from '../../../../test/ai-asks.ts'
import { mockProvider, newEntitledOwner } from '../../../../test/ai-providers.ts'
import { hurryAi } from '../../../../test/hurry-ai.ts'
import { newKey, newOwner, type Owner, unique } from '../../../../test/scenario.ts'
import { aiUsageEvents } from '../governance/table.ts'
import { pollVideos } from './videos/poll-videos.ts'
import { discardResponses } from './stored-responses.ts'
import { aiResponseItems, aiResponses, aiVideoJobs } from './table.ts'

/** All behaviours of the mock, failures or not. */
const steerings = [
  'plain set-cookie cached reasoning tools no-usage split-utf8 comments crlf no-done',
  '400 401 402 403 404 413 422 429 500 503',
  'quotes-key quotes-key-401 quotes-key-422 quotes-key-429 quotes-key-500',
  'quotes-prompt quotes-prompt-401 quotes-prompt-429 quotes-prompt-500 redirect',
  'hang-headers reset-before stall-mid cut-mid end-mid error-mid bad-json bad-sse',
].flatMap((names) => names.split(' '))
const asks: AiAsk[] = [
  ...Object.values(aiAsks),
  { provider: 'compat', path: '/videos', body: { duration: 4 }, answer: 'whole', isTranslated: false },
]

const videoSteerings = [
  'plain video-fails video-cancelled video-expired video-gone video-poll-401 video-poll-429 video-poll-500 video-redirect',
  'video-content-401 video-content-404 video-content-429 video-content-500',
].flatMap((names) => names.split(' '))

/** Limits for calls that nothing else would end. */
const hurried: Record<string, Parameters<typeof hurryAi>[1]> = {
  'hang-headers': { streamFirstByteMs: 1_000, wholeFirstByteMs: 1_000 },
  'stall-mid': { idleMs: 500 },
}

/** Random, so that no piece of it is a word. */
const operatorKey = `sk-${unique()}${unique()}`
const lines: string[] = []
let mock: MockUpstream
let platform: TestPlatform
beforeAll(async () => {
  mock = await startMockUpstream()
  const models = ['compat', 'plain', 'anthropic'].flatMap((provider) =>
    [...new Set([...steerings, ...videoSteerings])].map((steering) => aiModel(provider, steering)),
  )
  const contentHosts = [new URL(mock.elsewhere.origin).hostname]
  platform = await startPlatform({
    aiProviders: {
      providers: [...aiProvidersOf(mock), mockProvider(mock, 'listing', { contentHosts })],
      models: [...models, aiModel('listing', 'video-elsewhere')],
    },
    env: { MOCK_KEY: operatorKey },
    aiTimings: { retryMs: 1, retryAfterMaxMs: 0 },
    onLogLine: (line) => void lines.push(line),
  })
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})

/** A caller whose texts are recognizable wherever they appear. */
interface Walker {
  owner: Owner
  /** The key that its calls use. */
  key: string
  prompt: string
  headers: Record<string, string>
  /** Secrets of the caller that only the API may see. */
  secrets: string[]
}

async function newWalker(owner: Owner, key: string): Promise<Walker> {
  const canary = `canary${unique()}`
  const { token, organizationId, applicationId, person } = owner
  const headers = {
    cookie: `session=${canary}`,
    'openai-project': canary,
    'user-agent': canary,
    'x-api-key': canary,
    'x-custom': canary,
    'x-end-user-id': canary,
    'x-organization-id': organizationId,
    'x-application-id': applicationId,
    'x-request-id': canary,
  }
  return {
    owner,
    key,
    prompt: `prompt${unique()}`,
    headers,
    secrets: [canary, token, organizationId, applicationId, person.userId],
  }
}

/** Makes a walker's request, with its prompt wherever the operation accepts one. */
function bodyOf({ body, path }: AiAsk, prompt: string): object {
  if ('messages' in body) return { ...body, messages: [{ role: 'user', content: prompt }] }
  return 'input' in body ? { ...body, input: prompt } : { ...body, ...(path.includes('/') && { prompt }) }
}

/** Sends a transcription as a form, with the prompt as a field and in the audio. */
function askByForm({ owner: { token }, prompt, headers }: Walker, model: string): Promise<AiAnswer> {
  const part = (name: string, value: string) =>
    `--walk\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
  const file = `--walk\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\nRIFF ${prompt}\r\n`
  return askAi(
    platform,
    token,
    '/audio/transcriptions',
    `${part('model', model)}${part('prompt', prompt)}${file}--walk--\r\n`,
    {
      ...headers,
      'content-type': 'multipart/form-data; boundary=walk',
    },
  )
}

const pieceLength = 8
/** Pieces of a key long enough to be useful to an attacker. */
const piecesOf = (key: string): string[] =>
  Array.from({ length: key.length - pieceLength + 1 }, (_, n) => key.slice(n, n + pieceLength))

const headersSent = new Set([
  'accept',
  'accept-encoding',
  'anthropic-version',
  'authorization',
  'connection',
  'content-length',
  'content-type',
  'host',
  'transfer-encoding',
  'x-api-key',
])

/** Expects no header of a provider, and no piece of a key. */
function expectNothingOf(walkers: readonly Walker[], steering: string, { headers, bytes }: AiAnswer): void {
  expect([steering, Object.keys(headers).filter((name) => !ownHeaders.has(name))]).toEqual([steering, []])
  const text = JSON.stringify(headers) + bytes.toString()
  const pieces = walkers.flatMap(({ key }) => piecesOf(key))
  expect([steering, pieces.filter((piece) => text.includes(piece))]).toEqual([steering, []])
  expect([steering, text.match(/session=mock|req_mock|org-mock|mock\.example/)]).toEqual([steering, null])
}

describe('what is whose, through everything that a provider does', () => {
  let walkers: Walker[]
  let answers: { walker: Walker; steering: string; answer: AiAnswer }[]
  beforeAll(async () => {
    const [entitled, own] = await Promise.all([newEntitledOwner(platform), newOwner(platform)])
    const ownKey = `sk-${unique()}${unique()}`
    for (const provider of ['compat', 'plain', 'anthropic']) {
      const path = `/organizations/${own.organizationId}/ai-gateway/provider-keys/${provider}`
      const { status } = await platform.call(own.token, `PUT ${path}`, { key: ownKey })
      if (status !== 200) throw new Error(`The key of ${provider} was refused with ${status}`)
    }
    walkers = await Promise.all([newWalker(entitled, operatorKey), newWalker(own, ownKey)])
    lines.length = 0
    answers = []
    for (const walker of walkers)
      for (const steering of steerings) {
        const all = await hurryAi(platform, hurried[steering] ?? {}, () => {
          const answer = asks.map((each) => {
            const body = { ...bodyOf(each, walker.prompt), model: `${each.provider}/${steering}` }
            return askAi(platform, walker.owner.token, each.path, body, walker.headers)
          })
          return Promise.all([...answer, askByForm(walker, `compat/${steering}`)])
        })
        answers.push(...all.map((answer) => ({ walker, steering, answer })))
      }
    await platform.api.usage.flush()
  })

  test('both callers get answers', () => {
    for (const walker of walkers) {
      const good = answers.filter((each) => each.walker === walker && each.steering === 'plain')
      const statuses = good.map(({ answer }) => answer.status)
      expect(new Set(statuses)).toEqual(new Set([200, 202]))
      expect(statuses.filter((status) => status === 202)).toHaveLength(1)
    }
  })

  test('a provider learns the request and the key, and nothing of the caller', () => {
    const sentBy = ({ prompt }: Walker) => mock.ledger.filter(({ raw }) => raw.includes(prompt))
    expect(walkers.flatMap(sentBy)).toHaveLength(mock.ledger.length)
    for (const walker of walkers) {
      const requests = sentBy(walker)
      expect(requests.length).toBeGreaterThan(asks.length * 10)
      const keys = requests.map(({ headers }) => headers['x-api-key'] ?? headers.authorization?.replace('Bearer ', ''))
      expect(new Set(keys)).toEqual(new Set([walker.key]))
      const others = walkers.filter((each) => each !== walker).flatMap(({ key, prompt }) => [key, prompt])
      const received = requests.map(({ headers, raw, path }: MockRequest) => ({
        names: Object.keys(headers).filter((name) => !headersSent.has(name)),
        text: JSON.stringify(headers) + path + raw.toString('latin1'),
      }))
      expect(received.flatMap(({ names }) => names)).toEqual([])
      for (const secret of [...walkers.flatMap(({ secrets }) => secrets), ...others])
        expect(received.filter(({ text }) => text.includes(secret))).toEqual([])
    }
  })

  test('a caller learns nothing of keys, and no header of a provider', () => {
    expect(answers.length).toBeGreaterThan(0)
    for (const { steering, answer } of answers) expectNothingOf(walkers, steering, answer)
  })

  test('neither logs nor tables hold a text, a key or a token', async () => {
    const { db } = platform.api
    const organizationIds = walkers.map(({ owner }) => owner.organizationId)
    const of = (table: typeof aiUsageEvents | typeof aiVideoJobs | typeof aiResponses | typeof aiResponseItems) =>
      db.select().from(table).where(inArray(table.organizationId, organizationIds))
    const events = await of(aiUsageEvents)
    const rows = [events, await of(aiVideoJobs), await of(aiResponses), await of(aiResponseItems)]
    for (const each of rows) expect(each.length).toBeGreaterThan(0)
    expect(events).toHaveLength(answers.length)
    expect(lines.filter((line) => line.includes('"operation":"createChatCompletion"')).length).toBeGreaterThan(100)
    const written = {
      logs: lines.join(''),
      rows: JSON.stringify(rows, (_, value: unknown) => (typeof value === 'bigint' ? `${value}` : value)),
    }
    const texts = ['Écho', 'Überschrift', 'The model failed midway', 'Mock answers', 'Incorrect API key', 'Back soon']
    const secrets = walkers.flatMap(({ key, prompt, owner }) => [prompt, owner.token, ...piecesOf(key)])
    for (const [place, text] of Object.entries(written))
      for (const secret of [...texts, ...secrets])
        expect([place, secret, text.includes(secret)]).toEqual([place, secret, false])
    for (const { headers } of walkers) expect(written.logs).not.toContain(headers['x-custom'])
  })

  test('nobody follows where a provider redirects to', () => {
    expect(mock.ledger.some(({ model }) => model === 'mock/redirect')).toBe(true)
    expect(mock.elsewhere.requests).toEqual([])
  })
})

test('what is whose, through everything that becomes of a video', async () => {
  const walker = await newWalker(await newEntitledOwner(platform), operatorKey)
  const { token, organizationId } = walker.owner
  const from = mock.ledger.length
  lines.length = 0
  const videos: { steering: string; path: string }[] = []
  for (const steering of videoSteerings) {
    const body = { model: `compat/${steering}`, prompt: walker.prompt, duration: 4 }
    const started = await askAi(platform, token, '/videos', body, walker.headers)
    expect([steering, started.status]).toEqual([steering, 202])
    videos.push({ steering, path: `/videos/${(started.body as { id: string }).id}` })
  }
  for (let n = 0; n < 4; n++) {
    platform.clock.advance(60_000)
    await pollVideos(platform.api)
  }
  const statuses: unknown[] = []
  for (const { steering, path } of videos) {
    const job = await askAi(platform, token, path, undefined, walker.headers)
    const content = await askAi(platform, token, `${path}/content`, undefined, walker.headers)
    // Our own document's tag.
    const { etag, ...headers } = job.headers
    expect([steering, etag]).toEqual([steering, expect.any(String)])
    for (const answer of [{ ...job, headers }, content]) expectNothingOf([walker], steering, answer)
    statuses.push((job.body as { status: string }).status)
  }
  // All outcomes occurred.
  expect(new Set(statuses)).toEqual(new Set(['completed', 'failed', 'cancelled', 'expired']))

  const { db } = platform.api
  const jobs = await db.select().from(aiVideoJobs).where(eq(aiVideoJobs.organizationId, organizationId))
  // Jobs of the callers above are polled too.
  const paths = jobs.map(({ upstreamId }) => `/v1/videos/${upstreamId}`)
  const isOwn = ({ path, raw }: MockRequest) =>
    raw.includes(walker.prompt) || paths.some((each) => path === each || path.startsWith(`${each}/`))
  const requests = mock.ledger.slice(from).filter(isOwn)
  expect(requests.length).toBeGreaterThan(videoSteerings.length * 3)
  for (const { headers, raw, path } of requests) {
    expect([path, Object.keys(headers).filter((name) => !headersSent.has(name))]).toEqual([path, []])
    expect([path, headers.authorization]).toEqual([path, `Bearer ${operatorKey}`])
    const text = JSON.stringify(headers) + path + raw.toString('latin1')
    expect([path, walker.secrets.filter((secret) => text.includes(secret))]).toEqual([path, []])
  }
  expect(mock.elsewhere.requests).toEqual([])

  await platform.api.usage.flush()
  const events = await db.select().from(aiUsageEvents).where(eq(aiUsageEvents.organizationId, organizationId))
  expect([events.length, jobs.length]).toEqual([videoSteerings.length, videoSteerings.length])
  const rows = JSON.stringify([events, jobs], (_, value: unknown) => (typeof value === 'bigint' ? `${value}` : value))
  const logs = lines.join('')
  expect(logs).toContain('"operation":"getVideoContent"')
  for (const secret of [walker.prompt, token, 'Mock answers', 'Back soon', ...piecesOf(operatorKey)])
    expect([secret, rows.includes(secret), logs.includes(secret)]).toEqual([secret, false, false])
})

test('a host of videos that has a private address is not asked, although the operator lists it', async () => {
  const { token } = await newEntitledOwner(platform)
  const body = { model: 'listing/video-elsewhere', prompt: 'A ball', duration: 4 }
  const { id } = (await askAi(platform, token, '/videos', body)).body as { id: string }
  for (let n = 0; n < 4; n++) {
    platform.clock.advance(60_000)
    await pollVideos(platform.api)
  }
  const [job] = await platform.api.db.select().from(aiVideoJobs).where(eq(aiVideoJobs.id, id))
  expect(job?.contentUrl).toContain(mock.elsewhere.origin)
  expect(await askAi(platform, token, `/videos/${id}/content`)).toMatchObject({
    status: 503,
    body: { error: { code: 'upstream_error', message: 'The provider listing could not be reached' } },
  })
  expect(mock.elsewhere.requests).toEqual([])
})

describe('a response that a provider keeps', () => {
  const idIn = ({ bytes }: AiAnswer): string => /"id":"(resp_[^"]+)"/.exec(bytes.toString())?.[1] ?? ''
  const continueIt = (token: string, previous: string, headers: Record<string, string> = {}) =>
    askAi(
      platform,
      token,
      '/responses',
      { model: 'compat/plain', input: 'And then?', previous_response_id: previous },
      headers,
    )
  const notFound = {
    status: 404,
    body: {
      error: {
        message: 'The previous response does not exist',
        type: 'invalid_request_error',
        param: 'previous_response_id',
        code: 'previous_response_not_found',
      },
    },
  }

  test.each([false, true])('is continued by its organization and application alone (stream: %s)', async (stream) => {
    const [owner, stranger] = await Promise.all([newEntitledOwner(platform), newEntitledOwner(platform)])
    const { token, organizationId, applicationId } = owner
    const other = await platform.call(token, 'POST /applications', { organizationId, name: `App ${unique()}` })
    const within = { 'x-application-id': applicationId }
    const first = await askAi(platform, token, '/responses', { model: 'compat/plain', input: 'Begin', stream }, within)
    const id = idIn(first)
    expect(id).toMatch(/^resp_req_\d+$/)
    const { token: ofKey } = await newKey(platform, owner, ['network:ai_gateway:chat'])
    const ofOtherKey = await newKey(platform, { token, applicationId: other.body.id as string }, [
      'network:ai_gateway:chat',
    ])

    const before = mock.ledger.length
    for (const refused of [
      await continueIt(stranger.token, id),
      await continueIt(stranger.token, id, { 'x-application-id': stranger.applicationId }),
      await continueIt(token, id),
      await continueIt(token, id, { 'x-application-id': other.body.id as string }),
      await continueIt(ofOtherKey.token, id),
      await continueIt(token, 'resp_missing', within),
      await continueIt(token, 'resp_\0', within),
    ])
      expect(refused).toMatchObject(notFound)
    expect(mock.ledger).toHaveLength(before)

    for (const answered of [await continueIt(token, id, within), await continueIt(ofKey, id)]) {
      expect(answered.status).toBe(200)
      expect(answered.body).toMatchObject({ previous_response_id: id })
    }
  })

  /** Makes an input that refers to an item in this way, and asks something. */
  const inputOf = (item: object) => [item, { role: 'user', content: 'And then?' }]
  const references: [string, (id: string) => object][] = [
    ['a reference', (id) => ({ type: 'item_reference', id })],
    ['reasoning without content', (id) => ({ type: 'reasoning', id, summary: [] })],
    ['reasoning with empty content', (id) => ({ type: 'reasoning', id, summary: [], encrypted_content: '' })],
    [
      'reasoning with content that says nothing',
      (id) => ({ type: 'reasoning', id, encrypted_content: ' ', content: [{ type: 'reasoning_text', text: '' }] }),
    ],
    ['a reference with space', (id) => ({ type: ' item_reference', id, x: 1 })],
    ['a picture of another type', (id) => ({ type: 'image_generation_call', id, result: {} })],
    ['a picture without content', (id) => ({ type: 'image_generation_call', id, status: 'completed', result: null })],
    ['a message without content', (id) => ({ role: 'assistant', id, content: [] })],
    ['any other item that is an id alone', (id) => ({ type: 'web_search_call', id, status: 'completed' })],
  ]

  test.each([false, true])('lends its items to its organization and application alone (stream: %s)', async (stream) => {
    const [owner, stranger] = await Promise.all([newEntitledOwner(platform), newEntitledOwner(platform)])
    const first = await askAi(platform, owner.token, '/responses', {
      model: 'compat/reasoning',
      input: 'Begin',
      stream,
    })
    expect(first.status).toBe(200)
    const ids = ['rs', 'msg'].map((prefix) => new RegExp(`"id":"(${prefix}_[^"]+)"`).exec(first.bytes.toString())?.[1])
    expect(ids).toEqual([expect.any(String), expect.any(String)])
    const within = { 'x-application-id': owner.applicationId }
    for (const id of ids)
      for (const [name, referTo] of references) {
        const body = { model: 'compat/plain', input: inputOf(referTo(id ?? '')) }
        const before = mock.ledger.length
        for (const [token, headers] of [[stranger.token], [owner.token, within]] as const)
          expect([name, await askAi(platform, token, '/responses', body, headers)]).toMatchObject([
            name,
            { status: 404, body: { error: { code: 'item_not_found', param: 'input[0].id' } } },
          ])
        expect(mock.ledger).toHaveLength(before)
        expect([name, (await askAi(platform, owner.token, '/responses', body)).status]).toEqual([name, 200])
      }
  })

  test('is not meant by items that have their content with them', async () => {
    const { token } = await newEntitledOwner(platform)
    const items = [
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'sealed' },
      { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: 'iVBORw0KGgo=' },
      { type: 'message', role: 'assistant', id: 'msg_1', content: [{ type: 'output_text', text: 'Hello' }] },
      { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'look', arguments: '{}' },
      { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'x' } },
    ]
    for (const item of items) {
      const answer = await askAi(platform, token, '/responses', { model: 'compat/plain', input: inputOf(item) })
      expect([item.type, answer.status]).toEqual([item.type, 200])
      expect(mock.ledger.at(-1)?.body?.['input']).toEqual(inputOf(item))
    }
  })

  test('lends no item under an id that nothing can be kept under', async () => {
    const { token } = await newEntitledOwner(platform)
    for (const id of ['', 'msg_\0', 'x'.repeat(600)]) {
      const body = { model: 'compat/plain', input: inputOf({ type: 'item_reference', id }) }
      expect(await askAi(platform, token, '/responses', body)).toMatchObject({
        status: 404,
        body: { error: { code: 'item_not_found', param: 'input[0].id' } },
      })
    }
  })

  test('is forgotten with its items after 30 days', async () => {
    const { token, organizationId } = await newEntitledOwner(platform)
    await askAi(platform, token, '/responses', { model: 'compat/plain', input: 'Begin' })
    const { api } = platform
    const count = () =>
      Promise.all([
        api.db.$count(aiResponses, eq(aiResponses.organizationId, organizationId)),
        api.db.$count(aiResponseItems, eq(aiResponseItems.organizationId, organizationId)),
      ])
    const after = (days: number) => ({
      ...api,
      now: () => new Date(platform.clock.now().getTime() + days * 86_400_000),
    })
    await discardResponses(after(29))
    expect(await count()).toEqual([1, 1])
    await discardResponses(after(31))
    expect(await count()).toEqual([0, 0])
  })

  test('lends a thousand items to one request at most', async () => {
    const { token } = await newEntitledOwner(platform)
    const input = Array.from({ length: 1_001 }, (_, n) => ({ type: 'item_reference', id: `msg_${n}` }))
    expect(await askAi(platform, token, '/responses', { model: 'compat/plain', input })).toMatchObject({
      status: 400,
      body: { error: { code: 'unsupported_parameter', param: 'input' } },
    })
  })

  test('that it was told not to keep is not continued', async () => {
    const { token } = await newEntitledOwner(platform)
    const first = await askAi(platform, token, '/responses', { model: 'compat/plain', input: 'Begin', store: false })
    expect(await continueIt(token, idIn(first))).toMatchObject(notFound)
  })

  test('goes on at the provider that keeps it alone', async () => {
    const { token } = await newEntitledOwner(platform)
    const first = await askAi(platform, token, '/responses', { model: 'compat/plain', input: 'Begin' })
    const elsewhere = { model: 'anthropic/plain', input: 'And then?', previous_response_id: idIn(first) }
    expect(await askAi(platform, token, '/responses', elsewhere)).toMatchObject({
      status: 400,
      body: { error: { code: 'unsupported_parameter', param: 'previous_response_id' } },
    })
  })
})
