import { strictEqual } from 'node:assert/strict'
import postgres from 'postgres'
import type { Contender, Suite } from '../suite.ts'

const EVENTS = 10_000_000
const AT_ONCE = 500_000
const DAYS = 34
const DAY_MS = 86_400_000

/**
 * Ten million usage events, spread evenly over 34 days until now, of 20 users, 5 applications and 8 models, and their sums. The sums are
 * made at once: the trigger that keeps them would take an hour.
 */
async function fill(sql: postgres.Sql, organizationId: string): Promise<void> {
  const first = Date.now() - DAYS * DAY_MS
  const months = [0, 1, 2].map(
    (n) => new Date(Date.UTC(new Date(first).getUTCFullYear(), new Date(first).getUTCMonth() + n)),
  )
  const idAt = (time: Date) => {
    const hex = time.getTime().toString(16).padStart(12, '0')
    return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
  }
  for (const [n, month] of months.slice(0, 2).entries()) {
    const next = months[n + 1] ?? month
    const name = `ai_usage_events_${month.toISOString().slice(0, 7).replace('-', '')}`
    await sql.unsafe(
      `create table if not exists ${name} partition of ai_usage_events for values from ('${idAt(month)}') to ('${idAt(next)}')`,
    )
  }
  await sql`alter table ai_usage_events disable trigger ai_usage_arrived`
  for (let from = 0; from < EVENTS; from += AT_ONCE)
    await sql`
      insert into ai_usage_events
        (id, organization_id, application_id, actor_id, actor_type, authenticated_user_id, model_requested, model_served, provider,
          provider_attempts, operation, status, status_code, input_tokens, cache_read_tokens, cache_write_tokens, input_audio_tokens,
          output_tokens, reasoning_tokens, output_audio_tokens, usage_source, provider_cost_nanos, billable_cost_nanos, key_owner,
          counted_requests, counted_tokens, counted_cost_nanos, streaming, latency_ms, started_at, completed_at, created_at, updated_at)
      select (substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || '-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ${organizationId},
        ('00000000-0000-4000-8000-00000000000' || n % 5)::uuid, 'user-' || n % 20, 'user', 'user-' || n % 20, 'model-' || n % 8,
        'model-' || n % 8, 'provider-' || n % 2, '[]', 'chat.completions', case when n % 50 = 0 then 'error' else 'success' end, 200,
        1000, 0, 0, 0, 200, 0, 0, 'provider', 270000, 270000, 'operator', 1, 1200, 270000, false, 900, at, at, at, at
      from (
        select n, to_timestamp(ms / 1000.0) as at, lpad(to_hex(ms), 12, '0') as hex
        from (
          select n, ${first}::bigint + n * ${DAYS * DAY_MS}::bigint / ${EVENTS}::bigint as ms
          from generate_series(${from}::bigint, ${from + AT_ONCE - 1}::bigint) n
        ) numbered
      ) timed`
  await sql`alter table ai_usage_events enable trigger ai_usage_arrived`
  await sql`
    insert into ai_usage_sums
      (organization_id, span, at, application_id, user_id, model, provider, is_by_operator, requests, successes, errors, cancelled,
        input_tokens, output_tokens, latency_ms, provider_cost_nanos, billable_cost_nanos, counted_requests, counted_tokens,
        counted_cost_nanos)
    select organization_id, span, date_trunc(span, started_at, 'UTC'), application_id, authenticated_user_id, model_served, provider,
      true, count(*), count(*) filter (where status = 'success'), count(*) filter (where status = 'error'), 0, sum(input_tokens),
      sum(output_tokens), sum(latency_ms), sum(provider_cost_nanos), sum(billable_cost_nanos), count(*), sum(counted_tokens),
      sum(counted_cost_nanos)
    from ai_usage_events, (values ('hour'), ('day')) spans (span)
    where organization_id = ${organizationId} group by 1, 2, 3, 4, 5, 6, 7`
}

/** Usage of ten million calls, asked for by one client. */
export const aiUsage: Suite = {
  name: 'ai-usage',
  work: `GET /organizations/{id}/ai-gateway/usage/summary and /requests of ${EVENTS} events`,
  isLarge: true,
  async prepare(lab) {
    const platform = await lab.platform()
    const { id } = await platform.call<{ id: string }>('POST', '/organizations', { name: 'Usage' })
    const sql = postgres(lab.databaseUrl, { max: 1, onnotice: () => {} })
    await fill(sql, id)
    await sql`vacuum analyze ai_usage_events`
    await sql`vacuum analyze ai_usage_sums`
    await sql.end()
    const path = `/organizations/${id}/ai-gateway/usage`
    const ours = { origin: platform.apiOrigin, pid: platform.apiPid }
    const of = (name: string, tail: string): Contender => ({ name, ...ours, path: path + tail })
    const from = new Date(Date.now() - 33.3 * DAY_MS).toISOString()
    const aim = { p50MsMax: 50 }
    return {
      load: {
        method: 'GET',
        path,
        headers: async () => ({ authorization: `Bearer ${await platform.userToken()}` }),
        addressBlock: 79,
        connections: 1,
      },
      ours: of('summary of 30 days', '/summary'),
      aim,
      peers: [
        { ...of('summary of 33.3 days', `/summary?from=${from}`), aim },
        { ...of('summary of 33.3 days by the hour', `/summary?from=${from}&interval=hour`), aim: {} },
        { ...of('requests, first page', '/requests'), aim },
        { ...of('requests of a model', `/requests?from=${from}&model=model-2&status=error`), aim },
      ],
      async check(name, answer) {
        const { total, summary } = (await answer.json()) as { total?: number; summary?: { requestCount: number } }
        strictEqual((total ?? summary?.requestCount ?? 0) > 10_000, true, name)
      },
    }
  },
}
