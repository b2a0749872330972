import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newOwner, type Owner } from '../../test/scenario.ts'
import { discardIdempotentRequests } from './idempotency.ts'
import { idempotentRequests } from './idempotency-table.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const create = (token: string, on: string, body: object, key: string) =>
  platform.call(token, on, body, { 'idempotency-key': key })
const organizationsOf = async (token: string) => (await platform.call(token, 'GET /organizations')).body.total as number

test('a repeat gets the first answer and creates nothing', async () => {
  const before = await organizationsOf(ana.token)
  const first = await create(ana.token, 'POST /organizations', { name: 'Once' }, 'once')
  const second = await create(ana.token, 'POST /organizations', { name: 'Once' }, 'once')
  expect([first.status, second.status]).toEqual([201, 201])
  expect(second.text).toBe(first.text)
  expect([first.headers['idempotency-replayed'], second.headers['idempotency-replayed']]).toEqual([undefined, 'true'])
  expect(await organizationsOf(ana.token)).toBe(before + 1)
})

test('every creation takes a key, and members in another order are the same request', async () => {
  const { organizationId, applicationId } = ana
  for (const [on, body, turned] of [
    ['POST /applications', { organizationId, name: 'Shop' }, { name: 'Shop', organizationId }],
    [`POST /applications/${applicationId}/env-vars`, { key: 'A', value: 'b' }, { value: 'b', key: 'A' }],
    [`POST /organizations/${organizationId}/env-vars`, { key: 'A', value: 'b' }, { value: 'b', key: 'A' }],
  ] as const) {
    const first = await create(ana.token, on, body, 'any')
    const second = await create(ana.token, on, turned, 'any')
    expect([first.status, second.status, second.text], on).toEqual([201, 201, first.text])
  }
})

test('of fifty at once one creates; the others get its answer or learn that it is under way (409)', async () => {
  const before = await organizationsOf(ana.token)
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => create(ana.token, 'POST /organizations', { name: 'Race' }, 'race')),
  )
  expect(await organizationsOf(ana.token)).toBe(before + 1)
  const made = answers.filter(({ status }) => status === 201)
  expect(new Set(made.map(({ text }) => text)).size).toBe(1)
  expect(made.filter(({ headers }) => headers['idempotency-replayed'] === undefined)).toHaveLength(1)
  for (const answer of answers.filter(({ status }) => status !== 201))
    expect(answer).toMatchObject({ status: 409, body: { error: 'A request with this Idempotency-Key is under way' } })
})

test('a key that was used for another body or path is a 422 in the headers', async () => {
  const other = await newOwner(platform, ana.person)
  await create(ana.token, `POST /applications/${ana.applicationId}/env-vars`, { key: 'B', value: '1' }, 'k')
  for (const [on, body] of [
    [`POST /applications/${ana.applicationId}/env-vars`, { key: 'B', value: '2' }],
    [`POST /applications/${other.applicationId}/env-vars`, { key: 'B', value: '1' }],
  ] as const)
    expect(await create(ana.token, on, body, 'k')).toMatchObject({
      status: 422,
      body: { type: 'validation', on: 'headers', property: '/idempotency-key' },
    })
})

test('what failed left nothing: its repeat is tried anew', async () => {
  const on = `POST /applications/${ana.applicationId}/env-vars`
  const { body: taken } = await platform.call(ana.token, on, { key: 'TAKEN', value: '1' })
  expect((await create(ana.token, on, { key: 'TAKEN', value: '2' }, 'later')).status).toBe(409)
  await platform.call(ana.token, `DELETE /applications/${ana.applicationId}/env-vars/${taken.id}`)
  const made = await create(ana.token, on, { key: 'TAKEN', value: '2' }, 'later')
  expect([made.status, made.headers['idempotency-replayed']]).toEqual([201, undefined])
})

test('of an API key nothing is kept: a repeat is a 409, and one key exists (D79)', async () => {
  const body = { name: 'ci', applicationId: ana.applicationId }
  const first = await create(ana.token, 'POST /api-keys', body, 'key')
  const second = await create(ana.token, 'POST /api-keys', body, 'key')
  expect([first.status, second.status]).toEqual([201, 409])
  expect(second.text).not.toContain('svc_secret_')
  const rows = await platform.api.db
    .select()
    .from(idempotentRequests)
    .where(eq(idempotentRequests.operation, 'createApiKey'))
  expect(rows.map(({ ciphertext }) => ciphertext)).toEqual([null])
  const listed = await platform.call(ana.token, `GET /api-keys?applicationId=${ana.applicationId}`)
  expect(listed.body.total).toBe(1)
})

test("keys are the caller's own, and what is stored shows nothing", async () => {
  const ben = await newOwner(platform)
  const [hers, his] = await Promise.all(
    [ana, ben].map((owner) =>
      create(
        owner.token,
        `POST /applications/${owner.applicationId}/env-vars`,
        { key: 'OWN', value: 'plain-value' },
        'own',
      ),
    ),
  )
  expect([hers?.status, his?.status]).toEqual([201, 201])
  expect(hers?.body.id).not.toBe(his?.body.id)
  const rows = await platform.api.db.select().from(idempotentRequests)
  expect(rows.some(({ ciphertext }) => ciphertext?.includes('plain-value'))).toBe(false)
})

test('a repeat still needs the right to create', async () => {
  const on = `POST /applications/${ana.applicationId}/env-vars`
  await create(ana.token, on, { key: 'RIGHT', value: '1' }, 'right')
  const less = await ana.person.token(['network:env_vars:read'])
  expect((await create(less, on, { key: 'RIGHT', value: '1' }, 'right')).status).toBe(403)
})

test.each(['', 'with space', 'x'.repeat(256), 'ümlaut'])('the key %j is a 422 in the headers', async (key) => {
  const answer = await fetch(`${platform.apiUrl}/organizations`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${ana.token}`,
      'content-type': 'application/json',
      'idempotency-key': Buffer.from(key).toString('latin1'),
    },
    body: '{"name":"x"}',
  })
  expect([answer.status, ((await answer.json()) as { property: string }).property]).toEqual([422, '/idempotency-key'])
})

test('after a day a key is free again, and its row goes', async () => {
  const first = await create(ana.token, 'POST /organizations', { name: 'Day' }, 'day')
  platform.clock.advance(86_400_001)
  const token = await ana.person.token(everyScope, { signInAgain: true })
  const second = await create(token, 'POST /organizations', { name: 'Day' }, 'day')
  expect(second.status).toBe(201)
  expect(second.body.id).not.toBe(first.body.id)
  await discardIdempotentRequests(platform.api)
  const rows = await platform.api.db.select({ key: idempotentRequests.key }).from(idempotentRequests)
  expect(rows).toEqual([{ key: 'day' }])
})
