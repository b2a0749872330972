// engines: postgres
import { randomUUID } from 'node:crypto'
import { holding } from '@platform/testkit/holding'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newKey, newOwner, type Owner } from '../../../../test/scenario.ts'
import { environments } from '../applications/table.ts'
import { members } from '../organizations/table.ts'
import { envVars } from './table.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

const app = (owner = ana) => `/applications/${owner.applicationId}/env-vars`
const org = (owner = ana) => `/organizations/${owner.organizationId}/env-vars`
const create = (path: string, body: object, owner = ana) => platform.call(owner.token, `POST ${path}`, body)
const pull = (environment?: string, token = ana.token) =>
  platform.call(token, `GET ${app()}/pull${environment === undefined ? '' : `?environment=${environment}`}`)
/** Each test starts with its own owner. */
const startFresh = async () => void (ana = await newOwner(platform))

test('a variable has the documented fields in each layer (wire.md)', async () => {
  await startFresh()
  const production = (
    await platform.api.db.select().from(environments).where(eq(environments.applicationId, ana.applicationId))
  ).find(({ slug }) => slug === 'production')
  const base = {
    id: expect.any(String) as string,
    value: 'v',
    sensitive: false,
    environmentId: null,
    environmentName: null,
    createdAt: expect.any(String) as string,
    updatedAt: expect.any(String) as string,
  }
  const inOrganization = await create(org(), { key: 'A', value: 'v' })
  expect([inOrganization.status, inOrganization.body]).toEqual([
    201,
    { ...base, key: 'A', scope: 'organization', source: 'organization' },
  ])
  const inApplication = await create(app(), { key: 'A', value: 'v' })
  expect(inApplication.body).toEqual({ ...base, key: 'A', scope: 'application', source: 'application' })
  const inEnvironment = await create(app(), { key: 'A', value: 'v', environment: 'production' })
  expect(inEnvironment.body).toEqual({
    ...base,
    key: 'A',
    scope: 'environment',
    source: 'environment',
    environmentId: production?.id,
    environmentName: 'Production',
  })

  const listed = await platform.call(ana.token, `GET ${app()}`)
  expect(listed.body).toEqual({ items: [inApplication.body, inEnvironment.body], total: 2 })
  expect((await platform.call(ana.token, `GET ${org()}`)).body).toEqual({ items: [inOrganization.body], total: 1 })
})

test('pull merges environment over application over organization, and takes a slug or a UUID (A §4, D49)', async () => {
  await startFresh()
  const layers: [string, object][] = [
    [org(), { key: 'ORG', value: 'o' }],
    [org(), { key: 'APP', value: 'o' }],
    [org(), { key: 'ENV', value: 'o' }],
    [app(), { key: 'APP', value: 'a' }],
    [app(), { key: 'ENV', value: 'a' }],
    [app(), { key: 'ENV', value: 'p', environment: 'production' }],
    [app(), { key: 'ENV', value: 'v', environment: 'preview' }],
  ]
  for (const [path, body] of layers) expect((await create(path, body)).status).toBe(201)
  const upper = [
    { key: 'APP', value: 'a', source: 'application' },
    { key: 'ENV', value: 'a', source: 'application' },
    { key: 'ORG', value: 'o', source: 'organization' },
  ]
  const withEnv = (value: string) => [upper[0], { key: 'ENV', value, source: 'environment' }, upper[2]]
  expect((await pull()).body).toEqual({ items: upper, total: 3, omittedSensitive: 0 })
  expect((await pull('production')).body).toEqual({ items: withEnv('p'), total: 3, omittedSensitive: 0 })
  const [preview] = (
    await platform.api.db.select().from(environments).where(eq(environments.applicationId, ana.applicationId))
  ).filter(({ slug }) => slug === 'preview')
  expect((await pull(preview?.id)).body).toEqual({ items: withEnv('v'), total: 3, omittedSensitive: 0 })
  expect((await pull(preview?.id.toUpperCase())).status).toBe(200)
  for (const unknown of ['staging', randomUUID(), '%00', ''])
    expect([(await pull(unknown)).status, unknown]).toEqual([
      expect.toSatisfy((s: number) => s === 404 || s === 422),
      unknown,
    ])
  const other = await newOwner(platform)
  const [foreign] = await platform.api.db
    .select()
    .from(environments)
    .where(eq(environments.applicationId, other.applicationId))
  expect((await pull(foreign?.id)).status).toBe(404)
})

