// engines: postgres
import { randomBytes } from 'node:crypto'
import { newId, newIdAt } from '@platform/runtime/new-id'
import { rememberPartitions } from '@platform/runtime/partitions'
import { jobsAt } from '@platform/testing/api'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { tableNames } from '@platform/testkit/table-names'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { usageRowOf } from '../src/areas/ai/governance/record-usage.ts'
import { newOwner, type Owner } from './scenario.ts'
import { usageEvent } from './usage-events.ts'

/** The worker keeps what it does by default, but for AI usage: a year is up before 13 months are. */
const env = { AI_USAGE_RETENTION_MONTHS: '12' }

/** Tables whose rows go by a job of the worker, whatever people keep: how many there are follows from what is done a day. */
const boundedBy: Record<string, string> = {
  activities: 'discard activities',
  ai_budget_windows: 'discard the windows of AI budgets',
  ai_holds: 'settle the AI calls of killed processes',
  ai_response_items: 'discard what AI providers keep no more',
  ai_responses: 'discard what AI providers keep no more',
  ai_usage_events: 'keep the months of AI usage',
  ai_video_jobs: 'discard expired AI videos',
  artifact_encodings: 'collect the files of no deployment',
  artifacts: 'collect the files of no deployment',
  audit_events: 'discard audit events',
  blob_candidates: 'collect the bytes of what is gone',
  build_caches: 'discard what builds kept',
  build_logs: 'discard old deployments',
  cron_runs: 'discard the runs of crons',
  deployment_crons: 'discard old deployments',
  deployment_fallbacks: 'remove the files of retired deployments',
  deployment_files: 'remove the files of retired deployments',
  deployment_functions: 'discard old deployments',
  deployments: 'discard old deployments',
  edges: 'discard killed edges',
  followed_requests: 'discard the order of followed requests',
  function_files: 'remove the files of retired deployments',
  function_links: 'remove the files of retired deployments',
  function_slots: 'discard the slots of killed edges',
  idempotent_requests: 'discard idempotent requests',
  image_caches: 'keep image caches within their quotas',
  image_purges: 'keep image caches within their quotas',
  image_variants: 'keep image caches within their quotas',
  isr_claims: 'discard the pages of retired deployments',
  isr_data: 'discard the data of retired deployments',
  isr_pages: 'discard the pages of retired deployments',
  isr_tags: 'discard the data of retired deployments',
  isr_totals: 'discard the data of retired deployments',
  invitations: 'discard invitations',
  open_streams: 'discard the streams of killed processes',
  pattern_verdicts: 'discard the verdicts of unused patterns',
  'pgboss.job': 'discard the jobs of builds',
  removed_members: 'discard invitations',
  request_counts: 'keep the days of request logs',
  request_logs: 'keep the days of request logs',
  request_path_ranks: 'keep the days of request logs',
  request_place_counts: 'keep the days of request logs',
  request_summaries: 'discard the sums of requests',
  runtime_logs: 'keep the days of runtime logs',
  sticky_pins: 'discard the pins of expired sticky URLs',
  upload_blobs: 'expire uploads',
  uploads: 'expire uploads',
}

