// engines: postgres
import { randomBytes } from 'node:crypto'
import { one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deployFunctions } from '../../../../test/deployments.ts'
import { newOwner } from '../../../../test/scenario.ts'
import { edges } from '../../cluster/edges/table.ts'
import { choosePinnedSlot, takePin } from './pins.ts'
import { stickyPins } from './table.ts'

let platform: TestPlatform
let functionId: string
beforeAll(async () => {
  platform = await startPlatform()
  const { ids } = await deployFunctions(platform, await newOwner(platform), ['carts'])
  functionId = one(ids)
})
afterAll(() => platform.close())

/** An edge whose lease has lapsed, a pin that it owns, and another edge. */
async function newLapsed() {
  const { db, now } = platform.api
  const [id, other] = [newId(), newId()]
  const lapsed = sql`clock_timestamp() - interval '1 second'`
  const live = sql`clock_timestamp() + interval '1 minute'`
  await db.insert(edges).values([
    { id, internalUrl: 'http://10.0.0.1:4005', leaseUntil: lapsed },
    { id: other, internalUrl: 'http://10.0.0.2:4005', leaseUntil: live },
  ])
  const pin = { functionId, keyHash: randomBytes(16) }
  const expiresAt = new Date(now().getTime() + 60_000)
  await takePin(db, id, pin, expiresAt)
  return { id, other, pin, expiresAt, renew: () => db.update(edges).set({ leaseUntil: live }).where(eq(edges.id, id)) }
}

test('the pin of an edge whose lease has lapsed is taken, and its slot is no longer its to choose', async () => {
  const { db } = platform.api
  const { id, other, pin, expiresAt } = await newLapsed()
  expect(await takePin(db, other, pin, expiresAt)).toMatchObject({ edgeId: other })
  const chosen = { slot: 0, instance: newId() }
  expect(await choosePinnedSlot(db, id, pin, chosen)).toBe(false)
  expect(await choosePinnedSlot(db, other, pin, chosen)).toBe(true)
})

test('the pin of an edge that renews its lease while another waits to take it stays what it is', async () => {
  const { db } = platform.api
  const { id, other, pin, expiresAt, renew } = await newLapsed()
  const [taken] = await holding(
    platform.databaseUrl,
    (held) => held`select 1 from sticky_pins where key_hash = ${pin.keyHash} for update`,
    [
      () => takePin(db, other, pin, expiresAt),
      async () => {
        await renew()
        await db.select().from(stickyPins).where(eq(stickyPins.keyHash, pin.keyHash)).for('update')
      },
    ],
  )
  expect(taken).toMatchObject({ edgeId: id, internalUrl: 'http://10.0.0.1:4005' })
})
