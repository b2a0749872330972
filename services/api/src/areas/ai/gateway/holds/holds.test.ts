// engines: postgres
import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { openDatabase } from '@platform/runtime/database'
import { newIdAt } from '@platform/runtime/new-id'
import { freePort } from '@platform/testkit/free-port'
import { holding } from '@platform/testkit/holding'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import {
  type AiAnswer,
  aiModel,
  aiProvidersOf,
  askAi,
  openAiRequest,
  usageEventOf,
} from '../../../../../test/ai-asks.ts'
import { budgetsOf, setBudgets, windowsOf } from '../../../../../test/ai-budgets.ts'
import { aiKeys, mockModel, mockProvider, newEntitledOwner } from '../../../../../test/ai-providers.ts'
import { hurryAi } from '../../../../../test/hurry-ai.ts'
import { newKey, newOwner, type Owner } from '../../../../../test/scenario.ts'
import { admitCall } from '../../governance/budgets/admit-call.ts'
import { usageRowOf } from '../../governance/record-usage.ts'
import { sweepHolds } from '../../governance/budgets/sweep-holds.ts'
import { aiHolds, aiUsageEvents } from '../../governance/table.ts'
import { pollVideos } from '../videos/poll-videos.ts'
import { setBillingCap, setEntitlement } from '../../../tenancy/products/products.ts'

/** 40 bytes: 10 tokens as the mock counts them. */
const TEXT = 'x'.repeat(40)
/** 69 bytes of answer: 7 + 40 + 22. */
const ECHO_TOKENS = 18
/** Nano-USD a token: 2,000 of input, 8,000 of output. */
const price = { input_mtok: 2, output_mtok: 8 }
const free = { input_mtok: 0, output_mtok: 0 }
/** Tokens of the context window of some models. */
const WINDOW = 5_000
const PLAIN_NANOS = 10n * 2_000n + BigInt(ECHO_TOKENS) * 8_000n

let mock: MockUpstream
let platform: TestPlatform
beforeAll(async () => {
  mock = await startMockUpstream({ slowChunkMs: 1 })
  const away = { baseUrl: `http://127.0.0.1:${await freePort()}/v1` }
  const steerings = ['plain', 'no-usage', 'zero-usage', 'cut-mid', 'reset-before', 'hang-headers', '400', '429', '503']
  const held = Array.from({ length: 9 }, (_, n) => `held-${n}`)
  const models = [
    ...[...steerings, ...held].map((steering) => aiModel('compat', steering, price)),
    aiModel('anthropic', 'plain', price),
    aiModel('plain', 'plain', price),
    aiModel('away', 'plain', price),
    aiModel('compat', 'unpriced'),
    { ...mockModel('short', { price, capParameter: 'max_tokens' }, 'compat', 'mock/plain'), maxOutputTokens: 300 },
    mockModel('seeing', { price, bounds: { image: 1_000, file: 5_000 } }, 'compat', 'mock/plain'),
    mockModel('by-character', { price: { input_mchars: 15 } }, 'compat', 'mock/plain'),
    { ...mockModel('speaking', { price }, 'compat', 'mock/plain'), maxOutputTokens: 2_000 },
    {
      ...mockModel('hearing', { price, bounds: { audioSecond: 10, file: 3_000 } }, 'compat', 'mock/plain'),
      maxOutputTokens: 2_000,
    },
    {
      ...mockModel('hearing-wav', { price, bounds: { audioSecond: 10 } }, 'compat', 'mock/plain'),
      maxOutputTokens: 2_000,
    },
    mockModel('pictures', {}, 'google', 'gemini-2.5-flash-image'),
    mockModel('free', { price: free }, 'compat', 'mock/plain'),
    {
      id: 'free-first',
      routes: [
        { provider: 'plain', upstreamModel: 'mock/plain', price: free },
        { provider: 'compat', upstreamModel: 'mock/plain', price, weight: 0 },
      ],
    },
    { ...mockModel('windowed', { price }, 'compat', 'mock/windowed'), contextWindow: WINDOW },
    { ...mockModel('windowed-forgets', { price }, 'compat', 'mock/no-usage'), contextWindow: WINDOW },
    mockModel('published', {}, 'openai', 'gpt-4o'),
    { ...mockModel('restated', {}, 'openai', 'gpt-4o'), contextWindow: WINDOW },
    mockModel('vouched', { price }, 'vouched', 'mock/plain'),
    { ...mockModel('reading', { price }, 'plain', 'mock/plain'), modalities: { input: ['text'], output: ['text'] } },
    mockModel('video-lost', { price: { output_video_seconds: 0.1 } }, 'compat', 'mock/video-gone'),
    mockModel('video', { price: { output_video_seconds: 0.1 } }, 'compat', 'mock/video'),
    {
      id: 'two-routes',
      routes: [
        { provider: 'compat', upstreamModel: 'mock/reset-before', price },
        { provider: 'plain', upstreamModel: 'mock/plain', price, weight: 0 },
      ],
    },
  ]
  const providers = [
    ...aiProvidersOf(mock),
    mockProvider(mock, 'google'),
    mockProvider(mock, 'openai', { responses: true }),
    mockProvider(mock, 'vouched', { unpriced: ['guided_json'] }),
    mockProvider(away, 'away'),
  ]
  platform = await startPlatform({
    aiProviders: { freeCostMicros: 2_000, providers, models },
    env: aiKeys,
    aiTimings: { retryMs: 1 },
  })
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})

let owner: Owner
beforeEach(async () => {
  owner = await newEntitledOwner(platform)
})

const chat = (model: string, more: object = {}) => ({
  model,
  messages: [{ role: 'user', content: TEXT }],
  max_completion_tokens: 100,
  ...more,
})
const ask = (body: object, { path = '/chat/completions', token = owner.token, headers = {} } = {}) =>
  askAi(platform, token, path, body, headers)
const eventBehind = async (answer: AiAnswer) => usageEventOf(platform, answer.headers['x-request-id'])
const errorOf = ({ status, body }: AiAnswer) => ({ status, ...(body as { error: object }).error })
const arrivals = (model: string) => mock.ledger.filter((request) => request.model === model).length
const lastBody = () => mock.ledger.at(-1)?.body ?? {}

