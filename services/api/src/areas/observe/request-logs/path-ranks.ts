import { inBatch } from '@platform/runtime/discard-rows'
import { firstIdAt } from '@platform/runtime/new-id'
import { and, asc, eq, gte, lt, type SQL, type SQLWrapper, sql, sum } from 'drizzle-orm'
import type { ObserveDeps } from '../deps.ts'
import { matching, type RequestFilters } from './filters.ts'
import { hourAfter, hourOf, type Span } from './hours.ts'
import { requestCounts, requestLogs, requestPathRanks } from './table.ts'

const DAY_MS = 86_400_000
/** Few enough paths of usual length that the row is not stored out of line. */
const PATHS_A_ROW = 64
/** Days with fewer requests are not ranked: counting their rows takes a millisecond. */
const REQUESTS_A_DAY_MIN = 2_000
const APPLICATIONS_AT_ONCE = 100
/** Ranking an hour of a million requests takes seconds. */
const STATEMENT_TIMEOUT = '60s'

type Db = Pick<ObserveDeps['db'], 'select' | 'delete' | 'execute'>

/** The kind of rows that rank all requests of an hour. */
const everyKind = sql`'\\x'::bytea`

/** The ranks of an hour, for one kind of request. */
const ranksOf = (applicationId: SQLWrapper | string, hour: SQLWrapper, kind: SQLWrapper): SQL =>
  sql`from ${requestPathRanks} where ${requestPathRanks.hour} = ${hour}
    and ${requestPathRanks.applicationId} = ${applicationId} and ${requestPathRanks.kind} = ${kind}`

/** The number of requests of an hour that were ranked; null if none were. */
const rankedOf = (applicationId: SQLWrapper | string, hour: SQLWrapper): SQL =>
  sql`(select running[cardinality(running)] ${ranksOf(applicationId, hour, everyKind)} order by first_path desc limit 1)`

/** The number of requests of an hour and a kind with paths before a given one. */
const rankOf = (applicationId: string, hour: SQLWrapper, kind: SQLWrapper, path: Buffer): SQL =>
  sql`coalesce((select running[width_bucket(${path}::bytea, paths) - (${path}::bytea = any(paths))::int]
    ${ranksOf(applicationId, hour, kind)} and first_path < ${path}::bytea order by first_path desc limit 1), 0)`

/**
 * Ranks the paths of an hour: sorts them, each with the number of its requests and of those before it, for all requests and for
 * each kind in request_counts. Replaces earlier ranks.
 */
export async function rankHour(db: Db, applicationId: string, hour: Date): Promise<void> {
  const [logs, counts] = [requestLogs, requestCounts]
  const end = hourAfter(hour)
  await db
    .delete(requestPathRanks)
    .where(and(eq(requestPathRanks.hour, hour), eq(requestPathRanks.applicationId, applicationId)))
  await db.execute(sql`
    with counted as materialized (
      select convert_to(${logs.path}, 'UTF8') as path, ${counts.kind} as kind, count(*) as requests
      from ${logs} join ${counts} on ${counts.applicationId} = ${logs.applicationId}
        and ${counts.hour} = ${hour.toISOString()}::timestamptz
        and ${counts.method} = ${logs.method} and ${counts.hostname} = ${logs.hostname} and ${counts.status} = ${logs.status}
        and ${counts.country} is not distinct from ${logs.country}
        and ${counts.cacheStatus} is not distinct from ${logs.cacheStatus}
        and ${counts.deploymentId} is not distinct from ${logs.deploymentId}
      where ${logs.applicationId} = ${applicationId} and ${logs.id} >= ${firstIdAt(hour)} and ${logs.id} < ${firstIdAt(end)}
      group by 1, 2
    ), ranked as (
      select kind, path, sum(requests) over upward as running, (row_number() over upward - 1) / ${PATHS_A_ROW}::int as part
      from (
        select kind, path, requests from counted
        union all select ${everyKind}, path, sum(requests) from counted group by path
      ) of_kinds
      window upward as (partition by kind order by path)
    )
    insert into ${requestPathRanks} (hour, application_id, kind, first_path, paths, running)
    select ${hour.toISOString()}::timestamptz, ${applicationId}::uuid, kind, (array_agg(path order by path))[1],
      array_agg(path order by path), array_agg(running::int order by path)
    from ranked group by kind, part`)
}

/** The next applications that have logs, by id. */
async function applicationsAfter({ db }: Pick<ObserveDeps, 'db'>, id: string): Promise<string[]> {
  const next = (after: SQL) =>
    sql`(select application_id from ${requestCounts} where application_id > ${after} order by 1 limit 1)`
  const rows = await db.execute<{ id: string }>(sql`
    with recursive found(id, n) as (
      select ${next(sql`${id}::uuid`)}, 1
      union all select ${next(sql`found.id`)}, n + 1 from found where id is not null and n < ${APPLICATIONS_AT_ONCE}
    ) select id from found where id is not null`)
  return rows.map((row) => row.id)
}

