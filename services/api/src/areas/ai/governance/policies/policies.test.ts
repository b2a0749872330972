import { randomUUID } from 'node:crypto'
import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type AiAnswer, askAi, usageEventOf } from '../../../../../test/ai-asks.ts'
import { aiKeys, chatOf, mockModel, mockProvider, newEntitledOwner } from '../../../../../test/ai-providers.ts'
import { newKey, newOwner, type Owner } from '../../../../../test/scenario.ts'
import { setBudgets } from '../../../../../test/ai-budgets.ts'
import { setMember } from '../../../tenancy/organizations/members.ts'
import { aiPolicies } from '../table.ts'

let mock: MockUpstream
let platform: TestPlatform
const lines: string[] = []
beforeAll(async () => {
  mock = await startMockUpstream()
  const route = (provider: string, upstreamModel: string, weight = 1) => ({
    provider,
    upstreamModel,
    weight,
    capParameter: 'max_tokens',
    price: { input_mtok: 1 },
  })
  const models = [
    mockModel('first', { capParameter: 'max_tokens', price: { input_mtok: 1 } }, 'keeping', 'mock/plain'),
    mockModel('second', {}, 'keeping', 'mock/plain'),
    { ...mockModel('short', { capParameter: 'max_tokens' }, 'keeping', 'mock/plain'), maxOutputTokens: 300 },
    mockModel('keyless', {}, 'keyless', 'mock/plain'),
    { id: 'both', routes: [route('keeping', 'mock/plain'), route('forgetting', 'mock/plain', 0)] },
    { id: 'failing', routes: [route('keeping', 'mock/401'), route('forgetting', 'mock/plain', 0)] },
    mockModel('video', {}, 'keeping', 'mock/video'),
  ]
  const providers = [
    mockProvider(mock, 'keeping', { responses: true }),
    mockProvider(mock, 'forgetting', { zdr: true }),
    mockProvider(mock, 'keyless', { keyEnv: 'NO_KEY' }),
  ]
  platform = await startPlatform({
    aiProviders: { providers, models },
    env: aiKeys,
    aiTimings: { retryMs: 1 },
    onLogLine: (line) => void lines.push(line),
  })
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})

let owner: Owner
beforeEach(async () => {
  owner = await newEntitledOwner(platform)
})

const pathOf = ({ organizationId }: Pick<Owner, 'organizationId'>) =>
  `/organizations/${organizationId}/ai-gateway/policies`
const put = (policy: unknown, token = owner.token) => platform.call(token, `PUT ${pathOf(owner)}`, policy)
const get = (applicationId?: string, token = owner.token) =>
  platform.call(token, `GET ${pathOf(owner)}${applicationId === undefined ? '' : `?applicationId=${applicationId}`}`)
const errorOf = ({ status, body }: AiAnswer) => ({ status, ...(body as { error: object }).error })
const ask = (body: object, path = '/chat/completions', token = owner.token) => askAi(platform, token, path, body)
const lastSent = () => mock.ledger.at(-1)

/** Creates a member of the owner's organization. */
async function newMember() {
  const person = await platform.person()
  await setMember(platform.api, owner.organizationId, person.userId, 'MEMBER')
  return { token: await person.token(['network:ai_gateway:policies', 'network:ai_gateway:budgets']) }
}

