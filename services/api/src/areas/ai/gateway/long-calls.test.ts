import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { askAi, openAiRequest } from '../../../../test/ai-asks.ts'
import { aiKeys, chatOf, mockModel, mockProvider, newEntitledOwner } from '../../../../test/ai-providers.ts'

let mock: MockUpstream
let platform: TestPlatform
beforeAll(async () => {
  mock = await startMockUpstream()
  platform = await startPlatform({
    aiProviders: { providers: [mockProvider(mock)], models: [mockModel('held')] },
    env: aiKeys,
  })
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})

/** Sends a body whose last byte comes after `ms`. Resolves with the status. */
const sendSlowly = (path: string, token: string, body: object, ms: number) =>
  new Promise<number | undefined>((resolve, reject) => {
    const bytes = Buffer.from(JSON.stringify(body))
    const outgoing = request(`${platform.apiUrl}${path}`, {
      method: 'POST',
      agent: false,
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        'content-length': String(bytes.length),
      },
    })
    outgoing.on('error', reject)
    outgoing.on('response', (incoming) => {
      incoming.resume()
      resolve(incoming.statusCode)
    })
    // Pauses between pieces stay below the silence limit of bodies.
    const pieces = [bytes.subarray(0, 10), bytes.subarray(10, 20), bytes.subarray(20)]
    void (async () => {
      for (const [n, piece] of pieces.entries()) {
        if (n > 0) await sleep(ms / 2)
        if (!outgoing.destroyed) outgoing.write(piece)
      }
      outgoing.end()
    })()
  })

test('a stream that began goes on past the end of its token (D89)', async () => {
  const { token } = await newEntitledOwner(platform)
  const hold = mock.hold('held', 2)
  const call = openAiRequest(platform, token, '/chat/completions', chatOf('held', { stream: true }))
  await call.until((text) => text.includes('data:'))
  platform.clock.advance(400_000)
  expect(await askAi(platform, token, '/chat/completions', chatOf('local/echo'))).toMatchObject({ status: 401 })
  hold.release()
  const answer = await call.answer
  expect([answer.status, answer.isCut, answer.bytes.toString().endsWith('data: [DONE]\n\n')]).toEqual([
    200,
    false,
    true,
  ])
})

test('a body may take longer than at other operations, which end it after 30 s', async () => {
  const { token } = await newEntitledOwner(platform)
  const ms = 32_000
  const statuses = [
    sendSlowly('/ai/v1/chat/completions', token, chatOf('local/echo'), ms),
    sendSlowly('/organizations', token, { name: 'An organization that never comes about' }, ms),
  ]
  expect(await Promise.all(statuses)).toEqual([200, 408])
})
