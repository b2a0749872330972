import { randomUUID } from 'node:crypto'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newKey, newOwner, type Owner, servedRequest } from '../../../../test/scenario.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'
import { keepDays } from './days.ts'
import { hourOf } from './hours.ts'
import { openPathRanker, rankHour } from './path-ranks.ts'
import { requestLogs, requestPathRanks, requestPlaceCounts } from './table.ts'
import { openRequestLog, type RequestLogWriter, type ServedRequest } from './write.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

let platform: TestPlatform
let ana: Owner
let log: RequestLogWriter
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
  log = openRequestLog(platform.api)
})
afterAll(async () => {
  await log.close()
  await platform.close()
})

/** A request to an application, some milliseconds ago. */
const served = ({ applicationId }: Owner, agoMs: number, more: Partial<ServedRequest> = {}): ServedRequest =>
  servedRequest({ applicationId, startedAt: new Date(platform.clock.now().getTime() - agoMs), ...more })

async function writeAll(requests: readonly ServedRequest[]): Promise<void> {
  for (const request of requests) log.write(request)
  await log.flush()
}

const list = async (owner: Owner, query = '') =>
  platform.call(owner.token, `GET /applications/${owner.applicationId}/requests${query}`)
const pathsOf = (answer: { body: { items: { request: { path: string } }[] } }) =>
  answer.body.items.map(({ request }) => request.path)

test('a batch whose counts cannot be stored leaves no rows either, and the next one is stored whole', async () => {
  const owner = await newOwner(platform)
  const hostname = 'refused.example.com'
  const { db } = platform.api
  await db.execute(sql`create function refuse_count() returns trigger language plpgsql as $$ begin
    if new.hostname = 'refused.example.com' then raise 'not this one'; end if; return new; end $$`)
  await db.execute(
    sql`create trigger refused before insert on request_counts for each row execute function refuse_count()`,
  )
  await writeAll([served(owner, 2_000), served(owner, 1_000, { hostname })])
  await db.execute(sql`drop trigger refused on request_counts`)
  expect((await list(owner)).body).toMatchObject({ total: 0, items: [] })
  await writeAll([served(owner, 2_000), served(owner, 1_000, { hostname })])
  const { body } = await list(owner)
  expect([body.total, body.items.length]).toEqual([2, 2])
})

test('a request that was served is listed with the documented fields, and its detail adds sanitized headers (A §2, wire.md)', async () => {
  const owner = await newOwner(platform)
  const deploymentId = randomUUID()
  const bucket = { id: randomUUID(), name: 'media', slug: 'media-x' }
  const request = served(owner, 1_000, {
    deploymentId,
    servedBy: { storageBucket: bucket },
    method: 'POST',
    path: '/buy',
    query: 'q=1&token=abc&X-Amz-Signature=def&__sticky=ghi&empty=',
    country: 'DE',
    status: 302,
    cacheStatus: 'stale',
    requestHeaders: {
      'user-agent': 'curl/8',
      referer: 'https://a.example.com/x?token=zzz',
      authorization: 'Bearer zzz',
      cookie: 'a=zzz',
      'x-api-key': 'zzz',
      accept: 'text/html',
    },
    responseHeaders: { 'set-cookie': ['a=zzz', 'b=zzz'], 'content-type': 'text/plain' },
  })
  await writeAll([request])
  const { body } = await list(owner)
  const item = {
    id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
    application: { id: owner.applicationId, name: expect.any(String) as string },
    deployment: { id: deploymentId, status: 'ACTIVE' },
    deploymentFunction: null,
    deploymentAsset: null,
    storageBucket: bucket,
    storageObject: null,
    request: {
      method: 'POST',
      hostname: 'shop.apps.example.com',
      path: '/buy',
      query: 'q=1&token=[redacted]&X-Amz-Signature=[redacted]&__sticky=[redacted]&empty=',
      protocol: 'HTTP/1.1',
      country: 'DE',
      userAgent: 'curl/8',
      referer: 'https://a.example.com/x',
    },
    response: { status: 302, cacheStatus: 'stale', cacheHit: true, region: null, edgeLocation: null },
    metrics: { requestBodyBytes: 0, responseBodyBytes: 5, bytesSent: 105, durationMs: 12 },
    startedAt: request.startedAt.toISOString(),
    completedAt: request.completedAt.toISOString(),
  }
  expect(body).toEqual({ items: [item], total: 1, nextCursor: null })
  const detail = await platform.call(
    owner.token,
    `GET /applications/${owner.applicationId}/requests/${body.items[0].id}`,
  )
  expect(detail.body).toEqual({
    ...item,
    requestHeaders: {
      'user-agent': 'curl/8',
      referer: 'https://a.example.com/x',
      authorization: '[redacted]',
      cookie: '[redacted]',
      'x-api-key': '[redacted]',
      accept: 'text/html',
    },
    responseHeaders: { 'set-cookie': '[redacted]', 'content-type': 'text/plain' },
  })
  const rows = await platform.api.db.select({ all: sql<string>`request_logs::text` }).from(requestLogs)
  expect(rows.some(({ all }) => all.includes('zzz'))).toBe(false)
})