describe('a call under a budget', () => {
  test('counts for what it cost, to the nano-dollar, and holds nothing once it has ended', async () => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
    const answer = await ask(chat('compat/plain'))
    expect(answer.status).toBe(200)
    expect(await eventBehind(answer)).toMatchObject({
      providerCostNanos: PLAIN_NANOS,
      countedCostNanos: PLAIN_NANOS,
      countedRequests: 1,
      countedTokens: 10 + ECHO_TOKENS,
      keyOwner: 'operator',
    })
    expect(await windowsOf(platform, owner)).toMatchObject([
      {
        spentCostNanos: PLAIN_NANOS,
        spentRequests: 1,
        spentTokens: 10 + ECHO_TOKENS,
        heldCostNanos: 0n,
        heldRequests: 0,
      },
    ])
  })

  test('that does not fit is refused before anything is sent, and told the largest cap that would', async () => {
    await setBudgets(platform, owner, [{ maxCostMicros: 2_000 }])
    const sent = mock.ledger.length
    const refused = await ask(chat('compat/plain', { max_completion_tokens: 1_000 }))
    const error = errorOf(refused) as { message?: string }
    expect(error).toMatchObject({ status: 429, type: 'insufficient_quota', code: 'budget_exceeded', param: null })
    expect(refused.headers).toMatchObject({ 'x-should-retry': 'false' })
    expect(refused.headers).not.toHaveProperty('retry-after')
    expect(error.message).toMatch(
      /^Of this month’s budget of the organization \$0\.002000 remain; this request would hold \$0\.00\d+;/,
    )
    expect(await eventBehind(refused)).toMatchObject({
      errorCode: 'budget_exceeded',
      countedRequests: 0,
      countedCostNanos: 0n,
      keyOwner: null,
    })
    expect(mock.ledger.length).toBe(sent)
    const fitting = Number(/largest output cap that would fit is (\d+) tokens/.exec(error.message ?? '')?.[1])
    expect(fitting).toBeGreaterThan(10)
    expect((await ask(chat('compat/plain', { max_completion_tokens: fitting + 1 }))).status).toBe(429)
    expect((await ask(chat('compat/plain', { max_completion_tokens: fitting }))).status).toBe(200)
  })

  test.each([
    ['requests', { maxRequests: 2 }, 2],
    // A call holds a token for each byte of its body, 256 more, and 100 of output; it uses 28.
    ['tokens', { maxTokens: 500 }, 1],
    ['cost', { maxCostMicros: 1_600 }, 1],
    ['nothing, with 0', { maxRequests: 0 }, 0],
    ['nothing, with 0 tokens', { maxTokens: 0 }, 0],
  ])('is one of as many as its maximum allows: %s', async (_, budget, allowed) => {
    await setBudgets(platform, owner, [budget])
    const statuses: number[] = []
    for (let n = 0; n <= allowed; n++) {
      statuses.push((await ask(chat('compat/plain'))).status)
      await platform.api.usage.flush()
    }
    expect(statuses).toEqual([...Array.from({ length: allowed }, () => 200), 429])
  })

  test('that finds no request left is told so in the singular, and nothing of caps', async () => {
    await setBudgets(platform, owner, [{ maxRequests: 0 }])
    expect(errorOf(await ask(chat('compat/plain')))).toMatchObject({
      code: 'budget_exceeded',
      message: 'Of this month’s budget of the organization 0 requests remain; this request would hold 1 request',
    })
  })

  test('that cannot be capped is told nothing of caps, and a cap of one token is one token', async () => {
    await setBudgets(platform, owner, [{ maxTokens: 1 }])
    const messageOf = (answer: AiAnswer) => (errorOf(answer) as { message?: string }).message
    const spoken = await ask(speech('speaking'), { path: '/audio/speech' })
    expect(messageOf(spoken)).toMatch(/ 1 token remains; this request would hold \d+ tokens$/)
    const one = await ask(chat('compat/plain', { max_completion_tokens: 1 }))
    const held = Number(/would hold (\d+) tokens; no output cap would fit$/.exec(messageOf(one) ?? '')?.[1])
    await setBudgets(platform, owner, [{ maxTokens: held }])
    const two = await ask(chat('compat/plain', { max_completion_tokens: 2 }))
    expect(messageOf(two)).toMatch(/; the largest output cap that would fit is 1 token$/)
  })

  test('may not hold more than one request may cost', async () => {
    await setBudgets(platform, owner, [{ maxRequestCostMicros: 2_000 }])
    expect((await ask(chat('compat/plain', { max_completion_tokens: 10 }))).status).toBe(200)
    const refused = errorOf(await ask(chat('compat/plain', { max_completion_tokens: 1_000 })))
    expect(refused).toMatchObject({
      status: 429,
      message: expect.stringMatching(/^One request may cost \$0\.002000 by/) as string,
    })
  })

  test('must fit all budgets that match it, and none that name somebody else', async () => {
    const key = await newKey(platform, owner, ['network:ai_gateway:chat'])
    const { applicationId } = owner
    await setBudgets(platform, owner, [
      { maxRequests: 100 },
      { applicationId, maxRequests: 1 },
      { userId: owner.person.userId, maxRequests: 2, period: 'day' },
    ])
    const byKey = () => ask(chat('compat/plain'), { token: key.token }).then(({ status }) => status)
    const byUser = (headers = {}) => ask(chat('compat/plain'), { headers }).then(({ status }) => status)
    expect(await byKey()).toBe(200)
    expect(await byKey()).toBe(429)
    // A user's call that names the application counts towards its budget, any other towards the user's.
    expect(await byUser({ 'x-application-id': applicationId })).toBe(429)
    expect([await byUser(), await byUser(), await byUser()]).toEqual([200, 200, 429])
    expect((await budgetsOf(platform, owner)).map(({ spent }) => spent.requests)).toEqual([3, 1, 2])
  })

  test('that is not enabled limits nothing', async () => {
    await setBudgets(platform, owner, [{ maxRequests: 0, enabled: false }])
    expect((await ask(chat('compat/plain'))).status).toBe(200)
    expect(await budgetsOf(platform, owner)).toMatchObject([{ enabled: false, spent: { requests: 1 } }])
  })

  test('is admitted with others one after the other, over two processes: as many as fit', async () => {
    await setBudgets(platform, owner, [{ maxRequests: 7, maxCostMicros: 10_000_000 }])
    const first = await eventBehind(await ask(chat('compat/plain')))
    if (!first) throw new Error('No event')
    // Another process has its own calls and connections.
    const rival = openDatabase(platform.databaseUrl, { name: 'rival', max: 2, prepare: true })
    onTestFinished(() => rival.close())
    const { organizationId } = owner
    const rivalsCall = () => {
      const startedAt = platform.clock.now()
      const id = newIdAt(startedAt)
      return admitCall(rival, {
        id,
        organizationId,
        applicationId: null,
        userId: owner.person.userId,
        isByOperator: true,
        startedAt,
        costNanos: 1_000n,
        tokens: 1,
        allowanceNanos: null,
        event: usageRowOf({ ...first, id, startedAt }),
        expiresAt: new Date(startedAt.getTime() + 3_600_000),
      })
    }
    // Ours wait ahead of the rival's, so they are fewer than fit.
    const [answers, admissions] = await holding(
      platform.databaseUrl,
      (sql) => sql`select from ai_budget_windows where organization_id = ${organizationId} for update`,
      [
        () => Promise.all(Array.from({ length: 5 }, () => ask(chat('compat/plain')))),
        () => Promise.all(Array.from({ length: 20 }, rivalsCall)),
      ],
    )
    const ours = answers.filter(({ status }) => status === 200).length
    const rivals = admissions.filter(({ kind }) => kind === 'admitted').length
    expect(ours + rivals).toBe(6)
    expect(Math.min(ours, rivals)).toBeGreaterThan(0)
    expect(await windowsOf(platform, owner)).toMatchObject([{ spentRequests: 1 + ours, heldRequests: rivals }])
  })

  test('holds until it has ended, so that others find what is left', async () => {
    await setBudgets(platform, owner, [{ maxRequests: 1 }])
    const hold = mock.hold('mock/held-0', 0)
    const first = ask(chat('compat/held-0'))
    await hold.reached()
    expect(await budgetsOf(platform, owner)).toMatchObject([{ spent: { requests: 0 }, held: { requests: 1 } }])
    expect((await ask(chat('compat/plain'))).status).toBe(429)
    hold.release()
    expect((await first).status).toBe(200)
  })

  test('counts in the day and month in which it was sent', async () => {
    // So that neither the test's day nor its month ends on its own.
    const time = platform.clock.now()
    platform.clock.advance(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1, 1) - 60_000 - time.getTime())
    owner = await newEntitledOwner(platform)
    await setBudgets(platform, owner, [{ maxRequests: 1, period: 'day' }, { maxRequests: 1 }])
    const hold = mock.hold('mock/held-1', 0)
    const last = ask(chat('compat/held-1'))
    await hold.reached()
    platform.clock.advance(120_000)
    owner = { ...owner, token: await owner.person.token(['network:ai_gateway:chat', 'network:ai_gateway:budgets']) }
    const first = await ask(chat('compat/plain'))
    expect(first.status).toBe(200)
    hold.release()
    await last
    expect((await ask(chat('compat/plain'))).status).toBe(429)
    const windows = await windowsOf(platform, owner)
    expect(windows.map(({ spentRequests, heldRequests }) => [spentRequests, heldRequests])).toEqual([
      [1, 0],
      [1, 0],
      [1, 0],
      [1, 0],
    ])
  })
})

