import { randomBytes } from 'node:crypto'
import { noUsage } from '@platform/ai-protocols/usage'
import { cutIntoPieces, mockEcho } from '@platform/testing/mock-ai-answers'
import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { freePort } from '@platform/testkit/free-port'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AiAnswer, aiModel, aiProvidersOf, askAi, openAiRequest, usageEventOf } from '../../../../test/ai-asks.ts'
import { aiKeys, mockModel, mockProvider, newEntitledOwner } from '../../../../test/ai-providers.ts'
import { newFunction } from '../../../../test/deployments.ts'
import { hurryAi } from '../../../../test/hurry-ai.ts'
import { newKey, newOwner, type Owner } from '../../../../test/scenario.ts'
import { aiUsageEvents } from '../governance/table.ts'

/** 40 bytes: 10 tokens as the mock counts them, and as estimates do. */
const TEXT = 'x'.repeat(40)
/** 69 bytes: 7 + 40 + 22. */
const ECHO_TOKENS = 18
/** Nano-USD: 2,000 a token of input, 500 a cached one, 6,000 of sound; 8,000 of output, 12,000 of reasoning, 9,000 of sound. */
const price = {
  input_mtok: 2,
  cache_read_mtok: 0.5,
  input_audio_mtok: 6,
  output_mtok: 8,
  output_reasoning_mtok: 12,
  output_audio_mtok: 9,
}

let mock: MockUpstream
let platform: TestPlatform
let owner: Owner
beforeAll(async () => {
  mock = await startMockUpstream({ slowChunkMs: 1 })
  const away = { baseUrl: `http://127.0.0.1:${await freePort()}/v1` }
  const steerings = [
    'plain',
    'cached',
    'reasoning',
    'no-usage',
    'zero-usage',
    'tools',
    'error-mid',
    'cut-mid',
    'bad-json',
  ]
  const models = [
    ...['compat', 'plain', 'anthropic'].flatMap((provider) =>
      [...steerings, '400', '401', '429', '500', 'hang-headers', 'stall-mid', 'reset-before'].map((steering) =>
        aiModel(provider, steering, price),
      ),
    ),
    ...['held-1', 'held-2', 'held-3', 'held-4', 'held-5', 'held-6'].flatMap((name) => [
      aiModel('compat', name, price),
      aiModel('anthropic', name, price),
    ]),
    aiModel('compat', 'by-request', { requests_kcount: 1, input_mtok: 0.0001 }),
    aiModel('compat', 'free', { input_mtok: 0 }),
    aiModel('compat', 'by-hour', { audio_hours: 0.36 }),
    aiModel('compat', 'by-character', { input_mchars: 15 }),
    aiModel('away', 'plain', price),
    mockModel('openai/gpt-4o', {}, 'openai', 'gpt-4o'),
    mockModel('openai/no-such-model', {}, 'openai', 'no-such-model'),
  ]
  const providers = [...aiProvidersOf(mock), mockProvider(mock, 'openai'), mockProvider(away, 'away')]
  platform = await startPlatform({ aiProviders: { providers, models }, env: aiKeys, aiTimings: { retryMs: 1 } })
  owner = await newEntitledOwner(platform)
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})

const chat = (model: string, more: object = {}) => ({ model, messages: [{ role: 'user', content: TEXT }], ...more })
const response = (model: string, more: object = {}) => ({ model, input: TEXT, ...more })
const speech = (model: string, more: object = {}) => ({ model, input: TEXT, voice: 'alloy', ...more })
const transcription = (model: string, more: object = {}) => ({
  model,
  input_audio: { data: Buffer.alloc(40).toString('base64'), format: 'wav' },
  ...more,
})
const streamed = { stream: true }

const settledBy = async (answer: Promise<AiAnswer>) => usageEventOf(platform, (await answer).headers['x-request-id'])
/** Sends a request, and returns its usage event. */
const settle = (path: string, body: object | string, headers?: Record<string, string>, token = owner.token) =>
  settledBy(askAi(platform, token, path, body, headers))

/** With the model's only route, an event's cost is its usage at the route's price. */
const costing = (nanos: bigint) => ({ providerCostNanos: nanos, billableCostNanos: nanos, priceVersion: 'operator' })
const succeeded = { status: 'success', statusCode: 200, errorCode: null, errorType: null }