test('a sensitive winner is left out and counted once, and no lower layer shows through (A §4, D49)', async () => {
  await startFresh()
  await create(org(), { key: 'TOKEN', value: 'lower' })
  await create(app(), { key: 'TOKEN', value: 'hidden', sensitive: true })
  await create(app(), { key: 'OTHER', value: 'hidden too', sensitive: true })
  await create(app(), { key: 'OTHER', value: 'plain', environment: 'preview' })
  expect((await pull()).body).toEqual({ items: [], total: 0, omittedSensitive: 2 })
  const preview = await pull('preview')
  expect(preview.body).toEqual({
    items: [{ key: 'OTHER', value: 'plain', source: 'environment' }],
    total: 1,
    omittedSensitive: 1,
  })
  expect(preview.text).not.toContain('hidden')
  expect(preview.text).not.toContain('lower')
})

test('the value of a sensitive variable is in no answer and nowhere in the database (A §2, D49)', async () => {
  await startFresh()
  const value = `s3cr3t-${randomUUID()}`
  const made = await create(app(), { key: 'DB_PASSWORD', value, sensitive: true })
  expect(made.body).toMatchObject({ value: null, sensitive: true })
  const listed = await platform.call(ana.token, `GET ${app()}`)
  const patched = await platform.call(ana.token, `PATCH ${app()}/${made.body.id}`, { value: `${value}2` })
  expect(patched.body).toMatchObject({ value: null, sensitive: true })
  const [row] = await platform.api.db
    .select()
    .from(envVars)
    .where(eq(envVars.id, made.body.id as string))
  for (const text of [made.text, listed.text, patched.text, JSON.stringify(row), row?.ciphertext.toString('latin1')])
    expect(text).not.toContain(value)
})

test('sensitive is one way: becoming readable needs a new value (wire.md)', async () => {
  await startFresh()
  const made = await create(app(), { key: 'K', value: 'old', sensitive: true })
  const path = `PATCH ${app()}/${made.body.id}`
  expect((await platform.call(ana.token, path, { sensitive: false })).status).toBe(400)
  expect((await platform.call(ana.token, path, { sensitive: false, value: 'new' })).body).toMatchObject({
    value: 'new',
    sensitive: false,
  })
  expect((await platform.call(ana.token, path, { sensitive: true })).body).toMatchObject({
    value: null,
    sensitive: true,
  })
})

test('a change that comes while another makes the variable sensitive does not make its value readable again', async () => {
  await startFresh()
  const { body } = await create(app(), { key: 'OLD', value: 'plain' })
  const change = (to: object) => platform.call(ana.token, `PATCH ${app()}/${body.id}`, to)
  const [hidden, renamed, refused] = await holding(
    platform.databaseUrl,
    (held) => held`select from env_vars where id = ${body.id} for update`,
    [
      () => change({ value: 'secret', sensitive: true }),
      () => change({ key: 'NEW' }),
      () => change({ sensitive: false }),
    ],
  )
  for (const answer of [hidden, renamed]) expect(answer).toMatchObject({ status: 200, body: { value: null } })
  expect(refused.status).toBe(400)
  const { body: listed } = await platform.call(ana.token, `GET ${app()}`)
  expect(listed.items).toMatchObject([{ key: 'NEW', value: null, sensitive: true }])
})

test('one key once per layer: a duplicate is a 409, also by renaming and by racing (D29)', async () => {
  await startFresh()
  for (const [path, more] of [
    [org(), {}],
    [app(), {}],
    [app(), { environment: 'preview' }],
  ] as const) {
    const racers = await Promise.all(
      Array.from({ length: 10 }, () => create(path, { key: 'RACE', value: 'x', ...more })),
    )
    expect(racers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, ...Array<number>(9).fill(409)])
    const second = await create(path, { key: 'SECOND', value: 'x', ...more })
    expect(await platform.call(ana.token, `PATCH ${path}/${second.body.id}`, { key: 'RACE' })).toMatchObject({
      status: 409,
      body: { error: expect.stringContaining('RACE') as string },
    })
  }
  expect((await create(app(), { key: 'race', value: 'x' })).status).toBe(201)
})

test('a variable of the other path, or of another application, is a 404 and untouched (D49)', async () => {
  await startFresh()
  const inOrganization = await create(org(), { key: 'O', value: 'x' })
  const inApplication = await create(app(), { key: 'A', value: 'x' })
  for (const line of [`${app()}/${inOrganization.body.id}`, `${org()}/${inApplication.body.id}`]) {
    expect((await platform.call(ana.token, `PATCH ${line}`, { value: 'y' })).status).toBe(404)
    expect((await platform.call(ana.token, `DELETE ${line}`)).status).toBe(404)
  }
  expect((await platform.call(ana.token, `GET ${org()}`)).body.items[0].value).toBe('x')
})

test('deleting answers 204 and nothing, and the second time 404', async () => {
  await startFresh()
  const made = await create(app(), { key: 'A', value: 'x' })
  const gone = await platform.call(ana.token, `DELETE ${app()}/${made.body.id}`)
  expect([gone.status, gone.text, gone.headers['content-type']]).toEqual([204, '', undefined])
  expect((await platform.call(ana.token, `DELETE ${app()}/${made.body.id}`)).status).toBe(404)
})