describe('what was spent', () => {
  test('outlives budgets, and is there for new ones', async () => {
    await ask(chat('compat/plain'))
    await platform.api.usage.flush()
    const spent = { costMicros: 164, requests: 1, tokens: 28 }
    expect(await setBudgets(platform, owner, [{ maxCostMicros: 200 }])).toMatchObject([{ spent }])
    expect(await setBudgets(platform, owner, [])).toEqual([])
    await ask(chat('compat/plain'))
    await platform.api.usage.flush()
    const both = { costMicros: 328, requests: 2, tokens: 56 }
    expect(
      await setBudgets(platform, owner, [{ maxCostMicros: 200 }, { maxRequests: 9, period: 'day' }]),
    ).toMatchObject([{ spent: both }, { spent: both }])
    expect((await ask(chat('compat/plain'))).status).toBe(429)
  })

  test('includes what calls hold that were sent under an earlier budget', async () => {
    await setBudgets(platform, owner, [{ maxRequests: 10 }])
    const hold = mock.hold('mock/held-2', 0)
    const first = ask(chat('compat/held-2'))
    await hold.reached()
    await setBudgets(platform, owner, [{ maxRequests: 1, period: 'day' }])
    expect(await budgetsOf(platform, owner)).toMatchObject([{ held: { requests: 1 } }])
    expect((await ask(chat('compat/plain'))).status).toBe(429)
    hold.release()
    await first
    expect(await budgetsOf(platform, owner)).toMatchObject([{ held: { requests: 0 }, spent: { requests: 1 } }])
  })
})

describe('an output cap', () => {
  test.each([
    ['that is missing is set', 'compat/plain', { max_completion_tokens: undefined }, { max_completion_tokens: 4_096 }],
    ['that is missing is the model’s', 'short', { max_completion_tokens: undefined }, { max_tokens: 300 }],
    ['goes by the name that its provider knows', 'short', { max_completion_tokens: 20 }, { max_tokens: 20 }],
    [
      'goes by that name also when it came by the other',
      'compat/plain',
      { max_completion_tokens: undefined, max_tokens: 20 },
      { max_completion_tokens: 20 },
    ],
  ])('%s', async (_, model, more, sent) => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
    expect((await ask(chat(model, more))).status).toBe(200)
    const { max_tokens: maxTokens, max_completion_tokens: maxCompletionTokens } = lastBody()
    expect({ max_tokens: maxTokens, max_completion_tokens: maxCompletionTokens }).toEqual({
      max_tokens: undefined,
      max_completion_tokens: undefined,
      ...sent,
    })
  })

  test('of a response is set, and of a message', async () => {
    await setBudgets(platform, owner, [{ maxTokens: 100_000 }])
    await ask({ model: 'compat/plain', input: TEXT }, { path: '/responses' })
    expect(lastBody()).toMatchObject({ max_output_tokens: 4_096 })
    await ask(chat('anthropic/plain', { max_completion_tokens: 77 }))
    expect(lastBody()).toMatchObject({ max_tokens: 77 })
  })

  test('stays as it came under a budget of requests', async () => {
    await setBudgets(platform, owner, [{ maxRequests: 5 }])
    await ask(chat('short', { max_completion_tokens: undefined }))
    expect(lastBody()).not.toHaveProperty('max_tokens')
  })
})