describe('usage that a provider tells is taken as it is', () => {
  const plain = { ...noUsage, inputTokens: 10, outputTokens: ECHO_TOKENS }
  const cached = { ...plain, inputTokens: 5, cacheReadTokens: 5 }
  // "First I repeat it — 考え中." has 32 bytes.
  const reasoning = { ...plain, reasoningTokens: 8 }
  // `{"echo":"…"}` is 11 bytes longer than the echo.
  const tools = { ...plain, outputTokens: 20 }
  const plainCost = 20_000n + 144_000n
  const cases: [string, string, object, object, bigint][] = [
    ['a chat', '/chat/completions', chat('compat/plain'), plain, plainCost],
    ['a stream', '/chat/completions', chat('compat/plain', streamed), plain, plainCost],
    ['its cache', '/chat/completions', chat('compat/cached', streamed), cached, 10_000n + 2_500n + 144_000n],
    ['its reasoning', '/chat/completions', chat('compat/reasoning'), reasoning, plainCost + 96_000n],
    ['calls of tools', '/chat/completions', chat('compat/tools', streamed), tools, 20_000n + 160_000n],
    ['zeros', '/chat/completions', chat('compat/zero-usage'), noUsage, 0n],
    ['zeros of a stream', '/chat/completions', chat('compat/zero-usage', streamed), noUsage, 0n],
    ['a response', '/responses', response('compat/reasoning'), reasoning, plainCost + 96_000n],
    ['the stream of one', '/responses', response('compat/cached', streamed), cached, 10_000n + 2_500n + 144_000n],
    ['a response over chat', '/responses', response('plain/cached'), cached, 10_000n + 2_500n + 144_000n],
    ['the stream of that', '/responses', response('plain/reasoning', streamed), reasoning, plainCost + 96_000n],
    ['Anthropic’s', '/chat/completions', chat('anthropic/cached'), cached, 10_000n + 2_500n + 144_000n],
    ['its stream', '/chat/completions', chat('anthropic/plain', streamed), plain, plainCost],
    ['its response', '/responses', response('anthropic/plain', streamed), plain, plainCost],
    [
      'sound that is heard',
      '/audio/transcriptions',
      transcription('compat/plain'),
      // "Überschrift: 40 bytes of audio.wav — 音声 🎧" has 52 bytes.
      { ...noUsage, inputAudioTokens: 10, outputTokens: 13 },
      60_000n + 104_000n,
    ],
    [
      'hours of it',
      '/audio/transcriptions',
      transcription('compat/by-hour', { response_format: 'verbose_json' }),
      { ...noUsage, audioSeconds: 2 },
      // 0.36 dollars an hour are a ten-thousandth of a dollar a second.
      200_000n,
    ],
    [
      'sound that is made',
      '/audio/speech',
      speech('compat/plain', { stream_format: 'sse' }),
      { ...noUsage, inputTokens: 10, outputAudioTokens: 40, characters: 40 },
      20_000n + 360_000n,
    ],
    // A tenth of a nano-dollar a token, and a tenth of a cent a request: rounded up once, at the end.
    ['the request itself', '/chat/completions', chat('compat/by-request'), plain, 1_000_001n],
    ['what is free', '/chat/completions', chat('compat/free'), plain, 0n],
  ]
  test.each(cases)('%s', async (_, path, body, usage, nanos) => {
    const event = await settle(path, body)
    expect(event).toMatchObject({ ...succeeded, ...usage, usageSource: 'provider', ...costing(nanos) })
  })
})

