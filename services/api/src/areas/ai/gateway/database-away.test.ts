import { startCable } from '@platform/testkit/cable'
import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { createServiceDatabase } from '@platform/testing/service-databases'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { askAi } from '../../../../test/ai-asks.ts'
import { aiKeys, chatOf, eventOf, mockModel, mockProvider, newEntitledOwner } from '../../../../test/ai-providers.ts'
import type { Owner } from '../../../../test/scenario.ts'

let mock: MockUpstream
let cable: Awaited<ReturnType<typeof startCable>>
let directUrl: string
let platform: TestPlatform
let owner: Owner
beforeAll(async () => {
  mock = await startMockUpstream()
  directUrl = (await createServiceDatabase('api')).url
  cable = await startCable(new URL(directUrl))
  platform = await startPlatform({
    databases: { api: cable.url, idp: (await createServiceDatabase('idp')).url },
    aiProviders: { providers: [mockProvider(mock, 'mock', { responses: true })], models: [mockModel('plain')] },
    env: aiKeys,
  })
  owner = await newEntitledOwner(platform)
})
afterAll(async () => {
  await platform.close()
  cable.close()
  await mock.close()
})

const unavailable = {
  type: 'api_error',
  param: null,
  code: 'service_unavailable',
  message: expect.any(String) as string,
}

test('a database that does not answer in the middle of a call is 503, for the caller and in the event (D22)', async () => {
  const sql = postgres(directUrl, { max: 1 })
  try {
    const answer = await sql.begin(async (held) => {
      await held`lock table ai_responses in access exclusive mode`
      return askAi(platform, owner.token, '/responses', { model: 'plain', input: 'Hi', previous_response_id: 'resp_1' })
    })
    expect([answer.status, answer.body]).toEqual([503, { error: unavailable }])
    expect(await eventOf(platform, answer.headers['x-request-id'])).toMatchObject({
      status: 'error',
      statusCode: 503,
      errorType: 'api_error',
      errorCode: 'service_unavailable',
      usageSource: 'none',
    })
  } finally {
    await sql.end()
  }
})

test('a database that is away is 503, and the provider is not asked', async () => {
  const count = mock.ledger.length
  cable.cut()
  try {
    for (const model of ['plain', 'local/echo']) {
      const answer = await askAi(platform, owner.token, '/chat/completions', chatOf(model))
      expect([model, answer.status, answer.body]).toEqual([model, 503, { error: unavailable }])
    }
    expect(mock.ledger).toHaveLength(count)
  } finally {
    await cable.mend()
  }
  // Connections come back one by one.
  await expect
    .poll(async () => (await askAi(platform, owner.token, '/chat/completions', chatOf('plain'))).status)
    .toBe(200)
})
