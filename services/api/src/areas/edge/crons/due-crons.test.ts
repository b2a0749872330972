// engines: postgres
import { minuteOf } from '@platform/build-output/cron-schedule'
import { newId } from '@platform/runtime/new-id'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { count, eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { cronOf, deployCrons, runMinute, runsOf, runWaiting } from '../../../../test/crons.ts'
import { makeCurrent } from '../../../../test/deploy.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { retireDeployment } from '../../deploy/deployments/retirement.ts'
import { edges } from '../../cluster/edges/table.ts'
import { openBoss } from '../../cluster/queues/boss.ts'
import { queueDueCrons, startCronWorker, takeDueCron } from './cron-worker.ts'
import { findDueCrons } from './due-crons.ts'
import { createManualRun, discardCronRuns, sweepCronRuns, takeRun } from './runs.ts'
import { deploymentCrons } from '../../deploy/deployments/table.ts'
import { cronRuns } from './table.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())
beforeEach(async () => {
  // Ten seconds into the next minute, so that this test has a minute to itself.
  platform.clock.advance(70_000 - (platform.clock.now().getTime() % 60_000))
  ana = await newOwner(platform)
})

const never = new AbortController().signal
const everyMinute = { path: '/tick', schedule: '* * * * *' }
const nextMinute = () => platform.clock.advance(60_000)
const promote = async ({ id }: { id: string }) =>
  expect((await platform.call(ana.token, `POST /deployments/${id}/promote`)).status).toBe(200)

test('a cron runs in the minutes of its schedule, in UTC, and in no other', async () => {
  const time = platform.clock.now()
  const minutes = (time.getUTCMinutes() + 1) % 60
  const hours = new Date(time.getTime() + 60_000).getUTCHours()
  const { id } = await deployCrons(platform, ana, [{ path: '/nightly', schedule: `${minutes} ${hours} * * *` }])
  await runMinute(platform)
  expect(await runsOf(platform, ana, id)).toEqual({ items: [], total: 0 })
  nextMinute()
  const due = await runMinute(platform)
  nextMinute()
  await runMinute(platform)
  const { items, total } = await runsOf(platform, ana, id)
  expect(total).toBe(1)
  expect(items).toMatchObject([
    { trigger: 'schedule', dueAt: due.toISOString(), status: 200, outcome: 'succeeded', error: null },
  ])
})

test('a minute that is queued again runs nothing again, before and after its runs', async () => {
  const { id } = await deployCrons(platform, ana, [everyMinute])
  const minute = minuteOf(platform.clock.now())
  await queueDueCrons(platform.api, minute)
  await queueDueCrons(platform.api, minute)
  const waiting = await platform.api.db.execute(
    sql`select 1 from pgboss.job where name = 'crons' and state = 'created'`,
  )
  expect(waiting).toHaveLength(1)
  await runWaiting(platform)
  await runMinute(platform)
  expect((await runsOf(platform, ana, id)).total).toBe(1)
})

test('of two workers that take the same cron at once one runs it', async () => {
  const { db, cronQueue } = platform.api
  const { id } = await deployCrons(platform, ana, [everyMinute])
  const { id: cronId } = await cronOf(platform, ana, id)
  const all = await findDueCrons(platform.api, minuteOf(platform.clock.now()))
  const due = all.filter((each) => each.cronId === cronId)
  expect(due).toHaveLength(1)
  await cronQueue.enqueue(due)
  // A second job for the same run; the queue itself would accept only one.
  await db.execute(sql`insert into pgboss.job_common (name, data, policy) select name, data, policy from pgboss.job
    where name = 'crons' and state = 'created' and data->>'cronId' = ${cronId}`)
  const takeOne = () => takeDueCron(platform.api, never)
  const taken = await holding(platform.databaseUrl, (lock) => lock`lock table cron_runs in share row exclusive mode`, [
    takeOne,
    takeOne,
  ])
  expect(taken).not.toContain(false)
  for (const run of taken) if (run) await run.end
  expect(await takeOne()).toBe(false)
  expect((await runsOf(platform, ana, id)).total).toBe(1)
})

test('a job whose worker dies while it takes it is there for the next', async () => {
  const { id } = await deployCrons(platform, ana, [everyMinute])
  await queueDueCrons(platform.api, minuteOf(platform.clock.now()))
  const dying = platform.api.cronQueue.take(async () => {
    throw new Error('killed')
  })
  await expect(dying).rejects.toThrow('killed')
  await runWaiting(platform)
  expect((await runsOf(platform, ana, id)).total).toBe(1)
})

test('crons follow a promotion and a rollback; what is queued of the other deployment does not run', async () => {
  const old = await deployCrons(platform, ana, [{ path: '/old', schedule: '* * * * *' }])
  const next = await deployCrons(platform, ana, [{ path: '/new', schedule: '* * * * *' }], { isCurrent: false })
  const totals = async () => Promise.all([old, next].map(async ({ id }) => (await runsOf(platform, ana, id)).total))
  await runMinute(platform)
  expect(await totals()).toEqual([1, 0])
  nextMinute()
  await queueDueCrons(platform.api, minuteOf(platform.clock.now()))
  await promote(next)
  await runWaiting(platform)
  expect(await totals()).toEqual([1, 0])
  nextMinute()
  await runMinute(platform)
  expect(await totals()).toEqual([1, 1])
  await promote(old)
  nextMinute()
  await runMinute(platform)
  expect(await totals()).toEqual([2, 1])
})

test('a cron that both deployments have runs once in the minute of a switch', async () => {
  const old = await deployCrons(platform, ana, [everyMinute])
  const next = await deployCrons(platform, ana, [everyMinute], { isCurrent: false })
  await runMinute(platform)
  await promote(next)
  await runMinute(platform)
  expect((await runsOf(platform, ana, old.id)).total).toBe(1)
  expect((await runsOf(platform, ana, next.id)).total).toBe(0)
  nextMinute()
  await runMinute(platform)
  expect((await runsOf(platform, ana, old.id)).total).toBe(1)
  expect((await runsOf(platform, ana, next.id)).total).toBe(1)
})

test('crons of a preview and of a retired deployment do not run', async () => {
  const preview = await deployCrons(platform, ana, [everyMinute], { environment: 'preview' })
  const old = await deployCrons(platform, ana, [everyMinute])
  await deployCrons(platform, ana, [])
  expect(await retireDeployment(platform.api, old.id)).toBe(true)
  await runMinute(platform)
  for (const { id } of [preview, old]) {
    expect(await cronOf(platform, ana, id)).toMatchObject({ isActive: false, nextRunAt: null, lastRun: null })
  }
})

test('a worker queues and runs what is due, by the clock', async () => {
  const { id } = await deployCrons(platform, ana, [everyMinute])
  const workers = [startCronWorker(platform.api), startCronWorker(platform.api)]
  onTestFinished(async () => void (await Promise.all(workers.map((worker) => worker.stop()))))
  const ended = async () => (await runsOf(platform, ana, id)).items.map(({ outcome }) => outcome)
  await expect.poll(ended).toEqual(['succeeded'])
  nextMinute()
  await expect.poll(ended).toEqual(['succeeded', 'succeeded'])
})

test('what waited for ten minutes has failed and does not run', async () => {
  const { id } = await deployCrons(platform, ana, [everyMinute])
  await queueDueCrons(platform.api, new Date(minuteOf(platform.clock.now()).getTime() - 660_000))
  await runWaiting(platform)
  expect((await runsOf(platform, ana, id)).items).toMatchObject([
    { startedAt: null, outcome: 'failed', error: 'No worker had room for it within ten minutes' },
  ])
})

test('a run that nobody takes, or whose edge was killed, does not stay under way', async () => {
  const { db } = platform.api
  const { id } = await deployCrons(platform, ana, [everyMinute])
  const { id: cronId } = await cronOf(platform, ana, id)
  const time = platform.clock.now()
  const row = { cronId, trigger: 'manual' as const, dueAt: time }
  const leaseUntil = new Date(time.getTime() + 30_000)
  const taken = { ...row, id: newId(), edgeId: newId(), startedAt: time, leaseUntil }
  const left = { ...row, id: newId(), leaseUntil }
  await db.insert(cronRuns).values([taken, left])
  await sweepCronRuns(platform.api)
  expect((await runsOf(platform, ana, id)).items).toMatchObject([{ completedAt: null }, { completedAt: null }])
  platform.clock.advance(31_000)
  await sweepCronRuns(platform.api)
  expect((await runsOf(platform, ana, id)).items).toMatchObject([
    { id: left.id, outcome: 'failed', error: 'No edge took it up in time', durationMs: null },
    { id: taken.id, outcome: 'failed', error: 'The edge that made the request fell silent' },
  ])
})

test('a run that has ended is not ended again when its lease would have lapsed', async () => {
  const { id } = await deployCrons(platform, ana, [everyMinute])
  await runMinute(platform)
  const { items } = await runsOf(platform, ana, id)
  expect(items).toMatchObject([{ outcome: 'succeeded' }])
  platform.clock.advance(120_000)
  await sweepCronRuns(platform.api)
  expect((await runsOf(platform, ana, id)).items).toEqual(items)
})

test('an edge that is gone is passed over; the run is made by another', async () => {
  const { db } = platform.api
  const gone = newId()
  const leaseUntil = sql`clock_timestamp() + interval '1 minute'`
  await db.insert(edges).values({ id: gone, internalUrl: 'http://127.0.0.1:1', leaseUntil })
  onTestFinished(async () => void (await db.delete(edges).where(eq(edges.id, gone))))
  const { id } = await deployCrons(
    platform,
    ana,
    Array.from({ length: 10 }, (_, n) => ({ path: `/${n}`, schedule: '* * * * *' })),
  )
  await runMinute(platform)
  const { items } = (await platform.call(ana.token, `GET /deployments/${id}/crons`)).body as {
    items: { lastRun: { outcome: string } }[]
  }
  expect(items.map(({ lastRun }) => lastRun.outcome)).toEqual(items.map(() => 'succeeded'))
})

describe('without any edge', () => {
  let alone: TestPlatform
  let owner: Owner
  beforeAll(async () => {
    alone = await startPlatform()
    owner = await newOwner(alone)
    await alone.api.membership.leave()
  })
  afterAll(() => alone.close())

  test('a run has failed, with a sentence', async () => {
    const { id } = await deployCrons(alone, owner, [everyMinute])
    await runMinute(alone)
    expect((await runsOf(alone, owner, id)).items).toMatchObject([
      { outcome: 'failed', error: 'No edge was there to make the request', status: null },
    ])
  })

  test('a run that an edge took before stays under way, though it is handed out again', async () => {
    const { id } = await deployCrons(alone, owner, [everyMinute])
    const runId = await createManualRun(alone.api, (await cronOf(alone, owner, id)).id)
    await takeRun(alone.api, runId, newId())
    await alone.api.crons.dispatch(runId, never)
    expect((await runsOf(alone, owner, id)).items).toMatchObject([{ id: runId, completedAt: null, outcome: null }])
  })
})

test('the last hundred runs of a cron are kept, and none beyond the logs', async () => {
  const { db } = platform.api
  const { id } = await deployCrons(platform, ana, [everyMinute])
  const { id: cronId } = await cronOf(platform, ana, id)
  const time = platform.clock.now()
  const ended = { cronId, trigger: 'manual', completedAt: time, outcome: 'succeeded', leaseUntil: time } as const
  const day = 86_400_000
  await db.insert(cronRuns).values(
    Array.from({ length: 120 }, (_, n) => ({
      ...ended,
      id: newId(),
      dueAt: n < 90 ? new Date(time.getTime() - 60 * day) : time,
    })),
  )
  await runMinute(platform)
  const kept = async () => {
    const [row] = await db.select({ runs: count() }).from(cronRuns).where(eq(cronRuns.cronId, cronId))
    return row?.runs
  }
  expect(await kept()).toBe(100)
  const { items } = await runsOf(platform, ana, id, '?limit=2')
  expect(items.map(({ trigger }) => trigger)).toEqual(['schedule', 'manual'])
  await discardCronRuns(platform.api)
  expect(await kept()).toBe(31)
})

test('a process that finds no job waiting does not load pg-boss, whatever it looks for and whatever others took', async () => {
  const fresh = await startPlatform()
  onTestFinished(() => fresh.close())
  const { db, logger, cronQueue } = fresh.api
  const pgBoss = await openBoss({ db, databaseUrl: fresh.databaseUrl, logger })
  onTestFinished(() => pgBoss.close())
  await queueDueCrons(fresh.api, minuteOf(fresh.clock.now()))
  expect(await takeDueCron(fresh.api, never)).toBe(false)
  expect(await pgBoss.startForJobs('crons')).toBeUndefined()
  await cronQueue.enqueue([{ cronId: newId(), slot: newId(), dueAt: fresh.clock.now() }])
  expect(await takeDueCron(fresh.api, never)).not.toBe(false)
  expect(await pgBoss.startForJobs('crons')).toBeUndefined()
  await cronQueue.enqueue([{ cronId: newId(), slot: newId(), dueAt: fresh.clock.now() }])
  expect(await pgBoss.startForJobs('crons')).toBeDefined()
})

test('a schedule that cannot be read any more holds up no other', async () => {
  const { id } = await deployCrons(platform, ana, [everyMinute])
  const broken = await deployCrons(platform, await newOwner(platform), [{ path: '/broken', schedule: 'never' }])
  onTestFinished(async () => {
    await platform.api.db.delete(deploymentCrons).where(eq(deploymentCrons.deploymentId, broken.id))
  })
  await runMinute(platform)
  expect((await runsOf(platform, ana, id)).total).toBe(1)
})

test('a deployment that was made current without us counts from the next minute on', async () => {
  const site = await deployCrons(platform, ana, [everyMinute], { isCurrent: false })
  await runMinute(platform)
  await makeCurrent(platform, site)
  nextMinute()
  await runMinute(platform)
  expect((await runsOf(platform, ana, site.id)).total).toBe(1)
})
