import { randomUUID } from 'node:crypto'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { newOwner } from '../../../../test/scenario.ts'
import { setMember } from '../organizations/members.ts'
import { setQuota } from './quotas.ts'
import { activatePlan, setEntitlement } from './products.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

test('every product is listed with the default that nobody decided over (A §4)', async () => {
  const owner = await newOwner(platform)
  const { body } = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/products`)
  expect(body.total).toBe(3)
  expect(body.items.map(({ product }: { product: { slug: string } }) => product.slug)).toEqual([
    'network',
    'storage',
    'ai-gateway',
  ])
  expect(body.items[0]).toEqual({
    product: {
      slug: 'network',
      displayName: 'Network',
      accessMode: 'organization',
      defaultAccessPolicy: 'granted',
      plans: [expect.objectContaining({ slug: 'free' }), expect.objectContaining({ slug: 'pro' })],
    },
    hasAccess: true,
    resolutionSource: 'default',
    explicitEntitlement: null,
    subscription: null,
  })
  const one = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/products/network`)
  expect(one.body).toEqual(body.items[0])
})

test('an entitlement decides over the default, and the check says so (A §4, D50)', async () => {
  const owner = await newOwner(platform)
  const check = async () =>
    (await platform.call(owner.token, `GET /organizations/${owner.organizationId}/products/storage/entitlement`))
      .body as object
  expect(await check()).toEqual({ organizationId: owner.organizationId, product: 'storage', hasAccess: true })
  for (const [status, hasAccess] of [
    ['SUSPENDED', false],
    ['ACTIVE', true],
    ['REVOKED', false],
  ] as const) {
    await setEntitlement(platform.api, owner.organizationId, 'storage', status)
    expect(await check()).toMatchObject({ hasAccess })
    const { body } = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/products/storage`)
    expect(body).toMatchObject({
      hasAccess,
      resolutionSource: 'explicit',
      explicitEntitlement: {
        product: 'storage',
        status,
        revokedAt: status === 'REVOKED' ? expect.stringMatching(/Z$/) : null,
      },
    })
  }
})

test.each(['nope', 'Network', '%00', '__proto__', 'network%2f'])('%s is no product: 404 (D50)', async (name) => {
  const owner = await newOwner(platform)
  for (const path of [name, `${name}/entitlement`]) {
    expect(
      await platform.call(owner.token, `GET /organizations/${owner.organizationId}/products/${path}`),
    ).toMatchObject({ status: 404, body: { error: 'Product not found' } })
  }
})

test('an activated plan raises the quotas of the organization (D77)', async () => {
  const owner = await newOwner(platform)
  const create = (i: number) =>
    platform.call(owner.token, 'POST /applications', { organizationId: owner.organizationId, name: `App ${i}` })
  await Promise.all(Array.from({ length: 24 }, (_, i) => create(i)))
  expect((await create(24)).status).toBe(429)
  await activatePlan(platform.api, owner.organizationId, 'network', 'pro')
  expect((await create(24)).status).toBe(201)
  const { body } = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/products/network`)
  expect(body.subscription).toMatchObject({
    product: 'network',
    plan: 'pro',
    status: 'ACTIVE',
    activatedByUserId: null,
  })
})

test('a new organization begins with the plan that the operator chose, free by default (D77)', async () => {
  const planOf = async (at: TestPlatform) => {
    const { token, organizationId } = await newOwner(at)
    const { body } = await at.call(token, `GET /organizations/${organizationId}/quotas`)
    return (body.items as { name: string; limit: number }[]).find(({ name }) => name === 'deployments_per_day')?.limit
  }
  expect(await planOf(platform)).toBe(50)
  const embedded = await startPlatform({ env: { DEFAULT_PLAN: 'pro' } })
  onTestFinished(() => embedded.close())
  expect(await planOf(embedded)).toBe(500)
})

test("an operator's quota holds instead of the plan's, until it is given back", async () => {
  const owner = await newOwner(platform)
  const create = async (name: string) =>
    platform.call(owner.token, 'POST /applications', { organizationId: owner.organizationId, name })
  await setQuota(platform.api, owner.organizationId, 'applications', 1)
  expect(await create('Two')).toMatchObject({
    status: 429,
    body: { error: expect.stringContaining('applications (1 of 1 used)') as string },
  })
  await setQuota(platform.api, owner.organizationId, 'applications', 2)
  expect((await create('Two')).status).toBe(201)
  expect((await create('Three')).status).toBe(429)
  await setQuota(platform.api, owner.organizationId, 'applications', null)
  expect((await create('Three')).status).toBe(201)
})

test('setting a member again changes the role', async () => {
  const owner = await newOwner(platform)
  const userId = randomUUID()
  for (const role of ['MEMBER', 'ADMIN'] as const) {
    await setMember(platform.api, owner.organizationId, userId, role)
    const { body } = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/members`)
    expect(body.items.filter((member: { userId: string }) => member.userId === userId)).toMatchObject([{ role }])
  }
})

test.each([
  [
    'free',
    {
      minutes_per_build: 10,
      build_memory_mb: 2_048,
      build_disk_mb: 4_096,
      concurrent_builds: 1,
      build_minutes_per_month: 500,
      image_cache_bytes: 268_435_456,
    },
  ],
  [
    'pro',
    {
      minutes_per_build: 30,
      build_memory_mb: 4_096,
      build_disk_mb: 10_240,
      concurrent_builds: 3,
      build_minutes_per_month: 10_000,
      image_cache_bytes: 5_368_709_120,
    },
  ],
] as const)('the plan %s has for builds and images what D77 says', async (plan, limits) => {
  const owner = await newOwner(platform)
  await activatePlan(platform.api, owner.organizationId, 'network', plan)
  const { body } = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/quotas`)
  const items = body.items as { name: string; limit: number }[]
  expect(Object.fromEntries(items.map(({ name, limit }) => [name, limit]))).toMatchObject(limits)
})
