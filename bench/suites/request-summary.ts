import { ok } from 'node:assert/strict'
import postgres from 'postgres'
import type { Contender, Suite } from '../suite.ts'

const REQUESTS = 10_000_000
const DAYS = 34
const DAY_MS = 86_400_000

/** What requests have of each dimension: how many values, and how many buckets of duration they fall into. */
const dimensions = { total: 1, status: 5, path: 100, hostname: 2, country: 20, cacheStatus: 3, deploymentId: 4 }
const BUCKETS = 6

/** The sums of ten million requests, spread evenly over 34 days until now. */
async function fill(sql: postgres.Sql, applicationId: string): Promise<void> {
  for (const [minutes, kept] of [
    [1, 2 * DAY_MS],
    [60, DAYS * DAY_MS],
    [1_440, DAYS * DAY_MS],
  ] as const)
    for (const [dimension, values] of Object.entries(dimensions)) {
      const ms = minutes * 60_000
      const last = Math.floor(Date.now() / ms)
      const spans = Math.floor(kept / ms)
      // No span has more rows than requests.
      const inSpan = (REQUESTS * ms) / (DAYS * DAY_MS)
      const shown = Math.max(1, Math.min(values, Math.floor(inSpan / BUCKETS)))
      const requests = Math.max(1, Math.round(inSpan / shown / BUCKETS))
      await sql`
        insert into request_summaries
        select ${applicationId}, ${minutes}, ${dimension}, to_timestamp((${last}::bigint - n) * ${ms / 1_000}::bigint), value::text, bucket,
          ${requests}, ${requests * 200}, ${requests * 4_000}, ${requests * 4_300}
        from generate_series(0, ${spans - 1}::int) n, generate_series(1, ${shown}::int) value, generate_series(1, ${BUCKETS}::int) bucket`
    }
}

/** Sums of ten million requests, by one client: by the hour and by the minute, in groups. */
export const requestSummary: Suite = {
  name: 'request-summary',
  work: `GET /applications/{id}/requests/summary of ${REQUESTS} requests`,
  isLarge: true,
  async prepare(lab) {
    const platform = await lab.platform()
    const organization = await platform.call<{ id: string }>('POST', '/organizations', { name: 'Sums' })
    const { id } = await platform.call<{ id: string }>('POST', '/applications', {
      organizationId: organization.id,
      name: 'Sums',
    })
    const sql = postgres(lab.databaseUrl, { max: 1, onnotice: () => {} })
    await fill(sql, id)
    await sql`vacuum analyze request_summaries`
    await sql.end()
    const ago = (ms: number) => new Date(Date.now() - ms).toISOString()
    const month = `from=${ago(33 * DAY_MS)}`
    const ours = { origin: platform.apiOrigin, pid: platform.apiPid }
    const of = (name: string, query: string): Contender => ({
      name,
      ...ours,
      path: `/applications/${id}/requests/summary?${query}`,
    })
    const aim = { p50MsMax: 50 }
    return {
      load: {
        method: 'GET',
        path: `/applications/${id}/requests/summary`,
        headers: async () => ({ authorization: `Bearer ${await platform.userToken()}` }),
        addressBlock: 24,
        connections: 1,
      },
      ours: of('33 days', month),
      aim,
      peers: [
        { ...of('33 days by status', `${month}&groupBy=status`), aim },
        { ...of('33 days by path', `${month}&groupBy=path`), aim },
        { ...of('24 hours by path', 'groupBy=path'), aim },
        { ...of('2 days by the minute', `from=${ago(1.9 * DAY_MS)}&interval=minute`), aim },
      ],
      async check(name, answer) {
        const { total } = (await answer.json()) as { total: { requests: number } }
        ok(total.requests > 100_000, `${name}: ${total.requests}`)
      },
    }
  },
}
