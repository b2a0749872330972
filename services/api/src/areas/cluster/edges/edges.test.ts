import { setImmediate as untilNextTurn } from 'node:timers/promises'
import { newId } from '@platform/runtime/new-id'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, inArray, sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { startWorker } from '@platform/testing/api'
import { openMembership } from './membership.ts'
import { edges } from './table.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

test('the worker forgets an edge an hour after its lease has lapsed, by the clock of the database', async () => {
  const { db } = platform.api
  const edge = (interval: string) => ({
    id: newId(),
    internalUrl: 'http://10.0.0.1:3002',
    leaseUntil: sql`clock_timestamp() + ${interval}::interval`,
  })
  const rows = [edge('1 minute'), edge('-59 minutes'), edge('-61 minutes')]
  await db.insert(edges).values(rows)
  platform.clock.advance(7_200_000)
  const worker = startWorker(platform.api, 3_600_000, {
    trashDays: 30,
    auditDays: 365,
    deploymentDays: 365,
    usageMonths: 13,
  })
  onTestFinished(() => worker.stop())
  const ids = rows.map(({ id }) => id)
  const left = async () =>
    (await db.select({ id: edges.id }).from(edges).where(inArray(edges.id, ids))).map(({ id }) => id).toSorted()
  await expect.poll(left).not.toContain(ids[2])
  expect(await left()).toEqual(ids.slice(0, 2).toSorted())
})

function newMember() {
  const { db, logger } = platform.api
  const member = openMembership({ db, logger, id: newId() })
  onTestFinished(() => member.leave())
  return member
}
const addressesOf = async (id: string) =>
  (await platform.api.db.select().from(edges).where(eq(edges.id, id))).map(({ internalUrl }) => internalUrl)

test('an edge is known from when it joins until it leaves', async () => {
  const member = newMember()
  expect([member.hasJoined, member.term(), await addressesOf(member.id)]).toEqual([false, undefined, []])
  await member.join('http://10.0.0.2:4005')
  expect([member.hasJoined, member.term(), await addressesOf(member.id)]).toEqual([true, 1, ['http://10.0.0.2:4005']])
  await member.leave()
  expect([member.hasJoined, member.term(), await addressesOf(member.id)]).toEqual([false, undefined, []])
})

test('one that was killed is forgotten when another process takes its address', async () => {
  const [killed, other, next] = [newMember(), newMember(), newMember()]
  await killed.join('http://10.0.0.3:4005')
  await other.join('http://10.0.0.4:4005')
  await next.join('http://10.0.0.3:4005')
  expect(await addressesOf(killed.id)).toEqual([])
  expect(await addressesOf(other.id)).toEqual(['http://10.0.0.4:4005'])
})

test('one whose row was removed while it lived has lost what it owned', async () => {
  const member = newMember()
  await member.join('http://10.0.0.6:4005')
  expect(member.term()).toBe(1)
  await platform.api.db.delete(edges).where(eq(edges.id, member.id))
  await expect.poll(() => member.term()).toBe(2)
  expect(await addressesOf(member.id)).toEqual(['http://10.0.0.6:4005'])
})

test('a lease is renewed for as long as its edge lives', async () => {
  const member = newMember()
  await member.join('http://10.0.0.5:4005')
  const until = async () => (await platform.api.db.select().from(edges).where(eq(edges.id, member.id)))[0]?.leaseUntil
  const first = (await until()) ?? new Date(Number.NaN)
  await expect.poll(async () => (await until())?.getTime()).toBeGreaterThan(first.getTime() + 3_000)
  expect(member.term()).toBe(1)
})

test('a lease counts from before its renewal, and whoever renews it too late has lost what they owned', async () => {
  // Only this test says when time passes and when an edge renews its lease.
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const member = newMember()
  await member.join('http://10.0.0.7:4005')
  vi.advanceTimersByTime(5_999) // a renewal was asked for after 2 s, and is not answered yet
  expect(member.term()).toBe(1)
  vi.advanceTimersByTime(1)
  expect(member.term()).toBeUndefined()
  // A poll would let time pass.
  while (member.term() === undefined) await untilNextTurn()
  expect(member.term()).toBe(2)
  vi.advanceTimersByTime(1_999)
  expect(member.term()).toBe(2)
  vi.advanceTimersByTime(1)
  expect(member.term()).toBeUndefined()
})