const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }
const wav = (seconds: number) => {
  const head = Buffer.alloc(44)
  head.write('RIFF', 0)
  head.write('WAVEfmt ', 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(8_000, 24)
  head.writeUInt32LE(8_000, 28)
  head.writeUInt16LE(1, 32)
  head.writeUInt16LE(8, 34)
  head.write('data', 36)
  return Buffer.concat([head, Buffer.alloc(8_000 * seconds)]).toString('base64')
}
const speech = (model: string, more: object = {}) => ({ model, input: TEXT, voice: 'alloy', ...more })
const transcription = (model: string, data: string, format = 'wav') => ({ model, input_audio: { data, format } })

describe('what a budget of cost or tokens cannot bound is refused by name', () => {
  const response = (more: object) => ({ model: 'compat/plain', input: TEXT, ...more })
  const cases: [string, string, object][] = [
    ['service_tier', '/chat/completions', chat('compat/plain', { service_tier: 'flex' })],
    ['tools[0]', '/chat/completions', chat('compat/plain', { tools: [{ type: 'web_search' }] })],
    ['web_search_options', '/chat/completions', chat('compat/plain', { web_search_options: {} })],
    ['modalities[1]', '/chat/completions', chat('compat/plain', { modalities: ['text', 'audio'] })],
    ['prediction', '/chat/completions', chat('compat/plain', { prediction: { type: 'content', content: 'x' } })],
    ['plugins', '/chat/completions', chat('compat/plain', { plugins: [{ id: 'web' }] })],
    [
      'messages[0].content[0]',
      '/chat/completions',
      chat('compat/plain', { messages: [{ role: 'user', content: [image] }] }),
    ],
    [
      'messages[0].content[0]',
      '/chat/completions',
      chat('seeing', {
        messages: [
          { role: 'user', content: [{ type: 'video_url', video_url: { url: 'data:video/mp4;base64,AAAA' } }] },
        ],
      }),
    ],
    ['model', '/chat/completions', chat('compat/unpriced')],
    // It generates images, which cost twelve times as much as text.
    ['model', '/chat/completions', chat('pictures')],
    ['tools[0]', '/responses', response({ tools: [{ type: 'image_generation' }] })],
    [
      'input[0]',
      '/responses',
      response({ input: [{ type: 'web_search_call', id: 'ws_1', status: 'completed', action: {} }] }),
    ],
    [
      'tools[0].cache_control.ttl',
      '/chat/completions',
      chat('compat/plain', {
        tools: [{ type: 'function', function: { name: 'f' }, cache_control: { type: 'ephemeral', ttl: '1h' } }],
      }),
    ],
    ['model', '/audio/speech', speech('compat/plain')],
    ['file', '/audio/transcriptions', transcription('hearing-wav', Buffer.from('ID3 sound').toString('base64'), 'mp3')],
    ['duration', '/videos', { model: 'video', prompt: 'A ball' }],
    ['seconds', '/videos', { model: 'video', prompt: 'A ball', duration: 1, seconds: 600 }],
    [
      'stream_options.continuous_usage_stats',
      '/chat/completions',
      chat('compat/plain', { stream: true, stream_options: { continuous_usage_stats: true } }),
    ],
    // `type` is decisive only in parts of a content.
    [
      'messages[0]',
      '/chat/completions',
      chat('seeing', { messages: [{ role: 'user', type: 'image_url', content: 'x' }] }),
    ],
    ['model', '/chat/completions', chat('compat/plain', { max_completion_tokens: Number.MAX_SAFE_INTEGER })],
  ]
  test.each(cases)('%s of %s', async (param, path, body) => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000_000, maxTokens: 1_000_000 }])
    const sent = mock.ledger.length
    const refused = await ask(body, { path })
    expect(errorOf(refused)).toMatchObject({ status: 400, code: 'unsupported_under_budget', param })
    expect(await eventBehind(refused)).toMatchObject({ errorCode: 'unsupported_under_budget', countedRequests: 0 })
    expect(mock.ledger.length).toBe(sent)
    // A budget of requests does not prevent it.
    await setBudgets(platform, owner, [{ maxRequests: 5 }])
    await ask(body, { path })
    expect(mock.ledger.length).toBe(sent + 1)
  })

  test('a response is built on where its length is known', async () => {
    await setBudgets(platform, owner, [{ maxTokens: 10_000 }])
    const first = await ask(response({ max_output_tokens: 10 }), { path: '/responses' })
    const { id } = first.body as { id: string }
    const second = await ask(response({ max_output_tokens: 10, previous_response_id: id }), { path: '/responses' })
    expect(second.status).toBe(200)
    // The contents of its items are unknown.
    const [item] = (first.body as { output: { id: string }[] }).output
    const third = await ask(response({ input: [{ type: 'item_reference', id: item?.id }] }), { path: '/responses' })
    expect(errorOf(third)).toMatchObject({ status: 400, code: 'unsupported_under_budget', param: 'input[0].id' })
  })
})

describe('whatever a model reads is counted', () => {
  const long = 'x'.repeat(20_000)
  const part = (more: object) => chat('seeing', { messages: [{ role: 'user', content: [more] }] })
  test.each([
    ['text beside a picture', part({ ...image, text: long })],
    [
      'the name of a file',
      part({ type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERg==', filename: long } }),
    ],
    [
      'nulls',
      chat('seeing', {
        tools: [
          {
            type: 'function',
            function: { name: 'f', parameters: { enum: Array.from({ length: 5_000 }, () => null) } },
          },
        ],
      }),
    ],
    ['letters that become longer', chat('seeing', { messages: [{ role: 'user', content: '\u{fdfa}'.repeat(600) }] })],
  ])('%s', async (_, body) => {
    await setBudgets(platform, owner, [{ maxTokens: 18_000 }])
    expect(errorOf(await ask(body))).toMatchObject({ status: 429, code: 'budget_exceeded' })
  })

  test('and what one call asks for is no failure of others', async () => {
    const other = await newEntitledOwner(platform)
    await setBudgets(platform, other, [{ maxCostMicros: 1_000_000_000 }])
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000_000 }])
    const huge = { n: 128, max_completion_tokens: 2_147_483_647 }
    const answers = await Promise.all(
      Array.from({ length: 20 }, (__, n) =>
        n % 2 === 0 ? ask(chat('compat/plain', huge)) : ask(chat('compat/plain'), { token: other.token }),
      ),
    )
    expect(answers.map(({ status }) => status)).toEqual(
      Array.from({ length: 20 }, (__, n) => (n % 2 === 0 ? 429 : 200)),
    )
    const locals = await Promise.all(Array.from({ length: 20 }, () => ask(chat('local/echo', huge))))
    expect(new Set(locals.map(({ status }) => status))).toEqual(new Set([200]))
  })
})

