import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { usageOf } from '../../../../test/ai.ts'
import { aiKeys, chatOf, eventOf, mockModel, mockProvider, newEntitledOwner } from '../../../../test/ai-providers.ts'
import { startHostileProvider } from '../../../../test/hostile-provider.ts'
import { startApi } from '@platform/testing/api'

let platform: TestPlatform
let mock: MockUpstream
beforeAll(async () => {
  mock = await startMockUpstream()
  platform = await startPlatform({
    aiProviders: {
      providers: [mockProvider(mock)],
      models: ['held', 'held-short', 'held-exact', 'held-lost'].map((id) => mockModel(id)),
    },
    env: aiKeys,
  })
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})

/** Starts a server of its own, and returns a function that sends it a chat. */
async function startServer({ api }: TestPlatform, token: string) {
  const server = await startApi(api, { host: '127.0.0.1', port: 0, s3Port: 0 })
  const ask = (model: string, stream: boolean, signal?: AbortSignal) =>
    fetch(`http://127.0.0.1:${server.ports?.[0]}/ai/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(chatOf(model, { stream })),
      ...(signal && { signal }),
    })
  return { server, ask }
}

test('a process that stops lets streams end, then tells those that have not, and settles them', async () => {
  const { token } = await newEntitledOwner(platform)
  const { server, ask } = await startServer(platform, token)
  const [short, hold] = [mock.hold('held-short', 3), mock.hold('held', 3)]
  const ending = await ask('held-short', true)
  const held = await ask('held', true)
  const whole = ask('held', false)
  await Promise.all([short.reached(1), hold.reached(1)])
  await mock.waitFor(({ model, body }) => model === 'held' && body?.['stream'] === false)
  const stopped = server.stop(4_000)

  // A call that continues meanwhile has time to end.
  short.release()
  expect(await ending.text()).toMatch(/\[DONE\]\n\n$/)
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

test('a process that stops records the calls whose clients have left', async () => {
  const { token, organizationId } = await newEntitledOwner(platform)
  const { server, ask } = await startServer(platform, token)
  const holds = ['held-exact', 'held-lost'].map((model) => mock.hold(model, 0))
  for (const [n, hold] of holds.entries()) {
    const leaving = new AbortController()
    const answer = ask(n === 0 ? 'held-exact' : 'held-lost', false, leaving.signal)
    await hold.reached(1)
    leaving.abort()
    await expect(answer).rejects.toThrow('abort')
  }
  const stopped = server.stop(3_000)
  holds[0]?.release()
  await stopped
  // All at once: nothing is waited for any more.
  const cancelled = { status: 'cancelled', statusCode: 499, errorCode: null }
  expect(await usageOf(platform, organizationId)).toMatchObject([
    { ...cancelled, modelServed: 'held-exact', usageSource: 'provider' },
    { ...cancelled, modelServed: 'held-lost', usageSource: 'estimated' },
  ])
  holds[1]?.release()
})

test('a process that stops records streams that are whole, while their provider has not ended them', async () => {
  const provider = await startHostileProvider()
  const own = await startPlatform({
    aiProviders: { providers: [mockProvider(provider)], models: [mockModel('any')] },
    env: aiKeys,
  })
  onTestFinished(async () => {
    await own.close()
    await provider.close()
  })
  const { token, organizationId } = await newEntitledOwner(own)
  const { server, ask } = await startServer(own, token)
  const choice = { index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }
  const last = { choices: [choice], usage: { prompt_tokens: 5, completion_tokens: 7 } }
  provider.play((_, outgoing) =>
    outgoing
      .writeHead(200, { 'content-type': 'text/event-stream' })
      .write(`data: ${JSON.stringify(last)}\n\ndata: [DONE]\n\n`),
  )
  const answer = await ask('any', true)
  expect(await answer.text()).toMatch(/\[DONE\]\n\n$/)
  await server.stop(3_000)
  expect(await usageOf(own, organizationId)).toMatchObject([
    { status: 'success', usageSource: 'provider', inputTokens: 5, outputTokens: 7 },
  ])
})
