// engines: postgres
import { randomUUID } from 'node:crypto'
import { newId } from '@platform/runtime/new-id'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { newDeployment } from '../../../../test/deployments.ts'
import { eventsIn } from '../../../../test/events.ts'
import { newKey, newOwner, type Owner, servedRequest } from '../../../../test/scenario.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'
import { keepRuntimeLogDays } from './days.ts'
import { runtimeLogs } from './table.ts'
import { openRuntimeLog, type RuntimeLogLine } from './write.ts'

const DAY_MS = 86_400_000

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

/** An application with a deployment, and a writer for its lines. */
interface Site extends Owner {
  deploymentId: string
  functionId: string
}
async function newSite(): Promise<Site> {
  const owner = await newOwner(platform)
  const { id } = await newDeployment(platform, owner, { status: 'ACTIVE' })
  return { ...owner, deploymentId: id, functionId: newId() }
}
const lineOf = (site: Site, message: string, more: Partial<RuntimeLogLine> = {}): RuntimeLogLine => ({
  applicationId: site.applicationId,
  deploymentId: site.deploymentId,
  functionId: site.functionId,
  functionName: 'api/checkout',
  slot: 0,
  requestId: undefined,
  level: 'INFO',
  message,
  at: platform.clock.now(),
  ...more,
})
async function print(...lines: RuntimeLogLine[]): Promise<void> {
  for (const line of lines) platform.api.runtimeLog.write(line)
  await platform.api.runtimeLog.flush()
}
const list = (site: Site, query = '', of: 'deployment' | 'application' = 'deployment') =>
  platform.call(
    site.token,
    `GET /${of === 'deployment' ? `deployments/${site.deploymentId}` : `applications/${site.applicationId}`}/runtime-logs${query}`,
  )
const messagesOf = ({ body }: { body: { items: { message: string }[] } }) => body.items.map(({ message }) => message)