/** The hours of a span whose ranks are missing or incomplete. */
async function unrankedHours(
  { db }: Pick<ObserveDeps, 'db'>,
  applicationId: string,
  from: Date,
  to: Date,
): Promise<Date[]> {
  const counted = db
    .select({
      hour: requestCounts.hour,
      requests: sum(requestCounts.requests).as('requests'),
      ofDay: sql<number>`sum(sum(${requestCounts.requests})) over (partition by date_trunc('day', hour, 'UTC'))`.as(
        'of_day',
      ),
    })
    .from(requestCounts)
    .where(
      and(eq(requestCounts.applicationId, applicationId), gte(requestCounts.hour, from), lt(requestCounts.hour, to)),
    )
    .groupBy(requestCounts.hour)
    .as('counted')
  const rows = await db
    .select({ hour: counted.hour })
    .from(counted)
    .where(
      and(
        gte(counted.ofDay, REQUESTS_A_DAY_MIN),
        sql`${rankedOf(applicationId, counted.hour)} is distinct from ${counted.requests}`,
      ),
    )
    .orderBy(asc(counted.hour))
  return rows.map(({ hour }) => hour)
}

/**
 * Creates the job that ranks past hours of applications with many requests that day. Its first run checks everything stored,
 * later ones today and the day before. Of several processes one works at a time.
 */
export function openPathRanker(): (deps: Pick<ObserveDeps, 'db' | 'now'>) => Promise<void> {
  let from = new Date(0)
  return async (deps) => {
    const end = hourOf(deps.now())
    for (let after = '00000000-0000-0000-0000-000000000000'; ;) {
      const applications = await applicationsAfter(deps, after)
      for (const id of applications)
        for (const hour of await unrankedHours(deps, id, from, end)) {
          const done = await inBatch(deps.db, async (tx) => {
            await tx.execute(sql.raw(`set local statement_timeout = '${STATEMENT_TIMEOUT}'`))
            await rankHour(tx, id, hour)
            return true
          })
          if (!done) return
        }
      const last = applications.at(-1)
      if (last === undefined) break
      after = last
    }
    from = new Date(Math.floor(end.getTime() / DAY_MS - 1) * DAY_MS)
  }
}

/**
 * Counts matching requests under a path for whole hours; undefined for an hour whose rows have to be counted. An hour counts as
 * ranked if its ranks cover as many requests as its counts, so late arrivals are not missed.
 */
export async function countRankedHours(
  { db }: Pick<ObserveDeps, 'db'>,
  applicationId: string,
  hours: Span,
  { pathPrefix = '', ...others }: RequestFilters,
): Promise<{ from: Date; to: Date; requests: number; total: number | undefined }[]> {
  const first = Buffer.from(pathPrefix)
  const end = Buffer.from(first)
  end[end.length - 1] = (end.at(-1) ?? 0) + 1 // never overflows: UTF-8 has no byte 0xff
  const ofKind = sql`(${and(...matching(requestCounts, others)) ?? sql`true`}) is true`
  const counted = db
    .select({
      hour: requestCounts.hour,
      requests: sum(requestCounts.requests).as('requests'),
      // If most kinds match, the others are subtracted from the total.
      isMost: sql<boolean>`count(*) filter (where ${ofKind}) * 2 > count(*)`.as('is_most'),
    })
    .from(requestCounts)
    .where(
      and(
        eq(requestCounts.applicationId, applicationId),
        gte(requestCounts.hour, hours.from),
        hours.to && lt(requestCounts.hour, hours.to),
      ),
    )
    .groupBy(requestCounts.hour)
    .as('counted')
  const between = (kind: SQLWrapper): SQL =>
    sql`(${rankOf(applicationId, counted.hour, kind, end)} - ${rankOf(applicationId, counted.hour, kind, first)})`
  const ofFewer = db
    .select({ total: sql`coalesce(sum(${between(requestCounts.kind)}), 0)` })
    .from(requestCounts)
    .where(
      and(
        eq(requestCounts.applicationId, applicationId),
        eq(requestCounts.hour, counted.hour),
        sql`(${ofKind}) <> ${counted.isMost}`,
      ),
    )
  const rows = await db
    .select({
      hour: counted.hour,
      requests: counted.requests,
      total: sql<number | null>`case when ${rankedOf(applicationId, counted.hour)} = ${counted.requests} then
        case when ${counted.isMost} then ${between(everyKind)} else 0 end
        + case when ${counted.isMost} then -1 else 1 end * (${ofFewer}) end`.mapWith(Number),
    })
    .from(counted)
    .orderBy(asc(counted.hour))
  return rows.map(({ hour, requests, total }) => ({
    from: hour,
    to: hourAfter(hour),
    requests: Number(requests),
    total: total ?? undefined,
  }))
}