/** Tables that grow with what people keep, or with what the operator does. */
const growsWith: Record<string, string> = {
  ai_budgets: 'budgets',
  ai_policies: 'policies of the AI gateway',
  ai_provider_keys: 'keys of AI providers',
  ai_usage_sums: 'hours and days in which models were called: these sums stay (D125)',
  api_keys:
    'API keys: deleted ones stay, so that their holders learn of it (D1). Those of Functions go with their deployment',
  applications: 'applications',
  billing_caps: 'organizations',
  blobs: 'objects, and the files of deployments; what nothing refers to goes by `collect the bytes of what is gone`',
  bucket_configurations: 'buckets',
  bucket_counts: 'buckets: a fixed number each',
  buckets: 'buckets',
  deployment_counts: 'applications: one for each state of a deployment',
  'drizzle.__drizzle_migrations': 'releases',
  env_vars: 'variables',
  environment_deployment_counts: 'environments: one for each state of a deployment',
  environments: 'applications: two each',
  function_time: 'months in which Functions of an organization ran: what bills are made of',
  hostnames: 'applications: two each. Those of deployments go with them',
  image_totals: 'organizations',
  membership_counts: 'users',
  object_blobs: 'objects',
  objects: 'objects; the trash goes by `discard old trash`',
  organization_members: 'members',
  organizations: 'organizations',
  'pgboss.bam': 'releases: pg-boss’ own migrations',
  'pgboss.job_dependency': 'nothing: no job of ours depends on another',
  'pgboss.queue': 'releases: a migration makes each queue',
  'pgboss.queue_stats': 'nothing: pg-boss takes no statistics of our queues',
  'pgboss.schedule': 'nothing: crons are queued by the workers',
  'pgboss.subscription': 'nothing: no queue subscribes to another',
  'pgboss.version': 'nothing: one row',
  'pgboss.warning': 'nothing: warnings of pg-boss go to the log',
  product_entitlements: 'organizations: one for each product',
  product_subscriptions: 'organizations: one for each product',
  profiles: 'users',
  quota_overrides: 'quotas that the operator sets',
  signing_keys: 'rotations of keys: two a year, and one for each of the operator’s',
  stored_bytes: 'organizations',
}

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const START_MS = Date.UTC(2025, 0, 1)
/** The day from which on a year has gone round. */
const FLAT_FROM = 366
const DAYS = 400
/**
 * Days that are lived at once, with the jobs run at their end. What is left then follows from the age of each row, so it is the same
 * as if they had run every ten minutes.
 */
const DAYS_FIRST = FLAT_FROM
const DAYS_AT_ONCE = 17
/** The last days of those leave rows in every table. Of earlier ones nothing would be left but what is kept for longer. */
const LATE_DAYS = 40
const LOG_DAYS = 15

let platform: TestPlatform
let owner: Owner
beforeAll(async () => {
  platform = await startPlatform({ env })
  owner = await newOwner(platform)
})
afterAll(() => platform.close())

test('every table is bounded by a job of the worker, or grows with what people keep', async () => {
  const listed = [...Object.keys(boundedBy), ...Object.keys(growsWith)]
  expect(listed.toSorted()).toEqual(await tableNames(platform.databaseUrl))
  const jobs = jobsAt(platform.api, platform.api.now).map(({ name }) => name)
  expect(jobs).toEqual(expect.arrayContaining([...new Set(Object.values(boundedBy))]))
})

