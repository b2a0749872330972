import { writeFile } from 'node:fs/promises'
import { createSealer, type MasterKeys } from '@platform/runtime/seal'
import { createLogger } from '@platform/runtime/logger'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newKey, newOwner, type Owner } from '../../../../test/scenario.ts'
import { setMember } from '../../tenancy/organizations/members.ts'
import { findProviderKeys, resealProviderKeys, setProviderKey } from './provider-keys.ts'
import { aiProviderKeys } from './table.ts'

const KEY = 'sk-test-0123456789x9Qe'

/** Makes an operator's file with providers that the test does not call. */
const providersNamed = (...ids: readonly string[]) => ({
  providers: ids.map((id) => ({ id, driver: 'openai-compatible', baseUrl: 'http://127.0.0.1:1/v1' })),
  models: [],
})

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform({ aiProviders: providersNamed('openai', 'anthropic') })
})
afterAll(() => platform.close())

const pathOf = ({ organizationId }: Owner) => `/organizations/${organizationId}/ai-gateway/provider-keys`
const set = (owner: Owner, provider: string, body: unknown, token = owner.token) =>
  platform.call(token, `PUT ${pathOf(owner)}/${provider}`, body)
const list = (owner: Owner, token = owner.token) => platform.call(token, `GET ${pathOf(owner)}`)
const remove = (owner: Owner, provider: string, token = owner.token) =>
  platform.call(token, `DELETE ${pathOf(owner)}/${provider}`)
const rowsOf = ({ organizationId }: Owner) =>
  platform.api.db.select().from(aiProviderKeys).where(eq(aiProviderKeys.organizationId, organizationId))

test('a key that was set is listed by its last four characters, shown nowhere, and stored sealed', async () => {
  const owner = await newOwner(platform)
  const made = await set(owner, 'openai', { key: KEY })
  const row = {
    provider: 'openai',
    last4: 'x9Qe',
    createdByUserId: owner.person.userId,
    createdAt: expect.any(String) as string,
    updatedAt: expect.any(String) as string,
  }
  expect(made).toMatchObject({ status: 200, body: row })
  await set(owner, 'anthropic', { key: KEY })
  const listed = await list(owner)
  expect(listed).toMatchObject({ status: 200, body: { items: [{ provider: 'anthropic' }, row], total: 2 } })
  expect(Object.keys(listed.body.items[0] as object).toSorted()).toEqual(Object.keys(row).toSorted())
  for (const { text } of [made, listed]) expect(text).not.toContain(KEY.slice(0, 10))
  for (const { ciphertext } of await rowsOf(owner)) expect(ciphertext.includes(KEY.slice(0, 10))).toBe(false)
  expect(await findProviderKeys(platform.api, owner.organizationId)).toEqual(
    new Map([
      ['anthropic', KEY],
      ['openai', KEY],
    ]),
  )
})

test('a second key takes the place of the first, which keeps who set it and when', async () => {
  const owner = await newOwner(platform)
  const first = await set(owner, 'openai', { key: KEY })
  const admin = await platform.person()
  await setMember(platform.api, owner.organizationId, admin.userId, 'ADMIN')
  const second = await set(owner, 'openai', { key: 'another-key-0000' }, await admin.token(everyScope))
  expect(second).toMatchObject({
    status: 200,
    body: { last4: '0000', createdByUserId: owner.person.userId, createdAt: first.body.createdAt as string },
  })
  expect(second.body.updatedAt > first.body.updatedAt).toBe(true)
  expect((await findProviderKeys(platform.api, owner.organizationId)).get('openai')).toBe('another-key-0000')
  expect(await rowsOf(owner)).toHaveLength(1)
})

test.each([
  ['a', '****'],
  ['ab', '****'],
  ['abc', '***c'],
  ['abcdefgh', '**gh'],
  ['abcdefghijk', '*ijk'],
  ['abcdefghijkl', 'ijkl'],
])('of the key %s no more than a third is shown: %s', async (key, last4) => {
  const owner = await newOwner(platform)
  expect(await set(owner, 'openai', { key })).toMatchObject({ status: 200, body: { last4 } })
})

test('a key has 1 to 4,096 printable characters, and a refusal shows nothing of what was sent', async () => {
  const owner = await newOwner(platform)
  const secret = 'sk-canary'
  const refused = {
    empty: { key: '' },
    'a space': { key: `${secret} 1` },
    'a line feed': { key: `${secret}\n` },
    'no ASCII': { key: `${secret}é` },
    'too long': { key: secret.padEnd(4_097, 'x') },
    'a number': { key: 4_711_471_147 },
    'within an object': { key: { key: secret } },
    'under another name': { Key: secret },
    'beside another member': { key: secret, apiKey: secret },
    'no object': [secret],
    'a text': secret,
  }
  for (const [what, body] of Object.entries(refused)) {
    const answer = await set(owner, 'openai', body)
    expect([what, answer.status]).toEqual([what, 422])
    expect(answer.text).not.toMatch(/canary|4711471147/)
  }
  expect((await set(owner, 'openai', { key: secret.padEnd(4_096, 'x') })).status).toBe(200)
})

