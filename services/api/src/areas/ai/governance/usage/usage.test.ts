import { randomUUID } from 'node:crypto'
import { sentStatements } from '@platform/testkit/sent-statements'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { newKey, newOwner, type Owner } from '../../../../../test/scenario.ts'
import { storeEvents, usageEvent } from '../../../../../test/usage-events.ts'
import { setMember } from '../../../tenancy/organizations/members.ts'
import { keepUsageMonths, type UsageEvent } from '../record-usage.ts'
import { aiUsageEvents, aiUsageSums } from '../table.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const MODELS = ['a', 'b', 'c']

let platform: TestPlatform
let owner: Owner
const logged: string[] = []
beforeAll(async () => {
  platform = await startPlatform({ onLogLine: (line) => void logged.push(line) })
})
afterAll(() => platform.close())
beforeEach(async () => {
  owner = await newOwner(platform)
})

const call = (path: string, query: Record<string, string> = {}, token = owner.token) =>
  platform.call(
    token,
    `GET /organizations/${owner.organizationId}/ai-gateway/usage/${path}?${new URLSearchParams(query).toString()}`,
  )
const event = (startedAt: Date, more: Partial<UsageEvent> = {}) => usageEvent(owner.organizationId, startedAt, more)
const ago = (ms: number) => new Date(platform.clock.now().getTime() - ms)

interface Figures {
  requestCount: number
  billableCostMicros: number
}
interface BreakdownRow {
  label: string
  requests: number
  tokens: number
  costMicros: number
}
interface Summary {
  summary: Figures & {
    successCount: number
    errorCount: number
    inputTokens: number
    outputTokens: number
    totalTokens: number
    avgLatencyMs: number
  }
  byModel: BreakdownRow[]
  byProvider: BreakdownRow[]
  byUser: BreakdownRow[]
  series: (Figures & { at: string; totalTokens: number })[]
}
const summaryOf = async (query: Record<string, string> = {}, token?: string) => {
  const { status, body, text } = await call('summary', query, token)
  if (status !== 200) throw new Error(text)
  return body as Summary
}
interface Item {
  id: string
  status: string
  modelServed: string | null
  provider: string | null
  authenticatedUserId: string | null
  inputTokens: number
  outputTokens: number
  billableCostMicros: number
  latencyMs: number
  startedAt: string
  [name: string]: unknown
}
interface Page {
  items: Item[]
  total: number
  nextCursor: string | null
}
const pageOf = async (query: Record<string, string> = {}, token?: string) => {
  const { status, body, text } = await call('requests', query, token)
  if (status !== 200) throw new Error(text)
  return body as Page
}

/** All items of a list, page by page. */
async function itemsOf(query: Record<string, string>, token: string): Promise<Item[]> {
  const items: Item[] = []
  let cursor: string | null | undefined
  do {
    const page: Page = await pageOf({ ...query, limit: '25', ...(cursor != null && { cursor }) }, token)
    items.push(...page.items)
    cursor = page.nextCursor
  } while (cursor !== null)
  return items
}

/** What a summary of these events holds. */
function summed(items: readonly Item[]) {
  const sumOf = (some: readonly Item[], figure: 'inputTokens' | 'outputTokens' | 'billableCostMicros' | 'latencyMs') =>
    some.reduce((sum, item) => sum + item[figure], 0)
  const figuresOf = (some: readonly Item[]) => {
    const [inputTokens, outputTokens] = [sumOf(some, 'inputTokens'), sumOf(some, 'outputTokens')]
    return {
      requestCount: some.length,
      successCount: some.filter(({ status }) => status === 'success').length,
      errorCount: some.filter(({ status }) => status === 'error').length,
      inputTokens,
      outputTokens,
      totalTokens: inputTokens + outputTokens,
      billableCostMicros: sumOf(some, 'billableCostMicros'),
    }
  }
  const breakdown = (labelOf: (item: Item) => string) =>
    Map.groupBy(items, labelOf)
      .entries()
      .map(([label, some]): BreakdownRow => {
        const { requestCount, totalTokens, inputTokens, outputTokens, billableCostMicros } = figuresOf(some)
        const tokens = { tokens: totalTokens, inputTokens, outputTokens }
        return { label, requests: requestCount, ...tokens, costMicros: billableCostMicros }
      })
      .toArray()
      .toSorted(byLabel)
  const averageMs = items.length === 0 ? 0 : Math.round(sumOf(items, 'latencyMs') / items.length)
  return {
    summary: { ...figuresOf(items), avgLatencyMs: averageMs },
    byModel: breakdown(({ modelServed }) => modelServed ?? 'unknown'),
    byProvider: breakdown(({ provider }) => provider ?? 'unknown'),
    byUser: breakdown(({ authenticatedUserId }) => authenticatedUserId ?? 'none'),
    series: Map.groupBy(items, ({ startedAt }) => `${startedAt.slice(0, 10)}T00:00:00.000Z`)
      .entries()
      .map(([at, some]) => ({ at, ...figuresOf(some) }))
      .toArray()
      .toSorted((a, b) => (a.at < b.at ? -1 : 1)),
  }
}
const byLabel = (a: BreakdownRow, b: BreakdownRow) => (a.label < b.label ? -1 : 1)

