import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openAiRequest } from '../../../../../test/ai-asks.ts'
import { aiKeys, chatOf, eventOf, mockModel, mockProvider, newEntitledOwner } from '../../../../../test/ai-providers.ts'
import { hurryAi } from '../../../../../test/hurry-ai.ts'
import type { Owner } from '../../../../../test/scenario.ts'
import { newOwner } from '../../../../../test/scenario.ts'
import { aiUsageEvents } from '../../governance/table.ts'

let platform: TestPlatform
let mock: MockUpstream
let owner: Owner

/** Makes a model with routes to several providers, in this order. */
const along = (
  id: string,
  routes: readonly (readonly [provider: string, upstreamModel: string, weight?: number])[],
) => ({
  id,
  routes: routes.map(([provider, upstreamModel, weight = 1]) => ({ provider, upstreamModel, weight })),
})

beforeAll(async () => {
  mock = await startMockUpstream()
  platform = await startPlatform({
    aiProviders: {
      providers: [
        mockProvider(mock),
        ...['second', 'third'].map((id) => mockProvider(mock, id)),
        mockProvider(mock, 'zero-retention', { zdr: true }),
        mockProvider(mock, 'keyless', { keyEnv: 'NO_KEY' }),
        mockProvider(mock, 'anthropic', { driver: 'anthropic' }),
        mockProvider(mock, 'old', { responses: false }),
        mockProvider({ baseUrl: 'http://127.0.0.1:1/v1' }, 'refusing'),
        mockProvider({ baseUrl: 'http://127.0.0.1:1/v1' }, 'never-there'),
      ],
      models: [
        ...[408, 409, 429, 500, 502, 503, 504, 529].map((status) => mockModel(`mock/${status}-once`)),
        ...['429-once-retry-after-1', '429-retry-after-3'].map((suffix) => mockModel(`mock/${suffix}`)),
        ...['500', '429', '400', '401', '405', '501', 'hang-headers', 'stall-mid', 'reset-before'].map((suffix) =>
          mockModel(`mock/${suffix}`),
        ),
        mockModel('refused', {}, 'refusing'),
        mockModel('out-of-reach', {}, 'never-there'),
        mockModel('broken/500'),
        mockModel('keyless', {}, 'keyless'),
        along('fallback/500', [
          ['mock', 'mock/500', 1_000],
          ['second', 'plain', 0],
        ]),
        along('fallback/401', [
          ['mock', 'mock/401', 1_000],
          ['second', 'plain', 0],
        ]),
        along('fallback/400', [
          ['mock', 'mock/400', 1_000],
          ['second', 'plain', 0],
        ]),
        along('fallback/hang', [
          ['mock', 'mock/hang-headers', 1_000],
          ['second', 'plain', 0],
        ]),
        along('fallback/refused', [
          ['refusing', 'x', 1_000],
          ['second', 'plain', 0],
        ]),
        along('three', [
          ['mock', 'plain-1'],
          ['second', 'plain-2'],
          ['third', 'plain-3'],
        ]),
        along('weighted', [
          ['mock', 'w1', 0],
          ['second', 'w2', 1],
        ]),
        along('fallback/untranslatable', [
          ['mock', 'mock/500', 1_000],
          ['anthropic', 'plain', 0],
        ]),
        mockModel('old', { capParameter: 'max_tokens' }, 'old'),
        mockModel('mock/429-retry-after-1'),
        mockModel('without/no-responses'),
        mockModel('with/plain'),
        mockModel('unknown/plain'),
        along('fallback/no-responses', [
          ['mock', 'fallback/no-responses', 1_000],
          ['second', 'plain', 0],
        ]),
        along('private', [
          ['mock', 'p1'],
          ['zero-retention', 'p2'],
        ]),
      ],
    },
    env: aiKeys,
    aiTimings: { retryMs: 1 },
  })
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})
// Each test has an organization of its own, so that no state of earlier tests is left.
beforeEach(async () => {
  owner = await newEntitledOwner(platform)
})

const chat = (model: string, more: object = {}, { token } = owner) =>
  platform.call(token, 'POST /ai/v1/chat/completions', chatOf(model, more))
const triesOf = (from: number) => mock.ledger.slice(from).map(({ model }) => model)