/** Inserts the rows that each of some days leaves in each bounded table, but for those that are partitioned by day: two deployments end. */
async function liveDays(days: readonly Date[]): Promise<void> {
  const { db } = platform.api
  const { organizationId, applicationId } = owner
  const rows = days.flatMap((at, place) =>
    ['retired', 'failed'].map((end) => ({
      at,
      end,
      late: place >= days.length - LATE_DAYS,
      id: newIdAt(at),
      n: Math.round(at.getTime() / 1_000) + (end === 'failed' ? 1 : 0),
      function: newId(),
      cron: newId(),
      artifact: randomBytes(32).toString('hex'),
      blob: newIdAt(at),
      page: newIdAt(at),
      image: newIdAt(at),
      upload: newIdAt(at),
      part: newIdAt(at),
    })),
  )
  const day = sql`json_to_recordset(${JSON.stringify(rows)}::json) as day(at timestamptz, "end" text, late boolean, id uuid, n bigint, function uuid,
    cron uuid, artifact text, blob uuid, page uuid, image uuid, upload uuid, part uuid)`
  const retired = sql`${day} where "end" = 'retired'`
  const late = sql`${day} where late`
  const lateRetired = sql`${retired} and late`
  const app = sql`${applicationId}::uuid`
  const organization = sql`${organizationId}::uuid`
  const production = sql`(select id from environments where application_id = ${app} and slug = 'production')`
  const holds = days.map((startedAt) => {
    const event = usageEvent(organizationId, startedAt)
    return { id: event.id, at: startedAt, event: usageRowOf(event) }
  })
  const statements = [
    sql`insert into activities (application_id, number, actor, subject, type, created_at) select ${app}, n, '{}', '{}', 'x', at from ${day}`,
    sql`insert into ai_budget_windows (organization_id, starts_at, period, is_allowance, spent_cost_nanos, spent_requests, spent_tokens,
      held_cost_nanos, held_requests, held_tokens) select ${organization}, at, 'day', false, 0, 0, 0, 0, 0, 0 from ${retired}`,
    sql`insert into ai_holds (id, organization_id, is_by_operator, started_at, cost_nanos, tokens, event, expires_at)
      select id, ${organization}, true, at, 0, 0, event, at from json_to_recordset(${JSON.stringify(
        holds,
        (_, value: unknown) => (typeof value === 'bigint' ? Number(value) : value),
      )}::json) as h(id uuid, at timestamptz, event jsonb)`,
    sql`insert into ai_responses (id, provider, organization_id, upstream_model, created_at) select id, 'p', ${organization}, 'm', at from ${late}`,
    sql`insert into ai_response_items (id, provider, organization_id, created_at) select id, 'p', ${organization}, at from ${late}`,
    sql`insert into ai_video_jobs (id, organization_id, event_id, created_at, expires_at, key_owner, model, provider, status, upstream_model)
      select id, ${organization}, id, at, at, 'operator', 'm', 'p', 'completed', 'm' from ${late}`,
    sql`insert into audit_events (id, at, action, actor, subject, details) select id, at, 'x', 'system', 'x', '{}' from ${day}`,
    sql`insert into blobs (id, content, length, state, created_at)
      select unnest(case "end" when 'retired' then array[blob, part, page, image] else array[blob, part] end), 'x', 1, 'live', at from ${late}`,
    sql`insert into blob_candidates (blob_id) select part from ${late}`,
    sql`insert into artifacts (sha256, blob_id, bytes, created_at) select decode(artifact, 'hex'), blob, 1, at from ${late}`,
    sql`insert into artifact_encodings (sha256, encoding, blob_id, bytes) select decode(artifact, 'hex'), 'br', blob, 1 from ${late}`,
    sql`insert into build_caches (environment_id, key, sha256, bytes, used_at) select ${production}, id, decode(artifact, 'hex'), 1, at from ${late}`,
    sql`insert into deployments (id, organization_id, application_id, environment_id, seq, status, label, created_by, output, retired_at,
        created_at, updated_at)
      select id, ${organization}, ${app}, ${production}, n, case "end" when 'retired' then 'ACTIVE' else 'FAILED' end, 'site-' || n, '{}',
        case when late and "end" = 'retired' then '{}'::jsonb end, case "end" when 'retired' then at end, at, at from ${day}`,
    sql`insert into build_logs (deployment_id, id, type, message, created_at) select id, id, 'INFO', 'x', at from ${day}`,
    sql`insert into hostnames (id, application_id, deployment_id, label, source, type, created_at)
      select id, ${app}, id, 'site-' || n, 'system', 'DEPLOYMENT', at from ${day}`,
    sql`insert into api_keys (id, application_id, deployment_id, environment_id, name, scopes, secret_hash, created_at, updated_at, deleted_at)
      select id, ${app}, id, ${production}, 'x', '{}', 'x', at, at, at from ${day}`,
    sql`insert into deployment_functions (id, deployment_id, path, kind, handler, is_web, has_helpers, environment)
      select function, id, 'api', 'handler', 'x', false, false, '{}' from ${retired}`,
    sql`insert into function_files (function_id, path, sha256, bytes, is_executable) select function, 'x', decode(artifact, 'hex'), 1, false from ${lateRetired}`,
    sql`insert into function_links (function_id, path, target) select function, 'y', 'x' from ${lateRetired}`,
    sql`insert into function_slots (function_id, process_id, memory_bytes, slots, seen_at) select function, id, 1, 1, at from ${lateRetired}`,
    sql`insert into sticky_pins (function_id, key_hash, edge_id, expires_at) select function, 'x', id, at from ${lateRetired}`,
    sql`insert into deployment_files (deployment_id, path, sha256, bytes, content_type) select id, 'x', decode(artifact, 'hex'), 1, 'x' from ${lateRetired}`,
    sql`insert into deployment_fallbacks (deployment_id, path, sha256, bytes) select id, 'x', decode(artifact, 'hex'), 1 from ${lateRetired}`,
    sql`insert into deployment_crons (id, deployment_id, n, path, schedule) select cron, id, 0, '/', '* * * * *' from ${retired}`,
    sql`insert into cron_runs (id, cron_id, trigger, due_at, lease_until) select id, cron, 'manual', at, at from ${lateRetired}`,
    sql`insert into image_caches (deployment_id, epoch) select id, 1 from ${lateRetired}`,
    sql`insert into image_purges (deployment_id, source, epoch, purged_at) select id, 'x', 1, at from ${lateRetired}`,
    sql`insert into image_variants (deployment_id, key, organization_id, source, blob_id, bytes, content_type, last_used_at)
      select id, 'x', ${organization}, 'x', image, 1, 'image/webp', at from ${lateRetired}`,
    sql`insert into isr_pages (deployment_id, key, path, blob_id, bytes, headers, status, tags, begun_at) select id, 'x', '/', page, 1, '{}', 200, '{}', at from ${lateRetired}`,
    sql`insert into isr_claims (deployment_id, key, until) select id, 'x', clock_timestamp() - interval '1 s' from ${lateRetired}`,
    sql`insert into isr_data (deployment_id, key, value, bytes, tags, stored_at) select id, 'x', 'x', 1, '{}', at from ${lateRetired}`,
    sql`insert into isr_tags (deployment_id, tag, stale_at) select id, 'x', at from ${lateRetired}`,
    sql`insert into isr_totals (deployment_id) select id from ${lateRetired}`,
    sql`insert into pattern_verdicts (key, verdict, steps, used_at) select decode(artifact, 'hex'), '{}', 1, at from ${day}`,
    sql`insert into edges (id, internal_url, lease_until) select id, 'http://10.0.0.1', at from ${late}`,
    sql`insert into followed_requests (application_id, request_id, stored_at) select ${app}, id, at from ${late}`,
    sql`insert into invitations (id, organization_id, email, role, token_hash, is_mailed, created_at, expires_at)
      select id, ${organization}, n || '@example.com', 'MEMBER', decode(artifact, 'hex'), false, at, at + interval '7 days' from ${late}`,
    sql`insert into removed_members (organization_id, user_id, removed_at) select ${organization}, id, at from ${late}`,
    sql`insert into idempotent_requests (caller_id, operation, key, created_at) select 'x', 'x', id, at from ${late}`,
    sql`insert into open_streams (id, process_id, resource, expires_at) select id, id, 'x', at from ${late}`,
    sql`insert into request_counts (application_id, hour, kind, method, hostname, status, requests) select ${app}, at, 'x', 'GET', 'x', 200, 1 from ${lateRetired}`,
    sql`insert into request_place_counts (application_id, hour, region, edge_location, storage_bucket_id, requests) select ${app}, at, '', '', '', 1 from ${lateRetired}`,
    sql`insert into request_path_ranks (application_id, hour, kind, first_path, paths, running) select ${app}, at, '', '/', '{}', '{}' from ${lateRetired}`,
    sql`insert into request_summaries (application_id, at, minutes, dimension, value, bucket, requests, request_body_bytes,
        response_body_bytes, bytes_sent)
      select ${app}, at, minutes, 'total', '', 0, 1, 0, 0, 0 from unnest(array[1, 60, 1440]) minutes, ${lateRetired}`,
    sql`insert into uploads (id, kind, key, state, content_type, headers, metadata, tags, created_at, updated_at, expires_at)
      select upload, 'session', 'x', 'completed', 'x', '{}', '{}', '{}', at, at, at from ${late}`,
    sql`insert into upload_blobs (upload_id, part, n, blob_id, length, uploaded_at) select upload, 1, 0, part, 1, at from ${late}`,
    sql`insert into pgboss.job (id, name, state, created_on, completed_on, deletion_seconds)
      select gen_random_uuid(), queue.name, 'completed', now(), now(), deletion_seconds from pgboss.queue, ${lateRetired}`,
  ]
  for (const statement of statements) await db.execute(statement)
}

