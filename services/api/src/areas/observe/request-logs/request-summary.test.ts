// engines: postgres
import type { Db } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventsIn, type ServerSentEvent } from '../../../../test/events.ts'
import { newOwner, type Owner, servedRequest } from '../../../../test/scenario.ts'
import { openStreams } from '../../cluster/streams/table.ts'
import { discardFollowed, noteFollowed } from './follow.ts'
import { discardSummaries } from './request-summary.ts'
import { bucketOf, percentileOf } from './summary-buckets.ts'
import { followedRequests } from './table.ts'
import { openRequestLog } from './write.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const MINUTE = 60_000
const HOUR = 60 * MINUTE

interface Served {
  at: Date
  ms?: number
  status?: number
  path?: string
  country?: string
}

/** Stores requests as the edge does. */
async function serve(owner: Pick<Owner, 'applicationId'>, requests: readonly Served[]): Promise<void> {
  const log = openRequestLog(platform.api)
  for (const { at: time, ms = 10, ...more } of requests)
    log.write(
      servedRequest({
        applicationId: owner.applicationId,
        startedAt: time,
        completedAt: new Date(time.getTime() + ms),
        requestBodyBytes: 1,
        responseBodyBytes: 100,
        bytesSent: 300,
        ...more,
      }),
    )
  await log.close()
}
const summary = async (query: Record<string, string> = {}, owner: Pick<Owner, 'token' | 'applicationId'> = ana) =>
  platform.call(
    owner.token,
    `GET /applications/${owner.applicationId}/requests/summary?${new URLSearchParams(query).toString()}`,
  )

test('every duration is told within 5 %, and the share asked for stayed within it', () => {
  for (let ms = 1; ms < 3_000_000; ms = Math.ceil(ms * 1.03)) {
    const told = percentileOf([{ bucket: bucketOf(ms), requests: 1 }], 0.5) ?? 0
    expect(Math.abs(told - ms)).toBeLessThanOrEqual(ms * 0.05)
  }
  const buckets = [
    { bucket: bucketOf(10), requests: 95 },
    { bucket: bucketOf(1_000), requests: 5 },
  ]
  expect(percentileOf(buckets, 0.95)).toBe(percentileOf(buckets.slice(0, 1), 1))
  expect(percentileOf(buckets, 0.951)).toBeGreaterThan(950)
  expect(percentileOf([], 0.5)).toBeNull()
})

test('counts and bytes are exact, by the minute and by the hour, in any span (wire.md Extensions)', async () => {
  const owner = await newOwner(platform)
  const now = platform.clock.now().getTime()
  const start = Math.floor(now / HOUR) * HOUR - 40 * HOUR
  // A request a minute for 40 hours; every fourth is slow and fails.
  const served = Array.from({ length: 40 * 60 }, (_, n) => ({
    at: new Date(start + n * MINUTE + 500),
    ...(n % 4 === 0 ? { status: 500, ms: 2_000, path: '/slow' } : { path: '/', country: 'DE' }),
  }))
  await serve(owner, served)
  const inSpan = (from: number, to: number) =>
    served.filter(({ at: time }) => time.getTime() >= from && time.getTime() < to).length
  for (const [from, to] of [
    [start, start + 40 * HOUR],
    [start + 7 * MINUTE, start + 38 * HOUR + 11 * MINUTE],
    [start + 3 * HOUR, start + 3 * HOUR + 30 * MINUTE],
    [start + 5 * MINUTE, start + 5 * MINUTE],
  ] as const) {
    const span = { from: new Date(from).toISOString(), to: new Date(to).toISOString() }
    const { body } = await summary(span, owner)
    const requests = inSpan(from, to)
    expect(body.total).toMatchObject({
      requests,
      requestBodyBytes: requests,
      responseBodyBytes: 100 * requests,
      bytesSent: 300 * requests,
    })
    expect([body.from, body.to]).toEqual([span.from, span.to])
    for (const interval of ['minute', 'hour']) {
      const { series } = (await summary({ ...span, interval }, owner)).body as { series: { requests: number }[] }
      expect([interval, series.reduce((sum, point) => sum + point.requests, 0)]).toEqual([interval, requests])
    }
  }
  const whole = { from: new Date(start).toISOString(), to: new Date(start + 40 * HOUR).toISOString() }
  const { body } = await summary(whole, owner)
  expect([body.interval, body.series.length, body.series[0]]).toEqual([
    'hour',
    40,
    expect.objectContaining({ at: new Date(start).toISOString(), requests: 60, p50Ms: 10 }),
  ])
  expect(body.total.p95Ms).toBeGreaterThan(1_900)
  const groups = async (groupBy: string) =>
    (
      (await summary({ ...whole, groupBy }, owner)).body.groups as {
        value: string | null
        requests: number
        p50Ms: number
      }[]
    ).map(({ value, requests }) => [value, requests])
  expect(await groups('status')).toEqual([
    ['200', 1_800],
    ['500', 600],
  ])
  expect(await groups('path')).toEqual([
    ['/', 1_800],
    ['/slow', 600],
  ])
  expect(await groups('country')).toEqual([
    ['DE', 1_800],
    [null, 600],
  ])
  expect(await groups('deploymentId')).toEqual([[null, 2_400]])
  expect((await summary({}, await newOwner(platform))).body).toMatchObject({
    total: { requests: 0, p50Ms: null, p95Ms: null },
    series: [],
    groups: [],
  })
  expect((await summary({ groupBy: 'color' })).status).toBe(422)
})