describe('a policy', () => {
  const whole = {
    allowedModels: ['first'],
    allowedProviders: ['keeping'],
    requireZdr: true,
    allowFallbacks: false,
    maxOutputTokens: 9,
  }
  const open = {
    allowedModels: null,
    allowedProviders: null,
    requireZdr: false,
    allowFallbacks: true,
    maxOutputTokens: null,
  }

  test('is null until one is set, replaced whole, and gone once it was deleted', async () => {
    expect(await get()).toMatchObject({ status: 200, body: null })
    const { organizationId } = owner
    const set = await put(whole)
    expect(set).toMatchObject({ status: 200, body: { ...whole, organizationId, applicationId: null } })
    expect((await get()).body).toEqual(set.body)
    const replaced = await put({})
    const { id, createdAt } = set.body as { id: string; createdAt: string }
    expect(replaced.body).toMatchObject({ ...open, id, createdAt })
    expect(await platform.call(owner.token, `DELETE ${pathOf(owner)}`)).toMatchObject({ status: 204 })
    expect((await get()).body).toBeNull()
    expect(await platform.call(owner.token, `DELETE ${pathOf(owner)}`)).toMatchObject({ status: 404 })
  })

  test('is one of the organization and one of each application', async () => {
    const { applicationId } = owner
    await put({ maxOutputTokens: 10 })
    await put({ applicationId, maxOutputTokens: 20 })
    expect((await get()).body).toMatchObject({ applicationId: null, maxOutputTokens: 10 })
    expect((await get(applicationId)).body).toMatchObject({ applicationId, maxOutputTokens: 20 })
    await platform.call(owner.token, `DELETE ${pathOf(owner)}?applicationId=${applicationId}`)
    expect((await get(applicationId)).body).toBeNull()
    expect((await get()).body).toMatchObject({ maxOutputTokens: 10 })
  })

  test('is a line of the log when it is set and when it is deleted', async () => {
    lines.length = 0
    await put({})
    await platform.call(owner.token, `DELETE ${pathOf(owner)}`)
    const said = lines.map((line) => JSON.parse(line) as { msg?: string; userId?: string })
    const { userId } = owner.person
    for (const msg of ['AI policy set', 'AI policy deleted'])
      expect(said).toContainEqual(expect.objectContaining({ msg, userId, applicationId: null }))
  })

  test('can be sent back as it was answered', async () => {
    const { body } = await put(whole)
    expect(await put(body)).toMatchObject({ status: 200, body: whole })
  })

  test('of two that are set at once is one', async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, (_, n) => put({ maxOutputTokens: n + 1 })))
    expect(new Set(answers.map(({ status, body }) => `${status} ${(body as { id: string }).id}`)).size).toBe(1)
  })

  test.each([
    [{ maxOutputTokens: 0 }],
    [{ maxOutputTokens: 1.5 }],
    [{ allowedModels: 'first' }],
    [{ allowedModels: ['a\0b'] }],
    [{ unknownModel: [] }],
    [{ allowedModels: Array.from({ length: 1_001 }, () => 'x') }],
    [{ requireZdr: null }],
    [{ applicationId: 'x' }],
    [{ allowedModel: [] }],
    [[]],
    [null],
  ])('is refused as %j', async (policy) => {
    expect((await put(policy)).status).toBe(422)
    expect((await get()).body).toBeNull()
  })

  test.each([
    [{ allowedModels: ['first', 'openai/*'] }, '/allowedModels/1', 'openai/*'],
    [{ allowedModels: ['*'] }, '/allowedModels/0', '*'],
    [{ allowedProviders: ['open*ai'] }, '/allowedProviders/0', 'open*ai'],
  ])('is refused with a pattern among its ids, and the place of it is named: %j', async (policy, property, found) => {
    const expected = 'Expected a whole id, without *'
    expect(await put(policy)).toMatchObject({
      status: 422,
      body: { on: 'body', property, found, message: `${property}: ${expected}`, expected },
    })
    expect((await get()).body).toBeNull()
  })

  test('tells which of its models nobody offers, in every answer, and can be sent back with them', async () => {
    const allowedModels = ['frist', 'first', 'local/echo', 'openai/gpt-0', 'keyless']
    const unknownModels = ['frist', 'openai/gpt-0']
    const { body } = await put({ allowedModels })
    expect(body).toMatchObject({ allowedModels, unknownModels })
    expect((await get()).body).toEqual(body)
    expect(await put({ ...(body as object), unknownModels: 'whatever' })).toMatchObject({
      status: 200,
      body: { allowedModels, unknownModels },
    })
    for (const policy of [{}, { allowedModels: [] }, { allowedModels: ['first'], allowedProviders: ['nobody'] }])
      expect((await put(policy)).body).toMatchObject({ unknownModels: [] })
  })

  test('with a pattern that an earlier release stored is still answered', async () => {
    await put({ allowedModels: ['first'] })
    await platform.api.db
      .update(aiPolicies)
      .set({ allowedModels: ['openai/*'] })
      .where(eq(aiPolicies.organizationId, owner.organizationId))
    expect(await get()).toMatchObject({
      status: 200,
      body: { allowedModels: ['openai/*'], unknownModels: ['openai/*'] },
    })
  })

  test('of its own application is what a key reads, and none that a key changes', async () => {
    const { applicationId, organizationId } = owner
    const { token } = await newKey(platform, owner, ['network:ai_gateway:policies'])
    await put({ maxOutputTokens: 10 })
    expect(await get(undefined, token)).toMatchObject({ status: 200, body: null })
    await put({ applicationId, maxOutputTokens: 20 })
    for (const named of [undefined, applicationId])
      expect((await get(named, token)).body).toMatchObject({ applicationId, organizationId, maxOutputTokens: 20 })

    const stranger = await newOwner(platform)
    const second = await newOwner(platform, owner.person)
    for (const other of [stranger, second]) {
      const denied = { status: 403, body: { error: 'Access denied' } }
      expect(await get(other.applicationId, token)).toMatchObject(denied)
      expect(await platform.call(token, `GET ${pathOf(other)}`)).toMatchObject(denied)
    }
    expect(await get(randomUUID(), token)).toMatchObject({ status: 404, body: { error: 'Application not found' } })
    expect(await platform.call(token, `GET ${pathOf({ organizationId: randomUUID() })}`)).toMatchObject({
      status: 404,
      body: { error: 'Organization not found' },
    })
    const refused = { status: 403, body: { error: 'This operation needs a user-backed token' } }
    expect(await put({ applicationId }, token)).toMatchObject(refused)
    expect(await platform.call(token, `DELETE ${pathOf(owner)}?applicationId=${applicationId}`)).toMatchObject(refused)
    const without = await newKey(platform, owner, ['network:ai_gateway:usage'])
    expect((await get(undefined, without.token)).status).toBe(403)
  })

  test('is set by owners and admins, and of applications of the organization', async () => {
    const other = await newOwner(platform)
    const { token } = await newMember()
    expect((await put({}, token)).status).toBe(403)
    expect((await platform.call(token, `DELETE ${pathOf(owner)}`)).status).toBe(403)
    expect((await get(undefined, token)).status).toBe(200)
    for (const applicationId of [other.applicationId, randomUUID()]) {
      expect((await put({ applicationId })).status).toBe(404)
      expect((await get(applicationId)).status).toBe(404)
    }
    expect((await get(undefined, other.token)).status).toBe(404)
  })
})