/** Inserts the rows of a day into the tables that are partitioned by day. */
async function logDay(day: Date): Promise<void> {
  const { db } = platform.api
  const [app, id] = [sql`${owner.applicationId}::uuid`, sql`${newIdAt(day)}::uuid`]
  await rememberPartitions({ db }, 'request_logs')([day], async () => {
    await db.execute(sql`insert into request_logs (id, application_id, served_by, method, hostname, path, query, protocol, status,
        request_body_bytes, response_body_bytes, bytes_sent, duration_ms, completed_at, request_headers, response_headers)
      values (${id}, ${app}, '{}', 'GET', 'x', '/', '', 'HTTP/1.1', 200, 0, 0, 0, 1, ${day.toISOString()}, '{}', '{}')`)
  })
  await rememberPartitions({ db }, 'runtime_logs')([day], async () => {
    await db.execute(sql`insert into runtime_logs (id, application_id, deployment_id, function_id, function_name, slot, level, message)
      values (${id}, ${app}, ${id}, ${id}, 'x', 0, 'INFO', 'x')`)
  })
}

/** pg-boss goes by the database's clock, so its rows are made older instead. */
async function ageJobs(days: number): Promise<void> {
  const age = sql`${days} * interval '1 day'`
  await platform.api.db.execute(sql`update pgboss.job set completed_on = completed_on - ${age}`)
  await platform.api.db.execute(sql`update pgboss.queue set maintain_on = maintain_on - ${age}`)
}