type Row = typeof aiUsageEvents.$inferSelect
const tokensOf = (rows: readonly Row[]) =>
  rows.reduce((sum, row) => sum + row.inputTokens + row.cacheReadTokens + row.outputTokens + row.reasoningTokens, 0)
const microsOf = (rows: readonly Row[]) =>
  Number((rows.reduce((sum, row) => sum + row.billableCostNanos, 0n) + 999n) / 1_000n)

/** A generator of the same numbers each time. */
function openDice(seed: number) {
  let state = seed
  return (sides: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((state / 2_147_483_648) * sides)
  }
}

/** Creates a member of the owner's organization, who may see only their own calls. */
async function newMember() {
  const person = await platform.person()
  await setMember(platform.api, owner.organizationId, person.userId, 'MEMBER')
  return { userId: person.userId, token: await person.token(everyScope) }
}

describe('a summary', () => {
  test('of no calls is zeros, for each day of the last thirty', async () => {
    const { summary, byModel, series } = await summaryOf()
    expect(summary).toEqual({
      requestCount: 0,
      successCount: 0,
      errorCount: 0,
      inputTokens: 0,
      outputTokens: 0,
      totalTokens: 0,
      billableCostMicros: 0,
      avgLatencyMs: 0,
    })
    expect(byModel).toEqual([])
    expect(series.length).toBe(31)
  })

  test('holds what began within the span: the first millisecond, and not the last', async () => {
    const noon = new Date(Math.floor(ago(5 * DAY_MS).getTime() / DAY_MS) * DAY_MS + 12 * HOUR_MS)
    const at = (ms: number) => new Date(noon.getTime() + ms)
    // Around the ends of a second, an hour and a day.
    const offsets = [
      -1,
      0,
      1,
      999,
      1_000,
      HOUR_MS - 1,
      HOUR_MS,
      12 * HOUR_MS - 1,
      12 * HOUR_MS,
      12 * HOUR_MS + 1,
      36 * HOUR_MS,
    ]
    await storeEvents(
      platform,
      offsets.map((ms) => event(at(ms))),
    )
    const edges = [-1, 0, 1, 1_000, HOUR_MS, 12 * HOUR_MS - 1, 12 * HOUR_MS, 36 * HOUR_MS, 36 * HOUR_MS + 1]
    for (const from of edges)
      for (const to of edges.filter((each) => each >= from)) {
        const query = { from: at(from).toISOString(), to: at(to).toISOString() }
        const expected = offsets.filter((ms) => ms >= from && ms < to).length
        const { summary, series } = await summaryOf({ ...query, interval: 'hour' })
        expect({ query, count: summary.requestCount }).toEqual({ query, count: expected })
        expect(series.reduce((sum, { requestCount }) => sum + requestCount, 0)).toBe(expected)
        expect((await pageOf(query)).total).toBe(expected)
      }
  })

  test('agrees with its events, whatever they are, however they change, and over any span', async () => {
    const dice = openDice(7)
    const from = ago(9 * DAY_MS).getTime()
    const events = Array.from({ length: 1_500 }, () => {
      const isKey = dice(4) === 0
      return event(new Date(from + dice(9 * DAY_MS)), {
        authenticatedUserId: isKey ? null : `user-${dice(3)}`,
        applicationId: dice(2) === 0 ? owner.applicationId : null,
        modelServed: dice(10) === 0 ? null : (MODELS[dice(3)] ?? null),
        provider: dice(10) === 0 ? null : `provider-${dice(2)}`,
        status: (['success', 'error', 'cancelled', 'pending'] as const)[dice(4)] ?? 'success',
        inputTokens: dice(1_000),
        cacheReadTokens: dice(100),
        reasoningTokens: dice(50),
        outputTokens: dice(500),
        billableCostNanos: BigInt(dice(1_000_000)),
        latencyMs: dice(10_000),
      })
    })
    await storeEvents(platform, events)
    // As happens when a video ends.
    await platform.api.db
      .update(aiUsageEvents)
      .set({ status: 'success', billableCostNanos: 77_777n, outputTokens: 3 })
      .where(
        sql`${aiUsageEvents.organizationId} = ${owner.organizationId} and status = 'pending' and input_tokens % 2 = 0`,
      )
    const rows = await platform.api.db
      .select()
      .from(aiUsageEvents)
      .where(eq(aiUsageEvents.organizationId, owner.organizationId))
    expect(rows.length).toBe(1_500)
    for (let n = 0; n < 25; n++) {
      const [one, other] = [from + dice(9 * DAY_MS), from + dice(9 * DAY_MS)]
      const [begin, end] = n === 0 ? [from, from + 10 * DAY_MS] : [Math.min(one, other), Math.max(one, other)]
      const query: Record<string, string> = { from: new Date(begin).toISOString(), to: new Date(end).toISOString() }
      if (n % 3 === 0) query['applicationId'] = owner.applicationId
      const inSpan = rows.filter(
        ({ startedAt, applicationId }) =>
          startedAt.getTime() >= begin &&
          startedAt.getTime() < end &&
          (n % 3 !== 0 || applicationId === owner.applicationId),
      )
      const input = inSpan.reduce((sum, row) => sum + row.inputTokens + row.cacheReadTokens, 0)
      const output = inSpan.reduce((sum, row) => sum + row.outputTokens + row.reasoningTokens, 0)
      const nanos = inSpan.reduce((sum, row) => sum + row.billableCostNanos, 0n)
      const latency = inSpan.reduce((sum, row) => sum + row.latencyMs, 0)
      const { summary, byModel, byUser, byProvider, series } = await summaryOf({
        ...query,
        interval: n % 2 === 0 ? 'day' : 'hour',
      })
      expect(summary).toEqual({
        requestCount: inSpan.length,
        successCount: inSpan.filter(({ status }) => status === 'success').length,
        errorCount: inSpan.filter(({ status }) => status === 'error').length,
        inputTokens: input,
        outputTokens: output,
        totalTokens: input + output,
        billableCostMicros: Number((nanos + 999n) / 1_000n),
        avgLatencyMs: inSpan.length === 0 ? 0 : Math.round(latency / inSpan.length),
      })
      for (const [breakdown, labelOf] of [
        [byModel, (row: (typeof rows)[number]) => row.modelServed ?? 'unknown'],
        [byProvider, (row: (typeof rows)[number]) => row.provider ?? 'unknown'],
        [byUser, (row: (typeof rows)[number]) => row.authenticatedUserId ?? 'none'],
      ] as const) {
        const expected = Map.groupBy(inSpan, labelOf)
        expect(
          new Map(breakdown.map(({ label, requests, tokens, costMicros }) => [label, [requests, tokens, costMicros]])),
        ).toEqual(new Map([...expected].map(([label, of]) => [label, [of.length, tokensOf(of), microsOf(of)]])))
      }
      expect(series.reduce((sum, { requestCount }) => sum + requestCount, 0)).toBe(inSpan.length)
      const ms = n % 2 === 0 ? DAY_MS : HOUR_MS
      const byTime = Map.groupBy(inSpan, ({ startedAt }) => Math.floor(startedAt.getTime() / ms) * ms)
      for (const [place, { at: text, requestCount, totalTokens, billableCostMicros }] of series.entries()) {
        const start = Math.floor(begin / ms) * ms + place * ms
        const of = byTime.get(start) ?? []
        expect([text, requestCount, totalTokens, billableCostMicros]).toEqual([
          new Date(start).toISOString(),
          of.length,
          tokensOf(of),
          microsOf(of),
        ])
      }
      for (const status of ['success', 'error', 'pending']) {
        const { total } = await pageOf({ ...query, status, limit: '1' })
        expect(total).toBe(inSpan.filter((row) => row.status === status).length)
      }
    }
  })

  test('names the hundred of each kind that cost most, and sums up the others', async () => {
    const events = Array.from({ length: 130 }, (_, n) =>
      event(ago(HOUR_MS), {
        modelServed: `model-${n}`,
        billableCostNanos: BigInt(n) * 1_000n,
        authenticatedUserId: null,
      }),
    )
    await storeEvents(platform, events)
    const { byModel, byUser } = await summaryOf()
    expect(byModel.length).toBe(101)
    expect(byModel[0]).toMatchObject({ label: 'model-129', costMicros: 129 })
    // 0 + 1 + … + 29
    expect(byModel.at(-1)).toEqual({
      label: 'other',
      requests: 30,
      tokens: 450,
      inputTokens: 300,
      outputTokens: 150,
      costMicros: 435,
    })
    expect(byUser).toMatchObject([{ label: 'none', requests: 130 }])
  })

  test('over years in which nothing was is empty', async () => {
    const [first, last] = ['0001-01-01T00:00:00.000Z', '9999-12-31T23:59:59.999Z']
    const spans: Record<string, string>[] = [{ to: first }, { from: last }, { from: last, to: first }]
    for (const query of spans) {
      expect({ query, ...(await summaryOf(query)) }).toMatchObject({ query, summary: { requestCount: 0 }, series: [] })
      expect({ query, ...(await pageOf(query)) }).toEqual({ query, items: [], total: 0, nextCursor: null })
    }
    expect((await summaryOf({ to: last })).series.length).toBe(31)
  })

  test('is refused by the hour over years, and for a malformed or foreign application', async () => {
    const other = await newOwner(platform)
    expect((await call('summary', { from: '2020-01-01T00:00:00.000Z', interval: 'hour' })).status).toBe(400)
    expect((await call('summary', { from: '2020-01-01' })).status).toBe(422)
    expect((await call('summary', { interval: 'week' })).status).toBe(422)
    for (const path of ['summary', 'requests', 'export']) {
      expect((await call(path, { applicationId: other.applicationId })).status).toBe(404)
      expect((await call(path, { applicationId: 'x' })).status).toBe(422)
      expect((await call(path, {}, other.token)).status).toBe(404)
    }
  })

  test('a summary equals the sum of the list under the same filters, whatever they are and whoever asks', async () => {
    const dice = openDice(11)
    const oneOf = <T>(values: readonly T[]): T => values[dice(values.length)] as T
    const member = await newMember()
    const key = await newKey(platform, owner, ['network:ai_gateway:usage'])
    const begin = ago(6 * DAY_MS).getTime()
    const events = Array.from({ length: 60 }, () =>
      event(new Date(begin + dice(6 * DAY_MS)), {
        applicationId: oneOf([owner.applicationId, null]),
        authenticatedUserId: oneOf([member.userId, 'ana', null]),
        callerEndUserId: oneOf(['customer-1', 'customer-2', null]),
        modelServed: oneOf(['a', 'b', null]),
        provider: oneOf(['p', 'q', null]),
        status: oneOf(['success', 'error', 'cancelled', 'pending'] as const),
        inputTokens: dice(1_000),
        cacheReadTokens: dice(100),
        outputTokens: dice(500),
        // Whole micros, so that the sum of rounded costs is the rounded sum.
        billableCostNanos: BigInt(dice(1_000)) * 1_000n,
        latencyMs: dice(10_000),
      }),
    )
    await storeEvents(platform, events)
    let matched = 0
    for (let n = 0; n < 100; n++) {
      // Filters that match at least this event or, for half of them, perhaps none.
      const [some, others] = [oneOf(events), dice(2) === 0 ? events : undefined]
      const valueOf = (name: keyof UsageEvent, missing?: string) => (others ? oneOf(others) : some)[name] ?? missing
      const candidates = {
        model: valueOf('modelServed', 'unknown'),
        provider: valueOf('provider', 'unknown'),
        status: valueOf('status'),
        requestId: valueOf('id'),
        authenticatedUserId: valueOf('authenticatedUserId'),
        callerEndUserId: valueOf('callerEndUserId'),
        applicationId: valueOf('applicationId'),
      }
      const filters = Object.fromEntries(
        Object.entries(candidates).flatMap(([name, value]) =>
          typeof value === 'string' && dice(name === 'requestId' ? 12 : 3) === 0 ? [[name, value]] : [],
        ),
      )
      const [from, to] = dice(2) === 0 ? [begin, begin + 7 * DAY_MS] : [begin + dice(3 * DAY_MS), begin + 4 * DAY_MS]
      const query = { ...filters, from: new Date(from).toISOString(), to: new Date(to).toISOString() }
      const token = oneOf([owner.token, owner.token, member.token, key.token])
      const { byModel, byProvider, byUser, series, summary } = await summaryOf(query, token)
      const items = await itemsOf(query, token)
      matched += items.length > 0 ? 1 : 0
      const shown = {
        summary,
        byModel: byModel.toSorted(byLabel),
        byProvider: byProvider.toSorted(byLabel),
        byUser: byUser.toSorted(byLabel),
        series: series.filter(({ requestCount }) => requestCount > 0),
      }
      expect({ query, ...shown }).toEqual({ query, ...summed(items) })
    }
    expect(matched).toBeGreaterThan(50)
  })

  test('a summary by status, request or end user is refused for more than a million calls, and asks for a shorter period', async () => {
    await storeEvents(platform, [event(ago(HOUR_MS), { status: 'error' })])
    const { db } = platform.api
    // As if many more had been stored: the sums say how many events there are to read.
    const errors = (count: number) =>
      db.update(aiUsageSums).set({ errors: count }).where(eq(aiUsageSums.organizationId, owner.organizationId))
    await errors(1_000_000)
    expect((await summaryOf({ status: 'error' })).summary.requestCount).toBe(1)
    await errors(1_000_001)
    const error = 'With status, requestId or callerEndUserId, a summary holds at most 1000000 calls: narrow the period'
    expect(await call('summary', { status: 'error' })).toMatchObject({ status: 400, body: { error } })
    expect((await call('summary', { status: 'success' })).status).toBe(200)
    expect((await call('summary', { status: 'error', to: ago(3 * DAY_MS).toISOString() })).status).toBe(200)
    expect((await call('summary', { model: 'model', provider: 'provider' })).status).toBe(200)
  })
})