/** Members and contents whose cost nobody knows. */
const boundless = {
  messages: [{ role: 'user', content: [{ type: 'text', text: TEXT }, image] }],
  guided_json: { type: 'object' },
  service_tier: 'flex',
  tools: [{ type: 'web_search' }],
}

describe('a route that costs nothing', () => {
  test.each([{ maxCostMicros: 1_000 }, { maxRequestCostMicros: 1 }])(
    'takes whatever is sent, as it came, where only cost is limited: %j',
    async (budget) => {
      await setBudgets(platform, owner, [budget])
      const asked = { model: 'free', ...boundless }
      const answer = await ask(asked)
      expect(answer.status).toBe(200)
      expect(lastBody()).toEqual({ ...asked, model: 'mock/plain' })
      expect(await eventBehind(answer)).toMatchObject({ countedRequests: 1, countedCostNanos: 0n })
      expect((await ask({ ...boundless, model: 'local/echo' })).status).toBe(200)
    },
  )

  test('is measured all the same where tokens are limited', async () => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000, maxTokens: 100_000 }])
    expect(errorOf(await ask({ model: 'free', ...boundless }))).toMatchObject({ code: 'unsupported_under_budget' })
    expect((await ask(chat('free', { max_completion_tokens: undefined }))).status).toBe(200)
    expect(lastBody()).toMatchObject({ max_completion_tokens: 4_096 })
  })

  test('is the only one left for what its priced neighbour cannot bound, and no cap is written then', async () => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
    expect((await ask({ model: 'free-first', ...boundless })).status).toBe(200)
    expect(lastBody()).toEqual({ ...boundless, model: 'mock/plain' })
    // Either may answer this one, so its cap is there for both.
    expect((await ask(chat('free-first', { max_completion_tokens: undefined }))).status).toBe(200)
    expect(lastBody()).toMatchObject({ max_completion_tokens: 4_096 })
  })
})

