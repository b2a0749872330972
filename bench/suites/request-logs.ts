import { ok } from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import type { Contender, Suite } from '../suite.ts'

const FEW = 100_000
const MANY = 10_000_000
const DAYS = 14
const DAY_MS = 86_400_000
const RANKED_WITHIN_MS = 900_000

/** What people narrow a list to, and what of it is rare: one request in 200 is a 5xx, one in 1,000 from Iceland. */
const filters: Record<string, string> = {
  'statusFamily=5xx': '&statusFamily=5xx',
  'status=404': '&status=404',
  'method=POST': '&method=POST',
  'hostname=…': '&hostname=b.example.com',
  'pathPrefix, rare': '&pathPrefix=/products/39595',
  'pathPrefix, 1 in 20': '&pathPrefix=/api/7',
  'pathPrefix, 1 in 2': '&pathPrefix=/api/',
  'pathPrefix, method': '&pathPrefix=/products/&method=GET',
  'pathPrefix, statusFamily': '&pathPrefix=/products/&statusFamily=5xx',
  'country, 1 in 1,000': '&country=IS',
  'cacheHit=false': '&cacheHit=false',
  'method=DELETE, none': '&method=DELETE',
}

/**
 * Fills the log of an application over 14 days and today until now, with its counts, in one go for each day. Ids are those of
 * the moments, as the service makes them.
 */
async function fill(sql: postgres.Sql, applicationId: string, requests: number): Promise<void> {
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  for (let day = -1; day < DAYS; day++) {
    const from = today - (day + 1) * DAY_MS
    const instantOf = (ms: number) =>
      `${ms
        .toString(16)
        .padStart(12, '0')
        .replace(/^(.{8})/, '$1-')}-0000-0000-000000000000`
    const name = `request_logs_${new Date(from).toISOString().slice(0, 10).replaceAll('-', '')}`
    await sql.unsafe(
      `create table if not exists ${name} partition of request_logs for values from ('${instantOf(from)}') to ('${instantOf(from + DAY_MS)}')`,
    )
    await sql`
      insert into request_logs
        (id, application_id, deployment_id, served_by, method, hostname, path, query, protocol, country, user_agent, referer, status,
         cache_status, region, edge_location, request_body_bytes, response_body_bytes, bytes_sent, duration_ms, completed_at,
         request_headers, response_headers)
      select (lpad(to_hex(ms), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
        ${applicationId}, null, '{}',
        case when n % 10 = 3 then 'POST' else 'GET' end,
        case when n % 4 = 1 then 'b.example.com' else 'a.example.com' end,
        case when n % 2 = 0 then '/api/' || (n / 2) % 10 else '/products/' || (n::bigint * 7919) % 5000000 end,
        '', 'HTTP/1.1',
        case when n % 1000 = 17 then 'IS' when n % 2 = 0 then 'DE' else 'FR' end,
        'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36', null,
        case when n % 200 = 5 then 503 when n % 100 = 7 then 404 else 200 end,
        case when n % 3 = 0 then 'miss' else 'hit' end,
        'eu', 'fra', 0, 1024, 1324, 12, to_timestamp(ms / 1000.0) + interval '12 ms',
        '{"accept":"text/html"}', '{"content-type":"text/html"}'
      from generate_series(1, ${Math.floor(requests / DAYS)}::int) n,
        lateral (select ${from}::bigint + (n::bigint * ${DAY_MS} / ${Math.floor(requests / DAYS) + 1}::int) as ms) t
      where ms < ${Date.now()}::bigint`
    await sql`
      insert into request_counts
        (application_id, hour, kind, method, hostname, status, country, cache_status, deployment_id, requests)
      select application_id, date_trunc('hour', completed_at - interval '12 ms'),
        decode(md5(method || hostname || status || country || cache_status), 'hex'), method, hostname, status, country,
        cache_status, null, count(*)
      from request_logs
      where application_id = ${applicationId} and id >= ${instantOf(from)}::uuid and id < ${instantOf(from + DAY_MS)}::uuid
      group by 1, 2, 3, 4, 5, 6, 7, 8`
  }
}

/** Waits until the worker has ranked the paths of all hours that are over. */
async function untilRanked(sql: postgres.Sql, applicationId: string): Promise<void> {
  for (const deadline = Date.now() + RANKED_WITHIN_MS; Date.now() < deadline; await sleep(500)) {
    const [row] = await sql<{ isDone: boolean }[]>`
      select (select count(distinct hour) from request_path_ranks where application_id = ${applicationId})
        = (select count(distinct hour) from request_counts
          where application_id = ${applicationId} and hour < date_trunc('hour', now())) as "isDone"`
    if (row?.isDone) return
  }
  throw new Error('The worker has not ranked all paths')
}

/** One page of 100 of ten million requests, plain and under each filter, and one of a hundred thousand, by one client. */
export const requestLogs: Suite = {
  name: 'request-logs',
  work: `GET /applications/{id}/requests, 100 of ${MANY}, with \`total\`, by filter`,
  isLarge: true,
  async prepare(lab) {
    const platform = await lab.platform()
    const organization = await platform.call<{ id: string }>('POST', '/organizations', { name: 'Logs' })
    const create = (name: string) =>
      platform.call<{ id: string }>('POST', '/applications', { organizationId: organization.id, name })
    const [many, few] = [await create('Many'), await create('Few')]
    const sql = postgres(lab.databaseUrl, { max: 1, onnotice: () => {} })
    try {
      await sql`insert into quota_overrides values (${organization.id}, 'log_retention_days', ${DAYS + 1}, now())`
      await fill(sql, many.id, MANY)
      await fill(sql, few.id, FEW)
      await sql`vacuum analyze request_logs`
      await sql`vacuum analyze request_counts`
      const worker = await platform.startWorker()
      await untilRanked(sql, many.id)
      await worker.stop()
      await sql`vacuum analyze request_path_ranks`
    } finally {
      await sql.end()
    }
    const pathOf = (id: string, filter = '') => `/applications/${id}/requests?limit=100${filter}`
    const yesterday = new Date(Date.now() - DAY_MS)
    const span = `&from=${new Date(yesterday.getTime() - DAY_MS / 3).toISOString()}&to=${yesterday.toISOString()}`
    const ours = { origin: platform.apiOrigin, pid: platform.apiPid }
    const contender = (name: string, path: string): Contender => ({ name, ...ours, path })
    const aim = { p50MsMax: 50 }
    return {
      load: {
        method: 'GET',
        path: pathOf(many.id),
        headers: async () => ({ authorization: `Bearer ${await platform.userToken()}` }),
        addressBlock: 23,
        connections: 1,
      },
      ours: contender('no filter', pathOf(many.id)),
      aim,
      peers: [
        { ...contender(`of ${FEW}`, pathOf(few.id)), aim: { cpuRatioMax: 1.5 } },
        { ...contender('from, to', pathOf(many.id, span)), aim },
        { ...contender('from, to, pathPrefix', pathOf(many.id, `${span}&pathPrefix=/api/`)), aim },
        ...Object.entries(filters).map(([name, filter]) => ({ ...contender(name, pathOf(many.id, filter)), aim })),
      ],
      async check(name, answer) {
        const { items, total } = (await answer.json()) as { items: unknown[]; total: number }
        const isRight = name.endsWith(', none') ? total === 0 : items.length > 0
        ok(isRight && total >= items.length, `${name}: ${items.length} of ${total}`)
      },
    }
  },
}