describe('a list', () => {
  test('has every member of a line, newest first, and its request is that of the request log (wire.md)', async () => {
    const site = await newSite()
    const startedAt = platform.clock.now()
    const requestId = newId()
    platform.api.requestLog.write(
      servedRequest({
        id: requestId,
        applicationId: site.applicationId,
        startedAt,
        completedAt: new Date(startedAt.getTime() + 5),
      }),
    )
    await platform.api.requestLog.flush()
    await print(lineOf(site, 'first', { at: startedAt }), lineOf(site, 'second\n\tline', { requestId, level: 'WARN' }))
    const { status, body } = await list(site)
    expect(status).toBe(200)
    expect(body).toEqual({
      items: [
        {
          id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          deploymentFunctionId: site.functionId,
          functionName: 'api/checkout',
          slot: 0,
          requestId,
          level: 'WARN',
          message: 'second\n\tline',
          createdAt: expect.any(String),
        },
        expect.objectContaining({ message: 'first', requestId: null, createdAt: startedAt.toISOString() }),
      ],
      total: 2,
      nextCursor: null,
    })
    const request = await platform.call(site.token, `GET /applications/${site.applicationId}/requests/${requestId}`)
    expect(request).toMatchObject({ status: 200, body: { id: requestId } })
    const ofApplication = await list(site, `?requestId=${requestId}`, 'application')
    expect(ofApplication.body.items).toEqual([{ ...body.items[0], deploymentId: site.deploymentId }])
  })

  test('is filtered by level, text, Function, request and time, and nothing in a text is a pattern', async () => {
    const site = await newSite()
    const other = newId()
    const start = platform.clock.now().getTime() - 60_000
    const at = (n: number) => new Date(start + n * 1_000)
    await print(
      lineOf(site, 'Plain Text', { at: at(0) }),
      lineOf(site, '100% of a_b\\c', { at: at(1), level: 'ERROR', requestId: 'r-1' }),
      lineOf(site, '100 of axb', { at: at(2), functionId: other, level: 'DEBUG' }),
    )
    for (const [query, expected] of [
      ['level=ERROR', ['100% of a_b\\c']],
      ['search=plain%20TEXT', ['Plain Text']],
      ['search=100%25', ['100% of a_b\\c']],
      ['search=a_b', ['100% of a_b\\c']],
      ['search=b%5Cc', ['100% of a_b\\c']],
      ['search=100', ['100 of axb', '100% of a_b\\c']],
      [`functionId=${other}`, ['100 of axb']],
      ['requestId=r-1', ['100% of a_b\\c']],
      [`from=${at(1).toISOString()}`, ['100 of axb', '100% of a_b\\c']],
      [`to=${at(1).toISOString()}`, ['Plain Text']],
      [`from=${at(1).toISOString()}&to=${at(2).toISOString()}`, ['100% of a_b\\c']],
      ['from=9999-12-31T00:00:00.000Z', []],
      ['level=ERROR&search=plain', []],
    ] as const) {
      const answer = await list(site, `?${query}`)
      expect([query, messagesOf(answer), answer.body.total]).toEqual([query, expected, expected.length])
      expect([query, messagesOf(await list(site, `?${query}`, 'application'))]).toEqual([query, expected])
    }
    for (const wrong of ['level=info', 'search=', `search=${'x'.repeat(257)}`, 'functionId=x', 'limit=0', 'from=1'])
      expect([wrong, (await list(site, `?${wrong}`)).status]).toEqual([wrong, 422])
  })

  test('goes on by its cursor, under the same filters and the same list alone', async () => {
    const site = await newSite()
    await print(...Array.from({ length: 25 }, (_, n) => lineOf(site, `line ${n}`)))
    const seen: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const page = await list(site, `?limit=10${cursor && `&cursor=${cursor}`}`)
      expect([page.status, page.body.total]).toEqual([200, 25])
      seen.push(...messagesOf(page))
      cursor = page.body.nextCursor as string | null
      // Lines printed meanwhile come before it.
      await print(lineOf(site, 'later'))
    }
    expect(seen).toEqual(Array.from({ length: 25 }, (_, n) => `line ${24 - n}`))
    const { nextCursor } = (await list(site, '?limit=10')).body as { nextCursor: string }
    expect((await list(site, `?limit=10&level=INFO&cursor=${nextCursor}`)).status).toBe(400)
    expect((await list(site, `?limit=10&cursor=${nextCursor}`, 'application')).status).toBe(400)
    expect((await list(await newSite(), `?limit=10&cursor=${nextCursor}`)).status).toBe(400)
  })

  test('a page of what few lines match looks through 100,000, and its cursor goes on behind them', async () => {
    const site = await newSite()
    const time = new Date(platform.clock.now().getTime() - 1_000)
    await print(lineOf(site, 'the needle', { at: time }))
    const { db } = platform.api
    const [needle] = await db.select().from(runtimeLogs).where(eq(runtimeLogs.applicationId, site.applicationId))
    // With ids just after the needle's, in the order of n.
    const prefix = needle?.id.slice(0, 14).replace(/.$/, 'f') ?? ''
    await db.execute(sql`insert into runtime_logs (id, application_id, deployment_id, function_id, function_name, slot, level, message)
      select (left(${prefix}, 13) || '-7fff-bfff-' || lpad(to_hex(n), 12, '0'))::uuid, ${site.applicationId}, ${site.deploymentId},
        ${site.functionId}, 'f', 0, 'INFO', 'hay' from generate_series(1, 100500) n`)
    const first = await list(site, '?search=needle&limit=5')
    expect(first).toMatchObject({ status: 200, body: { items: [] } })
    expect(first.body.nextCursor).not.toBeNull()
    const second = await list(site, `?search=needle&limit=5&cursor=${first.body.nextCursor}`)
    expect([messagesOf(second), second.body.nextCursor]).toEqual([['the needle'], null])
    const all = await list(site, '?limit=5')
    expect([all.body.items.length, all.body.total]).toEqual([5, 10_000])
  })

  test('holds what the plan keeps, and days that no plan keeps are dropped (D77)', async () => {
    const site = await newSite()
    const nowMs = platform.clock.now().getTime()
    await print(
      lineOf(site, 'ancient', { at: new Date(nowMs - 20 * DAY_MS) }),
      lineOf(site, 'old', { at: new Date(nowMs - 5 * DAY_MS) }),
      lineOf(site, 'new'),
    )
    await setQuota(platform.api, site.organizationId, 'log_retention_days', 3)
    expect(messagesOf(await list(site))).toEqual(['new'])
    await setQuota(platform.api, site.organizationId, 'log_retention_days', 10)
    expect(messagesOf(await list(site))).toContain('old')
    const days = async () =>
      (
        await platform.api.db.execute<{ name: string }>(
          sql`select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
              where i.inhparent = 'runtime_logs'::regclass order by 1`,
        )
      ).map(({ name }) => name)
    const nameAt = (ms: number) => `runtime_logs_${new Date(ms).toISOString().slice(0, 10).replaceAll('-', '')}`
    expect(await days()).toContain(nameAt(nowMs - 20 * DAY_MS))
    await Promise.all(Array.from({ length: 4 }, () => keepRuntimeLogDays(platform.api)))
    expect(await days()).not.toContain(nameAt(nowMs - 20 * DAY_MS))
    expect(await days()).toContain(nameAt(nowMs + 3 * DAY_MS))
    expect(messagesOf(await list(site))).toContain('old')
  })

  test('is of the deployment that is named, and of who reaches it', async () => {
    const site = await newSite()
    const { id } = await newDeployment(platform, site, { status: 'ACTIVE' })
    await print(lineOf(site, 'mine'), lineOf(site, 'sibling', { deploymentId: id }))
    expect(messagesOf(await list(site))).toEqual(['mine'])
    expect(messagesOf(await list(site, '', 'application'))).toEqual(['sibling', 'mine'])
    const { token } = await newKey(platform, site, ['network:applications:read'])
    expect((await platform.call(token, `GET /applications/${site.applicationId}/runtime-logs`)).status).toBe(403)
  })
})

