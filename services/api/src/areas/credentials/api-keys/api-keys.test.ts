import { createHash, createHmac, randomUUID } from 'node:crypto'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { exchange, newKey, newOwner, type Owner } from '../../../../test/scenario.ts'
import { members } from '../../tenancy/organizations/table.ts'
import { hmacFromState } from './signing-state.ts'
import { apiKeys } from './table.ts'

const DAY = 86_400_000
let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const create = (body: object, token = ana.token) =>
  platform.call(token, 'POST /api-keys', { name: 'ci', applicationId: ana.applicationId, ...body })

test('a key lives 90 days unless told otherwise, and shows its secret once (A §2, §4)', async () => {
  const before = platform.clock.now().getTime()
  const made = await create({})
  expect(made.status).toBe(201)
  expect(made.body).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
    name: 'ci',
    applicationId: ana.applicationId,
    scopes: ['network:env_vars:read'],
    expiresAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
    createdByUserId: ana.person.userId,
    lastUsedAt: null,
    createdAt: expect.any(String) as string,
    updatedAt: expect.any(String) as string,
    secret: expect.stringMatching(/^svc_secret_[\w-]{43}$/) as string,
  })
  const lifetime = new Date(made.body.expiresAt as string).getTime() - before
  expect(Math.abs(lifetime - 90 * DAY)).toBeLessThan(10_000)
  const { secret: _secret, ...key } = made.body
  const listed = await platform.call(ana.token, `GET /api-keys?applicationId=${ana.applicationId}`)
  expect(listed.body.items).toContainEqual(key)
  expect(listed.body.total).toBe(listed.body.items.length)
  expect(listed.text).not.toContain(made.body.secret)
})

test.each([
  ['unknown', ['nope:x:y'], 400, 'Unknown scope'],
  ['of identity', ['openid'], 400, 'Unknown scope'],
  ['one no key may hold', ['platform:api_keys:read'], 400, 'can never hold'],
  [
    'unknown, before one no key may hold and one the caller lacks',
    ['platform:api_keys:write', 'network:deployments:read', 'nope'],
    400,
    'Unknown scope',
  ],
  [
    'one no key may hold, before one the caller lacks',
    ['network:deployments:read', 'platform:api_keys:write'],
    400,
    'can never hold',
  ],
  ['one the caller lacks', ['network:deployments:read'], 403, 'network:deployments:read'],
  ['one the caller holds only by implication', ['network:storage:read'], 403, 'network:storage:read'],
  ['the default, which the caller lacks', [], 403, 'network:env_vars:read'],
])('a scope that is %s is refused (A §4 rules 2 to 4, D7)', async (_, scopes, status, message) => {
  const token = await ana.person.token(['platform:api_keys:write', 'network:storage:write'])
  expect(await create({ scopes }, token)).toMatchObject({
    status,
    body: { error: expect.stringContaining(message) as string },
  })
})

test('duplicate scopes fold (D7)', async () => {
  expect((await create({ scopes: ['network:env_vars:read', 'network:env_vars:read'] })).body.scopes).toEqual([
    'network:env_vars:read',
  ])
})

test.each([
  ['in the past', '2020-01-01T00:00:00.000Z', 400],
  ['null from a client that is not the console', null, 400],
  ['without milliseconds', '2030-01-01T00:00:00Z', 422],
  ['with an offset', '2030-01-01T00:00:00.000+01:00', 422],
  ['a day that does not exist', '2030-02-30T00:00:00.000Z', 422],
  ['a number', 1, 422],
])('an expiry %s is refused (D6, D8, D26)', async (_, expiresAt, status) => {
  expect((await create({ expiresAt })).status).toBe(status)
})

test('an expiry may lie as far ahead as one likes (D8)', async () => {
  expect((await create({ expiresAt: '2199-12-31T23:59:59.999Z' })).body.expiresAt).toBe('2199-12-31T23:59:59.999Z')
})

test('in the console a key may never expire, and managing keys needs a sign-in of the last 15 minutes (A §4 rules 5, 6, D6)', async () => {
  const token = await ana.person.token(everyScope, { console: true, signInAgain: true })
  const made = await create({ expiresAt: null }, token)
  expect(made).toMatchObject({ status: 201, body: { expiresAt: null } })

  platform.clock.advance(16 * 60_000)
  const stale = await ana.person.token(everyScope, { console: true })
  // RFC 9470's challenge, so that a console need not parse the message.
  const signInAgain = {
    status: 403,
    body: { error: expect.stringContaining('Sign in again') as string },
    headers: {
      'www-authenticate': expect.stringMatching(
        /^Bearer error="insufficient_user_authentication", error_description="Sign in again[^"]+", max_age="900"$/,
      ) as string,
    },
  }
  expect(await create({}, stale)).toMatchObject(signInAgain)
  expect(await platform.call(stale, `DELETE /api-keys/${made.body.id}`)).toMatchObject(signInAgain)
  const elsewhere = await platform.call(await ana.person.token(['platform:api_keys:read']), 'POST /api-keys', {
    name: 'x',
    applicationId: ana.applicationId,
  })
  expect(elsewhere.status).toBe(403)
  expect(elsewhere.headers).not.toHaveProperty('www-authenticate')
  const fresh = await ana.person.token(everyScope, { console: true, signInAgain: true })
  expect(await platform.call(fresh, `DELETE /api-keys/${made.body.id}`)).toMatchObject({ status: 204, text: '' })
  ana.token = await ana.person.token(everyScope)
})