test('paths beyond a thousand in an hour are summed as one, and none is lost', async () => {
  const owner = await newOwner(platform)
  const time = new Date(platform.clock.now().getTime() - MINUTE)
  await serve(
    owner,
    Array.from({ length: 1_250 }, (_, n) => ({ at: time, path: `/p/${n % 1_200}` })),
  )
  const { body } = await summary({ groupBy: 'path' }, owner)
  expect([body.total.requests, body.groups.length, body.groups[0]]).toMatchObject([
    1_250,
    100,
    { value: '*', requests: 200 },
  ])
})

test('two writers of one sum add up, however they meet', async () => {
  const owner = await newOwner(platform)
  const time = new Date(platform.clock.now().getTime() - MINUTE)
  await serve(owner, [{ at: time }])
  await holding(
    platform.databaseUrl,
    (held) => held`select 1 from request_summaries where application_id = ${owner.applicationId} for update`,
    [() => serve(owner, [{ at: time }]), () => serve(owner, [{ at: time }])],
  )
  expect((await summary({}, owner)).body.total.requests).toBe(3)
})

test('minutes are kept for 48 hours and hours for 35 days, whatever becomes of the requests', async () => {
  const owner = await newOwner(platform)
  const now = platform.clock.now().getTime()
  await serve(
    owner,
    [now - HOUR, now - 20 * 24 * HOUR].map((position) => ({ at: new Date(position) })),
  )
  const older = await newOwner(platform)
  await serve(older, [{ at: new Date(now - 37 * 24 * HOUR) }])
  await platform.api.db.execute(sql`truncate request_logs`)
  await discardSummaries(platform.api)
  const left = async ({ applicationId }: Owner) =>
    (
      await platform.api.db.execute(
        sql`select minutes, count(distinct at)::int as spans from request_summaries where application_id = ${applicationId} group by 1 order by 1`,
      )
    ).map(({ minutes, spans }) => [minutes, spans])
  expect(await left(owner)).toEqual([
    [1, 1],
    [60, 2],
    [1_440, 2],
  ])
  expect(await left(older)).toEqual([])
  const from = new Date(now - 30 * 24 * HOUR).toISOString()
  expect((await summary({ from, groupBy: 'status' }, owner)).body).toMatchObject({
    total: { requests: 2 },
    groups: [{ value: '200', requests: 2 }],
  })
})

/** Yields the status of the stream, then its events. */
async function* follow(
  owner: Owner,
  lastEventId?: string,
): AsyncGenerator<Partial<ServerSentEvent<Record<string, never>>> & { event: string }> {
  const answer = await fetch(`${platform.apiUrl}/applications/${owner.applicationId}/requests/stream`, {
    headers: {
      authorization: `Bearer ${owner.token}`,
      ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
    },
  })
  yield { event: String(answer.status) }
  yield* eventsIn<Record<string, never>>(answer.body)
}
const next = async (events: ReturnType<typeof follow>) => (await events.next()).value

test('requests are followed as they end, one that began long ago included, and resumed where a stream ended (D86)', async () => {
  const owner = await newOwner(platform)
  const at = (ago: number) => new Date(platform.clock.now().getTime() - ago)
  await serve(owner, [{ at: at(5_000), path: '/before' }])
  const events = follow(owner)
  expect((await next(events)).event).toBe('200')
  await serve(owner, [{ at: at(100), path: '/quick' }])
  await serve(owner, [{ at: at(60_000), ms: 59_900, path: '/slow' }])
  const [quick, slow] = [await next(events), await next(events)]
  const { body } = await platform.call(
    owner.token,
    `GET /applications/${owner.applicationId}/requests?pathPrefix=/quick`,
  )
  expect(quick).toEqual({ event: 'request', id: body.items[0].id, data: body.items[0] })
  expect(slow.data).toMatchObject({ request: { path: '/slow' } })

  await serve(owner, [{ at: at(50), path: '/next' }])
  expect((await next(events)).data).toMatchObject({ request: { path: '/next' } })
  await events.return(undefined)
  const resumed = follow(owner, quick.id)
  expect([(await next(resumed)).event, (await next(resumed)).data, (await next(resumed)).data]).toMatchObject([
    '200',
    { request: { path: '/slow' } },
    { request: { path: '/next' } },
  ])
  await resumed.return(undefined)
})

