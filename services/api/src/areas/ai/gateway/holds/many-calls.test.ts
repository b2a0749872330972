import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type AiAnswer, aiAsks, aiProvidersOf, openAiRequest } from '../../../../../test/ai-asks.ts'
import { setBudgets, windowsOf } from '../../../../../test/ai-budgets.ts'
import { aiKeys, mockModel, newEntitledOwner } from '../../../../../test/ai-providers.ts'
import { aiHolds, aiUsageEvents } from '../../governance/table.ts'

const CALLS = 500
/** Fewer than there are calls, so that some are refused. */
const REQUESTS_MAX = 350
const price = { input_mtok: 2, cache_read_mtok: 0.5, input_audio_mtok: 6, output_mtok: 8, output_audio_mtok: 9 }
const steerings = [
  'plain',
  'no-usage',
  'cached',
  'slow',
  '400',
  '503',
  'cut-mid',
  'end-mid',
  'error-mid',
  'reset-before',
  'bad-json',
]

let mock: MockUpstream
let platform: TestPlatform
beforeAll(async () => {
  mock = await startMockUpstream({ slowChunkMs: 1 })
  const providers = aiProvidersOf(mock)
  const models = providers.flatMap(({ id }) =>
    steerings.map((steering) => ({
      ...mockModel(`${id}/${steering}`, { price, bounds: { audioSecond: 10, file: 500 } }, id, `mock/${steering}`),
      contextWindow: 2_000,
      maxOutputTokens: 100,
    })),
  )
  platform = await startPlatform({ aiProviders: { providers, models }, env: aiKeys, aiTimings: { retryMs: 1 } })
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})

test('after 500 calls at once of every kind, also failed and left ones, budgets hold nothing and have spent what the events count', async () => {
  const owner = await newEntitledOwner(platform)
  const { organizationId, applicationId } = owner
  const budget = { maxCostMicros: 100_000_000, maxTokens: 100_000_000 }
  await setBudgets(platform, owner, [
    { ...budget, maxRequests: REQUESTS_MAX },
    { ...budget, applicationId, period: 'day' },
    { ...budget, userId: owner.person.userId, maxRequestCostMicros: 1_000_000 },
  ])
  const picture = [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is it?' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
      ],
    },
  ]
  const asks = [
    ...Object.values(aiAsks),
    { ...aiAsks.chat, body: { messages: picture } },
    { ...aiAsks['chat stream'], body: { messages: picture, stream: true, n: 2 } },
  ]
  async function askOnce(n: number): Promise<AiAnswer> {
    const ask = asks[n % asks.length] ?? aiAsks.chat
    const steering = steerings[n % steerings.length] ?? 'plain'
    const body = { model: `${ask.provider}/${steering}`, ...ask.body }
    const headers: Record<string, string> = n % 3 === 0 ? { 'x-application-id': applicationId } : {}
    const request = openAiRequest(platform, owner.token, ask.path, body, headers)
    if (steering === 'slow') {
      await request.until((text) => text.length > 0)
      request.leave()
    }
    return request.answer
  }
  const answers = await Promise.all(Array.from({ length: CALLS }, (_, n) => askOnce(n)))
  await expect.poll(() => platform.api.db.$count(aiHolds, eq(aiHolds.organizationId, organizationId))).toBe(0)
  const windows = await windowsOf(platform, owner)
  const events = await platform.api.db
    .select()
    .from(aiUsageEvents)
    .where(eq(aiUsageEvents.organizationId, organizationId))
  expect(windows).toHaveLength(3)
  for (const window of windows) {
    const own = window.applicationId === null ? events : events.filter((event) => event.applicationId === applicationId)
    expect(window).toMatchObject({
      heldCostNanos: 0n,
      heldRequests: 0,
      heldTokens: 0,
      spentCostNanos: own.reduce((sum, { countedCostNanos }) => sum + countedCostNanos, 0n),
      spentRequests: own.reduce((sum, { countedRequests }) => sum + countedRequests, 0),
      spentTokens: own.reduce((sum, { countedTokens }) => sum + countedTokens, 0),
    })
    expect(window.spentRequests).toBeLessThanOrEqual(REQUESTS_MAX)
    expect(window.spentCostNanos).toBeGreaterThan(0n)
  }
  expect(new Set(events.map(({ status }) => status))).toEqual(new Set(['success', 'error', 'cancelled']))
  const statuses = new Set(answers.map(({ status }) => status))
  for (const status of [200, 400, 429, 503]) expect(statuses).toContain(status)
})
