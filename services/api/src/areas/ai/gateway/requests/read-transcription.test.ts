import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { aiKeys, mockModel, mockProvider, newEntitledOwner } from '../../../../../test/ai-providers.ts'
import type { Owner } from '../../../../../test/scenario.ts'

let platform: TestPlatform
let mock: MockUpstream
let owner: Owner
beforeAll(async () => {
  mock = await startMockUpstream()
  const providers = [mockProvider(mock), mockProvider(mock, 'private', { zdr: true })]
  const routes = providers.map(({ id }) => ({ provider: id, upstreamModel: id, weight: id === 'mock' ? 1 : 0 }))
  const models = [{ ...mockModel('heard'), routes }]
  platform = await startPlatform({ aiProviders: { providers, models }, env: aiKeys })
  owner = await newEntitledOwner(platform)
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})

async function upload(fields: Record<string, string>) {
  const form = new FormData()
  form.append('file', new Blob(['RIFF sound']), 'a.wav')
  for (const [name, value] of Object.entries({ model: 'heard', ...fields })) form.append(name, value)
  const answer = await fetch(`${platform.apiUrl}/ai/v1/audio/transcriptions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${owner.token}` },
    body: form,
  })
  return { status: answer.status, body: (await answer.json()) as object }
}

test('a form may carry the wishes about providers, as JSON', async () => {
  expect((await upload({})).status).toBe(200)
  expect(mock.ledger.at(-1)?.model).toBe('mock')
  expect((await upload({ provider: '{"require_zdr":true}' })).status).toBe(200)
  expect(mock.ledger.at(-1)?.model).toBe('private')
  expect(mock.ledger.at(-1)?.body).not.toHaveProperty('provider')
  for (const provider of ['private', '[]', '{"require_zdr":"yes"}'])
    expect(await upload({ provider })).toMatchObject({ status: 422, body: { error: { code: 'invalid_value' } } })
})

test('sound in JSON is base64, of whatever alphabet, and nothing else', async () => {
  const ask = (data: string) =>
    platform.call(owner.token, 'POST /ai/v1/audio/transcriptions', {
      model: 'heard',
      input_audio: { data, format: 'wav' },
    })
  for (const data of ['UklGRg==', 'UklGRg', 'Ukl G\nRg== \n', '-_-_']) expect((await ask(data)).status).toBe(200)
  // The last one would take hours with a pattern that looks for the end at every space.
  for (const data of ['=', 'UklG!', 'Ukl=GRg', `UklG${' '.repeat(1_000_000)}!`])
    expect(await ask(data)).toMatchObject({ status: 422, body: { error: { param: 'input_audio.data' } } })
})