test('a key goes on when its creator leaves, and acts on its application only (A §2)', async () => {
  const owner = await newOwner(platform)
  const other = await platform.call(owner.token, 'POST /applications', {
    organizationId: owner.organizationId,
    name: 'Other',
  })
  const key = await newKey(platform, owner, [
    'network:env_vars:read',
    'network:applications:read',
    'platform:organizations:read',
  ])
  await platform.api.db.delete(members).where(eq(members.userId, owner.person.userId))
  expect((await platform.call(owner.token, `GET /applications/${owner.applicationId}/env-vars`)).status).toBe(404)
  expect((await platform.call(key.token, `GET /applications/${owner.applicationId}/env-vars/pull`)).status).toBe(200)
  expect(await platform.call(key.token, `GET /applications/${other.body.id}/env-vars/pull`)).toMatchObject({
    status: 403,
    body: { error: 'Access denied' },
  })
  expect(await platform.call(key.token, 'GET /organizations')).toMatchObject({
    status: 200,
    body: { items: [], total: 0 },
  })
  expect((await platform.call(key.token, `GET /organizations/${owner.organizationId}`)).status).toBe(403)
  const listed = await platform.call(key.token, 'GET /applications')
  expect(listed.body).toMatchObject({ total: 1, items: [{ id: owner.applicationId }] })
})

test('a member may list keys and neither create nor delete them (wire.md roles)', async () => {
  const owner = await newOwner(platform)
  const key = await newKey(platform, owner, ['network:env_vars:read'])
  const mia = await platform.person()
  await platform.api.db.insert(members).values({
    id: randomUUID(),
    organizationId: owner.organizationId,
    userId: mia.userId,
    role: 'MEMBER',
    joinedAt: new Date(),
  })
  const token = await mia.token(everyScope)
  expect((await platform.call(token, `GET /api-keys?applicationId=${owner.applicationId}`)).body.total).toBe(1)
  expect((await platform.call(token, 'POST /api-keys', { name: 'x', applicationId: owner.applicationId })).status).toBe(
    403,
  )
  expect((await platform.call(token, `DELETE /api-keys/${key.id}`)).status).toBe(403)
})

test('deleting is final: the second time there is nothing (A §3)', async () => {
  const key = await newKey(platform, ana, ['network:env_vars:read'])
  const racers = await Promise.all(
    Array.from({ length: 20 }, () => platform.call(ana.token, `DELETE /api-keys/${key.id}`)),
  )
  expect(racers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([204, ...Array<number>(19).fill(404)])
  const listed = await platform.call(ana.token, `GET /api-keys?applicationId=${ana.applicationId}`)
  expect(listed.body.items.map(({ id }: { id: string }) => id)).not.toContain(key.id)
})

test('the secret is stored nowhere; a storage key keeps sealed states that give the SigV4 key of any day, others keep none (D42)', async () => {
  const key = await newKey(platform, ana, ['network:storage:read'])
  const [row] = await platform.api.db.select().from(apiKeys).where(eq(apiKeys.id, key.id))
  if (!row?.signingState || row.signingKekId === null) throw new Error('no signing state')
  expect(JSON.stringify(row)).not.toContain(key.secret)
  expect(row.secretHash).toEqual(createHash('sha256').update(key.secret).digest())
  const state = platform.api.sealer.open({ ciphertext: row.signingState, kekId: row.signingKekId }, `api_key:${key.id}`)
  for (const date of ['20260101', '20260228', '20261231']) {
    expect(await hmacFromState(state, date)).toEqual(createHmac('sha256', `AWS4${key.secret}`).update(date).digest())
  }
  const plain = await newKey(platform, ana, ['network:env_vars:read'])
  expect((await platform.api.db.select().from(apiKeys).where(eq(apiKeys.id, plain.id)))[0]?.signingState).toBeNull()

  await platform.call(ana.token, `DELETE /api-keys/${key.id}`)
  expect((await platform.api.db.select().from(apiKeys).where(eq(apiKeys.id, key.id)))[0]?.signingState).toBeNull()
})

test.each([
  ['is empty', ''],
  ['is longer than 255 characters', 'é'.repeat(256)],
  ['has a NUL', 'a\0b'],
  ['has a line break', 'a\nb'],
  ['has a lone surrogate', 'a\ud800b'],
])('a name that %s is a 422 (D28)', async (_, name) => {
  expect(await create({ name })).toMatchObject({ status: 422, body: { on: 'body', property: '/name' } })
})

test('names are counted in characters after NFC, and may repeat (D28, D29)', async () => {
  const decomposed = 'e\u0301'.repeat(255)
  const made = await create({ name: decomposed })
  expect(made.body.name).toBe('é'.repeat(255))
  expect((await create({ name: '🦊'.repeat(255) })).status).toBe(201)
  expect((await create({ name: decomposed })).status).toBe(201)
})

test('tokens already issued outlive a deleted key by at most 300 seconds, while exchanges fail at once (D1)', async () => {
  const key = await newKey(platform, ana, ['network:env_vars:read'])
  await platform.call(ana.token, `DELETE /api-keys/${key.id}`)
  expect((await platform.call(key.token, `GET /applications/${ana.applicationId}/env-vars`)).status).toBe(200)
  const answer = await exchange(platform, key.id, key.secret)
  expect(answer).toMatchObject({ status: 401, body: { error: 'invalid_token', error_description: 'API key deleted' } })
  expect(answer.headers['www-authenticate']).toBe('Bearer error="invalid_token", error_description="API key deleted"')
  platform.clock.advance(301_000)
  expect((await platform.call(key.token, `GET /applications/${ana.applicationId}/env-vars`)).status).toBe(401)
  ana.token = await ana.person.token(everyScope)
})