describe('usage that nobody tells is a token for every four bytes', () => {
  const estimated = { ...noUsage, inputTokens: 10, outputTokens: ECHO_TOKENS }
  const cases: [string, string, object, object, bigint][] = [
    ['a chat', '/chat/completions', chat('compat/no-usage'), estimated, 164_000n],
    ['a stream', '/chat/completions', chat('compat/no-usage', streamed), estimated, 164_000n],
    ['Anthropic’s', '/chat/completions', chat('anthropic/no-usage', streamed), estimated, 164_000n],
    ['a response', '/responses', response('compat/no-usage'), estimated, 164_000n],
    ['the stream of one', '/responses', response('compat/no-usage', streamed), estimated, 164_000n],
    ['the stream of one over chat', '/responses', response('plain/no-usage', streamed), estimated, 164_000n],
    [
      'words that were heard',
      '/audio/transcriptions',
      transcription('compat/no-usage', { stream: true, prompt: TEXT }),
      { ...noUsage, inputTokens: 10, outputTokens: 13 },
      20_000n + 104_000n,
    ],
    [
      'characters that were spoken',
      '/audio/speech',
      speech('compat/by-character', { input: '🎈'.repeat(10) }),
      { ...noUsage, inputTokens: 10, characters: 10 },
      150_000n,
    ],
  ]
  test.each(cases)('%s', async (_, path, body, usage, nanos) => {
    const event = await settle(path, body)
    expect(event).toMatchObject({ ...succeeded, ...usage, usageSource: 'estimated', ...costing(nanos) })
  })
})

describe('a client that leaves', () => {
  const cancelled = { status: 'cancelled', statusCode: 499, errorCode: null, errorType: null }
  const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }]
  /** The first four of the twenty pieces. */
  const seen = cutIntoPieces(mockEcho(TEXT), 20).slice(0, 4)
  const seenTokens = Math.ceil(Buffer.byteLength(seen.join('')) / 4)
  const hasSeen = (text: string) => text.split('"delta":{"content":"').length > 4 && text.includes(seen.at(-1) ?? '')

  test('in the middle of a stream pays for the input and for what it has seen of the output', async () => {
    const hold = mock.hold('mock/held-1', 5)
    const call = openAiRequest(platform, owner.token, '/chat/completions', chat('compat/held-1', streamed))
    await hold.reached()
    await call.until(hasSeen)
    call.leave()
    const { headers } = await call.answer
    await mock.waitForAbort(({ model }) => model === 'mock/held-1')
    expect(await usageEventOf(platform, headers['x-request-id'])).toMatchObject({
      ...cancelled,
      ...noUsage,
      inputTokens: 10,
      outputTokens: seenTokens,
      usageSource: 'estimated',
      ...costing(20_000n + BigInt(seenTokens) * 8_000n),
    })
  })

  test('behind the last word pays for what the provider told', async () => {
    // The start, twenty pieces, the end and the usage.
    const hold = mock.hold('mock/held-6', 23)
    const options = { ...streamed, stream_options: { include_usage: true } }
    const call = openAiRequest(platform, owner.token, '/chat/completions', chat('compat/held-6', options))
    await hold.reached()
    await call.until((text) => text.includes('"usage":{'))
    call.leave()
    const { headers } = await call.answer
    expect(await usageEventOf(platform, headers['x-request-id'])).toMatchObject({
      ...cancelled,
      inputTokens: 10,
      outputTokens: ECHO_TOKENS,
      usageSource: 'provider',
    })
  })

  test('pays for the input that the provider has told by then', async () => {
    // After the start, a ping and the start of the text.
    const hold = mock.hold('mock/held-2', 7)
    // Estimates count the tools; the mock does not.
    const body = chat('anthropic/held-2', { ...streamed, tools })
    const call = openAiRequest(platform, owner.token, '/chat/completions', body)
    await hold.reached()
    await call.until(hasSeen)
    call.leave()
    const { headers } = await call.answer
    expect(await usageEventOf(platform, headers['x-request-id'])).toMatchObject({
      ...cancelled,
      ...noUsage,
      inputTokens: 10,
      outputTokens: seenTokens,
      usageSource: 'estimated',
    })
  })

  test('before a stream begins pays for the input', async () => {
    const hold = mock.hold('mock/held-3', 0)
    const { token, organizationId } = await newEntitledOwner(platform)
    const call = openAiRequest(platform, token, '/chat/completions', chat('compat/held-3', streamed))
    await hold.reached()
    call.leave()
    await mock.waitForAbort(({ model }) => model === 'mock/held-3')
    const [event, ...others] = await eventsOf(organizationId, 1)
    expect(others).toEqual([])
    expect(event).toMatchObject({ ...cancelled, ...noUsage, inputTokens: 10, ...costing(20_000n) })
  })

  test('while a document is made pays for all of it, as the provider tells', async () => {
    const hold = mock.hold('mock/held-4', 0)
    const { token, organizationId } = await newEntitledOwner(platform)
    const call = openAiRequest(platform, token, '/chat/completions', chat('compat/held-4'))
    const [request] = await hold.reached()
    call.leave()
    // A separate request, so that the gateway learns that the client has left.
    await askAi(platform, token, '/models')
    hold.release()
    const [event] = await eventsOf(organizationId, 1)
    expect(request?.aborted).toBe(false)
    expect(event).toMatchObject({
      ...cancelled,
      ...noUsage,
      inputTokens: 10,
      outputTokens: ECHO_TOKENS,
      usageSource: 'provider',
      ...costing(164_000n),
    })
  })

  test('in the middle of bytes ends them at the provider', async () => {
    const hold = mock.hold('mock/held-5', 3)
    const call = openAiRequest(platform, owner.token, '/audio/speech', speech('compat/held-5'))
    await hold.reached()
    await call.until((text) => text !== '')
    call.leave()
    const { headers } = await call.answer
    await mock.waitForAbort(({ model }) => model === 'mock/held-5')
    expect(await usageEventOf(platform, headers['x-request-id'])).toMatchObject({
      ...cancelled,
      ...noUsage,
      inputTokens: 10,
      characters: 40,
      usageSource: 'estimated',
    })
  })
})