test('text that no database takes is stored as near as it can be', async () => {
  const owner = await newOwner(platform)
  await writeAll([
    served(owner, 1, {
      path: `/a\0b\uD800${'x'.repeat(5_000)}`,
      query: '%ff=1&token%=x&\0',
      requestHeaders: { 'x-a': '\0\uDC00' },
    }),
  ])
  const { body } = await list(owner)
  expect(body.items[0].request.path).toMatch(/^\/a\uFFFDb\uFFFDx+$/)
  expect(body.items[0].request.path).toHaveLength(2_048)
})

describe('the filters (A §2, D96)', () => {
  let owner: Owner
  const [deploymentId, assetId, bucketId, objectId, functionId] = Array.from({ length: 5 }, () => randomUUID())
  const deploymentAsset = { id: assetId ?? '', path: '/old', objectKey: 'a' }
  const storageBucket = { id: bucketId ?? '', name: 'media', slug: 'media-x' }
  const storageObject = { id: objectId ?? '', key: 'a', contentType: 'image/png' }
  const deploymentFunction = { id: functionId ?? '', name: 'b', path: '/api/b', region: 'local' }
  beforeAll(async () => {
    owner = await newOwner(platform)
    await writeAll([
      served(owner, 5 * HOUR_MS, { path: '/old', deploymentId, region: 'us', servedBy: { deploymentAsset } }),
      served(owner, 4_000, { path: '/api/a', method: 'POST', status: 404, country: 'DE', region: 'eu' }),
      served(owner, 3_000, {
        path: '/api/b',
        status: 503,
        hostname: 'other.example.com',
        cacheStatus: 'miss',
        region: 'eu',
        edgeLocation: 'edge-1',
        servedBy: { deploymentFunction },
      }),
      served(owner, 2_000, {
        path: '/apix',
        cacheStatus: 'hit',
        country: 'FR',
        servedBy: { storageBucket, storageObject },
      }),
      served(owner, 1_000, { path: '/50%_off', status: 304, cacheStatus: 'revalidated' }),
    ])
  })
  test.each([
    ['', ['/50%_off', '/apix', '/api/b', '/api/a', '/old']],
    ['?method=POST', ['/api/a']],
    ['?status=503', ['/api/b']],
    ['?status=200', ['/apix', '/old']],
    ['?statusFamily=4xx', ['/api/a']],
    ['?statusFamily=2xx', ['/apix', '/old']],
    ['?statusFamily=2', ['/apix', '/old']],
    ['?status=404&statusFamily=5xx', []],
    ['?hostname=other.example.com', ['/api/b']],
    ['?pathPrefix=/api/', ['/api/b', '/api/a']],
    ['?pathPrefix=/api', ['/apix', '/api/b', '/api/a']],
    ['?pathPrefix=/', ['/50%_off', '/apix', '/api/b', '/api/a', '/old']],
    ['?pathPrefix=/50%25_', ['/50%_off']],
    ['?pathPrefix=/5%25', []],
    ['?country=DE', ['/api/a']],
    ['?cacheStatus=miss', ['/api/b']],
    ['?cacheHit=true', ['/50%_off', '/apix']],
    ['?cacheHit=false', ['/api/b', '/api/a', '/old']],
    [`?deploymentId=${deploymentId}`, ['/old']],
    [`?deploymentId=${randomUUID()}`, []],
    ['?method=POST&country=DE&statusFamily=4xx&cacheHit=false', ['/api/a']],
    [`?deploymentAssetId=${assetId}`, ['/old']],
    [`?deploymentAssetId=${functionId}`, []],
    [`?deploymentFunctionId=${functionId}`, ['/api/b']],
    [`?storageBucketId=${bucketId}`, ['/apix']],
    [`?storageObjectId=${objectId}&pathPrefix=/api`, ['/apix']],
    [`?storageObjectId=${objectId}&method=POST`, []],
    ['?region=eu', ['/api/b', '/api/a']],
    ['?region=eu&limit=1', ['/api/b'], 2],
    ['?edgeLocation=edge-1', ['/api/b']],
    ['?region=us', ['/old']],
    ['?region=us&status=200', ['/old']],
    ['?region=us&status=404', []],
  ] as [query: string, paths: string[], total?: number][])('%s', async (query, paths, total = paths.length) => {
    const answer = await list(owner, query)
    expect([pathsOf(answer), answer.body.total]).toEqual([paths, total])
  })

  test('hours in which a process of an earlier release counted no places are read', async () => {
    const places = and(eq(requestPlaceCounts.applicationId, owner.applicationId), eq(requestPlaceCounts.region, 'us'))
    const removed = await platform.api.db.delete(requestPlaceCounts).where(places).returning()
    expect(removed).toHaveLength(1)
    const answer = await list(owner, '?region=us')
    expect([pathsOf(answer), answer.body.total]).toEqual([['/old'], 1])
    await platform.api.db.insert(requestPlaceCounts).values(removed)
  })

  test('from is the first moment and to the first that is left out, to the millisecond', async () => {
    const all = (await list(owner)).body.items as { startedAt: string; request: { path: string } }[]
    for (const [first, end] of [
      [4, 0],
      [3, 1],
      [3, 2],
      [2, 2],
    ] as const) {
      const answer = await list(owner, `?from=${all[first]?.startedAt}&to=${all[end]?.startedAt}`)
      const paths = all.slice(end + 1, first + 1).map(({ request }) => request.path)
      expect([pathsOf(answer), answer.body.total]).toEqual([paths, paths.length])
    }
  })

  test.each([
    '?status=99',
    '?status=600',
    '?status=2xx',
    '?statusFamily=6xx',
    '?statusFamily=6',
    '?storageBucketId=x',
    '?method=get',
    '?country=de',
    '?country=DEU',
    '?cacheStatus=HIT',
    '?cacheHit=yes',
    '?deploymentId=x',
    '?from=yesterday',
    '?from=2026-11-21T00:00:00Z',
    '?limit=1001',
    '?pathPrefix=%00',
  ])('%s is a 422 in the query', async (query) => {
    expect(await list(owner, query)).toMatchObject({ status: 422, body: { type: 'validation', on: 'query' } })
  })
})