describe('a query', () => {
  const paths = ['summary', 'requests', 'export']

  test('a query with a misspelt name is refused with the name that was meant', async () => {
    const misspelt = [
      ['aplicationId', 'applicationId'],
      ['application_id', 'applicationId'],
      ['Model', 'model'],
      ['modle', 'model'],
      ['requestID', 'requestId'],
      ['authenticatedUser', 'authenticatedUserId'],
      ['form', 'from'],
    ] as const
    for (const path of paths)
      for (const [name, meant] of misspelt) {
        const message = `Unknown parameter, did you mean ${meant}?`
        const failure = { property: `/${name}`, message: `/${name}: ${message}`, summary: message, found: 'x' }
        expect(await call(path, { [name]: 'x' })).toMatchObject({
          status: 422,
          body: { type: 'validation', on: 'query', ...failure, errors: [failure] },
        })
      }
  })

  test('a query that gives a name twice is refused, since either filter alone would be wrong', async () => {
    for (const path of paths) {
      const { organizationId, token } = owner
      const url = `/organizations/${organizationId}/ai-gateway/usage/${path}?model=a&provider=b&model=c`
      expect(await platform.call(token, `GET ${url}`)).toMatchObject({
        status: 422,
        body: { on: 'query', property: '/model', found: ['a', 'c'] },
      })
    }
  })

  test('a query with a name like no other is refused with the names that there are', async () => {
    for (const path of paths)
      for (const name of ['foo', 'userId', 'offset', 'constructor', '__proto__', 'x'.repeat(3_000)]) {
        const answer = await call(path, { model: 'a', [name]: '1' })
        const { errors } = answer.body as { errors: { property: string; summary: string; expected: string[] }[] }
        expect([answer.status, errors.map(({ property }) => property)]).toEqual([422, [`/${name}`]])
        expect(errors[0]?.summary).toMatch(/^Unknown parameter, expected one of .*from, to, applicationId, model, /)
        expect(errors[0]?.expected).toContain('callerEndUserId')
      }
  })

  test('the list and the export refuse the interval that only a summary has', async () => {
    expect((await call('summary', { interval: 'hour' })).status).toBe(200)
    expect((await call('requests', { interval: 'hour' })).status).toBe(422)
    expect((await call('export', { interval: 'hour' })).status).toBe(422)
    expect((await call('summary', { limit: '5' })).status).toBe(422)
  })
})

