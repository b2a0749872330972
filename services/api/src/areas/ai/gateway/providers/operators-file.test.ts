import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  aiKeys,
  chatOf,
  mockModel,
  mockProvider,
  newEntitledOwner,
  OPERATOR_KEY,
} from '../../../../../test/ai-providers.ts'
import type { Owner } from '../../../../../test/scenario.ts'
import { openAiGateway } from '../gateway.ts'
import { findCatalogWarnings } from '../holds/budget-warnings.ts'
import { checkProviders } from './check-providers.ts'
import { readProviderFile } from './provider-file.ts'

let platform: TestPlatform
let mock: MockUpstream
let owner: Owner
let folder: string

const whole = (more: object = {}) => ({
  providers: [
    mockProvider(mock),
    mockProvider(mock, 'anthropic', { driver: 'anthropic' }),
    mockProvider(mock, 'keyless', { keyEnv: 'NO_KEY' }),
  ],
  models: [
    mockModel('plain', { price: { input_mtok: 1, output_mtok: 2 } }),
    mockModel('claude', {}, 'anthropic', 'claude-sonnet-4-5'),
    mockModel('mock/401'),
    mockModel('mock/bad-json'),
    mockModel('keyless', {}, 'keyless'),
    {
      ...mockModel('film', { price: { output_video_seconds: 0.1 } }),
      modalities: { input: ['text'], output: ['video'] },
    },
    { ...mockModel('voice', { price: { output_mtok: 1 } }), modalities: { input: ['text'], output: ['audio'] } },
    {
      ...mockModel('ears', { price: { input_mtok: 1 } }),
      modalities: { input: ['audio'], output: ['text'] },
      capabilities: { chat: false },
    },
  ],
  ...more,
})

beforeAll(async () => {
  mock = await startMockUpstream()
  platform = await startPlatform({ aiProviders: whole(), env: aiKeys, aiTimings: { retryMs: 1 } })
  owner = await newEntitledOwner(platform)
  folder = await mkdtemp(join(tmpdir(), 'ai-providers-'))
})
afterAll(async () => {
  await platform.close()
  await mock.close()
  await rm(folder, { recursive: true })
})

test('what is wrong with the file is said by line, all of it at once', async () => {
  const path = join(folder, 'wrong.json')
  await writeFile(
    path,
    JSON.stringify({
      providers: [
        { id: 'Open AI', driver: 'openai', baseUrl: 'ftp://x', keyEnv: 'NOT A NAME' },
        { id: 'twice', driver: 'anthropic', baseUrl: 'https://user:pw@a.test/v1' },
        { id: 'local', driver: 'anthropic', baseUrl: 'https://a.test/v1', extra: 1 },
      ],
      models: [
        { id: 'local/mine', routes: [] },
        { id: 'm', routes: [{ provider: 'nobody', upstreamModel: 'x', price: { input: 1 } }] },
      ],
    }),
  )
  const error = await readProviderFile(path).catch((thrown: unknown) => thrown as Error)
  const { message } = error as Error
  for (const line of [
    'providers.0.id:',
    'providers.0.driver:',
    'providers.0.baseUrl:',
    'providers.0.keyEnv:',
    'providers.1.baseUrl: Expected a URL without user',
    'providers.2.id: local is the platform’s own',
    'models.0.id: Models below local/ are the platform’s own',
    'models.0.routes:',
    'models.1.routes.0.price',
  ])
    expect(message).toContain(line)
})

test('references and doubles are looked at', async () => {
  const path = join(folder, 'double.json')
  const provider = { id: 'p', driver: 'anthropic', baseUrl: 'https://a.test/v1' }
  const model = { id: 'm', routes: [{ provider: 'q', upstreamModel: 'x' }] }
  await writeFile(path, JSON.stringify({ providers: [provider, provider], models: [model, model] }))
  const { message } = (await readProviderFile(path).catch((thrown: unknown) => thrown as Error)) as Error
  expect(message).toMatch(/providers\.1\.id: p is there twice/)
  expect(message).toMatch(/models\.1\.id: m is there twice/)
  expect(message).toMatch(/models\.0\.routes\.0\.provider: There is no provider q/)
  await writeFile(path, '{')
  await expect(readProviderFile(path)).rejects.toThrow(/is not JSON/)
  await expect(readProviderFile(join(folder, 'missing.json'))).rejects.toThrow(/cannot be read/)
})

