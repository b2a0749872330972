import { startPlatform } from '@platform/testing/platform'
import { startUnansweredPort } from '@platform/testing/unanswered-port'
import { expect, onTestFinished, test } from 'vitest'
import { aiKeys, chatOf, eventOf, mockModel, mockProvider, newEntitledOwner } from '../../../../test/ai-providers.ts'

test('a provider to which no connection opens is given up long before an answer is late', async () => {
  const silent = await startUnansweredPort()
  const platform = await startPlatform({
    aiProviders: {
      providers: [mockProvider({ baseUrl: `http://127.0.0.1:${silent.port}/v1` })],
      models: [mockModel('unanswered')],
    },
    env: aiKeys,
    aiTimings: { connectMs: 100, retryMs: 1 },
  })
  onTestFinished(async () => {
    await platform.close()
    await silent.close()
  })
  const { token } = await newEntitledOwner(platform)
  const answer = await platform.call(token, 'POST /ai/v1/chat/completions', chatOf('unanswered'))
  expect([answer.status, answer.body.error.code, answer.body.error.message]).toEqual([
    503,
    'upstream_error',
    'The provider mock could not be reached',
  ])
  const event = await eventOf(platform, answer.headers['x-request-id'])
  // Nothing was sent, so nothing was used.
  expect([event?.providerAttempts.length, event?.usageSource]).toEqual([3, 'none'])
})