describe('an API key', () => {
  const scopes = ['network:ai_gateway:usage']

  test('an API key reads the usage of its own application, of everyone who called it, and no other', async () => {
    const second = await platform.call(owner.token, 'POST /applications', {
      organizationId: owner.organizationId,
      name: 'Second',
    })
    const { applicationId } = owner
    const otherId = second.body.id as string
    await storeEvents(platform, [
      event(ago(HOUR_MS), { applicationId, authenticatedUserId: 'ana' }),
      event(ago(HOUR_MS), { applicationId, authenticatedUserId: null, actorType: 'key' }),
      event(ago(HOUR_MS), { applicationId: otherId }),
      event(ago(HOUR_MS)),
    ])
    const { token } = await newKey(platform, owner, scopes)
    const own = [{ applicationId }, { applicationId }]
    const queries: Record<string, string>[] = [
      {},
      { applicationId },
      { applicationId: applicationId.toUpperCase() },
      { status: 'success' },
    ]
    for (const query of queries) {
      const { summary, byUser } = await summaryOf(query, token)
      expect([summary.requestCount, byUser.map(({ label }) => label).toSorted()]).toEqual([2, ['ana', 'none']])
      expect(await pageOf(query, token)).toMatchObject({ total: 2, items: own })
      const { text } = await call('export', query, token)
      expect([text.trimEnd().split('\r\n').length, text.includes(otherId)]).toEqual([3, false])
    }
    expect((await summaryOf({ authenticatedUserId: 'ana' }, token)).summary.requestCount).toBe(1)
    expect((await summaryOf({ applicationId: otherId })).summary.requestCount).toBe(1)
  })

  test('an API key is denied every other application and organization, and told of those that do not exist', async () => {
    const stranger = await newOwner(platform)
    const second = await newOwner(platform, owner.person)
    const { token } = await newKey(platform, owner, scopes)
    for (const path of ['summary', 'requests', 'export']) {
      for (const applicationId of [stranger.applicationId, second.applicationId])
        expect(await call(path, { applicationId }, token)).toMatchObject({
          status: 403,
          body: { error: 'Access denied' },
        })
      expect(await call(path, { applicationId: randomUUID() }, token)).toMatchObject({
        status: 404,
        body: { error: 'Application not found' },
      })
      const elsewhere = (organizationId: string) =>
        platform.call(token, `GET /organizations/${organizationId}/ai-gateway/usage/${path}`)
      for (const { organizationId } of [stranger, second])
        expect(await elsewhere(organizationId)).toMatchObject({ status: 403, body: { error: 'Access denied' } })
      expect(await elsewhere(randomUUID())).toMatchObject({ status: 404, body: { error: 'Organization not found' } })
      const without = await newKey(platform, owner, ['network:ai_gateway:budgets'])
      expect((await call(path, {}, without.token)).status).toBe(403)
    }
  })

  test('an API key continues a list with its own cursors alone', async () => {
    const { applicationId } = owner
    const events = [{ applicationId }, { applicationId }, {}]
    await storeEvents(
      platform,
      events.map((more) => event(ago(HOUR_MS), more)),
    )
    const { token } = await newKey(platform, owner, scopes)
    const { nextCursor } = await pageOf({ limit: '1' }, token)
    expect((await pageOf({ limit: '1', cursor: nextCursor ?? '' }, token)).items).toMatchObject([{ applicationId }])
    const ofOwner = await pageOf({ limit: '1' })
    expect((await call('requests', { limit: '1', cursor: ofOwner.nextCursor ?? '' }, token)).status).toBe(400)
  })
})

