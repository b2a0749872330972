// engines: postgres
import { randomUUID } from 'node:crypto'
import { OWNED_ORGANIZATIONS_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import { newId } from '@platform/runtime/new-id'
import { holding } from '@platform/testkit/holding'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newOwner } from '../../../../test/scenario.ts'
import { activatePlan } from '../products/products.ts'
import { setQuota } from '../products/quotas.ts'
import { profiles } from '../profiles/table.ts'
import { changeRole, removeMember, setMember } from './members.ts'
import { members, organizations } from './table.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

const person = async () => {
  const who = await platform.person()
  return { who, token: await who.token(everyScope) }
}

test('whoever creates an organization owns it, and sees the documented fields (A §4)', async () => {
  const { who, token } = await person()
  const made = await platform.call(token, 'POST /organizations', { name: 'Ácme & Söhne' })
  expect(made.status).toBe(201)
  expect(made.body).toEqual({
    id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/) as string,
    name: 'Ácme & Söhne',
    slug: expect.stringMatching(/^a-cme-so-hne|^acme-sohne/) as string,
    imageUrl: null,
    createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
    updatedAt: made.body.createdAt as string,
  })
  expect((await platform.call(token, `GET /organizations/${made.body.id}`)).body).toEqual(made.body)
  const [member] = await platform.api.db
    .select()
    .from(members)
    .where(and(eq(members.organizationId, made.body.id as string), eq(members.userId, who.userId)))
  expect(member?.role).toBe('OWNER')
})

test('an id in capitals is the same id', async () => {
  const owner = await newOwner(platform)
  expect((await platform.call(owner.token, `GET /organizations/${owner.organizationId.toUpperCase()}`)).status).toBe(
    200,
  )
})

test('names may repeat and slugs never do; a slug one chose is a 409 when taken (D29, D75)', async () => {
  const { token } = await person()
  const slug = `org-${randomUUID().slice(0, 13)}x`
  const racers = await Promise.all(
    Array.from({ length: 20 }, () => platform.call(token, 'POST /organizations', { name: 'Twin', slug })),
  )
  expect(racers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, ...Array<number>(19).fill(409)])
  const name = `Same ${randomUUID().replaceAll('-', 'x')}`
  const { token: other } = await person()
  const twins = await Promise.all(
    Array.from({ length: 10 }, () => platform.call(other, 'POST /organizations', { name })),
  )
  expect(twins.map(({ status }) => status)).toEqual(Array<number>(10).fill(201))
  expect(new Set(twins.map(({ body }) => body.slug as string)).size).toBe(10)
})

test.each([
  ['too short', 'ab', 422],
  ['too long', 'a'.repeat(51), 422],
  ['with an underscore', 'a_b', 422],
  ['with two hyphens', 'a--b', 422],
  ['ending in a hyphen', 'acme-', 422],
  ['reserved', 'admin', 400],
  ['ending like a deployment', 'shop-0a1b2c3d', 400],
])('a slug %s is refused (D75, D76)', async (_, slug, status) => {
  const { token } = await person()
  expect((await platform.call(token, 'POST /organizations', { name: 'x', slug })).status).toBe(status)
})

test('a name without a letter still makes a slug', async () => {
  const { token } = await person()
  for (const name of ['日本', '!!!', 'a', 'Admin', 'x-0a1b2c3d']) {
    const made = await platform.call(token, 'POST /organizations', { name })
    expect([made.status, made.body.slug]).toEqual([201, expect.stringMatching(/^[a-z0-9]+(-[a-z0-9]+)*$/)])
    expect(made.body.slug.length).toBeGreaterThanOrEqual(3)
  }
})

test('the list holds what one belongs to, newest first, page by page (A §1 Keyset, D30, D31)', async () => {
  const { token } = await person()
  const ids: string[] = []
  for (let i = 0; i < 12; i++) {
    const { body } = await platform.call(token, 'POST /organizations', { name: `O${i}` })
    ids.unshift(body.id as string)
    await setQuota(platform.api, body.id as string, 'organizations_per_owner', 12)
  }
  const first = await platform.call(token, 'GET /organizations')
  expect(first.body.total).toBe(12)
  expect(first.body.items.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 10))
  expect(Object.keys(first.body)).toEqual(['items', 'total'])
  const second = await platform.call(token, `GET /organizations?from=${ids[9]}&limit=100&unknown=1`)
  expect(second.body).toMatchObject({ total: 12, items: [{ id: ids[10] }, { id: ids[11] }] })
  expect((await platform.call(token, `GET /organizations?from=${randomUUID()}`)).status).toBe(200)
})

test.each(['0', '101', '-1', '1.5', 'x', '', '1e1', '%00'])(
  'limit=%s is a 422 in the query (A §1, §7)',
  async (limit) => {
    const { token } = await person()
    const answer = await platform.call(token, `GET /organizations?limit=${limit}`)
    expect(answer).toMatchObject({
      status: 422,
      body: { type: 'validation', on: 'query', property: '/limit', found: limit === '%00' ? '\0' : limit },
    })
  },
)

const membersOf = async (token: string, id: string) =>
  (await platform.call(token, `GET /organizations/${id}/members`)).body as {
    items: Record<string, unknown>[]
    total: number
  }