describe('a failure that may pass', () => {
  test.each(['408', '409', '429', '500', '502', '503', '504', '529'])(
    '%s is tried once more, and the caller learns of it in the event alone',
    async (status) => {
      const from = mock.ledger.length
      const answer = await chat(`mock/${status}-once`)
      expect(answer.status).toBe(200)
      expect(triesOf(from)).toEqual([`mock/${status}-once`, `mock/${status}-once`])
      const event = await eventOf(platform, answer.headers['x-request-id'])
      expect(event).toMatchObject({
        status: 'success',
        provider: 'mock',
        providerAttempts: [
          { provider: 'mock', error: expect.any(String) as string, statusCode: Number(status) },
          { provider: 'mock', statusCode: 200 },
        ],
      })
    },
  )

  test('Retry-After is waited for up to two seconds, and a longer one not at all', async () => {
    const retryAt = Date.now() + 1_000
    expect((await chat('mock/429-once-retry-after-1')).status).toBe(200)
    expect(Date.now()).toBeGreaterThanOrEqual(retryAt)
    const from = mock.ledger.length
    expect(await chat('mock/429-retry-after-3')).toMatchObject({
      status: 429,
      body: { error: { code: 'upstream_rate_limited' } },
    })
    expect(triesOf(from)).toHaveLength(1)
  })

  test('is tried three times in all', async () => {
    const from = mock.ledger.length
    const answer = await chat('mock/500')
    expect(answer).toMatchObject({
      status: 503,
      body: { error: { type: 'api_error', code: 'upstream_error', param: null } },
    })
    expect(triesOf(from)).toHaveLength(3)
  })

  test('an answer that never began may be asked for again, one that began may not', async () => {
    let from = mock.ledger.length
    expect((await chat('mock/reset-before')).body.error.code).toBe('upstream_error')
    expect(triesOf(from)).toHaveLength(3)
    from = mock.ledger.length
    const stalled = await hurryAi(platform, { idleMs: 500 }, () => chat('mock/stall-mid', { stream: true }))
    expect(stalled.text).toContain('upstream_timeout')
    expect(triesOf(from)).toHaveLength(1)
  })
})

describe('another provider of the model', () => {
  test.each(['500', '401', 'hang', 'refused'])('answers after %s', async (kind) => {
    // For the provider that hangs; the other has the same time to begin.
    const wholeFirstByteMs = kind === 'hang' ? 1_500 : platform.api.ai.timings.wholeFirstByteMs
    const answer = await hurryAi(platform, { wholeFirstByteMs }, () => chat(`fallback/${kind}`))
    expect(answer.status).toBe(200)
    const event = await eventOf(platform, answer.headers['x-request-id'])
    expect(event?.provider).toBe('second')
    expect(event?.providerAttempts.at(-1)).toEqual({ provider: 'second', statusCode: 200 })
  })

  test('is not asked when the request is wrong, or the caller does not want it', async () => {
    const from = mock.ledger.length
    expect((await chat('fallback/400')).status).toBe(400)
    expect((await chat('fallback/401', { provider: { allow_fallbacks: false } })).body.error.code).toBe(
      'provider_unavailable',
    )
    expect(triesOf(from)).toEqual(['mock/400', 'mock/401'])
  })

  test('is chosen by the caller’s order, within it alone if so wished, and by weight', async () => {
    const providerOf = async (more: object, model = 'three') => {
      const from = mock.ledger.length
      expect((await chat(model, more)).status).toBe(200)
      return triesOf(from)
    }
    expect(await providerOf({ provider: { order: ['third', 'second'] } })).toEqual(['plain-3'])
    expect(await providerOf({ provider: { order: ['second'], restrict_to_order: true } })).toEqual(['plain-2'])
    expect(
      await providerOf({ provider: { order: null, allow_fallbacks: null, require_zdr: null } }, 'weighted'),
    ).toEqual(['w2'])
    expect(await providerOf({ provider: { require_zdr: true } }, 'private')).toEqual(['p2'])
    const none = await chat('three', { provider: { order: ['zero-retention'], restrict_to_order: true } })
    expect(none).toMatchObject({ status: 400, body: { error: { code: 'unsupported_parameter', param: 'provider' } } })
    // The gateway's own members are never forwarded.
    expect(mock.ledger.every(({ body }) => body === undefined || !('provider' in body))).toBe(true)
  })
})

