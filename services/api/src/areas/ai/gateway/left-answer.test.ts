import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { usageOf } from '../../../../test/ai.ts'
import { newOwner } from '../../../../test/scenario.ts'

let platform: TestPlatform
let provider: Server
/** Resolves once a request has received the beginning of its answer. */
const began = Promise.withResolvers<void>()
beforeAll(async () => {
  provider = createServer((incoming, outgoing) => {
    incoming.resume().once('end', () => {
      outgoing.writeHead(200, { 'content-type': 'application/json' }).write('{"choices":', () => began.resolve())
    })
  }).listen(0, 'localhost')
  await once(provider, 'listening')
  const { port } = provider.address() as AddressInfo
  platform = await startPlatform({
    aiTimings: { leftMs: 100 },
    aiProviders: {
      providers: [{ id: 'slow', driver: 'openai-compatible', baseUrl: `http://localhost:${port}/v1` }],
      models: [{ id: 'slow/chat', routes: [{ provider: 'slow', upstreamModel: 'chat' }] }],
    },
  })
})
afterAll(async () => {
  await platform.close()
  provider.closeAllConnections()
  provider.close()
})

test('a whole answer that its client leaves, and that does not end, is a cancelled call', async () => {
  const { token, organizationId } = await newOwner(platform)
  await platform.call(token, `PUT /organizations/${organizationId}/ai-gateway/provider-keys/slow`, { key: 'slow-key' })
  const leaving = new AbortController()
  const answer = fetch(`${platform.apiUrl}/ai/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'slow/chat', messages: [{ role: 'user', content: 'Hello there' }] }),
    signal: leaving.signal,
  })
  await began.promise
  leaving.abort()
  await expect(answer).rejects.toThrow('abort')
  await expect
    .poll(() => usageOf(platform, organizationId))
    .toMatchObject([
      {
        status: 'cancelled',
        statusCode: 499,
        errorCode: null,
        usageSource: 'estimated',
        inputTokens: 3,
        outputTokens: 0,
      },
    ])
})