test.each([
  ['from=0001-01-01T00:00:00.000Z', 1],
  ['to=0001-01-01T00:00:00.000Z', 0],
  ['from=9999-12-31T23:59:59.999Z', 0],
  ['to=9999-12-31T23:59:59.999Z', 1],
  ['from=1969-12-31T23:59:59.999Z&to=9999-12-31T23:59:59.999Z', 1],
])('a span that reaches years beyond ids and Postgres is answered: %s', async (span, total) => {
  const owner = await newOwner(platform)
  await writeAll([served(owner, 1_000)])
  expect(await list(owner, `?${span}`)).toMatchObject({ status: 200, body: { total, items: { length: total } } })
})

test('page by page each request comes once, whatever arrives meanwhile; the cursor belongs to its filters (A §1 Cursor, D31, D33)', async () => {
  const owner = await newOwner(platform)
  await writeAll(Array.from({ length: 250 }, (_, i) => served(owner, 10_000 - i, { path: `/${i}` })))
  const seen: string[] = []
  let cursor = ''
  for (;;) {
    const { body } = await list(owner, `?limit=100&statusFamily=2xx${cursor && `&cursor=${cursor}`}`)
    expect(body.total).toBe(250)
    seen.push(...(body.items as { request: { path: string } }[]).map(({ request }) => request.path))
    if (body.nextCursor === null) break
    cursor = body.nextCursor as string
    await writeAll([served(owner, 0, { path: '/late' })])
  }
  expect(seen).toEqual(Array.from({ length: 250 }, (_, i) => `/${249 - i}`))
  expect((await list(owner, `?limit=100&cursor=${cursor}`)).status).toBe(400)
  expect((await list(ana, `?limit=100&statusFamily=2xx&cursor=${cursor}`)).status).toBe(400)
})

