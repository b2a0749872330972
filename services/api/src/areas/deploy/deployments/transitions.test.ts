// engines: postgres
import { newId } from '@platform/runtime/new-id'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, eq, inArray } from 'drizzle-orm'
import postgres from 'postgres'
import { drizzle } from 'drizzle-orm/postgres-js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deploymentOf, environmentOf, newDeployment } from '../../../../test/deployments.ts'
import { openDice } from '../../../../test/dice.ts'
import { newOwner, type Owner, unique } from '../../../../test/scenario.ts'
import { activities } from '../../tenancy/activity/table.ts'
import { deploymentCounts, deployments } from './table.ts'
import { activateDeployment, advance, failDeployment } from './transitions.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const platformItself = { kind: 'platform' } as const
const activitiesOf = async (id: string) =>
  (await platform.api.db.select().from(activities).where(eq(activities.applicationId, ana.applicationId))).filter(
    ({ subject }) => subject.id === id,
  )

test('a transition of an earlier attempt, or from another state, writes nothing', async () => {
  const { id } = await newDeployment(platform, ana, { status: 'STARTING' })
  const { db } = platform.api
  await db.update(deployments).set({ attempt: 2 }).where(eq(deployments.id, id))
  const time = platform.api.now()
  const set = { sizeBytes: 5 }
  expect(await advance(db, time, { id, attempt: 1 }, { from: 'STARTING', to: 'BUILDING', set })).toBe(false)
  expect(await advance(db, time, { id, attempt: 2 }, { from: 'QUEUED', to: 'BUILDING', set })).toBe(false)
  expect(
    await failDeployment(db, time, { id, attempt: 1 }, 'late', 'deployment.failed', platformItself),
  ).toBeUndefined()
  expect(await activateDeployment({ db }, time, { id, attempt: 2 })).toBeUndefined()
  expect(await deploymentOf(platform, id)).toMatchObject({ status: 'STARTING', sizeBytes: null, failureReason: null })
  expect(await advance(db, time, { id, attempt: 2 }, { from: 'STARTING', to: 'BUILDING', set })).toBe(true)
  expect(await deploymentOf(platform, id)).toMatchObject({ status: 'BUILDING', sizeBytes: 5 })
  expect(await activitiesOf(id)).toEqual([])
})

test('a deployment fails once, with one activity', async () => {
  const { id } = await newDeployment(platform, ana, { status: 'PENDING' })
  const fail = (reason: string) =>
    platform.api.db.transaction((tx) =>
      failDeployment(tx, platform.api.now(), { id }, reason, 'deployment.cancelled', {
        kind: 'user',
        userId: newId(),
        clientId: 'c',
        scopes: new Set(),
        authenticatedAt: undefined,
      }),
    )
  const outcomes = await holding(
    platform.databaseUrl,
    (sql) => sql`select 1 from deployments where id = ${id} for update`,
    [() => fail('Cancelled'), () => fail('Cancelled')],
  )
  expect(outcomes.filter(Boolean)).toHaveLength(1)
  expect(await deploymentOf(platform, id)).toMatchObject({
    status: 'FAILED',
    failureReason: 'Cancelled',
    buildEndedAt: null,
  })
  expect(await activitiesOf(id)).toMatchObject([{ type: 'deployment.cancelled', actor: { type: 'user' } }])
})