describe('what a caller is told, and what is not begun', () => {
  test('is the failure of a provider that was asked, before that of one that could not be', async () => {
    const answer = await chat('fallback/untranslatable', { n: 2 })
    expect(answer).toMatchObject({ status: 503, body: { error: { code: 'upstream_error' } } })
    const event = await eventOf(platform, answer.headers['x-request-id'])
    expect(event?.providerAttempts.at(-1)).toMatchObject({ provider: 'anthropic', error: 'unsupported_parameter' })
    expect(event?.provider).toBe('anthropic')
  })

  test('nothing is asked again for a client that has left', async () => {
    const from = mock.ledger.length
    const call = openAiRequest(platform, owner.token, '/chat/completions', chatOf('mock/429-retry-after-1'))
    await mock.waitFor((request) => mock.ledger.indexOf(request) >= from)
    call.leave()
    await expect
      .poll(async () => {
        await platform.api.usage.flush()
        return platform.api.db
          .select({ status: aiUsageEvents.status, statusCode: aiUsageEvents.statusCode })
          .from(aiUsageEvents)
          .where(eq(aiUsageEvents.organizationId, owner.organizationId))
      })
      .toEqual([{ status: 'cancelled', statusCode: 499 }])
    expect(triesOf(from)).toEqual(['mock/429-retry-after-1'])
  })

  test('a cap of /responses has the name that the provider knows', async () => {
    const ask = (model: string) =>
      platform.call(owner.token, 'POST /ai/v1/responses', { model, input: 'Hello', max_output_tokens: 9 })
    expect((await ask('old')).status).toBe(200)
    expect(mock.ledger.at(-1)?.body).toMatchObject({ max_tokens: 9 })
    expect(mock.ledger.at(-1)?.body).not.toHaveProperty('max_completion_tokens')
  })
})

describe('a provider of which nobody said whether it has /responses', () => {
  const respond = (model: string, more: object = {}) =>
    platform.call(owner.token, 'POST /ai/v1/responses', { model, input: 'Hello', ...more })
  const pathsOf = (from: number) => mock.ledger.slice(from).map(({ path }) => path.replace('/v1', ''))

  test('is asked for a chat where it has none, and by then for that model at once', async () => {
    let from = mock.ledger.length
    expect(await respond('without/no-responses')).toMatchObject({ status: 200, body: { object: 'response' } })
    expect(pathsOf(from)).toEqual(['/responses', '/chat/completions'])
    from = mock.ledger.length
    expect((await respond('without/no-responses')).status).toBe(200)
    expect((await respond('with/plain')).status).toBe(200)
    expect(pathsOf(from)).toEqual(['/chat/completions', '/responses'])
  })

  test('is asked for a chat at once where the input has items that it does not keep for the caller', async () => {
    const input = [
      { type: 'reasoning', id: 'rs_1', summary: [] },
      { role: 'user', content: 'Hello' },
    ]
    const from = mock.ledger.length
    expect((await respond('unknown/plain', { input })).status).toBe(200)
    expect(pathsOf(from)).toEqual(['/chat/completions'])
  })

  test('is left for the next where the request is none that a chat can be', async () => {
    const from = mock.ledger.length
    const tools = [{ type: 'web_search' }]
    expect((await respond('fallback/no-responses', { tools })).status).toBe(200)
    expect(mock.ledger.slice(from).map(({ model }) => model)).toEqual(['fallback/no-responses', 'plain'])
    const alone = { tools, provider: { allow_fallbacks: false } }
    expect(await respond('fallback/no-responses', alone)).toMatchObject({
      status: 400,
      body: { error: { code: 'unsupported_parameter', param: 'tools[0]' } },
    })
  })
})

describe('time', () => {
  test('a provider that refuses to connect, or does not begin, is given up', async () => {
    expect((await chat('refused')).body.error.code).toBe('upstream_error')
    const [whole, stream] = await hurryAi(platform, { streamFirstByteMs: 500, wholeFirstByteMs: 500 }, () =>
      Promise.all([chat('mock/hang-headers'), chat('mock/hang-headers', { stream: true })]),
    )
    expect(whole.body.error).toMatchObject({ code: 'upstream_timeout', type: 'api_error' })
    expect(stream.body.error.code).toBe('upstream_timeout')
  })
})