test('totals hold across hours, for ten writers at once', async () => {
  const owner = await newOwner(platform)
  const writers = Array.from({ length: 10 }, () => openRequestLog(platform.api))
  await Promise.all(
    writers.map(async (writer, w) => {
      for (let i = 0; i < 120; i++) writer.write(served(owner, i * 240_000 + w, { status: i % 4 === 0 ? 500 : 200 }))
      await writer.close()
    }),
  )
  const now = platform.clock.now().getTime()
  const at = (agoMs: number) => new Date(now - agoMs).toISOString()
  expect((await list(owner)).body.total).toBe(1_200)
  expect((await list(owner, '?statusFamily=5xx')).body.total).toBe(300)
  for (const [from, to] of [
    [7 * HOUR_MS + 1_234, 90 * 60_000],
    [20 * 60_000, 10 * 60_000],
    [3 * HOUR_MS, 1],
  ] as const) {
    const { body } = await list(owner, `?from=${at(from)}&to=${at(to)}`)
    const [counted] = await platform.api.db
      .select({ rows: sql<number>`count(*)::int` })
      .from(requestLogs)
      .where(
        sql`application_id = ${owner.applicationId} and completed_at - duration_ms * interval '1 ms' >= ${at(from)}::timestamptz
            and completed_at - duration_ms * interval '1 ms' < ${at(to)}::timestamptz`,
      )
    expect(body.total).toBe(counted?.rows)
  }
})