test('a member sees calls of their own, and nothing of others', async () => {
  const { userId, token } = await newMember()
  await storeEvents(platform, [
    event(ago(HOUR_MS), { authenticatedUserId: userId }),
    event(ago(HOUR_MS), { authenticatedUserId: 'other' }),
    event(ago(HOUR_MS), { authenticatedUserId: null, actorType: 'key' }),
  ])
  const { summary, byUser } = await summaryOf({}, token)
  expect([summary.requestCount, byUser.map(({ label }) => label)]).toEqual([1, [userId]])
  expect((await pageOf({}, token)).items).toMatchObject([{ authenticatedUserId: userId }])
  expect(await pageOf({ authenticatedUserId: 'other' }, token)).toEqual({ items: [], total: 0, nextCursor: null })
  expect((await call('export', { authenticatedUserId: 'other' }, token)).text.split('\r\n').length).toBe(2)
  expect((await call('export', {}, token)).text.split('\r\n').length).toBe(3)
  expect((await summaryOf()).summary.requestCount).toBe(3)
})

describe('months whose events are gone', () => {
  const month = (back: number, day: number, time = 'T12:00:00.000Z') => {
    const now = platform.clock.now()
    const begin = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, day))
    return new Date(`${begin.toISOString().slice(0, 10)}${time}`)
  }

  test('a month whose events are gone has the same sums as before, and lists and exports answer with what is kept', async () => {
    const kept = [event(month(13, 1, 'T00:00:00.000Z')), event(month(2, 3))]
    const gone = [event(month(14, 20, 'T10:40:00.000Z')), event(month(14, 5)), event(month(15, 7))]
    await storeEvents(platform, [...kept, ...gone])
    const spans: Record<string, string>[] = [
      { from: month(15, 1).toISOString() },
      { from: month(14, 5, 'T12:00:00.000Z').toISOString(), to: month(14, 20, 'T11:00:00.000Z').toISOString() },
      {
        from: month(16, 1).toISOString(),
        to: month(13, 2).toISOString(),
        interval: 'day',
        applicationId: owner.applicationId,
      },
      { from: month(14, 20, 'T00:00:00.000Z').toISOString(), to: month(14, 21).toISOString(), interval: 'hour' },
    ]
    const summaries = () => Promise.all(spans.map(async (span) => (await call('summary', span)).text))
    const before = await summaries()
    expect(await pageOf()).toMatchObject({ total: 5 })
    await keepUsageMonths(platform.api, 13)
    expect(await summaries()).toEqual(before)

    const ids = kept.map(({ id }) => id).toReversed()
    const everything: Record<string, string> = { from: month(20, 1).toISOString() }
    for (const query of [{}, everything]) {
      const { items, total, nextCursor } = await pageOf(query)
      expect([items.map(({ id }) => id), total, nextCursor]).toEqual([ids, 2, null])
    }
    const lines = (await call('export', everything)).text.trimEnd().split('\r\n').slice(1)
    expect(lines.map((line) => line.slice(0, line.indexOf(',')))).toEqual(ids)
    const past = { from: month(20, 1).toISOString(), to: month(14, 10).toISOString() }
    expect(await pageOf(past)).toEqual({ items: [], total: 0, nextCursor: null })
    expect((await call('export', past)).text.trimEnd().split('\r\n').length).toBe(1)
    expect(await pageOf({ requestId: gone[0]?.id ?? '' })).toEqual({ items: [], total: 0, nextCursor: null })

    const start = month(13, 1, 'T00:00:00.000Z').toISOString()
    const error = `With status, requestId or callerEndUserId, the period cannot begin before ${start}: older calls are deleted`
    for (const [name, value] of [
      ['status', 'success'],
      ['callerEndUserId', 'ana'],
      ['requestId', gone[0]?.id ?? ''],
    ] as const)
      expect(await call('summary', { ...everything, [name]: value })).toMatchObject({ status: 400, body: { error } })
    expect((await summaryOf({ from: start, status: 'success' })).summary.requestCount).toBe(2)
    // None of those that are gone had failed.
    expect((await summaryOf({ ...everything, status: 'error' })).summary.requestCount).toBe(0)
  })

  test('a month whose events are gone counts by whole hours, where a span cuts one', async () => {
    await storeEvents(platform, [event(month(16, 20, 'T10:40:00.000Z')), event(month(16, 20, 'T11:10:00.000Z'))])
    const requests = async (from: string, to: string) =>
      (await summaryOf({ from: month(16, 20, from).toISOString(), to: month(16, 20, to).toISOString() })).summary
        .requestCount
    expect(await requests('T10:50:00.000Z', 'T11:05:00.000Z')).toBe(0)
    await keepUsageMonths(platform.api, 13)
    expect(await requests('T10:50:00.000Z', 'T11:05:00.000Z')).toBe(2)
    expect(await requests('T10:50:00.000Z', 'T10:50:00.000Z')).toBe(0)
  })

  test('a list does not search months whose events are gone, however many hours their sums have', async () => {
    const hours = Array.from({ length: 500 }, (_, n) => event(new Date(month(17, 2).getTime() + n * HOUR_MS)))
    await storeEvents(platform, [...hours, event(month(2, 3))])
    await keepUsageMonths(platform.api, 13)
    const statements = await sentStatements(async () => {
      expect(await pageOf()).toMatchObject({ total: 1 })
    })
    expect(statements.length).toBeLessThan(20)
  })
})