test('a provider that the operator does not list is a 404, but its key can still be deleted', async () => {
  const owner = await newOwner(platform)
  expect(await set(owner, 'mistral', { key: KEY })).toMatchObject({
    status: 404,
    body: { error: 'Provider not found' },
  })
  const { organizationId } = owner
  const by = { kind: 'user', userId: owner.person.userId } as Parameters<typeof setProviderKey>[1]
  await writeFile(platform.aiProvidersPath, JSON.stringify(providersNamed('openai', 'anthropic', 'mistral')))
  await platform.api.ai.reload()
  await setProviderKey(platform.api, by, { id: organizationId }, 'mistral', KEY)
  await writeFile(platform.aiProvidersPath, JSON.stringify(providersNamed('openai', 'anthropic')))
  await platform.api.ai.reload()
  expect((await remove(owner, 'mistral')).status).toBe(204)
  expect(await remove(owner, 'mistral')).toMatchObject({ status: 404, body: { error: 'Provider key not found' } })
  expect(await list(owner)).toMatchObject({ body: { items: [], total: 0 } })
})

test('members, API keys and strangers neither read nor set nor delete', async () => {
  const [owner, stranger] = await Promise.all([newOwner(platform), newOwner(platform)])
  await set(owner, 'openai', { key: KEY })
  const member = await platform.person()
  await setMember(platform.api, owner.organizationId, member.userId, 'MEMBER')
  const scope = ['network:ai_gateway:policies']
  const { token: ofKey } = await newKey(platform, owner, scope)
  const askers = [
    [await member.token(everyScope), 403],
    [ofKey, 403],
    [stranger.token, 404],
    [await owner.person.token(['network:ai_gateway:usage']), 403],
    ['nonsense', 401],
  ] as const
  for (const [token, status] of askers)
    expect([
      (await list(owner, token)).status,
      (await set(owner, 'openai', { key: 'other' }, token)).status,
      (await remove(owner, 'openai', token)).status,
    ]).toEqual([status, status, status])
  expect(await list(owner, await owner.person.token(scope))).toMatchObject({ status: 200, body: { total: 1 } })
  expect((await findProviderKeys(platform.api, owner.organizationId)).get('openai')).toBe(KEY)
})

test('of keys that are set at the same time one remains, and it opens', async () => {
  const owner = await newOwner(platform)
  const keys = Array.from({ length: 8 }, (_, n) => `${KEY}-${n}`)
  const answers = await Promise.all(keys.map((key) => set(owner, 'openai', { key })))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
  const left = await findProviderKeys(platform.api, owner.organizationId)
  expect(keys).toContain(left.get('openai'))
})

test('each change is a line of the log, without the key', async () => {
  const owner = await newOwner(platform)
  const lines: string[] = []
  const logger = createLogger('api', 'info', { write: (line) => void lines.push(line) })
  const by = { kind: 'user', userId: owner.person.userId } as Parameters<typeof setProviderKey>[1]
  await setProviderKey({ ...platform.api, logger }, by, { id: owner.organizationId }, 'openai', KEY)
  expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    {
      msg: 'AI provider key set',
      organizationId: owner.organizationId,
      provider: 'openai',
      userId: owner.person.userId,
    },
  ])
  expect(lines.join('')).not.toContain(KEY.slice(0, 10))
})

test('calls of one tick for several organizations get each their own keys', async () => {
  const [one, two, none] = await Promise.all([newOwner(platform), newOwner(platform), newOwner(platform)])
  await set(one, 'openai', { key: 'of-one' })
  await set(one, 'anthropic', { key: 'of-one-too' })
  await set(two, 'openai', { key: 'of-two' })
  const entries = await Promise.all(
    [one, none, two, one].map(({ organizationId }) => findProviderKeys(platform.api, organizationId)),
  )
  const ofOne = new Map([
    ['openai', 'of-one'],
    ['anthropic', 'of-one-too'],
  ])
  expect(entries).toEqual([ofOne, new Map(), new Map([['openai', 'of-two']]), ofOne])
})

test('keys are sealed anew under the first master key, and a sealed key opens in its own row alone', async () => {
  const [owner, other] = await Promise.all([newOwner(platform), newOwner(platform)])
  for (const each of [owner, other]) await set(each, 'openai', { key: KEY })
  const { db } = platform.api
  const [row] = await rowsOf(owner)
  const { ciphertext } = row ?? {}
  await db.update(aiProviderKeys).set({ ciphertext }).where(eq(aiProviderKeys.organizationId, other.organizationId))
  await expect(findProviderKeys(platform.api, other.organizationId)).rejects.toThrow(/does not open/)
  await db.delete(aiProviderKeys).where(eq(aiProviderKeys.organizationId, other.organizationId))

  const newer: MasterKeys = [{ id: 'newer', key: Buffer.alloc(32, 7) }]
  const sealer = createSealer(newer)
  const both = { ...platform.api.sealer, kekId: sealer.kekId, seal: sealer.seal }
  const count = await db.$count(aiProviderKeys)
  expect(await resealProviderKeys({ db, sealer: both })).toBe(count)
  expect(await resealProviderKeys({ db, sealer: both })).toBe(0)
  expect((await findProviderKeys({ db, sealer }, owner.organizationId)).get('openai')).toBe(KEY)
})
