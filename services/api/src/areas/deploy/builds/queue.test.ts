import { newId } from '@platform/runtime/new-id'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { sql } from 'drizzle-orm'
import { PgBoss } from 'pg-boss'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { newDeployment } from '../../../../test/deployments.ts'
import { newOwner } from '../../../../test/scenario.ts'
import { claimDeployment, giveUpLease, renewLease } from './claim.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

const takeAll = async () => {
  const taken: string[] = []
  for (let id = await platform.api.builds.take(); id !== undefined; id = await platform.api.builds.take())
    taken.push(id)
  return taken
}

test('deployments come in their order, each once however often it was asked for', async () => {
  const { builds, db } = platform.api
  const ids = Array.from({ length: 5 }, newId)
  for (const id of [...ids, ...ids]) await builds.enqueue(db, id)
  expect(await takeAll()).toEqual(ids)
  await builds.enqueue(db, ids[0] ?? '')
  expect(await takeAll()).toEqual([ids[0]])
})

test('a deployment is queued with the transaction that asks for it, or not at all', async () => {
  const { builds, db } = platform.api
  const id = newId()
  const failing = db.transaction(async (tx) => {
    await builds.enqueue(tx, id)
    throw new Error('no')
  })
  await expect(failing).rejects.toThrow('no')
  expect(await takeAll()).toEqual([])
  await db.transaction(async (tx) => {
    await builds.enqueue(tx, id)
    expect(await builds.take()).toBeUndefined()
  })
  expect(await takeAll()).toEqual([id])
})

test('the first job of a process is sent while every connection of its pool is held', async () => {
  const fresh = await startPlatform({ env: { DATABASE_POOL: '2' } })
  onTestFinished(() => fresh.close())
  const { builds, db } = fresh.api
  const holders = [newId(), newId()]
  const allHeld = Promise.withResolvers<void>()
  let held = 0
  await Promise.all(
    holders.map((id) =>
      db.transaction(async (tx) => {
        await tx.execute(sql`select 1`)
        held += 1
        if (held === holders.length) allHeld.resolve()
        await allHeld.promise
        await builds.enqueue(tx, id)
      }),
    ),
  )
  expect(holders).toContain(await builds.take())
})

test('many who take at once get each deployment once', async () => {
  const { builds, db } = platform.api
  const ids = Array.from({ length: 50 }, newId)
  await Promise.all(ids.map((id) => builds.enqueue(db, id)))
  const taken = await Promise.all(Array.from({ length: 8 }, takeAll))
  expect(taken.flat().toSorted()).toEqual(ids)
})

test('a deployment that its worker gives up is there for the next at once, and one that was lost is not', async () => {
  const owner = await newOwner(platform)
  const { id } = await newDeployment(platform, owner, {})
  expect(await takeAll()).toEqual([id])
  const claimed = await claimDeployment(platform.api, id)
  if (!claimed) throw new Error('It was not claimed')
  expect(await takeAll()).toEqual([])
  await giveUpLease(platform.api, { id, attempt: claimed.attempt - 1 })
  expect(await takeAll()).toEqual([])
  await giveUpLease(platform.api, claimed)
  expect(await takeAll()).toEqual([id])
  const again = await claimDeployment(platform.api, id)
  expect(again).toMatchObject({ status: 'STARTING', attempt: 2, interruptions: 0 })
  expect(await renewLease(platform.api, claimed)).toBeUndefined()
  expect(await renewLease(platform.api, { id, attempt: 2 })).toBeInstanceOf(Date)
})

test('jobs that were taken an hour ago are removed', async () => {
  const { builds, db } = platform.api
  await builds.enqueue(db, newId())
  await takeAll()
  const left = () => db.execute<{ jobs: number }>(sql`select count(*)::int as jobs from pgboss.job`)
  await builds.discardTaken()
  expect((await left())[0]?.jobs).toBeGreaterThan(0)
  await db.execute(sql`update pgboss.job set completed_on = completed_on - interval '61 minutes'`)
  await db.execute(sql`update pgboss.queue set maintain_on = null, monitor_on = null`)
  await builds.discardTaken()
  expect((await left())[0]?.jobs).toBe(0)
})

test('the schema of our migrations is the one that this version of pg-boss makes', async () => {
  const boss = new PgBoss({ connectionString: platform.databaseUrl, migrate: false, supervise: false, schedule: false })
  boss.on('error', () => {})
  await boss.start()
  const drift = await boss.detectSchemaDrift()
  await boss.stop({ graceful: false })
  expect(drift).toMatchObject({ ok: true, extraIndexes: [] })
})