describe('of days with many requests, whose paths are ranked', () => {
  let owner: Owner
  let day: number
  const hostnames = ['a.example.com', 'b.example.com']
  const paths = [
    '/',
    '/a',
    '/a/',
    '/a/b',
    '/ab',
    '/b',
    '/ä',
    '/ÿ',
    '/😀',
    '/\uFFFD',
    '/~',
    '/%7F',
    '/b/50%_off',
    '/b\\c',
  ]
  /** Requests of three hours, most with distinct paths, so that an hour's paths need many rows. */
  const requests = (n: number): ServedRequest[] =>
    Array.from({ length: n }, (_, i) => ({
      ...served(owner, 0, {
        path: i % 3 === 0 ? (paths[i % paths.length] ?? '/') : `/products/${(i * 7_919) % 5_000}`,
        method: i % 50 === 49 ? 'POST' : 'GET',
        hostname: hostnames[i % 2] ?? '',
        country: i % 7 === 0 ? undefined : 'DE',
        status: i % 100 === 99 ? 503 : 200,
      }),
      startedAt: new Date(day + 5 * HOUR_MS + i * 4_000),
      completedAt: new Date(day + 5 * HOUR_MS + i * 4_000 + 12),
    }))
  const rankedHours = async (): Promise<number> => {
    const [row] = await platform.api.db.execute<{ hours: number }>(
      sql`select count(distinct hour)::int as hours from request_path_ranks where application_id = ${owner.applicationId}`,
    )
    return row?.hours ?? 0
  }
  const prefixes = [
    ...paths,
    '/p',
    '/products/',
    '/products/1',
    '/products/4999',
    '/products/5',
    '/a/b/c',
    '/\u{10FFFF}',
    'x',
    ' ',
  ]
  const others = [
    '',
    '&method=GET',
    '&method=POST',
    '&statusFamily=5xx',
    '&statusFamily=2xx',
    '&country=DE',
    '&hostname=a.example.com&cacheHit=false',
  ]
  const at = (ms: number) => new Date(day + ms).toISOString()
  /** Compares every reported total with the actual one. */
  async function compareTotals(): Promise<void> {
    const spans = [
      '',
      `&from=${at(5.5 * HOUR_MS)}&to=${at(7.2 * HOUR_MS)}`,
      `&from=${at(6 * HOUR_MS)}`,
      `&to=${at(6 * HOUR_MS)}`,
    ]
    const rows = await platform.api.db
      .select()
      .from(requestLogs)
      .where(eq(requestLogs.applicationId, owner.applicationId))
    for (const [n, prefix] of prefixes.entries())
      for (const [m, span] of spans.entries()) {
        const other = others[(n + m) % others.length] ?? ''
        const query = new URLSearchParams(`${other}${span}`)
        const expected = rows.filter((row) => {
          const startedAt = new Date(row.completedAt.getTime() - row.durationMs).toISOString()
          return (
            row.path.startsWith(prefix) &&
            startedAt >= (query.get('from') ?? '') &&
            startedAt < (query.get('to') ?? '9') &&
            row.method === (query.get('method') ?? row.method) &&
            row.hostname === (query.get('hostname') ?? row.hostname) &&
            row.country === (query.get('country') ?? row.country) &&
            `${Math.floor(row.status / 100)}xx` === (query.get('statusFamily') ?? `${Math.floor(row.status / 100)}xx`)
          )
        })
        const on = `?limit=3&pathPrefix=${encodeURIComponent(prefix)}${other}${span}`
        const { body } = await list(owner, on)
        expect([on, body.total, body.items.length]).toEqual([on, expected.length, Math.min(3, expected.length)])
      }
  }

  beforeAll(async () => {
    owner = await newOwner(platform)
    day = Math.floor(platform.clock.now().getTime() / DAY_MS - 1) * DAY_MS
    await writeAll(requests(2_600))
  })

  test('totals under a path are exact, before and after, under every other filter and span', async () => {
    await compareTotals()
    await Promise.all([openPathRanker()(platform.api), openPathRanker()(platform.api)])
    await openPathRanker()(platform.api) // ranks what was left by the run that found the lock taken
    expect(await rankedHours()).toBe(3)
    await compareTotals()
  })

  test('what is stored after its hour was ranked is counted at once, and ranked the next time', async () => {
    await openPathRanker()(platform.api)
    const total = async () => (await list(owner, '?pathPrefix=/late')).body.total as number
    expect(await total()).toBe(0)
    const [late] = requests(1)
    await writeAll([{ ...late, path: '/late' } as ServedRequest])
    expect(await total()).toBe(1)
    await openPathRanker()(platform.api)
    expect(await total()).toBe(1)
    await compareTotals()
  })

  test('an hour that is not over, or of a day with few requests, is not ranked', async () => {
    const few = await newOwner(platform)
    const now = platform.clock.now()
    await writeAll([
      served(few, 2 * HOUR_MS),
      ...Array.from({ length: 2_500 }, () => ({ ...served(ana, 0), startedAt: now })),
    ])
    await openPathRanker()(platform.api)
    const ranked = await platform.api.db.selectDistinct({ of: requestPathRanks.applicationId }).from(requestPathRanks)
    expect(ranked).toEqual([{ of: owner.applicationId }])
  })
})

