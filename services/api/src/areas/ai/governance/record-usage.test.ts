import { openDatabase, type Db } from '@platform/runtime/database'
import { createLogger } from '@platform/runtime/logger'
import { newIdAt } from '@platform/runtime/new-id'
import { createServiceDatabase } from '@platform/testing/service-databases'
import { eq, sql } from 'drizzle-orm'
import { register } from 'prom-client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { keepUsageMonths, openUsageRecorder, type UsageEvent } from './record-usage.ts'
import { aiUsageEvents } from './table.ts'

const logger = createLogger('api', 'silent')
const organizationId = '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'

let database: ReturnType<typeof openDatabase>
let db: Db
beforeAll(async () => {
  const { url } = await createServiceDatabase('api')
  database = openDatabase(url, { name: 'usage test', max: 4, prepare: true })
  ;({ db } = database)
})
afterAll(() => database.close())

function eventAt(text: string, more: Partial<UsageEvent> = {}): UsageEvent {
  const startedAt = new Date(text)
  return {
    id: newIdAt(startedAt),
    traceId: null,
    organizationId,
    applicationId: null,
    actorId: 'user-1',
    actorType: 'user',
    apiKeyId: null,
    authenticatedUserId: 'user-1',
    callerEndUserId: null,
    modelRequested: 'openai/gpt-5',
    modelServed: 'openai/gpt-5',
    provider: 'openai',
    providerAttempts: [{ provider: 'openai' }],
    operation: 'chat.completions',
    status: 'success',
    statusCode: 200,
    errorCode: null,
    errorType: null,
    inputTokens: 10,
    cacheReadTokens: 1,
    cacheWriteTokens: 2,
    inputAudioTokens: 3,
    outputTokens: 20,
    reasoningTokens: 4,
    outputAudioTokens: 5,
    audioSeconds: 1.5,
    characters: 7,
    keyOwner: null,
    countedRequests: 0,
    countedTokens: 0,
    countedCostNanos: 0n,
    usageSource: 'provider',
    providerCostNanos: 9_007_199_254_740_993n,
    billableCostNanos: 0n,
    priceVersion: 'v',
    streaming: true,
    latencyMs: 12,
    metadata: { team: 'a' },
    startedAt,
    completedAt: new Date(startedAt.getTime() + 12),
    ...more,
  }
}

async function record(...events: UsageEvent[]): Promise<void> {
  const recorder = openUsageRecorder({ db, logger })
  for (const event of events) recorder.record(event)
  await recorder.close()
}
const stored = (id: string) => db.select().from(aiUsageEvents).where(eq(aiUsageEvents.id, id))
async function partitionOf(id: string): Promise<string | undefined> {
  const [row] = await db.execute<{ name: string }>(
    sql`select tableoid::regclass::text as name from ${aiUsageEvents} where id = ${id}`,
  )
  return row?.name
}
const partitions = async (): Promise<string[]> => {
  const rows = await db.execute<{ name: string }>(
    sql`select inhrelid::regclass::text as name from pg_inherits where inhparent = 'ai_usage_events'::regclass order by 1`,
  )
  return rows.map(({ name }) => name)
}
const dropped = async (): Promise<number> =>
  (await register.getSingleMetric('ai_usage_events_dropped_total')?.get())?.values[0]?.value ?? 0

test('an event is stored as it was recorded, to the last nano-dollar', async () => {
  const event = eventAt('2026-03-10T12:00:00.000Z')
  await record(event)
  expect(await stored(event.id)).toEqual([{ ...event, createdAt: event.completedAt, updatedAt: event.completedAt }])
})

test('events on both sides of the turn of a month go to their months, whose partitions are made for them', async () => {
  const [last, first] = [eventAt('2026-04-30T23:59:59.999Z'), eventAt('2026-05-01T00:00:00.000Z')]
  expect(await partitions()).not.toContain('ai_usage_events_202604')
  await record(last, first)
  expect([await partitionOf(last.id), await partitionOf(first.id)]).toEqual([
    'ai_usage_events_202604',
    'ai_usage_events_202605',
  ])
})

test('of a repeated event nothing is stored, in one batch or in two', async () => {
  const event = eventAt('2026-03-11T12:00:00.000Z')
  await record(event, { ...event, inputTokens: 999 })
  await record({ ...event, inputTokens: 999 }, eventAt('2026-03-11T12:00:01.000Z'))
  expect(await stored(event.id)).toMatchObject([{ inputTokens: 10 }])
})

test('a partition that is gone is made again: the batch that meets its absence is lost, the next is not', async () => {
  const recorder = openUsageRecorder({ db, logger })
  recorder.record(eventAt('2026-06-01T00:00:00.000Z'))
  await recorder.flush()
  await db.execute(sql`drop table ai_usage_events_202606`)
  recorder.record(eventAt('2026-06-01T00:00:01.000Z'))
  await recorder.flush()
  const event = eventAt('2026-06-01T00:00:02.000Z')
  recorder.record(event)
  await recorder.close()
  expect(await partitionOf(event.id)).toBe('ai_usage_events_202606')
})