test('the operator vouches for members that nobody here knows, and for none that the gateway bounds or refuses itself', async () => {
  const path = join(folder, 'unpriced.json')
  const fileWith = (unpriced: unknown) =>
    writeFile(path, JSON.stringify({ providers: [mockProvider(mock, 'own', { unpriced })], models: [] }))
  await fileWith(['guided_json', 'chat_template_kwargs'])
  expect((await readProviderFile(path)).providers[0]?.unpriced).toEqual(['guided_json', 'chat_template_kwargs'])
  const bounded = [
    'service_tier',
    'n',
    'N',
    'modalities',
    'max_tokens',
    'max_output_tokens',
    'tools',
    'messages',
    'seconds',
  ]
  const priced = ['web_search_options', 'prediction', 'audio', 'best_of', 'plugins', 'conversation']
  await fileWith([...bounded, ...priced])
  const { message } = (await readProviderFile(path).catch((thrown: unknown) => thrown as Error)) as Error
  for (const [n, name] of [...bounded, ...priced].entries())
    expect(message).toContain(`providers.0.unpriced.${n}: The gateway itself decides on ${name}`)
  for (const wrong of [
    ['guided json'],
    ['a.b'],
    [''],
    [1],
    'guided_json',
    Array.from({ length: 101 }, (_, n) => `m${n}`),
  ]) {
    await fileWith(wrong)
    await expect(readProviderFile(path)).rejects.toThrow(/providers\.0\.unpriced/)
  }
})

test('a variable with a key that no header can carry is named', async () => {
  const path = join(folder, 'key.json')
  await writeFile(path, JSON.stringify(whole()))
  const options = {
    path,
    readVariable: () => 'sk-with-a-newline\n',
    logger: platform.api.logger,
    now: platform.api.now,
  }
  await expect(openAiGateway(options)).rejects.toThrow(/variable MOCK_KEY holds no key/)
})

test('is read again when the operator says so; one that is wrong changes nothing', async () => {
  const chat = (model: string) => platform.call(owner.token, 'POST /ai/v1/chat/completions', chatOf(model))
  expect((await chat('later')).status).toBe(404)
  const more = whole({ models: [...whole().models, mockModel('later')] })
  await writeFile(platform.aiProvidersPath, JSON.stringify(more))
  await platform.api.ai.reload()
  expect((await chat('later')).status).toBe(200)
  await writeFile(platform.aiProvidersPath, '{ "providers": 1 }')
  await platform.api.ai.reload()
  expect((await chat('later')).status).toBe(200)
  await writeFile(platform.aiProvidersPath, JSON.stringify(whole()))
  await platform.api.ai.reload()
  expect((await chat('later')).status).toBe(404)
})

test('is checked route by route: keys, prices, and with --live an answer (ai check)', async () => {
  const from = mock.ledger.length
  const still = await checkProviders(platform.api, { isLive: false })
  expect(mock.ledger.length).toBe(from)
  const byModel = (routes: typeof still) => new Map(routes.map((route) => [route.model, route]))
  expect(byModel(still).get('plain')).toEqual({
    model: 'plain',
    provider: 'mock',
    upstreamModel: 'plain',
    hasKey: true,
    priceVersion: 'operator',
    latencyMs: null,
    error: null,
  })
  expect(byModel(still).get('claude')?.priceVersion).toBe(platform.api.ai.prices.version)
  expect(byModel(still).get('keyless')).toMatchObject({ hasKey: false, priceVersion: null })
  expect(still.map(({ model }) => model)).not.toContain('local/echo')

  const live = byModel(await checkProviders(platform.api, { isLive: true }))
  expect(mock.ledger.slice(from).map(({ model }) => model)).toEqual([
    'plain',
    'claude-sonnet-4-5',
    'mock/401',
    'mock/bad-json',
  ])
  expect(live.get('plain')).toMatchObject({ error: null, latencyMs: expect.any(Number) as number })
  expect(live.get('claude')?.error).toBeNull()
  expect(live.get('mock/401')?.error).toMatch(/key of the provider mock was refused/)
  expect(live.get('mock/bad-json')?.error).toBe('The provider mock sent an answer that cannot be read')
  expect(live.get('keyless')).toMatchObject({ error: null, latencyMs: null })
  expect(JSON.stringify([...live])).not.toContain(OPERATOR_KEY)
})

test('names by model what budgets of cost and tokens would refuse, whoever has the key (ai check)', async () => {
  const warnings = await findCatalogWarnings(platform.api)
  const refusals = Object.fromEntries(warnings.map(({ model, refuses }) => [model, refuses]))
  expect(refusals).toEqual({
    plain: ['pictures', 'files', 'recordings', 'earlier responses'],
    // They have no price. `claude` has one, and a window that is published; `film` is charged by its seconds.
    'mock/401': ['everything'],
    'mock/bad-json': ['everything'],
    keyless: ['everything'],
    // Nothing says how long its answers are.
    voice: ['everything'],
    ears: ['recordings'],
  })
  expect(warnings.find(({ model }) => model === 'keyless')?.message).toBe(
    'keyless refuses everything under these budgets: its price is not known',
  )
})