/** Returns the events of an organization, once there are `count`. */
async function eventsOf(organizationId: string, count: number) {
  const { db, usage } = platform.api
  const find = () => db.select().from(aiUsageEvents).where(eq(aiUsageEvents.organizationId, organizationId))
  await expect
    .poll(async () => {
      await usage.flush()
      return (await find()).length
    })
    .toBeGreaterThanOrEqual(count)
  return find()
}

describe('a failure', () => {
  const free = { ...noUsage, usageSource: 'none', providerCostNanos: 0n, billableCostNanos: 0n, priceVersion: null }
  const ofInput = { ...noUsage, inputTokens: 10, usageSource: 'estimated', ...costing(20_000n) }
  const told = (statusCode: number, errorType: string, errorCode: string) => ({
    status: 'error',
    statusCode,
    errorType,
    errorCode,
  })
  const upstreamError = told(503, 'api_error', 'upstream_error')
  const unavailable = { provider: 'compat', error: 'provider_unavailable', statusCode: 401 }
  const failed = { provider: 'compat', error: 'upstream_error', statusCode: 500 }
  const away = { provider: 'away', error: 'not_connected' }

  test.each([
    [
      '400',
      told(400, 'invalid_request_error', 'invalid_value'),
      [{ provider: 'compat', error: 'invalid_value', statusCode: 400 }],
    ],
    ['401', told(503, 'api_error', 'provider_unavailable'), [unavailable]],
    [
      '429',
      told(429, 'rate_limit_error', 'upstream_rate_limited'),
      Array.from({ length: 3 }, () => ({ provider: 'compat', error: 'upstream_rate_limited', statusCode: 429 })),
    ],
    ['500', upstreamError, [failed, failed, failed]],
  ])('with the status %s costs nothing', async (steering, failure, providerAttempts) => {
    const event = await settle('/chat/completions', chat(`compat/${steering}`))
    expect(event).toMatchObject({ ...failure, ...free, providerAttempts, modelServed: `compat/${steering}` })
  })

  test('of a provider that cannot be reached costs nothing', async () => {
    const event = await settle('/chat/completions', chat('away/plain'))
    expect(event).toMatchObject({ ...upstreamError, ...free, providerAttempts: [away, away, away] })
  })

  test.each([
    ['a reset', 'compat/reset-before', {}],
    ['a reset of a stream', 'anthropic/reset-before', streamed],
    ['half a document', 'compat/cut-mid', {}],
    ['a document that cannot be read', 'compat/bad-json', {}],
  ])('without an answer costs the input: %s', async (_, model, more) => {
    const event = await settle('/chat/completions', chat(model, more))
    expect(event).toMatchObject({ ...upstreamError, ...ofInput })
  })

  test.each([
    ['hang-headers', {}],
    ['hang-headers', streamed],
    ['stall-mid', {}],
  ])('that is a silence costs the input: %s %o', async (steering, more) => {
    const soon = { streamFirstByteMs: 300, wholeFirstByteMs: 300, idleMs: 300 }
    const event = await hurryAi(platform, soon, () => settle('/chat/completions', chat(`compat/${steering}`, more)))
    expect(event).toMatchObject({ ...told(503, 'api_error', 'upstream_timeout'), ...ofInput })
  })

  test.each([
    // Twelve of 23 frames arrive: the role and eleven pieces of twenty.
    ['compat', 12, 11],
    // Thirteen of 26 frames arrive: the start, a ping, the start of the text and ten pieces.
    ['anthropic', 13, 10],
  ])('in the middle of a stream of %s costs the input and what came', async (provider, _, pieces) => {
    const event = await settle('/chat/completions', chat(`${provider}/error-mid`, streamed))
    const came = cutIntoPieces(mockEcho(TEXT), 20).slice(0, pieces).join('')
    const outputTokens = Math.ceil(Buffer.byteLength(came) / 4)
    expect(event).toMatchObject({
      ...told(200, 'api_error', 'upstream_error'),
      ...ofInput,
      outputTokens,
      ...costing(20_000n + BigInt(outputTokens) * 8_000n),
    })
  })

  test.each([
    ['no shape', chat('compat/plain', { messages: [] }), 422, 'invalid_value', 'compat/plain', null],
    ['no model', chat('compat/none'), 404, 'model_not_found', 'compat/none', null],
    [
      'a member too many',
      chat('compat/plain', { callback_url: 'x' }),
      400,
      'unsupported_parameter',
      'compat/plain',
      'compat/plain',
    ],
    ['no JSON', '{', 400, 'invalid_json', null, null],
  ])('of the request itself costs nothing: %s', async (_, body, statusCode, errorCode, modelRequested, modelServed) => {
    const event = await settle('/chat/completions', body)
    expect(event).toMatchObject({
      ...told(statusCode, 'invalid_request_error', errorCode),
      ...free,
      provider: null,
      providerAttempts: [],
      modelRequested,
      modelServed,
    })
  })
})