test('activating and cancelling at once ends in one of them, whole', async () => {
  for (const first of ['activate', 'cancel'] as const) {
    const { id, attempt, label } = await newDeployment(platform, ana, { status: 'PROVISIONING' })
    const before = await environmentOf(platform, ana)
    const time = platform.api.now()
    const activate = () => activateDeployment(platform.api, time, { id, attempt })
    const cancel = () =>
      platform.api.db.transaction((tx) =>
        failDeployment(tx, time, { id }, 'Cancelled', 'deployment.cancelled', platformItself),
      )
    await holding(
      platform.databaseUrl,
      (sql) => sql`select 1 from deployments where id = ${id} for update`,
      (first === 'activate' ? [activate, cancel] : [cancel, activate]) as [
        () => Promise<unknown>,
        () => Promise<unknown>,
      ],
    )
    const { status } = await deploymentOf(platform, id)
    const { currentDeploymentId } = await environmentOf(platform, ana)
    expect(status).not.toBe('PROVISIONING')
    expect(currentDeploymentId).toBe(status === 'ACTIVE' ? id : before.currentDeploymentId)
    expect(await activitiesOf(id)).toMatchObject([
      { type: status === 'ACTIVE' ? 'deployment.active' : 'deployment.cancelled', subject: { label } },
    ])
  }
})

test('a newer deployment that waits behind an older one takes the environment, and the other way round', async () => {
  for (const order of ['older first', 'newer first']) {
    const [older, newer] = [
      await newDeployment(platform, ana, { status: 'PROVISIONING' }),
      await newDeployment(platform, ana, { status: 'PROVISIONING' }),
    ]
    const activate = (deployment: typeof older) => () =>
      activateDeployment(platform.api, platform.api.now(), deployment)
    await holding(
      platform.databaseUrl,
      (sql) => sql`select 1 from environments where id = ${older.environmentId} for update`,
      (order === 'older first' ? [older, newer] : [newer, older]).map(activate),
    )
    expect(await environmentOf(platform, ana)).toMatchObject({ currentDeploymentId: newer.id, currentSeq: newer.seq })
  }
})

test('1,000 activations in any order over 8 connections never demote the newest', async () => {
  const owner = await newOwner(platform)
  const { environmentId } = await newDeployment(platform, owner, { status: 'PENDING' })
  const time = platform.api.now()
  const rows = Array.from({ length: 1_000 }, (_, n) => ({
    id: newId(),
    organizationId: owner.organizationId,
    applicationId: owner.applicationId,
    environmentId,
    seq: n + 2,
    status: 'PROVISIONING' as const,
    label: `s-${unique()}`,
    createdBy: { type: 'user' as const, id: 'u' },
    createdAt: time,
    updatedAt: time,
  }))
  await platform.api.db.insert(deployments).values(rows)
  const sql = postgres(platform.databaseUrl, { max: 8, fetch_types: false, onnotice: () => {} })
  // What the environment serves after each change, in the order of commits: updates of one row are serialized.
  await sql`create table served (n bigint generated always as identity, seq bigint)`
  await sql.unsafe(`
    create function note_served() returns trigger language plpgsql as $$
    begin insert into served (seq) values (new.current_seq); return null; end $$;
    create trigger note_served after update of current_seq on environments for each row execute function note_served()`)
  const db = drizzle(sql)
  const dice = openDice()
  const queue = rows.toSorted(() => dice.fraction() - 0.5).values()
  let current = 0
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (const { id } of queue)
        if ((await activateDeployment({ db }, time, { id, attempt: 0 }))?.isCurrent === true) current++
    }),
  )
  const served = (await sql`select seq::int from served order by n`).map(({ seq }) => seq as number)
  await sql.end()
  expect(served).toEqual(served.toSorted((a, b) => a - b))
  expect([served.at(-1), served.length]).toEqual([1_001, current])
  expect(await environmentOf(platform, owner)).toMatchObject({
    currentDeploymentId: rows.at(-1)?.id,
    currentSeq: 1_001,
  })
  const active = await platform.api.db.$count(
    deployments,
    and(inArray(deployments.status, ['ACTIVE']), eq(deployments.applicationId, owner.applicationId)),
  )
  expect(active).toBe(1_000)
  const counts = await platform.api.db
    .select()
    .from(deploymentCounts)
    .where(and(eq(deploymentCounts.applicationId, owner.applicationId), eq(deploymentCounts.status, 'ACTIVE')))
  expect(counts).toMatchObject([{ deployments: 1_000 }])
})