test('text that Postgres does not store is made storable, and long text is cut', async () => {
  const event = eventAt('2026-03-12T12:00:00.000Z', {
    traceId: 'a\0b',
    callerEndUserId: `${'x'.repeat(254)}😀`,
    modelRequested: `\uD800${'m'.repeat(300)}`,
    errorCode: '\0',
    providerAttempts: [{ provider: 'openai', error: 'a\0', tag: 't\uDC00', statusCode: 429 }],
    metadata: { 'n\0': `v\0${'w'.repeat(600)}`, __proto__x: 'y' },
  })
  await record(event)
  expect(await stored(event.id)).toMatchObject([
    {
      traceId: 'a\u{fffd}b',
      callerEndUserId: `${'x'.repeat(254)}\u{fffd}`,
      modelRequested: `\u{fffd}${'m'.repeat(254)}`,
      errorCode: '\u{fffd}',
      providerAttempts: [{ provider: 'openai', error: 'a\u{fffd}', tag: 't\u{fffd}', statusCode: 429 }],
      metadata: { 'n\u{fffd}': `v\u{fffd}${'w'.repeat(510)}`, __proto__x: 'y' },
    },
  ])
})

test.each([
  ['fewer than no tokens', { inputTokens: -1 }],
  ['a negative number of seconds', { audioSeconds: -0.001 }],
  ['a negative cost', { providerCostNanos: -1n }],
  ['a status of its own', { status: 'done' as 'success' }],
  ['an operation of its own', { operation: 'embeddings' as 'responses' }],
  ['another kind of actor', { actorType: 'robot' as 'user' }],
  ['another source of usage', { usageSource: 'guess' as 'none' }],
])('the database refuses %s, and the event is counted as dropped', async (_, wrong) => {
  const before = await dropped()
  const event = eventAt('2026-03-13T12:00:00.000Z', wrong)
  await record(event)
  expect(await stored(event.id)).toEqual([])
  expect(await dropped()).toBe(before + 1)
})

test('an event that the database refuses takes no other of its batch with it', async () => {
  const before = await dropped()
  const good = Array.from({ length: 9 }, () => eventAt('2026-03-15T12:00:00.000Z'))
  const wrong = eventAt('2026-03-15T12:00:00.000Z', { audioSeconds: 1e300 })
  await record(...good.slice(0, 4), wrong, ...good.slice(4))
  for (const { id } of good) expect(await stored(id)).toHaveLength(1)
  expect([await stored(wrong.id), await dropped()]).toEqual([[], before + 1])
})

test('of more than 10,000 that wait the later ones are dropped and counted', async () => {
  const before = await dropped()
  const recorder = openUsageRecorder({ db, logger })
  const at = '2026-07-01T00:00:00.000Z'
  for (let n = 0; n < 10_003; n++) recorder.record(eventAt(at))
  await recorder.close()
  expect(await dropped()).toBe(before + 3)
  const [counted] = await db.execute<{ count: string }>(
    sql`select count(*) from ${aiUsageEvents} where ${aiUsageEvents.startedAt} = ${at}`,
  )
  expect(Number(counted?.count)).toBe(10_000)
})

test('after closing nothing is taken any more', async () => {
  const recorder = openUsageRecorder({ db, logger })
  await recorder.close()
  const before = await dropped()
  const event = eventAt('2026-03-14T12:00:00.000Z')
  recorder.record(event)
  await recorder.flush()
  expect([await stored(event.id), await dropped()]).toEqual([[], before + 1])
})

test('the worker makes this month and the next, and drops the months that ended 13 ago, from several processes at once', async () => {
  const now = () => new Date('2026-12-31T23:59:59.000Z')
  const [young, old] = [eventAt('2025-11-01T00:00:00.000Z'), eventAt('2025-10-31T23:59:59.999Z')]
  const sums = () => db.execute(sql`select * from ai_usage_sums order by ai_usage_sums::text`)
  await record(young, old)
  const summed = await sums()
  const keep = (months: number) => Promise.all(Array.from({ length: 4 }, () => keepUsageMonths({ db, now }, months)))
  await keep(0)
  expect([await stored(old.id), await stored(young.id)]).toMatchObject([[{ id: old.id }], [{ id: young.id }]])
  await keep(13)
  expect([await stored(old.id), await stored(young.id)]).toMatchObject([[], [{ id: young.id }]])
  const left = await partitions()
  expect(left[0]).toBe('ai_usage_events_202511')
  expect(left.slice(-2)).toEqual(['ai_usage_events_202612', 'ai_usage_events_202701'])
  expect(await sums()).toEqual(summed)
})