describe('prices and keys', () => {
  const plain = { ...noUsage, inputTokens: 10, outputTokens: ECHO_TOKENS }

  test('a model without a price of the operator’s has the known one', async () => {
    const event = await settle('/chat/completions', chat('openai/gpt-4o'))
    // 2.5 and 10 dollars a million.
    expect(event).toMatchObject({
      ...plain,
      provider: 'openai',
      providerCostNanos: 205_000n,
      billableCostNanos: 205_000n,
      priceVersion: platform.api.ai.prices.version,
    })
  })

  test('a model that nobody knows the price of costs nothing, and says so', async () => {
    const event = await settle('/chat/completions', chat('openai/no-such-model'))
    expect(event).toMatchObject({ ...plain, providerCostNanos: 0n, billableCostNanos: 0n, priceVersion: null })
  })

  test('what goes by the organization’s own key is priced and not billed', async () => {
    const { token, organizationId } = await newOwner(platform)
    const path = `/organizations/${organizationId}/ai-gateway/provider-keys/compat`
    expect((await platform.call(token, `PUT ${path}`, { key: 'sk-own' })).status).toBe(200)
    const event = await settle('/chat/completions', chat('compat/plain'), {}, token)
    expect(event).toMatchObject({ ...plain, ...costing(164_000n), billableCostNanos: 0n })
  })

  test('a local model costs nothing', async () => {
    const event = await settle('/chat/completions', chat('local/echo'))
    expect(event).toMatchObject({
      ...succeeded,
      provider: 'local',
      usageSource: 'provider',
      providerCostNanos: 0n,
      billableCostNanos: 0n,
      priceVersion: null,
    })
    expect(event.inputTokens).toBeGreaterThan(0)
  })
})

