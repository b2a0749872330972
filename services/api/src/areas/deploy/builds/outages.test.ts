import { setTimeout as sleep } from 'node:timers/promises'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, eq, inArray, lt } from 'drizzle-orm'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { environmentOf, newDeployment } from '../../../../test/deployments.ts'
import { openDice } from '../../../../test/dice.ts'
import { newOwner, type Owner, unique } from '../../../../test/scenario.ts'
import { deploymentFiles } from '../artifacts/table.ts'
import { deployments } from '../deployments/table.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'
import { verifyStorage } from '../../storage/objects/maintenance/verify-storage.ts'
import { blobs } from '../../storage/objects/table.ts'
import { sweepDeployments } from './sweep-deployments.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true })
  ana = await newOwner(platform)
  await setQuota(platform.api, ana.organizationId, 'concurrent_builds', 20)
})
afterAll(() => platform.close())

test('connections that break at any moment cost time, and no deployment', async () => {
  const made = await Promise.all(
    Array.from({ length: 12 }, () => {
      const site = unique()
      const archive = Array.from({ length: 150 }, (_, n) => ({ name: `${n}.js`, content: `${site} ${n}`.repeat(n) }))
      return newDeployment(platform, ana, { archive, status: 'PENDING' })
    }),
  )
  const ids = made.map(({ id }) => id)
  await platform.api.db.update(deployments).set({ status: 'QUEUED' }).where(inArray(deployments.id, ids))
  for (const id of ids) await platform.api.builds.enqueue(platform.api.db, id)
  const sql = postgres(platform.databaseUrl, { max: 1, onnotice: () => {} })
  const dice = openDice()
  let broken = 0
  for (const end = Date.now() + 3_000; Date.now() < end; await sleep(dice.integer(20, 80))) {
    const ended = await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and application_name like 'platform-%' and state <> 'idle'`
    broken += ended.length
  }
  await sql.end()
  expect(broken).toBeGreaterThan(5)
  const rows = () => platform.api.db.select().from(deployments).where(inArray(deployments.id, ids))
  for (const deadline = Date.now() + 120_000; Date.now() < deadline; await sleep(200)) {
    if ((await rows()).every(({ status }) => status === 'ACTIVE')) break
    // Half a minute passes, as far as leases and jobs are concerned.
    const before = { leaseUntil: new Date(Date.now() - 1), interruptions: 0 }
    const isSilent = lt(deployments.leaseUntil, new Date(Date.now() + 29_000))
    await platform.api.db
      .update(deployments)
      .set(before)
      .where(and(inArray(deployments.id, ids), isSilent))
    await platform.api.db
      .update(deployments)
      .set({ updatedAt: new Date(Date.now() - 60_000) })
      .where(and(inArray(deployments.id, ids), eq(deployments.status, 'QUEUED')))
    await sweepDeployments(platform.api)
  }
  expect((await rows()).map(({ status }) => status)).toEqual(ids.map(() => 'ACTIVE'))
  for (const id of ids)
    expect(await platform.api.db.$count(deploymentFiles, eq(deploymentFiles.deploymentId, id))).toBe(150)
  expect(await environmentOf(platform, ana)).toMatchObject({
    currentDeploymentId: made.toSorted((a, b) => b.seq - a.seq)[0]?.id,
  })
  expect(await verifyStorage(platform.api)).toMatchObject({ damagedCount: 0, unreferenced: 0 })
  expect(await platform.api.db.$count(blobs, eq(blobs.state, 'pending'))).toBeLessThan(60)
})