describe('a context window', () => {
  /** Sends a call, and returns what it holds of tokens while it is under way. */
  async function heldBy(upstreamModel: string, body: object, path = '/chat/completions'): Promise<number> {
    const hold = mock.hold(upstreamModel, 0)
    const asked = ask(body, { path })
    await Promise.race([hold.reached(), asked])
    const [window] = await windowsOf(platform, owner)
    hold.release()
    expect((await asked).status).toBe(200)
    return window?.heldTokens ?? 0
  }
  const sees = (model: string, part: object) => chat(model, { messages: [{ role: 'user', content: [part] }] })
  const response = (more: object) => ({ model: 'windowed', input: TEXT, max_output_tokens: 100, ...more })

  test.each([
    ['a picture', image],
    ['a file', { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERg==' } }],
    ['sound', { type: 'input_audio', input_audio: { data: 'SUQz', format: 'mp3' } }],
    ['a long text', { type: 'text', text: 'x'.repeat(20_000) }],
  ])('is held for the input with %s', async (_, part) => {
    await setBudgets(platform, owner, [{ maxTokens: 100_000, maxCostMicros: 1_000_000 }])
    expect(await heldBy('mock/windowed', sees('windowed', part))).toBe(WINDOW + 100)
  })

  test('is held for files, items and responses that only the provider has', async () => {
    const keyPath = `/organizations/${owner.organizationId}/ai-gateway/provider-keys/compat`
    await platform.call(owner.token, `PUT ${keyPath}`, { key: 'sk-organization-01234567' })
    await setBudgets(platform, owner, [{ maxTokens: 100_000, maxCostMicros: 1_000_000 }])
    const file = [{ role: 'user', content: [{ type: 'input_file', file_id: 'file-1' }] }]
    expect(await heldBy('mock/windowed', response({ input: file }), '/responses')).toBe(WINDOW + 100)
    const stored = await ask({ model: 'windowed-forgets', input: TEXT }, { path: '/responses' })
    const { id, output } = stored.body as { id: string; output: { id: string }[] }
    const item = [{ type: 'item_reference', id: output[0]?.id }]
    expect(await heldBy('mock/windowed', response({ input: item }), '/responses')).toBe(WINDOW + 100)
    expect(await heldBy('mock/windowed', response({ previous_response_id: id }), '/responses')).toBe(WINDOW + 100)
  })

  test('is the published one with room for its rounding, unless the operator states another', async () => {
    await setBudgets(platform, owner, [{ maxTokens: 1_000_000, maxCostMicros: 10_000_000 }])
    expect(await heldBy('gpt-4o', sees('published', image))).toBe(128_000 * 1.05 + 100)
    expect(await heldBy('gpt-4o', sees('restated', image))).toBe(WINDOW + 100)
  })

  test('bounds no sound that is transcribed, since that may be sent to the model in pieces', async () => {
    await setBudgets(platform, owner, [{ maxTokens: 100_000 }])
    const refused = await ask(transcription('windowed', wav(2)), { path: '/audio/transcriptions' })
    expect(errorOf(refused)).toMatchObject({ code: 'unsupported_under_budget', param: 'file' })
  })
})

test('a member passes that the operator vouches for, and no other', async () => {
  await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
  expect((await ask(chat('vouched', { guided_json: { type: 'object' } }))).status).toBe(200)
  expect(lastBody()).toMatchObject({ guided_json: { type: 'object' } })
  expect(errorOf(await ask(chat('vouched', { guided_regex: 'a' })))).toMatchObject({ param: 'guided_regex' })
  expect(errorOf(await ask(chat('compat/plain', { guided_json: {} })))).toMatchObject({ param: 'guided_json' })
})

describe('the service tier', () => {
  const tierOf = async (body: object, path?: string) => {
    expect((await ask(body, path === undefined ? {} : { path })).status).toBe(200)
    return lastBody()['service_tier']
  }
  const response = { model: 'published', input: TEXT }

  test('that OpenAI is sent is the default where none is asked for and cost is limited', async () => {
    await setBudgets(platform, owner, [{ maxCostMicros: 10_000_000 }])
    expect(await tierOf(chat('published'))).toBe('default')
    expect(await tierOf(chat('published', { service_tier: null, stream: true }))).toBe('default')
    expect(await tierOf(response, '/responses')).toBe('default')
    expect(await tierOf(chat('compat/plain'))).toBeUndefined()
  })

  test('stays out where cost is not limited', async () => {
    await setBudgets(platform, owner, [{ maxRequests: 10, maxTokens: 1_000_000 }])
    expect(await tierOf(chat('published'))).toBeUndefined()
    expect(await tierOf(response, '/responses')).toBeUndefined()
  })
})

describe('warnings of a new set of budgets', () => {
  const path = () => `PUT /organizations/${owner.organizationId}/ai-gateway/budgets`
  const set = async (budgets: unknown) => {
    const { status, body } = await platform.call(owner.token, path(), budgets)
    expect(status).toBe(200)
    return body as { items: unknown[]; warnings: { model: string; refuses: string[]; message: string }[] }
  }
  const refusals = async (budget: object) =>
    Object.fromEntries((await set([budget])).warnings.map(({ model, refuses }) => [model, refuses]))

  test('name each model with what it refuses now', async () => {
    const byCost = await refusals({ maxCostMicros: 1_000 })
    expect(byCost).toMatchObject({
      'compat/plain': ['pictures', 'files', 'recordings', 'earlier responses'],
      'plain/plain': ['pictures', 'files', 'recordings'],
      'compat/unpriced': ['everything'],
      seeing: ['earlier responses'],
    })
    for (const model of ['free', 'windowed', 'published', 'reading', 'local/echo'])
      expect(byCost).not.toHaveProperty([model])
    const byTokens = await refusals({ maxTokens: 1_000 })
    expect(byTokens).toMatchObject({ free: ['pictures', 'files', 'recordings', 'earlier responses'] })
    expect(byTokens).not.toHaveProperty(['windowed'])
    expect(byTokens).not.toHaveProperty(['local/echo'])
  })

  test('are what calls meet', async () => {
    const { warnings } = await set([{ maxCostMicros: 1_000_000 }])
    expect(warnings.find(({ model }) => model === 'plain/plain')?.message).toBe(
      'plain/plain refuses pictures, files and recordings under these budgets: what a picture costs at most is not known',
    )
    const picture = [{ role: 'user', content: [image] }]
    expect((await ask(chat('plain/plain', { messages: picture }))).status).toBe(400)
    expect((await ask(chat('windowed', { messages: picture }))).status).toBe(200)
  })

  test('are none where only requests are limited, or nothing is enabled', async () => {
    expect((await set([{ maxRequests: 1 }])).warnings).toEqual([])
    expect((await set([{ maxCostMicros: 1, enabled: false }])).warnings).toEqual([])
    expect((await set([])).warnings).toEqual([])
  })

  test('leave out models that the organization cannot use', async () => {
    const { organizationId } = owner
    const policyPath = `PUT /organizations/${organizationId}/ai-gateway/policies`
    await platform.call(owner.token, policyPath, { allowedModels: ['compat/plain', 'free'] })
    expect((await set([{ maxCostMicros: 1 }])).warnings.map(({ model }) => model)).toEqual(['compat/plain'])
  })

  test('may be sent back with the rest of the answer', async () => {
    const first = await set([{ maxCostMicros: 1_000 }])
    expect(first.warnings.length).toBeGreaterThan(0)
    const again = await set(first)
    expect(again.warnings).toEqual(first.warnings)
    expect(again.items).toHaveLength(1)
  })
})

describe('what can be bounded passes', () => {
  const cases: [string, string, object][] = [
    [
      'a picture',
      '/chat/completions',
      chat('seeing', { messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }, image] }] }),
    ],
    [
      'tools of the caller',
      '/chat/completions',
      chat('compat/plain', { tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }] }),
    ],
    [
      'a cache of five minutes',
      '/chat/completions',
      chat('compat/plain', {
        messages: [{ role: 'user', content: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }] }],
      }),
    ],
    ['speech by its characters', '/audio/speech', speech('by-character')],
    ['speech of a model with a limit', '/audio/speech', speech('speaking', { stream_format: 'sse' })],
    [
      'a recording with a bound',
      '/audio/transcriptions',
      transcription('hearing', Buffer.from('ID3 sound').toString('base64'), 'mp3'),
    ],
    ['a recording that says how long it is', '/audio/transcriptions', transcription('hearing-wav', wav(2))],
    ['a model of the platform', '/chat/completions', chat('local/echo')],
    [
      'a picture for a model of the platform, which reads text alone',
      '/chat/completions',
      chat('local/echo', { messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }, image] }] }),
    ],
    ['a video', '/videos', { model: 'video', prompt: 'A ball', duration: 2 }],
  ]
  test.each(cases)('%s', async (_, path, body) => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000, maxTokens: 1_000_000 }])
    expect((await ask(body, { path })).status).toBeLessThan(300)
  })

  test('by the length of a recording that says it', async () => {
    // Ten tokens a second, and 2,000 of output: 20,000 tokens are not enough for 1,800 s.
    await setBudgets(platform, owner, [{ maxTokens: 20_000 }])
    expect((await ask(transcription('hearing-wav', wav(100)), { path: '/audio/transcriptions' })).status).toBe(200)
    expect((await ask(transcription('hearing-wav', wav(1_800)), { path: '/audio/transcriptions' })).status).toBe(429)
  })
})