describe('the writer', () => {
  test('keeps the order of a process in its ids, whatever the clock does, and cuts what is too long', async () => {
    const site = await newSite()
    const time = platform.clock.now()
    const lines = Array.from({ length: 450 }, (_, n) =>
      lineOf(site, `${n}`, { at: new Date(time.getTime() - (n % 7 === 3 ? 5 : 0)) }),
    )
    await print(...lines, lineOf(site, `a\0b${'é'.repeat(5_000)}`, { at: time }))
    const { body } = await list(site, '?limit=1000')
    const [longest, ...rest] = body.items as { message: string }[]
    expect(rest.map(({ message }) => Number(message))).toEqual(Array.from({ length: 450 }, (_, n) => 449 - n))
    expect(longest?.message).toMatch(/^a\u{fffd}bé+ … \(cut\)$/u)
    expect(Buffer.byteLength(longest?.message ?? '')).toBeLessThanOrEqual(4_096)
  })

  test('holds what fits while the database is away, and says how many lines were lost', async () => {
    const site = await newSite()
    let isAway = true
    const db = new Proxy(platform.api.db, {
      get(target, name, receiver) {
        if (isAway && name === 'execute')
          return () => Promise.reject(Object.assign(new Error('gone'), { code: 'ECONNREFUSED' }))
        return Reflect.get(target, name, receiver) as unknown
      },
    })
    const log = openRuntimeLog({ db, logger: platform.api.logger })
    const message = 'x'.repeat(4_000)
    const written = 5_000
    for (let n = 0; n < written; n++) log.write(lineOf(site, message))
    await log.flush()
    expect((await list(site)).body.total).toBe(0)
    isAway = false
    await vi.waitFor(
      async () => {
        await log.flush()
        const [row] = await platform.api.db.execute<{ kept: string; lost: string | null }>(
          sql`select count(*) filter (where level = 'INFO') as kept, max(substring(message from '^\\d+')) filter (where level = 'WARN') as lost
              from runtime_logs where application_id = ${site.applicationId}`,
        )
        expect(Number(row?.kept) + Number(row?.lost)).toBe(written)
        expect(Number(row?.lost)).toBeGreaterThan(500)
      },
      { timeout: 60_000, interval: 200 },
    )
    expect(messagesOf(await list(site, '?level=WARN'))).toEqual([
      expect.stringMatching(/^\d+ lines were lost here: the log could not keep up$/),
    ])
    await log.close()
  })
})

