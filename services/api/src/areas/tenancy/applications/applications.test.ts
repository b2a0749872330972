import { randomUUID } from 'node:crypto'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newKey, newOwner, type Owner } from '../../../../test/scenario.ts'
import { setMember } from '../organizations/members.ts'
import { members, organizations } from '../organizations/table.ts'
import { applications } from './table.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const create = (body: object, owner = ana) =>
  platform.call(owner.token, 'POST /applications', { organizationId: owner.organizationId, ...body })

test('an application has the documented fields and exactly two environments (wire.md, D74)', async () => {
  const made = await create({ name: 'Web Shop', rootDirectory: 'apps/web' })
  expect(made.status).toBe(201)
  const organization = (await platform.call(ana.token, `GET /organizations/${ana.organizationId}`)).body as object
  expect(made.body).toEqual({
    id: expect.any(String) as string,
    organization,
    organizationId: ana.organizationId,
    name: 'Web Shop',
    slug: 'web-shop',
    imageUrl: null,
    rootDirectory: 'apps/web',
    defaultEnvironmentSlug: 'production',
    createdAt: expect.any(String) as string,
    updatedAt: made.body.createdAt as string,
  })
})

test('the environments of an application are listed, production first (D74, D94)', async () => {
  const { status, body } = await platform.call(ana.token, `GET /applications/${ana.applicationId}/environments`)
  const environment = (slug: string, name: string) => ({ id: expect.any(String) as string, slug, name })
  expect([status, body]).toEqual([
    200,
    { items: [environment('production', 'Production'), environment('preview', 'Preview')], total: 2 },
  ])
  const buckets = `GET /applications/${ana.applicationId}/environments/${(body.items as { id: string }[])[1]?.id}/buckets`
  expect((await platform.call(ana.token, buckets)).status).toBe(200)
})

test('a name loses the white space around it, and one of nothing else is a 422 (D95)', async () => {
  const name = `Trim ${randomUUID()}`
  expect((await create({ name: `\u00a0  ${name}\u3000` })).body.name).toBe(name)
  expect((await create({ name })).status).toBe(409)
  for (const blank of ['   ', '\u00a0', '']) expect((await create({ name: blank })).status).toBe(422)
  expect((await create({ name: '\tTab' })).status).toBe(422)
})

test('a slug is read in any case (D95)', async () => {
  expect((await create({ name: randomUUID(), slug: 'Mixed-Case' })).body.slug).toBe('mixed-case')
})

test('a duplicate name is a 409 in its organization and fine in another (D29)', async () => {
  const name = `N ${randomUUID()}`
  const racers = await Promise.all(Array.from({ length: 10 }, () => create({ name })))
  expect(racers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, ...Array<number>(9).fill(409)])
  expect((await create({ name }, await newOwner(platform))).status).toBe(201)
})

test('slugs are unique per organization only (D75)', async () => {
  const slug = 'shared-slug'
  expect((await create({ name: 'S1', slug })).status).toBe(201)
  expect((await create({ name: 'S2', slug })).status).toBe(409)
  expect((await create({ name: 'S1', slug }, await newOwner(platform))).status).toBe(201)
})

test.each(['..', '../x', 'a/../b', 'a/..', 'a\\..\\b', 'a..b'])(
  'the root directory %s is a 400 (A §7)',
  async (rootDirectory) => {
    expect(await create({ name: randomUUID(), rootDirectory })).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining('..') as string },
    })
  },
)

test('an empty directory is the root, like none', async () => {
  expect((await create({ name: randomUUID(), rootDirectory: '' })).body.rootDirectory).toBeNull()
})

test('the quota of the plan holds under racing creators, and its 429 is not cleared by waiting (A §8, D77)', async () => {
  const owner = await newOwner(platform) // has one application of 25
  const racers = await Promise.all(Array.from({ length: 40 }, (_, i) => create({ name: `App ${i}` }, owner)))
  expect(racers.filter(({ status }) => status === 201)).toHaveLength(24)
  const refused = racers.filter(({ status }) => status === 429)
  expect(refused).toHaveLength(16)
  expect(refused[0]?.body).toEqual({ error: expect.stringMatching(/applications.*25 of 25.*support/) as string })
  expect(refused[0]?.headers['retry-after']).toBeUndefined()
})

