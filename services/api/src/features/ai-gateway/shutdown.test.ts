import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { aiKeys, chatOf, eventOf, mockModel, mockProvider, newEntitledOwner } from '../../../test/ai-providers.ts'
import { startApi } from '../../roles/api.ts'

let platform: TestPlatform
let mock: MockUpstream
beforeAll(async () => {
  mock = await startMockUpstream()
  platform = await startPlatform({
    aiProviders: {
      providers: [mockProvider(mock)],
      models: ['held', 'mock/slow-30', 'quick'].map((id) => mockModel(id)),
    },
    env: aiKeys,
  })
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})

test('a process that stops lets streams end, then tells those that have not, and settles them', async () => {
  const { token } = await newEntitledOwner(platform)
  const server = await startApi(platform.api, { host: '127.0.0.1', port: 0, s3Port: 0 })
  const ask = (model: string, stream = true) =>
    fetch(`http://127.0.0.1:${server.ports?.[0]}/ai/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(chatOf(model, { stream })),
    })
  const hold = mock.hold('held', 3)
  const slow = await ask('mock/slow-30')
  const held = await ask('held')
  const whole = ask('held', false)
  await hold.reached(1)
  await mock.waitFor(({ model, body }) => model === 'held' && body?.['stream'] === false)
  const stopped = server.stop(4_000)

  // A stream of 30 chunks, 50 ms apart, has the time.
  expect(await slow.text()).toMatch(/\[DONE\]\n\n$/)
  const text = await held.text()
  expect(text).not.toContain('[DONE]')
  const frames = text.trim().split('\n\n')
  expect(JSON.parse(frames.at(-1)?.replace(/^data: /, '') ?? '')).toEqual({
    error: {
      message: 'The server is stopping; send the request again',
      type: 'api_error',
      param: null,
      code: 'server_shutdown',
    },
  })
  expect(await (await whole).json()).toMatchObject({ object: 'chat.completion' })
  await stopped
  expect(await eventOf(platform, held.headers.get('x-request-id'))).toMatchObject({
    status: 'error',
    errorCode: 'server_shutdown',
    usageSource: 'estimated',
  })
  hold.release()
})