test('what is stored while the last reader is away is not lost to it (D86)', async () => {
  const owner = await newOwner(platform)
  const { db } = platform.api
  const events = follow(owner)
  await next(events)
  await serve(owner, [{ at: platform.clock.now(), path: '/seen' }])
  const { id } = await next(events)
  await events.return(undefined)
  const isOpen = eq(openStreams.resource, `requests:${owner.applicationId}`)
  await expect.poll(() => db.$count(openStreams, isOpen)).toBe(0)
  await serve(owner, [{ at: platform.clock.now(), path: '/meanwhile' }])
  const resumed = follow(owner, id)
  expect((await next(resumed)).event).toBe('200')
  await serve(owner, [{ at: platform.clock.now(), path: '/later' }])
  expect([(await next(resumed)).data, (await next(resumed)).data]).toMatchObject([
    { request: { path: '/meanwhile' } },
    { request: { path: '/later' } },
  ])
  await resumed.return(undefined)
})

test('who was away for too long is told how many requests were missed', async () => {
  const owner = await newOwner(platform)
  const time = platform.clock.now()
  await serve(owner, [{ at: time, path: '/last' }])
  const { body } = await platform.call(owner.token, `GET /applications/${owner.applicationId}/requests`)
  const missed = Array.from({ length: 3 }, (_, n) => ({ at: new Date(time.getTime() + 10 + n) }))
  await serve(owner, missed)
  const events = follow(owner, body.items[0].id as string)
  expect([await next(events), await next(events)]).toMatchObject([
    { event: '200' },
    { event: 'gap', data: { missed: 3, isMore: false } },
  ])
  await events.return(undefined)
})

test('a reader that is far behind is shown the newest and told what it missed', async () => {
  const owner = await newOwner(platform)
  const time = platform.clock.now()
  await serve(
    owner,
    Array.from({ length: 2_500 }, () => ({ at: time })),
  )
  const events = follow(owner)
  await next(events)
  // In one statement, so that the reader sees all of them at once.
  await platform.api.db.execute(sql`
    with stored as (
      insert into followed_requests (application_id, request_id, stored_at)
      select ${owner.applicationId}::uuid, id, completed_at from request_logs
      where application_id = ${owner.applicationId} order by id
      returning 1
    )
    select pg_notify('followed_requests', ${owner.applicationId}) from (select count(*) from stored) s`)
  const first = await next(events)
  expect(first).toMatchObject({ event: 'gap', data: { missed: 2_500 - 199 } })
  for (let n = 0; n < 199; n++) expect((await next(events)).event).toBe('request')
  await events.return(undefined)
})

test('no request appears below one that a follower may have read: writers of one application number one after the other', async () => {
  const { db, now } = platform.api
  const owner = await newOwner(platform)
  const events = follow(owner)
  await next(events)
  await events.return(undefined)
  const [first, second] = [newId(), newId()]
  const note = (tx: Db, id: string) =>
    noteFollowed(tx, [{ id, applicationId: owner.applicationId, completedAt: now() }])
  // The first has its number and is held before its commit.
  await holding(platform.databaseUrl, (held) => held`select pg_advisory_xact_lock(1)`, [
    () =>
      db.transaction(async (tx) => {
        await note(tx, first)
        await tx.execute(sql`select pg_advisory_xact_lock(1)`)
      }),
    () => db.transaction((tx) => note(tx, second)),
  ])
  const rows = await db
    .select({ id: followedRequests.requestId })
    .from(followedRequests)
    .where(eq(followedRequests.applicationId, owner.applicationId))
    .orderBy(followedRequests.number)
  expect(rows.map(({ id }) => id)).toEqual([first, second])
})

test('the order of requests is kept while somebody may resume, and where nobody follows not at all', async () => {
  const owner = await newOwner(platform)
  const stored = async () =>
    (await platform.api.db.execute(sql`select 1 from followed_requests where application_id = ${owner.applicationId}`))
      .length
  await serve(owner, [{ at: platform.clock.now() }])
  expect(await stored()).toBe(0)
  const events = follow(owner)
  await next(events)
  await serve(owner, [{ at: platform.clock.now() }])
  await next(events)
  await events.return(undefined)
  await discardFollowed(platform.api)
  expect(await stored()).toBe(1)
  platform.clock.advance(901_000)
  await discardFollowed(platform.api)
  platform.clock.advance(-901_000)
  expect(await stored()).toBe(0)
})