test('the list reaches every organization one belongs to and filters by one of them (A §4, D17)', async () => {
  const owner = await newOwner(platform)
  const second = await newOwner(platform, owner.person)
  const listed = await platform.call(owner.token, 'GET /applications')
  expect(listed.body).toMatchObject({ total: 2, items: [{ id: second.applicationId }, { id: owner.applicationId }] })
  const filtered = await platform.call(owner.token, `GET /applications?organizationId=${owner.organizationId}`)
  expect(filtered.body).toMatchObject({ total: 1, items: [{ id: owner.applicationId }] })
  const missing = await platform.call(owner.token, `GET /applications?organizationId=${randomUUID()}`)
  const foreign = await platform.call(owner.token, `GET /applications?organizationId=${ana.organizationId}`)
  expect([missing.status, foreign.status, foreign.text]).toEqual([404, 404, missing.text])
  expect((await platform.call(owner.token, 'GET /applications?organizationId=x')).status).toBe(422)
  const page = await platform.call(owner.token, `GET /applications?limit=1&from=${second.applicationId}`)
  expect(page.body).toMatchObject({ total: 2, items: [{ id: owner.applicationId }] })
})

test('totals stay right under racing creators, deletions, and members who come and go (D31)', async () => {
  const owner = await newOwner(platform)
  const second = await newOwner(platform, owner.person)
  await Promise.all(
    [owner, second].flatMap((of) => Array.from({ length: 8 }, (_, i) => create({ name: `App ${i}` }, of))),
  )
  const totals = async (token = owner.token) => [
    (await platform.call(token, 'GET /organizations')).body.total as number,
    (await platform.call(token, 'GET /applications')).body.total as number,
    (await platform.call(owner.token, `GET /applications?organizationId=${owner.organizationId}`)).body.total as number,
  ]
  expect(await totals()).toEqual([2, 18, 9])
  const { db } = platform.api
  await db
    .delete(applications)
    .where(and(eq(applications.organizationId, owner.organizationId), eq(applications.name, 'App 1')))
  expect(await totals()).toEqual([2, 17, 8])

  const mia = await platform.person()
  await setMember(platform.api, owner.organizationId, mia.userId, 'MEMBER')
  await setMember(platform.api, owner.organizationId, mia.userId, 'ADMIN')
  const hers = await mia.token(everyScope)
  expect(await totals(hers)).toEqual([1, 8, 8])
  await db.delete(members).where(eq(members.userId, mia.userId))
  expect(await totals(hers)).toEqual([0, 0, 8])
  await db.delete(organizations).where(eq(organizations.id, second.organizationId))
  expect(await totals()).toEqual([1, 8, 8])
})

test('over several organizations each page holds the newest of all of them, once', async () => {
  const owner = await newOwner(platform)
  const owners = [owner, await newOwner(platform, owner.person), await newOwner(platform, owner.person)]
  for (let i = 0; i < 12; i++) await create({ name: `App ${i}` }, owners[i % 3])
  const seen: string[] = []
  for (let from = ''; ;) {
    const { body } = await platform.call(owner.token, `GET /applications?limit=4${from && `&from=${from}`}`)
    if (body.items.length === 0) break
    seen.push(...body.items.map(({ id }: { id: string }) => id))
    from = seen.at(-1) ?? ''
  }
  expect(seen).toHaveLength(15)
  expect(seen).toEqual([...new Set(seen)].sort().toReversed())
})

test('a key filters by its own organization, is refused another and misses what does not exist (D17)', async () => {
  const key = await newKey(platform, ana, ['network:applications:read'])
  const status = async (id: string) => (await platform.call(key.token, `GET /applications?organizationId=${id}`)).status
  const other = await newOwner(platform)
  expect([await status(ana.organizationId), await status(other.organizationId), await status(randomUUID())]).toEqual([
    200, 403, 404,
  ])
})

test('a member may create applications, a stranger cannot tell that the organization exists (wire.md roles, D17)', async () => {
  const mia = await platform.person()
  const token = await mia.token(everyScope)
  const line = ['POST /applications', { organizationId: ana.organizationId, name: `M ${randomUUID()}` }] as const
  expect((await platform.call(token, ...line)).status).toBe(404)
  await platform.api.db.insert(members).values({
    id: randomUUID(),
    organizationId: ana.organizationId,
    userId: mia.userId,
    role: 'MEMBER',
    joinedAt: new Date(),
  })
  expect((await platform.call(token, ...line)).status).toBe(201)
})