describe('a call under a policy', () => {
  const kinds = [
    ['/chat/completions', chatOf('first')],
    ['/chat/completions', chatOf('first', { stream: true })],
    ['/responses', { model: 'first', input: 'x' }],
    ['/audio/speech', { model: 'first', input: 'x', voice: 'alloy' }],
    ['/audio/transcriptions', { model: 'first', input_audio: { data: 'UklGRg==', format: 'wav' } }],
    ['/videos', { model: 'first', prompt: 'x' }],
  ] as const
  test.each(kinds)('goes to allowed models and providers alone: %s %j', async (path, body) => {
    const sent = mock.ledger.length
    await put({ allowedModels: ['second'] })
    const refused = await ask(body, path)
    expect(errorOf(refused)).toMatchObject({
      status: 403,
      type: 'permission_error',
      code: 'model_not_allowed',
      param: 'model',
    })
    expect(await usageEventOf(platform, refused.headers['x-request-id'])).toMatchObject({
      errorCode: 'model_not_allowed',
      providerCostNanos: 0n,
    })
    await put({ allowedModels: [] })
    expect((await ask(body, path)).status).toBe(403)
    await put({ allowedProviders: ['forgetting'] })
    expect(errorOf(await ask(body, path))).toMatchObject({ status: 403, code: 'provider_not_allowed' })
    await put({ requireZdr: true })
    expect(errorOf(await ask(body, path))).toMatchObject({ status: 403, code: 'provider_not_allowed' })
    expect(mock.ledger.length).toBe(sent)
    await put({ allowedModels: ['first'], allowedProviders: ['keeping'] })
    expect((await ask(body, path)).status).toBeLessThan(300)
  })

  test('to a model that nobody offers is 404 all the same', async () => {
    await put({ allowedModels: [] })
    expect(errorOf(await ask(chatOf('nothing')))).toMatchObject({ status: 404, code: 'model_not_found' })
  })

  test('goes to providers that keep nothing where that is required', async () => {
    await put({ requireZdr: true })
    const answer = await ask(chatOf('both'))
    expect(await usageEventOf(platform, answer.headers['x-request-id'])).toMatchObject({ provider: 'forgetting' })
  })

  test('is not tried elsewhere where that is not allowed', async () => {
    expect((await ask(chatOf('failing'))).status).toBe(200)
    await put({ allowFallbacks: false })
    const answer = await ask(chatOf('failing'))
    expect(answer.status).toBe(503)
    expect((await usageEventOf(platform, answer.headers['x-request-id']))?.providerAttempts).toHaveLength(1)
  })

  test('keeps to the output that is allowed, and has that where it says nothing', async () => {
    await put({ maxOutputTokens: 50 })
    for (const [more, param] of [
      [{ max_tokens: 51 }, 'max_tokens'],
      [{ max_completion_tokens: 51 }, 'max_completion_tokens'],
    ] as const)
      expect(errorOf(await ask(chatOf('first', more)))).toMatchObject({ status: 403, code: 'output_limit', param })
    const response = { model: 'first', input: 'x' }
    expect(errorOf(await ask({ ...response, max_output_tokens: 51 }, '/responses'))).toMatchObject({
      status: 403,
      code: 'output_limit',
      param: 'max_output_tokens',
    })
    expect((await ask(chatOf('first', { max_completion_tokens: 50 }))).status).toBe(200)
    // Its provider has another name for it.
    expect(lastSent()?.body).toMatchObject({ max_tokens: 50 })
    expect(lastSent()?.body).not.toHaveProperty('max_completion_tokens')
    // A member that does not cap chats is not a cap.
    expect((await ask(chatOf('first', { max_output_tokens: 5 }))).status).toBe(200)
    expect(lastSent()?.body).toMatchObject({ max_tokens: 50 })
    expect((await ask(chatOf('first'))).status).toBe(200)
    expect(lastSent()?.body).toMatchObject({ max_tokens: 50 })
    expect(lastSent()?.body).not.toHaveProperty('max_completion_tokens')
    expect((await ask(response, '/responses')).status).toBe(200)
    expect(lastSent()?.body).toMatchObject({ max_output_tokens: 50 })
    await setBudgets(platform, owner, [{ maxTokens: 10_000 }])
    await put({ maxOutputTokens: 100_000 })
    expect((await ask(chatOf('first'))).status).toBe(200)
    expect(lastSent()?.body).toMatchObject({ max_tokens: 4_096 })
  })

  test('has no more output than its model can make, however much is allowed', async () => {
    await put({ maxOutputTokens: 5_000 })
    expect((await ask(chatOf('short'))).status).toBe(200)
    expect(lastSent()?.body).toMatchObject({ max_tokens: 300 })
    expect((await ask(chatOf('first'))).status).toBe(200)
    expect(lastSent()?.body).toMatchObject({ max_tokens: 5_000 })
  })

  test('goes by no key of the operator’s where the organization has one that a policy rules out', async () => {
    const setKey = `PUT /organizations/${owner.organizationId}/ai-gateway/provider-keys/keeping`
    expect((await platform.call(owner.token, setKey, { key: 'own-key-0123456789' })).status).toBe(200)
    await put({ allowedProviders: ['forgetting'] })
    const sent = mock.ledger.length
    expect(errorOf(await ask(chatOf('both')))).toMatchObject({ status: 403, code: 'provider_not_allowed' })
    expect(mock.ledger.length).toBe(sent)
    expect((await askAi(platform, owner.token, '/models/both')).status).toBe(404)
    await put({ allowedProviders: ['keeping'] })
    expect((await ask(chatOf('both'))).status).toBe(200)
    expect(lastSent()?.headers.authorization).toBe('Bearer own-key-0123456789')
  })

  test('to a model that nobody has a key for is refused for that, whatever a policy allows', async () => {
    await put({ allowedProviders: ['keyless'] })
    expect(errorOf(await ask(chatOf('keyless')))).toMatchObject({ status: 503, code: 'provider_not_configured' })
  })

  test('of an application keeps to that of the application and that of the organization', async () => {
    const { applicationId } = owner
    const key = await newKey(platform, owner, ['network:ai_gateway:chat', 'network:ai_gateway:models'])
    await put({ allowedModels: ['first', 'second', 'local/echo'], maxOutputTokens: 60 })
    await put({ applicationId, allowedModels: ['second', 'both'], maxOutputTokens: 40 })
    const codeOf = async (model: string, more: object = {}) =>
      errorOf(await ask(chatOf(model, more), undefined, key.token))
    expect(await codeOf('first')).toMatchObject({ code: 'model_not_allowed' })
    expect(await codeOf('both')).toMatchObject({ code: 'model_not_allowed' })
    expect(await codeOf('second', { max_tokens: 41 })).toMatchObject({ code: 'output_limit' })
    expect((await ask(chatOf('second', { max_tokens: 40 }), undefined, key.token)).status).toBe(200)
    // For a call outside of the application, only the organization's policy applies.
    expect((await ask(chatOf('first', { max_tokens: 60 }))).status).toBe(200)
    const models = async (token: string) =>
      ((await askAi(platform, token, '/models')).body as { items: { id: string }[] }).items.map(({ id }) => id)
    expect(await models(key.token)).toEqual(['second'])
    expect((await models(owner.token)).toSorted()).toEqual(['first', 'local/echo', 'second'])
    expect((await askAi(platform, key.token, '/models/first')).status).toBe(404)
  })

  test('finds in lists of models what it may use, and of each the providers', async () => {
    await put({ requireZdr: true })
    const { items } = (await askAi(platform, owner.token, '/models')).body as {
      items: { id: string; routingProviders: string[] }[]
    }
    expect(
      items.filter(({ id }) => !id.startsWith('local/')).map(({ id, routingProviders }) => [id, routingProviders]),
    ).toEqual([
      ['both', ['forgetting']],
      ['failing', ['forgetting']],
    ])
    expect((await askAi(platform, owner.token, '/videos/models')).body).toMatchObject({
      items: [{ id: 'local/echo-video' }],
    })
  })
})