test('members are listed whole, with what userinfo says of them once their token could ask (A §4, D73)', async () => {
  const who = await platform.person()
  const bare = await who.token(['platform:organizations:write'])
  const { body } = await platform.call(bare, 'POST /organizations', { name: 'Club' })
  const unknown = await membersOf(bare, body.id as string)
  expect(unknown).toEqual({
    items: [
      {
        membershipId: expect.any(String) as string,
        organizationId: body.id as string,
        userId: who.userId,
        email: null,
        givenName: null,
        familyName: null,
        imageUrl: null,
        role: 'OWNER',
        joinedAt: expect.stringMatching(/Z$/) as string,
      },
    ],
    total: 1,
  })
  const open = await who.token(['openid', 'email', 'profile', 'platform:organizations:read'])
  await expect
    .poll(async () => (await membersOf(open, body.id as string)).items[0])
    .toMatchObject({ email: who.email, givenName: 'Ana', familyName: 'Test' })
  // A token with fewer scopes also triggers a fetch, and removes nothing.
  const learnedAt = async () =>
    (await platform.api.db.select().from(profiles).where(eq(profiles.userId, who.userId)))[0]?.learnedAt.getTime()
  const before = await learnedAt()
  const less = await who.token(['openid', 'platform:organizations:read'])
  await platform.call(less, 'GET /organizations')
  await expect.poll(learnedAt).not.toBe(before)
  expect((await membersOf(less, body.id as string)).items[0]).toMatchObject({ email: who.email, givenName: 'Ana' })
})

test('members join at the end of the list, and a member may read it', async () => {
  const owner = await newOwner(platform)
  const mia = await person()
  await platform.api.db.insert(members).values({
    id: randomUUID(),
    organizationId: owner.organizationId,
    userId: mia.who.userId,
    role: 'MEMBER',
    joinedAt: platform.clock.now(),
  })
  const { items } = await membersOf(mia.token, owner.organizationId)
  expect(items.map(({ userId, role }) => [userId, role])).toEqual([
    [owner.person.userId, 'OWNER'],
    [mia.who.userId, 'MEMBER'],
  ])
})

test.each([
  ['leave', (organizationId: string, userId: string) => removeMember(platform.api, organizationId, userId)],
  ['step down', (organizationId: string, userId: string) => changeRole(platform.api, organizationId, userId, 'MEMBER')],
])('of two owners who %s at the same time one stays an owner', async (_, change) => {
  const { organizationId, person } = await newOwner(platform)
  const other = await platform.person()
  await setMember(platform.api, organizationId, other.userId, 'OWNER')
  const outcomes = await holding(
    platform.databaseUrl,
    (held) => held`select from organization_members where organization_id = ${organizationId} for update`,
    [() => change(organizationId, person.userId), () => change(organizationId, other.userId)],
  )
  expect(outcomes).toEqual(['done', 'last-owner'])
  const owners = and(eq(members.organizationId, organizationId), eq(members.role, 'OWNER'))
  expect(await platform.api.db.$count(members, owners)).toBe(1)
})

/** Makes a user the owner of so many organizations, past every rule. Returns the id of the first. */
async function own(userId: string, count: number): Promise<string> {
  const time = platform.api.now()
  const made = Array.from({ length: count }, () => {
    const id = newId()
    return { id, name: 'Old', slug: `old-${id}`, createdAt: time, updatedAt: time }
  })
  await platform.api.db.insert(organizations).values(made)
  await platform.api.db.insert(members).values(
    made.map(({ id: organizationId }) => ({
      id: newId(),
      organizationId,
      userId,
      role: 'OWNER' as const,
      joinedAt: time,
    })),
  )
  return made[0]?.id ?? ''
}

test('whoever owns ten organizations on the free plan founds no eleventh (403), and keeps those they have (D113)', async () => {
  const { who, token } = await person()
  const found = () => platform.call(token, 'POST /organizations', { name: 'More' })
  await own(who.userId, 9)
  // One of another's counts as little as it allows.
  const foreign = await newOwner(platform)
  await setMember(platform.api, foreign.organizationId, who.userId, 'ADMIN')
  await setQuota(platform.api, foreign.organizationId, 'organizations_per_owner', 1_000)
  expect((await found()).status).toBe(201)
  expect(await found()).toMatchObject({
    status: 403,
    body: { error: expect.stringContaining('organizations_per_owner (10 of 10 used)') as string },
  })
  await own(who.userId, 2)
  expect(await found()).toMatchObject({
    status: 403,
    body: { error: expect.stringContaining('organizations_per_owner (12 of 10 used)') as string },
  })
  expect((await platform.call(token, 'GET /organizations')).body.total).toBe(13)
})

test.each([
  ['the pro plan', (id: string) => activatePlan(platform.api, id, 'network', 'pro')],
  ['a quota of the operator', (id: string) => setQuota(platform.api, id, 'organizations_per_owner', 11)],
])('%s of one of the organizations that a user owns lets them found more (D113)', async (_, allow) => {
  const { who, token } = await person()
  await allow(await own(who.userId, 10))
  expect((await platform.call(token, 'POST /organizations', { name: 'Eleventh' })).status).toBe(201)
})

test('one of two concurrent creations by somebody who may found one more wins (D113)', async () => {
  const { who, token } = await person()
  await own(who.userId, 9)
  const found = () => platform.call(token, 'POST /organizations', { name: 'Last' })
  const racers = await holding(
    platform.databaseUrl,
    (held) => held`select pg_advisory_xact_lock(${OWNED_ORGANIZATIONS_LOCK_CLASS}, hashtext(${who.userId}))`,
    [found, found],
  )
  expect(racers.map(({ status }) => status)).toEqual([201, 403])
  expect((await platform.call(token, 'GET /organizations')).body.total).toBe(10)
})