describe('a stream', () => {
  async function follow(site: Site, path: string, headers: Record<string, string> = {}) {
    const ending = new AbortController()
    onTestFinished(() => ending.abort())
    const answer = await fetch(`${platform.apiUrl}${path}`, {
      headers: { authorization: `Bearer ${site.token}`, ...headers },
      signal: ending.signal,
    })
    const events = eventsIn<{ message: string; id: string }>(answer.body)
    const next = async (n: number) => {
      const messages: string[] = []
      let last = ''
      while (messages.length < n) {
        const { value } = await events.next()
        if (!value) throw new Error('The stream ended')
        expect([value.event, value.id]).toEqual(['log', value.data.id])
        messages.push(value.data.message)
        last = value.id ?? ''
      }
      return { messages, last }
    }
    return { status: answer.status, next, end: () => ending.abort() }
  }
  const ofDeployment = (site: Site) => `/deployments/${site.deploymentId}/runtime-logs/stream`
  const ofApplication = (site: Site) => `/applications/${site.applicationId}/runtime-logs/stream`

  test('has what is printed from now on, filtered as the list is (D85)', async () => {
    const site = await newSite()
    const { id: siblingId } = await newDeployment(platform, site, { status: 'ACTIVE' })
    await print(lineOf(site, 'before'))
    const [whole, all, warnings, needles] = await Promise.all([
      follow(site, ofDeployment(site)),
      follow(site, ofApplication(site)),
      follow(site, `${ofDeployment(site)}?level=WARN`),
      follow(site, `${ofApplication(site)}?search=NEEDLE&functionId=${site.functionId}`),
    ])
    await print(
      lineOf(site, 'one'),
      lineOf(site, 'two', { level: 'WARN' }),
      lineOf(site, 'needle of another', { functionId: newId() }),
      lineOf(site, 'the needle', { deploymentId: siblingId }),
      lineOf(site, 'last', { level: 'WARN' }),
    )
    expect((await whole.next(4)).messages).toEqual(['one', 'two', 'needle of another', 'last'])
    expect((await all.next(5)).messages).toEqual(['one', 'two', 'needle of another', 'the needle', 'last'])
    expect((await warnings.next(2)).messages).toEqual(['two', 'last'])
    expect((await needles.next(1)).messages).toEqual(['the needle'])
    for (const stream of [whole, all, warnings, needles]) stream.end()
  })

  test('misses nothing that another process stores late, with a smaller id, nor what came while it was away (D86)', async () => {
    const site = await newSite()
    await print(lineOf(site, 'first'))
    const stream = await follow(site, ofApplication(site), {
      'last-event-id': randomUUID().replace(/^.{8}/, '00000000'),
    })
    expect((await stream.next(1)).messages).toEqual(['first'])
    const early = platform.clock.now()
    const other = openRuntimeLog(platform.api)
    // The line printed first is stored last: its transaction waits while the other commits.
    let stored: Promise<void> | undefined
    await holding(
      platform.databaseUrl,
      (held) => held`select pg_advisory_xact_lock(7150113, hashtext(${site.applicationId}))`,
      // Written here, since a batch is stored by itself after a while.
      [
        () => {
          other.write(lineOf(site, 'printed first', { at: early }))
          return (stored = other.flush())
        },
      ],
    )
    await stored
    const { last } = await stream.next(1)
    stream.end()
    await print(lineOf(site, 'while away'))
    // Its id precedes all others, as from a process whose clock is behind.
    const slow = openRuntimeLog(platform.api)
    slow.write(lineOf(site, 'late', { at: new Date(early.getTime() - 30_000) }))
    await slow.close()
    const resumed = await follow(site, ofApplication(site), { 'last-event-id': last })
    expect((await resumed.next(2)).messages).toEqual(['while away', 'late'])
    resumed.end()
    await other.close()
  })

  test('numbers are given in the order of commits: who holds the lock of an application makes the next batch wait', async () => {
    const site = await newSite()
    await print(lineOf(site, 'first'))
    const stream = await follow(site, ofDeployment(site))
    const other = openRuntimeLog(platform.api)
    let flushed: Promise<void> | undefined
    await holding(
      platform.databaseUrl,
      (held) => held`select pg_advisory_xact_lock(7150113, hashtext(${site.applicationId}))`,
      [
        () => {
          other.write(lineOf(site, 'waits'))
          return (flushed = other.flush())
        },
      ],
    )
    await flushed
    expect((await stream.next(1)).messages).toEqual(['waits'])
    stream.end()
    await other.close()
  })

  test('20 are open for a deployment, and its own do not count for the application (D86)', async () => {
    const site = await newSite()
    const streams = await Promise.all(Array.from({ length: 20 }, () => follow(site, ofDeployment(site))))
    expect(new Set(streams.map(({ status }) => status))).toEqual(new Set([200]))
    const refused = await platform.call(site.token, `GET ${ofDeployment(site)}`)
    expect(refused).toMatchObject({ status: 429, body: { error: 'too_many_concurrent_streams' } })
    const whole = await follow(site, ofApplication(site))
    expect(whole.status).toBe(200)
    for (const stream of [...streams, whole]) stream.end()
  })
})