test('what few requests match is found page by page, in whichever hours it lies', async () => {
  const owner = await newOwner(platform)
  const rare = [0.1, 0.2, 3.5, 9.5, 9.6, 9.7, 30.5, 47.5].map((hours) => hours * HOUR_MS)
  await writeAll([
    ...rare.map((ago, n) => served(owner, ago, { method: 'DELETE', path: `/rare/${n}` })),
    ...Array.from({ length: 480 }, (_, n) => served(owner, n * 0.1 * HOUR_MS)),
  ])
  for (const filter of ['method=DELETE', 'pathPrefix=/rare/', 'method=DELETE&pathPrefix=/rare/']) {
    const seen: string[] = []
    for (let cursor = ''; ;) {
      const answer = await list(owner, `?limit=2&${filter}${cursor && `&cursor=${cursor}`}`)
      expect(answer.body.total).toBe(rare.length)
      seen.push(...pathsOf(answer))
      if (answer.body.nextCursor === null) break
      cursor = answer.body.nextCursor as string
    }
    expect(seen).toEqual(rare.map((_, n) => `/rare/${n}`))
  }
  expect((await list(owner, '?method=PUT')).body).toEqual({ items: [], total: 0, nextCursor: null })
})

test("a plan's days are what can be seen (D77)", async () => {
  const owner = await newOwner(platform)
  await writeAll([served(owner, 2 * DAY_MS, { path: '/two' }), served(owner, 5 * DAY_MS, { path: '/five' })])
  expect((await list(owner)).body).toMatchObject({ total: 1, items: [{ request: { path: '/two' } }] })
  const long = new Date(platform.clock.now().getTime() - 30 * DAY_MS).toISOString()
  expect((await list(owner, `?from=${long}`)).body.total).toBe(1)
  await setQuota(platform.api, owner.organizationId, 'log_retention_days', 6)
  const { body } = await list(owner)
  expect(body.total).toBe(2)
  const [, five] = body.items
  const detail = `GET /applications/${owner.applicationId}/requests/${five.id}`
  expect((await platform.call(owner.token, detail)).status).toBe(200)
  await setQuota(platform.api, owner.organizationId, 'log_retention_days', null)
  expect((await platform.call(owner.token, detail)).status).toBe(404)
})

test('days to come are made, and days beyond every plan go, with their counts', async () => {
  const owner = await newOwner(platform)
  await writeAll([served(owner, 13 * DAY_MS, { path: '/kept' }), served(owner, 16 * DAY_MS, { path: '/gone' })])
  await platform.api.db.transaction((tx) =>
    rankHour(tx, owner.applicationId, hourOf(served(owner, 16 * DAY_MS).startedAt)),
  )
  await Promise.all(Array.from({ length: 6 }, () => keepDays(platform.api)))
  const rows = await platform.api.db
    .select({ path: requestLogs.path })
    .from(requestLogs)
    .where(eq(requestLogs.applicationId, owner.applicationId))
  expect(rows).toEqual([{ path: '/kept' }])
  const counted = await platform.api.db.execute(
    sql`select requests from request_counts where application_id = ${owner.applicationId}`,
  )
  expect(counted).toHaveLength(1)
  const ranked = await platform.api.db.execute(
    sql`select hour from request_path_ranks where application_id = ${owner.applicationId}`,
  )
  expect(ranked).toEqual([])
  const [row] = await platform.api.db.execute<{ days: string }>(
    sql`select count(*) as days from pg_inherits where inhparent = 'request_logs'::regclass`,
  )
  expect(Number(row?.days)).toBeGreaterThanOrEqual(4)
})

test("a request of another application, and one that is none, is the same 404; a key reads its own application's (D17)", async () => {
  const ben = await newOwner(platform)
  await writeAll([served(ben, 1)])
  const { id } = (await list(ben)).body.items[0]
  const missing = await platform.call(ana.token, `GET /applications/${ana.applicationId}/requests/${randomUUID()}`)
  for (const requestId of [id as string, 'x', '%00'])
    expect(
      await platform.call(ana.token, `GET /applications/${ana.applicationId}/requests/${requestId}`),
    ).toMatchObject({
      status: 404,
      text: missing.text,
    })
  const key = await newKey(platform, ben, ['network:applications:read'])
  expect((await platform.call(key.token, `GET /applications/${ben.applicationId}/requests/${id}`)).status).toBe(200)
  expect(
    (await platform.call(await ben.person.token(everyScope), `GET /applications/${ben.applicationId}/requests`)).status,
  ).toBe(200)
})