test('a member writes application variables but not those of the organization (wire.md roles)', async () => {
  await startFresh()
  const made = await create(org(), { key: 'O', value: 'x' })
  const mia = await platform.person()
  await platform.api.db.insert(members).values({
    id: randomUUID(),
    organizationId: ana.organizationId,
    userId: mia.userId,
    role: 'MEMBER',
    joinedAt: new Date(),
  })
  const token = await mia.token(everyScope)
  const attempts = [
    ['POST', org(), { key: 'N', value: 'x' }, 403],
    ['PATCH', `${org()}/${made.body.id}`, { value: 'y' }, 403],
    ['DELETE', `${org()}/${made.body.id}`, undefined, 403],
    ['GET', org(), undefined, 200],
    ['POST', app(), { key: 'N', value: 'x' }, 201],
  ] as const
  for (const [method, path, body, status] of attempts)
    expect([method, path, (await platform.call(token, `${method} ${path}`, body)).status]).toEqual([
      method,
      path,
      status,
    ])
})

test('organization variables reach a key only inside pull (wire.md)', async () => {
  await startFresh()
  await create(org(), { key: 'O', value: 'x' })
  const key = await newKey(platform, ana, [
    'network:env_vars:read',
    'network:env_vars:write',
    'network:env_vars:delete',
  ])
  expect((await pull(undefined, key.token)).body.items).toEqual([{ key: 'O', value: 'x', source: 'organization' }])
  expect((await platform.call(key.token, `GET ${org()}`)).status).toBe(403)
  const made = await platform.call(key.token, `POST ${app()}`, { key: 'A', value: 'x' })
  expect(made.status).toBe(201)
  expect((await platform.call(key.token, `DELETE ${app()}/${made.body.id}`)).status).toBe(204)
})

test.each([
  ['a key with a hyphen', { key: 'A-B', value: 'x' }, 422],
  ['a key that begins with a digit', { key: '1A', value: 'x' }, 422],
  ['a key of 256 characters', { key: 'A'.repeat(256), value: 'x' }, 422],
  ['a reserved key', { key: 'PLATFORM_X', value: 'x' }, 400],
  ['a value with a NUL', { key: 'A', value: 'a\0b' }, 422],
  ['a value with a lone surrogate', { key: 'A', value: 'a\udc00b' }, 422],
  ['a value over 64 KiB', { key: 'A', value: 'é'.repeat(32_769) }, 422],
  ['a value that is no text', { key: 'A', value: 1 }, 422],
  ['a missing value', { key: 'A' }, 422],
  ['an environment that does not exist', { key: 'A', value: 'x', environment: 'staging' }, 404],
  [
    'a scope that does not agree with the environment',
    { key: 'A', value: 'x', environment: 'preview', scope: 'application' },
    400,
  ],
  ['the environment layer without an environment', { key: 'A', value: 'x', scope: 'environment' }, 400],
  ['a prototype', JSON.parse('{"key":"A","value":"x","__proto__":{"sensitive":true}}') as object, 422],
])('%s is refused', async (_, body, status) => {
  ana ??= await newOwner(platform)
  const answer = await platform.call(ana.token, `POST ${app()}`, JSON.stringify(body), {
    'content-type': 'application/json',
  })
  expect(answer.status).toBe(status)
})

test('environment and environmentId may both be sent, and must agree (wire.md)', async () => {
  await startFresh()
  const rows = await platform.api.db
    .select()
    .from(environments)
    .where(eq(environments.applicationId, ana.applicationId))
  const [production, preview] = ['production', 'preview'].map((slug) => rows.find((row) => row.slug === slug)?.id)
  expect(
    (await create(app(), { key: 'A', value: 'x', environment: 'production', environmentId: preview })).status,
  ).toBe(400)
  expect(
    (
      await create(app(), {
        key: 'A',
        value: 'x',
        environment: 'production',
        environmentId: production,
        scope: 'environment',
      })
    ).status,
  ).toBe(201)
})

test('a refused value is not repeated in the 422 (D14)', async () => {
  await startFresh()
  const answer = await create(app(), { key: 'A', value: { nested: 'hunter2' } })
  expect(answer).toMatchObject({ status: 422, body: { property: '/value', found: '[redacted]', expected: 'string' } })
  expect(answer.text).not.toContain('hunter2')
})

test('the largest value survives unchanged, every character of it', async () => {
  await startFresh()
  const value = '🦊'.repeat(16_384)
  expect((await create(app(), { key: 'BIG', value })).status).toBe(201)
  expect((await pull()).body.items[0].value).toBe(value)
})