describe('an event names', () => {
  const body = chat('compat/plain')
  const path = '/chat/completions'

  test('the user, under the organization itself or an application', async () => {
    const { person, organizationId, applicationId } = owner
    const user = {
      actorType: 'user',
      actorId: person.userId,
      authenticatedUserId: person.userId,
      apiKeyId: null,
      organizationId,
    }
    expect(await settle(path, body)).toMatchObject({ ...user, applicationId: null })
    expect(await settle(path, body, { 'x-application-id': applicationId })).toMatchObject({ ...user, applicationId })
  })

  test('the API key', async () => {
    const { organizationId, applicationId } = owner
    const { id, token } = await newKey(platform, owner, ['network:ai_gateway:chat'])
    expect(await settle(path, body, {}, token)).toMatchObject({
      actorType: 'key',
      actorId: id,
      authenticatedUserId: null,
      apiKeyId: id,
      organizationId,
      applicationId,
    })
  })

  test('the Function', async () => {
    const { organizationId, applicationId } = owner
    const { id, token } = await newFunction(platform, owner)
    expect(await settle(path, body, {}, token)).toMatchObject({
      actorType: 'function',
      actorId: id,
      authenticatedUserId: null,
      apiKeyId: null,
      organizationId,
      applicationId,
    })
  })

  test.each([
    [{ 'x-end-user-id': 'header' }, { user: 'user', safety_identifier: 'safety' }, 'header'],
    [{}, { user: 'user', safety_identifier: 'safety' }, 'user'],
    [{}, { safety_identifier: 'safety' }, 'safety'],
    [{}, {}, null],
  ])('the end user: of %o and %o', async (headers, members, callerEndUserId) => {
    expect(await settle(path, { ...body, ...members }, headers)).toMatchObject({ callerEndUserId })
  })

  test('what its request was, and when', async () => {
    const traceId = randomBytes(16).toString('hex')
    const headers = { 'x-request-id': 'of-the-client', traceparent: `00-${traceId}-${'1'.repeat(16)}-01` }
    const event = await settle(path, { ...body, ...streamed, metadata: { team: 'a' } }, headers)
    expect(event).toMatchObject({
      traceId,
      metadata: { team: 'a', clientRequestId: 'of-the-client' },
      operation: 'chat.completions',
      modelRequested: 'compat/plain',
      modelServed: 'compat/plain',
      provider: 'compat',
      providerAttempts: [{ provider: 'compat', statusCode: 200 }],
      streaming: true,
    })
    const { startedAt, completedAt } = event
    expect(completedAt?.getTime()).toBeGreaterThanOrEqual(startedAt.getTime())
  })
})

test('each request of an organization leaves one event under its own id, and others leave none', async () => {
  const { token, organizationId, person } = await newEntitledOwner(platform)
  const options = await Promise.all(
    [
      chat('compat/plain'),
      chat('compat/plain', streamed),
      chat('compat/500'),
      chat('compat/error-mid', streamed),
      chat('compat/none'),
      chat('compat/plain', { messages: 1 }),
      '{',
    ].map((body) => askAi(platform, token, '/chat/completions', body)),
  )
  const body = chat('compat/plain')
  const stranger = '00000000-0000-7000-8000-000000000000'
  const unplaced = await Promise.all([
    askAi(platform, 'nonsense', '/chat/completions', body),
    askAi(platform, await person.token(['network:ai_gateway:models']), '/chat/completions', body),
    askAi(platform, token, '/chat/completions', body, { 'x-organization-id': stranger }),
    askAi(platform, token, '/chat/completions', body, { 'x-application-id': stranger }),
    askAi(platform, token, '/chat/completions', '{', { 'x-organization-id': stranger }),
    askAi(platform, await (await platform.person()).token(everyScope), '/chat/completions', body),
  ])
  expect(unplaced.map(({ status }) => status)).toEqual([401, 403, 404, 404, 400, 400])
  const ids = options.map(({ headers }) => headers['x-request-id'])
  const events = await eventsOf(organizationId, ids.length)
  expect(new Set(events.map(({ id }) => id))).toEqual(new Set(ids))
  const { db } = platform.api
  for (const { headers } of unplaced)
    expect(await db.$count(aiUsageEvents, eq(aiUsageEvents.id, headers['x-request-id'] ?? ''))).toBe(0)
})