describe('a call whose outcome is not known', () => {
  const held = (outputTokens: number, inputBound: bigint) => inputBound + BigInt(outputTokens) * 8_000n

  test('counts for all that it held, and is not sent again', async () => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
    const before = arrivals('mock/reset-before')
    const answer = await ask(chat('compat/reset-before'))
    expect(answer.status).toBe(503)
    expect(arrivals('mock/reset-before')).toBe(before + 1)
    const event = await eventBehind(answer)
    // Its input is billed; it held 100 tokens of output and the bytes of the body.
    expect(event).toMatchObject({ usageSource: 'estimated', providerCostNanos: 20_000n, countedRequests: 1 })
    expect(event?.countedCostNanos).toBeGreaterThan(held(100, 256n * 2_000n))
    expect(await windowsOf(platform, owner)).toMatchObject([
      { spentCostNanos: event?.countedCostNanos, heldCostNanos: 0n },
    ])
  })

  test('is not sent to the next route either', async () => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
    expect((await ask(chat('two-routes'))).status).toBe(503)
    await setBudgets(platform, owner, [])
    expect((await ask(chat('two-routes'))).status).toBe(200)
  })

  test('is one that broke off in the middle, also of a stream', async () => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
    const answer = await ask(chat('compat/cut-mid', { stream: true }))
    const event = await eventBehind(answer)
    expect(event?.status).toBe('error')
    expect(event?.countedCostNanos).toBeGreaterThan(held(100, 256n * 2_000n))
    expect(event?.countedCostNanos).toBeGreaterThan((event?.providerCostNanos ?? 0n) * 2n)
  })

  test('that a provider refused with a status costs nothing, and is sent again', async () => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000, maxRequests: 10 }])
    const before = arrivals('mock/503')
    expect((await ask(chat('compat/503'))).status).toBe(503)
    expect(arrivals('mock/503')).toBe(before + 3)
    expect((await ask(chat('compat/400'))).status).toBe(400)
    expect(await windowsOf(platform, owner)).toMatchObject([{ spentCostNanos: 0n, spentRequests: 2, heldRequests: 0 }])
  })

  test('that never reached a provider counts nothing at all', async () => {
    await setBudgets(platform, owner, [{ maxRequests: 1, maxCostMicros: 1_000_000 }])
    expect((await ask(chat('away/plain'))).status).toBe(503)
    expect(await windowsOf(platform, owner)).toMatchObject([{ spentCostNanos: 0n, spentRequests: 0, heldRequests: 0 }])
  })

  test('of a provider that tells no usage counts for the estimate, and zeros for nothing', async () => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
    expect(await eventBehind(await ask(chat('compat/no-usage')))).toMatchObject({
      usageSource: 'estimated',
      countedCostNanos: PLAIN_NANOS,
    })
    expect(await eventBehind(await ask(chat('compat/zero-usage')))).toMatchObject({
      usageSource: 'provider',
      countedCostNanos: 0n,
      countedRequests: 1,
    })
  })

  test('counts what was seen of a stream that its client left, and 256 tokens, and no more than it held', async () => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
    const left = async (model: string, cap: number) => {
      const hold = mock.hold(`mock/${model}`, 4)
      const request = openAiRequest(
        platform,
        owner.token,
        '/chat/completions',
        chat(`compat/${model}`, { stream: true, max_completion_tokens: cap }),
      )
      await hold.reached()
      await request.until((text) => text.split('data: ').length > 4)
      request.leave()
      const { id } = (await mock.waitForAbort((each) => each.model === `mock/${model}`)) as { id: string }
      hold.release()
      expect(id).toBeDefined()
      await expect
        .poll(
          async () =>
            (await platform.api.db.select().from(aiHolds).where(eq(aiHolds.organizationId, owner.organizationId)))
              .length,
        )
        .toBe(0)
      const [window] = await windowsOf(platform, owner)
      return window?.spentCostNanos ?? 0n
    }
    const ofLarge = await left('held-3', 10_000)
    // At most the bytes of the body, 256 unseen tokens, and the received ones.
    expect(ofLarge).toBeGreaterThan(256n * 8_000n)
    expect(ofLarge).toBeLessThan((256n + 80n) * 8_000n + 600n * 2_000n)
    const ofSmall = (await left('held-4', 20)) - ofLarge
    expect(ofSmall).toBeLessThanOrEqual(20n * 8_000n + 600n * 2_000n)
  })

  test('and whose process died is settled as if it had cost all that it held, and never again', async () => {
    await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
    const hold = mock.hold('mock/held-5', 0)
    const asked = ask(chat('compat/held-5'))
    await hold.reached()
    const [{ heldCostNanos: before } = { heldCostNanos: 0n }] = await windowsOf(platform, owner)
    const later = new Date(platform.clock.now().getTime() + 3_600_000)
    // Nothing has expired yet.
    await sweepHolds(platform.api)
    expect(await windowsOf(platform, owner)).toMatchObject([{ heldCostNanos: before, spentCostNanos: 0n }])
    await Promise.all([1, 2].map(() => sweepHolds({ db: platform.api.db, now: () => later })))
    const swept = [{ heldCostNanos: 0n, heldRequests: 0, spentCostNanos: before, spentRequests: 1 }]
    expect(await windowsOf(platform, owner)).toMatchObject(swept)
    hold.release()
    const answer = await asked
    expect(answer.status).toBe(200)
    expect(await eventBehind(answer)).toMatchObject({
      status: 'error',
      errorCode: 'process_died',
      usageSource: 'estimated',
      countedCostNanos: before,
      providerCostNanos: before,
      completedAt: later,
    })
    expect(await windowsOf(platform, owner)).toMatchObject(swept)
  })
})

test('a video is counted when it is made, also where its event was never stored', async () => {
  await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
  const video = { model: 'video', prompt: 'A ball', duration: 2 }
  const ids: (string | undefined)[] = []
  for (let n = 0; n < 2; n++) ids.push((await ask(video, { path: '/videos' })).headers['x-request-id'])
  expect(await windowsOf(platform, owner)).toMatchObject([
    { spentCostNanos: 0n, spentRequests: 0, heldCostNanos: 400_000_000n, heldRequests: 2 },
  ])
  // The process died before it stored the second one.
  await platform.api.db.delete(aiUsageEvents).where(eq(aiUsageEvents.id, ids[1] ?? ''))
  for (let n = 1; n <= 4; n++) {
    const time = new Date(platform.clock.now().getTime() + n * 120_000)
    await pollVideos({ ...platform.api, now: () => time })
  }
  expect(await windowsOf(platform, owner)).toMatchObject([
    { spentCostNanos: 400_000_000n, spentRequests: 2, heldCostNanos: 0n, heldRequests: 0 },
  ])
  for (const id of ids)
    expect(await usageEventOf(platform, id)).toMatchObject({
      status: 'success',
      providerCostNanos: 200_000_000n,
      countedTokens: 0,
    })
})