describe('a list of requests', () => {
  test('shows an event as wire.md has it', async () => {
    const time = ago(HOUR_MS)
    const { applicationId } = owner
    const metadata = { team: 'x', clientRequestId: 'mine' }
    await storeEvents(platform, [
      event(time, {
        applicationId,
        inputTokens: 7,
        cacheReadTokens: 3,
        cacheWriteTokens: 2,
        reasoningTokens: 4,
        providerCostNanos: 1_001n,
        billableCostNanos: 0n,
        metadata,
      }),
    ])
    const { items } = await pageOf()
    const { id } = items[0] ?? { id: '' }
    expect(items).toEqual([
      {
        id,
        requestId: id,
        traceId: null,
        billingSubjectType: 'application',
        organizationId: owner.organizationId,
        applicationId,
        actorId: 'someone',
        actorType: 'user',
        apiKeyId: null,
        authenticatedUserId: 'someone',
        callerEndUserId: null,
        modelRequested: 'asked/model',
        modelServed: 'model',
        provider: 'provider',
        providerAttempts: [{ provider: 'provider', statusCode: 200 }],
        status: 'success',
        errorCode: null,
        errorType: null,
        inputTokens: 12,
        outputTokens: 9,
        cachedInputTokens: 3,
        totalTokens: 21,
        usageSource: 'provider',
        providerCostMicros: 2,
        billableCostMicros: 0,
        streaming: false,
        latencyMs: 100,
        metadata,
        startedAt: time.toISOString(),
        completedAt: time.toISOString(),
        createdAt: time.toISOString(),
        updatedAt: time.toISOString(),
      },
    ])
  })

  test('is walked by cursors, newest first, over hours and empty days', async () => {
    const dice = openDice(3)
    const events = Array.from({ length: 137 }, (_, n) =>
      event(ago(dice(20) * DAY_MS + dice(DAY_MS)), { modelServed: n % 5 === 0 ? 'rare' : 'common' }),
    )
    await storeEvents(platform, events)
    for (const [query, expected] of [
      [{}, events],
      [{ model: 'rare' }, events.filter(({ modelServed }) => modelServed === 'rare')],
    ] as const) {
      const seen: string[] = []
      let cursor: string | null | undefined
      do {
        const page: Page = await pageOf({ ...query, limit: '10', ...(cursor != null && { cursor }) })
        expect(page.total).toBe(expected.length)
        seen.push(...page.items.map(({ id }) => id))
        cursor = page.nextCursor
      } while (cursor !== null)
      expect(seen).toEqual(
        expected
          .map(({ id }) => id)
          .toSorted()
          .toReversed(),
      )
    }
    const { nextCursor } = await pageOf({ limit: '10' })
    expect((await call('requests', { limit: '10', model: 'rare', cursor: nextCursor ?? '' })).status).toBe(400)
  })

  test('is narrowed by every filter', async () => {
    const time = ago(HOUR_MS)
    const wanted = event(time, {
      modelServed: null,
      provider: null,
      status: 'error',
      callerEndUserId: 'customer-17',
      authenticatedUserId: 'ana',
      applicationId: owner.applicationId,
    })
    await storeEvents(platform, [wanted, event(time), event(time, { callerEndUserId: 'customer-1' })])
    const filters: Record<string, string> = {
      model: 'unknown',
      provider: 'unknown',
      status: 'error',
      callerEndUserId: 'customer-17',
      authenticatedUserId: 'ana',
      applicationId: owner.applicationId,
      requestId: wanted.id,
    }
    for (const [name, value] of Object.entries(filters)) {
      const { items, total } = await pageOf({ [name]: value })
      expect({ name, ids: items.map(({ id }) => id), total }).toEqual({ name, ids: [wanted.id], total: 1 })
    }
    expect(await pageOf(filters)).toMatchObject({ total: 1, items: [{ id: wanted.id }] })
    expect(await pageOf({ ...filters, authenticatedUserId: 'bob' })).toMatchObject({ total: 0, items: [] })
    expect((await call('requests', { status: 'lost' })).status).toBe(422)
    expect((await call('requests', { limit: '501' })).status).toBe(422)
    expect((await call('requests', { requestId: 'x' })).status).toBe(422)
  })

  test('ends a page where it would be more than a megabyte', async () => {
    const metadata = Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`key-${n}`, '"\n'.repeat(250)]))
    await storeEvents(
      platform,
      Array.from({ length: 200 }, () => event(ago(HOUR_MS), { metadata })),
    )
    const answer = await call('requests', { limit: '500' })
    const { items, total, nextCursor } = answer.body as Page
    expect(Buffer.byteLength(answer.text)).toBeLessThanOrEqual(1_048_576)
    expect(items.length).toBeLessThan(200)
    expect(total).toBe(200)
    const rest = await pageOf({ limit: '500', cursor: nextCursor ?? '' })
    expect(new Set([...items, ...rest.items].map(({ id }) => id)).size).toBe(
      Math.min(200, items.length + rest.items.length),
    )
    expect(rest.items.length).toBeGreaterThan(0)
  })
})