describe('a circuit', () => {
  test('keeps calls from a provider that cannot be reached, and lets one try after ten seconds', async () => {
    for (let n = 0; n < 5; n++) await chat('out-of-reach')
    const answer = await chat('out-of-reach')
    expect(answer.body.error.message).toContain('left alone')
    expect((await eventOf(platform, answer.headers['x-request-id']))?.providerAttempts).toHaveLength(1)
  })

  test('of a model that fails opens for the organization that met it, and for all once two did', async () => {
    const from = mock.ledger.length
    for (let n = 0; n < 5; n++) await chat('broken/500')
    expect((await chat('broken/500')).body.error.message).toContain('left alone')
    expect(triesOf(from)).toHaveLength(15)
    // The provider itself works.
    expect((await chat('three', { provider: { order: ['mock'], restrict_to_order: true } })).status).toBe(200)
    const [second, third] = await Promise.all([newEntitledOwner(platform), newEntitledOwner(platform)])
    await chat('broken/500', {}, second)
    expect(triesOf(from)).toHaveLength(19)
    for (const other of [second, third])
      expect((await chat('broken/500', {}, other)).body.error.message).toContain('left alone')
    expect(triesOf(from)).toHaveLength(19)
    expect((await chat('three', { provider: { order: ['mock'], restrict_to_order: true } }, third)).status).toBe(200)
    // Reloading the file closes them.
    await platform.api.ai.reload()
    expect((await chat('broken/500', {}, third)).body.error.message).toMatch(/^The provider mock answered 500/)
  })

  test('is not opened by requests or keys that a provider refuses', async () => {
    const other = await newEntitledOwner(platform)
    for (const suffix of ['400', '401', '405', '429', '501'])
      for (let n = 0; n < 6; n++) {
        const answer = await chat(`mock/${suffix}`, {}, n % 2 === 0 ? owner : other)
        expect(answer.body.error.message).not.toContain('left alone')
      }
  })
})

describe('keys', () => {
  test('the operator’s serve organizations with an entitlement, `local/*` everybody (D111)', async () => {
    const stranger = await newOwner(platform)
    const refused = await chat('three', {}, stranger)
    expect(refused).toMatchObject({
      status: 429,
      body: { error: { type: 'insufficient_quota', code: 'budget_exceeded', param: null } },
      headers: { 'x-should-retry': 'false' },
    })
    expect(refused.headers).not.toHaveProperty('retry-after')
    expect((await chat('local/echo', {}, stranger)).status).toBe(200)
    const { body: listed } = await platform.call(stranger.token, 'GET /ai/v1/models')
    expect((listed.data as { id: string }[]).every(({ id }) => id.startsWith('local/'))).toBe(true)
    expect((await platform.call(stranger.token, 'GET /ai/v1/models/three')).status).toBe(404)
  })

  test('an organization’s own is used and no other, whatever the operator has', async () => {
    const own = await newOwner(platform)
    const key = 'sk-own-0123456789'
    await platform.call(own.token, `PUT /organizations/${own.organizationId}/ai-gateway/provider-keys/second`, { key })
    const from = mock.ledger.length
    expect((await chat('three', {}, own)).status).toBe(200)
    expect(mock.ledger.slice(from).map(({ model, headers }) => [model, headers.authorization])).toEqual([
      ['plain-2', `Bearer ${key}`],
    ])
    // Whatever the request asks for.
    const elsewhere = await chat('three', { provider: { order: ['third'], restrict_to_order: true } }, own)
    expect(elsewhere).toMatchObject({
      status: 400,
      body: { error: { code: 'unsupported_parameter', param: 'provider' } },
    })
    const { body: listed } = await platform.call(own.token, 'GET /ai/v1/models/three')
    expect(listed.routingProviders).toEqual(['second'])
    // Even if that key's provider fails.
    await platform.call(own.token, `PUT /organizations/${own.organizationId}/ai-gateway/provider-keys/mock`, { key })
    expect((await chat('fallback/500', {}, own)).status).toBe(200)
    expect(mock.ledger.slice(from).every(({ headers }) => headers.authorization === `Bearer ${key}`)).toBe(true)
  })

  test('a model that nobody has a key for is not listed and says so', async () => {
    expect(await chat('keyless')).toMatchObject({ status: 503, body: { error: { code: 'provider_not_configured' } } })
    const listed = await platform.call(owner.token, 'GET /ai/v1/models')
    const ids = (listed.body.data as { id: string }[]).map(({ id }) => id)
    expect(ids).toContain('three')
    expect(ids).not.toContain('keyless')
    expect((await platform.call(owner.token, 'GET /ai/v1/models/keyless')).status).toBe(404)
    await platform.call(owner.token, `PUT /organizations/${owner.organizationId}/ai-gateway/provider-keys/keyless`, {
      key: 'sk-0123456789',
    })
    expect((await platform.call(owner.token, 'GET /ai/v1/models/keyless')).status).toBe(200)
    expect((await chat('keyless')).status).toBe(200)
  })
})