test('a video that its provider lost counts for what it held', async () => {
  await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
  const video = { model: 'video-lost', prompt: 'A ball', duration: 2 }
  const id = (await ask(video, { path: '/videos' })).headers['x-request-id']
  for (let n = 1; n <= 4; n++) {
    const time = new Date(platform.clock.now().getTime() + n * 120_000)
    await pollVideos({ ...platform.api, now: () => time })
  }
  expect(await usageEventOf(platform, id)).toMatchObject({
    status: 'error',
    providerCostNanos: 0n,
    countedCostNanos: 200_000_000n,
  })
  expect(await windowsOf(platform, owner)).toMatchObject([{ spentCostNanos: 200_000_000n, heldCostNanos: 0n }])
})

test('a stream counts for all that it held if its reader kept it waiting and left', async () => {
  await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000_000 }])
  const text = 'x'.repeat(4_000_000)
  const body = chat('compat/held-7', {
    stream: true,
    messages: [{ role: 'user', content: text }],
    max_completion_tokens: 2_000_000,
  })
  const hold = mock.hold('mock/held-7', 8)
  await hurryAi(platform, { stalledMs: 0 }, async () => {
    const request = openAiRequest(platform, owner.token, '/chat/completions', body)
    await hold.reached()
    const [window] = await windowsOf(platform, owner)
    request.leave()
    await mock.waitForAbort((each) => each.model === 'mock/held-7')
    await expect
      .poll(async () => (await windowsOf(platform, owner))[0])
      .toMatchObject({ spentCostNanos: window?.heldCostNanos, heldCostNanos: 0n })
  })
  hold.release()
})

test('the answer is not awaited that a client of a whole answer left, and is counted as the provider tells', async () => {
  await setBudgets(platform, owner, [{ maxCostMicros: 1_000_000 }])
  const hold = mock.hold('mock/held-6', 0)
  const request = openAiRequest(platform, owner.token, '/chat/completions', chat('compat/held-6'))
  await hold.reached()
  request.leave()
  await request.answer
  hold.release()
  await expect.poll(async () => (await windowsOf(platform, owner))[0]?.spentCostNanos).toBe(PLAIN_NANOS)
})

test('a provider that is silent leaves all that was held in the budget', async () => {
  await setBudgets(platform, owner, [{ maxTokens: 100_000 }])
  const answer = await hurryAi(platform, { wholeFirstByteMs: 300 }, () => ask(chat('compat/hang-headers')))
  expect(errorOf(answer)).toMatchObject({ status: 503, code: 'upstream_timeout' })
  const event = await eventBehind(answer)
  expect(event?.countedTokens).toBeGreaterThan(100 + 256)
  expect(event).toMatchObject({ inputTokens: 10, outputTokens: 0 })
})

describe('the operator’s allowance (D111)', () => {
  const budgetsPath = () => `/organizations/${owner.organizationId}/ai-gateway/budgets`
  beforeEach(async () => {
    owner = await newOwner(platform)
  })

  test('is a budget that organizations without an entitlement see, and cannot change', async () => {
    const shown = {
      id: null,
      source: 'operator',
      period: 'month',
      maxCostMicros: 2_000,
      enabled: true,
      spent: { costMicros: 0, requests: 0, tokens: 0 },
    }
    expect(await budgetsOf(platform, owner)).toMatchObject([shown])
    expect((await ask(chat('compat/plain'))).status).toBe(200)
    const [seen] = await budgetsOf(platform, owner)
    expect(seen).toMatchObject({ spent: { costMicros: 164, requests: 1, tokens: 28 } })
    const sentBack = await platform.call(owner.token, `PUT ${budgetsPath()}`, {
      items: [{ ...seen, maxCostMicros: 9e9 }],
    })
    expect(sentBack).toMatchObject({ status: 200, body: { items: [seen] } })
    await setEntitlement(platform.api, owner.organizationId, 'ai-gateway', 'ACTIVE')
    expect(await budgetsOf(platform, owner)).toEqual([])
  })

  test('holds as hard as any: what does not fit is refused, and so is what cannot be bounded', async () => {
    const refused = errorOf(await ask(chat('compat/plain', { max_completion_tokens: 1_000 })))
    expect(refused).toMatchObject({
      status: 429,
      code: 'budget_exceeded',
      message: expect.stringMatching(/^Of the operator’s allowance of this month \$0\.002000 remain/) as string,
    })
    expect(errorOf(await ask(chat('compat/unpriced')))).toMatchObject({ status: 400, code: 'unsupported_under_budget' })
    expect((await ask(chat('compat/plain'))).status).toBe(200)
  })

  test('is used by calls with the operator’s key alone', async () => {
    const keyPath = `/organizations/${owner.organizationId}/ai-gateway/provider-keys/compat`
    await ask(chat('local/echo'))
    await platform.call(owner.token, `PUT ${keyPath}`, { key: 'sk-organization-01234567' })
    expect((await ask(chat('compat/plain', { max_completion_tokens: 10_000 }))).status).toBe(200)
    expect(await budgetsOf(platform, owner)).toMatchObject([{ spent: { requests: 0, costMicros: 0 } }])
    // The organization's own budget counts the costs of its own key.
    expect(await setBudgets(platform, owner, [{ maxCostMicros: 5_000 }])).toMatchObject([
      { source: 'organization', spent: { requests: 2, costMicros: 164 } },
      { source: 'operator' },
    ])
    expect((await ask(chat('compat/plain', { max_completion_tokens: 10_000 }))).status).toBe(429)
    await platform.call(owner.token, `DELETE ${keyPath}`)
    expect((await ask(chat('compat/plain'))).status).toBe(200)
    expect(await budgetsOf(platform, owner)).toMatchObject([
      { spent: { requests: 3 } },
      { spent: { requests: 1, costMicros: 164 } },
    ])
  })
})

test('what calls by the operator’s key cost counts towards the billing cap (D89)', async () => {
  const deployment = { applicationId: owner.applicationId }
  await ask(chat('compat/plain'))
  await platform.api.usage.flush()
  const quotas = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/quotas`)
  expect(quotas.body).toMatchObject({ billing: { spentMicros: 164 } })
  await setBillingCap(platform.api, owner.organizationId, 165)
  expect((await platform.call(owner.token, 'POST /deployments', deployment)).status).toBe(201)
  await setBillingCap(platform.api, owner.organizationId, 164)
  expect(await platform.call(owner.token, 'POST /deployments', deployment)).toMatchObject({
    status: 402,
    body: { error: expect.stringContaining('billing cap') as string },
  })
  // Inference never answers 402.
  expect((await ask(chat('compat/plain'))).status).toBe(200)
})
