import { randomBytes } from 'node:crypto'
import { one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { deployFunctions } from '../../../../test/deployments.ts'
import { newOwner } from '../../../../test/scenario.ts'
import { startWorker } from '@platform/testing/api'
import { stickyPins } from './table.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

test('the worker discards pins whose URLs have expired, however many, and no other', async () => {
  const { db } = platform.api
  const { ids } = await deployFunctions(platform, await newOwner(platform), ['carts'])
  const functionId = one(ids)
  const pin = (ms: number) => ({
    functionId,
    keyHash: randomBytes(16),
    edgeId: newId(),
    expiresAt: new Date(platform.api.now().getTime() + ms),
  })
  // An older, never used URL may stay valid for another day.
  const live = pin(-86_300_000)
  await db.insert(stickyPins).values([live, ...Array.from({ length: 1_100 }, () => pin(-86_400_001))])
  const worker = startWorker(platform.api, 3_600_000, {
    trashDays: 30,
    auditDays: 365,
    deploymentDays: 365,
    usageMonths: 13,
  })
  onTestFinished(() => worker.stop())
  const count = async () => one(await db.select({ n: sql<number>`count(*)::int` }).from(stickyPins)).n
  await expect.poll(count).toBe(1)
  expect(one(await db.select().from(stickyPins)).keyHash).toEqual(live.keyHash)
})
