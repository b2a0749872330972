import { newId } from '@platform/runtime/new-id'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deployFunctions } from '../../../../test/deployments.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { functionTime } from '../../tenancy/products/table.ts'
import { setBillingCap } from '../../tenancy/products/products.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'
import { discardLostSlots, recordFunctionUsage } from './record-usage.ts'
import { functionSlots } from './table.ts'

const HOUR_MS = 3_600_000

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

const did = (functionId: string, more = {}) => ({
  functionId,
  slots: 1,
  memoryBytes: 40_000_000,
  coldStarts: 1,
  requests: 10,
  busyMs: 1_500.4,
  ...more,
})
const list = async (owner: Owner, deploymentId: string, query = '') =>
  (await platform.call(owner.token, `GET /deployments/${deploymentId}/functions${query}`)).body as {
    items: { id: string; path: string; slots: number; memoryBytes: number; coldStarts: number; requests: number }[]
    total: number
    nextCursor: string | null
  }

describe('the Functions of a deployment', () => {
  test('are listed with what they take on all edges and did since they were deployed (wire.md)', async () => {
    const owner = await newOwner(platform)
    const { deploymentId, ids } = await deployFunctions(platform, owner, ['api/hello', '_render'])
    const [hello = '', render = ''] = ids
    const edges = [newId(), newId()]
    for (const edge of edges)
      await recordFunctionUsage(platform.api, edge, [
        did(hello),
        did(render, { slots: 0, memoryBytes: 0, coldStarts: 0 }),
      ])
    await recordFunctionUsage(platform.api, edges[0] ?? '', [did(hello, { slots: 3, coldStarts: 2, requests: 5 })])
    expect(await list(owner, deploymentId)).toEqual({
      items: [
        { id: render, path: '_render', kind: 'handler', slots: 0, memoryBytes: 0, coldStarts: 0, requests: 20 },
        {
          id: hello,
          path: 'api/hello',
          kind: 'handler',
          slots: 4,
          memoryBytes: 80_000_000,
          coldStarts: 4,
          requests: 25,
        },
      ],
      total: 2,
      nextCursor: null,
    })
  })

  test('go on by a cursor, which belongs to this list alone', async () => {
    const owner = await newOwner(platform)
    const paths = Array.from({ length: 7 }, (_, n) => `f${n}`)
    const { deploymentId } = await deployFunctions(platform, owner, paths)
    const seen: string[] = []
    for (let cursor: string | null = ''; cursor !== null;) {
      const page = await list(owner, deploymentId, `?limit=3${cursor && `&cursor=${cursor}`}`)
      expect(page.total).toBe(7)
      seen.push(...page.items.map(({ path }) => path))
      cursor = page.nextCursor
    }
    expect(seen).toEqual(paths)
    const { nextCursor } = await list(owner, deploymentId, '?limit=3')
    const { deploymentId: other } = await deployFunctions(platform, owner, [])
    const answer = await platform.call(owner.token, `GET /deployments/${other}/functions?cursor=${nextCursor}`)
    expect(answer.status).toBe(400)
  })

  test('have no slots of an edge that said nothing for 15 s, and none are left after a minute', async () => {
    const owner = await newOwner(platform)
    const { deploymentId, ids } = await deployFunctions(platform, owner, ['f'])
    const [id = ''] = ids
    const edge = newId()
    const time = platform.clock.now()
    const when = (ms: number) => ({ db: platform.api.db, now: () => new Date(time.getTime() - ms) })
    const slots = async () => (await list(owner, deploymentId)).items[0]?.slots
    const rows = () => platform.api.db.select().from(functionSlots).where(eq(functionSlots.functionId, id))
    await recordFunctionUsage(when(10_000), edge, [did(id)])
    expect(await slots()).toBe(1)
    await recordFunctionUsage(when(16_000), edge, [did(id)])
    expect(await slots()).toBe(0)
    await discardLostSlots(platform.api)
    expect(await rows()).toHaveLength(1)
    await recordFunctionUsage(when(61_000), edge, [did(id)])
    await discardLostSlots(platform.api)
    expect(await rows()).toEqual([])
  })
})

test('usage of many edges at once adds up, whatever the order they name Functions in; what is gone is passed over', async () => {
  const owner = await newOwner(platform)
  const { deploymentId, ids } = await deployFunctions(platform, owner, ['a', 'b', 'c'])
  await Promise.all(
    Array.from({ length: 30 }, (_, n) => {
      const order = n % 2 === 0 ? ids : ids.toReversed()
      return recordFunctionUsage(
        platform.api,
        newId(),
        [...order, newId()].map((id) => did(id, { busyMs: 100 })),
      )
    }),
  )
  const { items } = await list(owner, deploymentId)
  expect(items.map(({ requests, coldStarts, slots }) => [requests, coldStarts, slots])).toEqual(
    [1, 2, 3].map(() => [300, 30, 30]),
  )
  const [time] = await platform.api.db
    .select()
    .from(functionTime)
    .where(eq(functionTime.organizationId, owner.organizationId))
  expect(time?.busyMs).toBe(30 * 3 * 100)
  await recordFunctionUsage(platform.api, newId(), [])
})

describe('Function time (D77)', () => {
  const used = async (owner: Owner) => {
    const { body } = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/quotas`)
    const { items, billing } = body as { items: { name: string }[]; billing: { spentMicros: number } }
    return { quota: items.find(({ name }) => name === 'function_hours_per_month'), billing }
  }
  const create = (owner: Owner) =>
    platform.call(owner.token, 'POST /deployments', { applicationId: owner.applicationId })

  test('beyond what is included refuses deployments, until a billing cap allows more', async () => {
    const owner = await newOwner(platform)
    const { ids } = await deployFunctions(platform, owner, ['f'])
    const [id = ''] = ids
    await setQuota(platform.api, owner.organizationId, 'function_hours_per_month', 2)
    await recordFunctionUsage(platform.api, newId(), [did(id, { busyMs: 2 * HOUR_MS - 1 })])
    expect((await used(owner)).quota).toMatchObject({ limit: 2, used: 1 })
    expect((await create(owner)).status).toBe(201)
    await recordFunctionUsage(platform.api, newId(), [did(id, { busyMs: HOUR_MS / 2 + 1 })])
    expect(await create(owner)).toMatchObject({
      status: 402,
      body: { error: expect.stringContaining('included Function hours (2 of 2 this month)') as string },
    })
    await setBillingCap(platform.api, owner.organizationId, 20_000)
    expect(await create(owner)).toMatchObject({
      status: 402, // half an hour beyond the two costs just that
      body: { error: expect.stringContaining('billing cap ($0.02 of $0.02') as string },
    })
    await setBillingCap(platform.api, owner.organizationId, 20_001)
    expect((await create(owner)).status).toBe(201)
    const now = platform.clock.now()
    expect(await used(owner)).toMatchObject({
      quota: {
        limit: 2,
        used: 2,
        windowEnd: new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)).toISOString(),
      },
      billing: { spentMicros: 20_000 },
    })
  })

  test('is counted by UTC months', async () => {
    const owner = await newOwner(platform)
    const { ids } = await deployFunctions(platform, owner, ['f'])
    const [id = ''] = ids
    const now = platform.clock.now()
    const lastMonth = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1) - 1)
    await recordFunctionUsage({ db: platform.api.db, now: () => lastMonth }, newId(), [
      did(id, { busyMs: 500 * HOUR_MS }),
    ])
    expect((await used(owner)).quota).toMatchObject({ used: 0 })
    expect((await create({ ...owner, token: await owner.person.token(everyScope) })).status).toBe(201)
  })
})