describe('an export', () => {
  test('is a CSV file with all that match', async () => {
    await storeEvents(platform, [
      event(ago(HOUR_MS), { callerEndUserId: 'with "quotes", and\r\nlines' }),
      event(ago(2 * HOUR_MS), { modelServed: 'other' }),
    ])
    const answer = await call('export', { model: 'model' })
    expect(answer.headers).toMatchObject({
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': 'attachment; filename="ai-usage.csv"',
    })
    const [head = '', ...lines] = answer.text.split(/\r\n(?=\S|$)/)
    expect(head.split(',').slice(0, 5)).toEqual([
      'id',
      'request_id',
      'trace_id',
      'billing_subject_type',
      'organization_id',
    ])
    expect(lines.join('\r\n')).toContain(',"with ""quotes"", and\r\nlines",')
    expect(answer.text).toContain(',"[{""provider"":""provider"",""statusCode"":200}]",')
    expect(answer.text).not.toContain('other')
    expect(answer.text.endsWith('\r\n')).toBe(true)
  })

  test('keeps spreadsheets from running a cell, whatever cannot be seen in front of the formula', async () => {
    const starts = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠', '  =', ' ＠', '\u00a0\u200b =']
    const unseen = [0x0b, 0x0c, 0x01, 0x7f, 0x85, 0xa0, 0xad, 0x34f, 0x1680, 0x2028, 0x2029, 0x202e, 0x2060, 0x3000]
    const zeroWidth = Array.from({ length: 16 }, (_, n) => 0x2000 + n)
    const more = [...unseen, ...zeroWidth, 0xfe0f, 0xfeff, 0xe0020].map((code) => `${String.fromCodePoint(code)}=`)
    const beginnings = [...starts, ...more]
    const harmless = ['1+1', 'a=1', '\u00a0a=1', '(-1)', '\u200b']
    await storeEvents(
      platform,
      [...beginnings.map((text) => `${text}1+1`), ...harmless].map((callerEndUserId) =>
        event(ago(HOUR_MS), { callerEndUserId }),
      ),
    )
    const { text } = await call('export')
    for (const beginning of beginnings) expect(text).toMatch(new RegExp(`,"?'${RegExp.escape(`${beginning}1+1`)}"?,`))
    for (const cell of harmless) expect(text).toContain(`,${cell},`)
  })

  test('has every event once, over many pages', async () => {
    const dice = openDice(5)
    const events = Array.from({ length: 4_500 }, () => event(ago(dice(3 * DAY_MS))))
    await storeEvents(platform, events)
    const { text } = await call('export')
    const ids = text
      .trimEnd()
      .split('\r\n')
      .slice(1)
      .map((line) => line.slice(0, line.indexOf(',')))
    expect(ids).toEqual(
      events
        .map(({ id }) => id)
        .toSorted()
        .toReversed(),
    )
  })

  test('has a head that is answered once', async () => {
    // This is where a second response would be reported.
    const complaints = vi.spyOn(console, 'error')
    onTestFinished(() => complaints.mockRestore())
    const url = `${platform.apiUrl}/organizations/${owner.organizationId}/ai-gateway/usage/export`
    const answer = await fetch(url, { method: 'HEAD', headers: { authorization: `Bearer ${owner.token}` } })
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/csv; charset=utf-8'])
    expect((await call('export')).text).toMatch(/^id,request_id,/)
    expect(complaints.mock.calls).toEqual([])
  })

  test('that fails in the middle is cut, so that nobody takes it for whole, and logged', async () => {
    // Far more than the sockets in between can buffer.
    const metadata = Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`key-${n}`, 'x'.repeat(512)]))
    await storeEvents(
      platform,
      Array.from({ length: 3_000 }, (_, n) => event(ago(n * 1_000), { metadata })),
    )
    const url = `${platform.apiUrl}/organizations/${owner.organizationId}/ai-gateway/usage/export`
    const answer = await fetch(url, { headers: { authorization: `Bearer ${owner.token}` } })
    const reader = answer.body?.getReader()
    let text = Buffer.from((await reader?.read())?.value ?? '').toString()
    const { db } = platform.api
    await db.execute(sql`alter table ai_usage_sums rename to sums_away`)
    try {
      const reading = async () => {
        for (let next = await reader?.read(); next?.done === false; next = await reader?.read())
          text += Buffer.from(next.value).toString()
      }
      await expect(reading()).rejects.toThrow('terminated')
      // Before its first byte, an error gets the usual response.
      expect(await call('export')).toMatchObject({ status: 500, body: { error: 'Internal error' } })
    } finally {
      await db.execute(sql`alter table sums_away rename to ai_usage_sums`)
    }
    expect(text).not.toMatch(/failed query|select/i)
    const line = logged.find((each) => each.includes('an answer broke off')) ?? '{}'
    expect(JSON.parse(line)).toMatchObject({
      level: 50,
      operation: 'exportAiUsage',
      requestId: answer.headers.get('x-request-id'),
    })
    expect((await call('export')).text.trimEnd().split('\r\n').length).toBe(3_001)
  })
})