/**
 * How many rows each table has; of AI usage how many partitions, since months differ in length. Nobody keeps anything new here, so
 * tables that are not bounded are as flat, but for the sums of AI usage.
 */
async function countRows(): Promise<Record<string, number>> {
  const { ai_usage_sums: _sums, ...others } = growsWith
  const counted = Object.keys({ ...boundedBy, ...others }).map((table) =>
    table === 'ai_usage_events'
      ? sql`select ${table} as name, count(*)::int as n from pg_inherits where inhparent = ${table}::regclass`
      : sql`select ${table} as name, count(*)::int as n from ${sql.raw(table)}`,
  )
  const rows = await platform.api.db.execute<{ name: string; n: number }>(sql.join(counted, sql` union all `))
  return Object.fromEntries(rows.map(({ name, n }) => [name, n]))
}

test('under the jobs of a worker, every bounded table has as many rows on day 366 as on day 400', async () => {
  const flat = new Map<string, Set<number>>()
  const most: Record<string, number> = {}
  for (let day = 0; day < DAYS;) {
    const last = day === 0 ? DAYS_FIRST : day + DAYS_AT_ONCE
    const days = Array.from({ length: last - day }, (_, n) => new Date(START_MS + (day + n) * DAY_MS + 12 * HOUR_MS))
    await liveDays(days)
    for (const each of days.slice(-LOG_DAYS)) await logDay(each)
    for (const [table, n] of Object.entries(await countRows())) most[table] = Math.max(most[table] ?? 0, n)
    await ageJobs(last - day)
    day = last
    // Twice, since bytes go an hour after what referred to them.
    for (const laterMs of [0, 2 * HOUR_MS]) {
      const now = () => new Date(START_MS + day * DAY_MS + laterMs)
      for (const { run } of jobsAt(platform.api, now)) await run()
    }
    if (day >= FLAT_FROM)
      for (const [table, n] of Object.entries(await countRows())) flat.set(table, (flat.get(table) ?? new Set()).add(n))
  }
  const changing = [...flat].filter(([, counts]) => counts.size > 1)
  expect(Object.fromEntries(changing.map(([table, counts]) => [table, [...counts]]))).toEqual({})
  // A table that never had a row would be flat without any job.
  const unused = Object.keys(boundedBy).filter((table) => most[table] === 0)
  expect(unused).toEqual([])
})
