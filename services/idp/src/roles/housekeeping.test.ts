// engines: postgres
import { openDatabase } from '@platform/runtime/database'
import { newIdAt } from '@platform/runtime/new-id'
import { auditEvents } from '@platform/service/audit-table'
import { tableNames } from '@platform/testkit/table-names'
import { sql } from 'drizzle-orm'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startTestIdp, type TestIdp, type TestPerson } from '../../test/start.ts'
import { discardExpired, housekeepingJobs } from './housekeeping.ts'

const DAY = 86_400_000
const tables = [
  'sessions',
  'one_time_links',
  'used_challenges',
  'sign_ups',
  'authorization_codes',
  'device_authorizations',
  'attempts',
  'refresh_families',
] as const

let idp: TestIdp
let ana: TestPerson
beforeEach(async () => {
  idp = await startTestIdp()
  ana = await idp.person()
  await idp.client()
})
afterEach(() => idp.close())

/** Inserts `count` rows into every table, all of which expire at the given time. */
async function fill(count: number, end: Date): Promise<void> {
  const rows = sql`(select n, gen_random_uuid() as id, ${end.toISOString()}::timestamptz as at,
      decode(md5(random()::text), 'hex') as hash, ${ana.userId}::uuid as person, (select id from clients limit 1) as client
    from generate_series(1, ${count}) n) as row`
  const statements = [
    sql`insert into sessions (id, cookie_hash, user_id, auth_time, amr, created_at, last_seen_at, expires_at)
      select id, hash, person, at, 'pwd', at, at, at from ${rows}`,
    sql`insert into one_time_links (token_hash, purpose, user_id, created_at, expires_at)
      select hash, 'set-password', person, at, at from ${rows}`,
    sql`insert into used_challenges (challenge_hash, expires_at) select hash, at from ${rows}`,
    sql`insert into sign_ups (browser_hash, email, code_hash, guesses, return_to, expires_at)
      select hash, 'x@example.com', hash, 0, 'x', at from ${rows}`,
    sql`insert into authorization_codes (code_hash, client_id, user_id, redirect_uri, scope, auth_time, amr, sid, expires_at)
      select hash, client, person, 'x', 'openid', at, 'pwd', id, at from ${rows}`,
    sql`insert into device_authorizations
        (device_code_hash, user_code, client_id, scope, address, created_at, expires_at, interval_seconds)
      select hash, encode(hash, 'hex'), client, 'openid', 'x', at, at, 5 from ${rows}`,
    sql`insert into attempts (key, count, since, blocked_until, updated_at) select id::text, 1, at, at, at from ${rows}`,
    sql`insert into refresh_families
        (id, client_id, user_id, scope, auth_time, amr, sid, created_at, generation, expires_at)
      select id, client, person, 'openid', at, 'pwd', id, at, 1, at from ${rows}`,
  ]
  for (const statement of statements) await idp.deps.db.execute(statement)
}

async function countRows(names: readonly string[] = tables): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const table of names) {
    const [row] = await idp.deps.db.execute<{ n: number }>(`select count(*)::int as n from ${table}`)
    counts[table] = row?.n ?? -1
  }
  return counts
}
const each = (count: number) => Object.fromEntries(tables.map((table) => [table, count]))

/** Records how many rows each transaction deletes from here on. */
async function noteBatches(names: readonly string[]): Promise<() => Promise<number[]>> {
  await idp.deps.db.execute(sql`create table batches (transaction xid8, rows int)`)
  await idp.deps.db.execute(sql`create function note_batch() returns trigger language plpgsql as $$ begin
    insert into batches select pg_current_xact_id(), count(*) from gone; return null; end $$`)
  for (const table of names)
    await idp.deps.db.execute(`create trigger note after delete on ${table} referencing old table as gone
      for each statement execute function note_batch()`)
  return async () => {
    const batches = await idp.deps.db.execute<{ rows: number }>(
      sql`select sum(rows)::int as rows from batches group by transaction having sum(rows) > 0`,
    )
    return batches.map(({ rows }) => rows)
  }
}

test('what is over goes, at most a thousand rows in a transaction, and what is live stays (D64)', async () => {
  const batchSizes = await noteBatches(tables)
  await fill(2_500, new Date(idp.now().getTime() - DAY - 1_000))
  await fill(30, new Date(idp.now().getTime() + 1_000))
  await discardExpired(idp.deps)
  expect(await countRows()).toEqual(each(30))
  const batches = await batchSizes()
  expect(Math.max(...batches)).toBe(1_000)
  expect(batches.reduce((sum, rows) => sum + rows, 0)).toBe(2_500 * tables.length)
})

test('codes and sign-ups that are over stay for a day, so that pages can say so', async () => {
  await fill(3, new Date(idp.now().getTime() - DAY + 60_000))
  await discardExpired(idp.deps)
  expect(await countRows()).toEqual({ ...each(3), sessions: 0, one_time_links: 0, used_challenges: 0 })
})

test('audit events go after the days that are configured, a thousand at a time, and with 0 never', async () => {
  await idp.deps.db.delete(auditEvents)
  const batchSizes = await noteBatches(['audit_events'])
  const add = (count: number, time: Date, action: string) =>
    idp.deps.db.insert(auditEvents).values(
      Array.from({ length: count }, () => ({
        id: newIdAt(time),
        at: time,
        actor: 'system',
        action,
        subject: `user:${ana.userId}`,
        details: {},
      })),
    )
  const daysAgo = (days: number) => new Date(idp.now().getTime() - days * DAY)
  await add(1_500, daysAgo(366), 'old')
  await add(30, daysAgo(364), 'young')
  const discard = (auditDays: number) => housekeepingJobs(auditDays)['discard audit events']?.(idp.deps)
  const left = () =>
    idp.deps.db.execute<{ action: string; n: number }>(
      sql`select action, count(*)::int as n from audit_events group by action order by action`,
    )
  await discard(0)
  expect(await left()).toEqual([
    { action: 'old', n: 1_500 },
    { action: 'young', n: 30 },
  ])
  await discard(365)
  expect(await left()).toEqual([{ action: 'young', n: 30 }])
  expect((await batchSizes()).toSorted((a, b) => a - b)).toEqual([500, 1_000])
})

test('a revoked family goes after a day, however long it would have lived', async () => {
  await fill(3, new Date(idp.now().getTime() + 20 * DAY))
  await idp.deps.db.execute(`update refresh_families set revoked_at = '${idp.now().toISOString()}'
    where id in (select id from refresh_families limit 2)`)
  await discardExpired(idp.deps)
  expect(await countRows()).toMatchObject({ refresh_families: 3 })
  idp.advance(DAY + 1_000)
  await discardExpired(idp.deps)
  expect(await countRows()).toMatchObject({ refresh_families: 1 })
})

test('an index leads to what is over: no table is read from end to end', async () => {
  await fill(20_000, new Date(idp.now().getTime() + DAY))
  await fill(1_500, new Date(idp.now().getTime() - DAY - 1_000))
  await idp.deps.db.execute('analyze')
  // One connection, so that its own statistics are the ones that are read.
  const { db, close } = openDatabase(idp.databaseUrl, { name: 'test', max: 1, prepare: true })
  const readFromEndToEnd = async () => {
    await db.execute('select pg_stat_force_next_flush()')
    return Object.fromEntries(
      (
        await db.execute<{ name: string; times: number }>(
          'select relname as name, seq_scan::int as times from pg_stat_user_tables',
        )
      )
        .filter(({ name }) => (tables as readonly string[]).includes(name))
        .map(({ name, times }) => [name, times]),
    )
  }
  const before = await readFromEndToEnd()
  await discardExpired({ db, now: idp.now })
  expect(await readFromEndToEnd()).toEqual(before)
  expect(Object.keys(before).toSorted()).toEqual([...tables].toSorted())
  await close()
  expect(await countRows()).toEqual(each(20_000))
})

test('of several instances one cleans up at a time, and the others do not wait for it', async () => {
  await fill(1_200, new Date(idp.now().getTime() - DAY - 1_000))
  await idp.deps.db.execute(sql`create function stop_here() returns trigger language plpgsql as $$ begin
    perform pg_advisory_xact_lock(1); return null; end $$`)
  await idp.deps.db.execute(sql`create trigger stop before delete on sessions
    for each statement execute function stop_here()`)
  let first: Promise<void> | undefined
  await idp.deps.db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(1)`)
    first = discardExpired(idp.deps)
    const isStopped = async () =>
      (
        await tx.execute(sql`select from pg_locks where locktype = 'advisory' and not granted
          and database = (select oid from pg_database where datname = current_database())`)
      ).length === 1
    while (!(await isStopped()));
    await Promise.all([discardExpired(idp.deps), discardExpired(idp.deps)])
    expect(await countRows()).toEqual(each(1_200))
    // Meanwhile users sign in as usual.
    await idp.signedIn(ana)
  })
  await first
  expect(await countRows()).toEqual({ ...each(0), sessions: 1, attempts: 1 }) // those of the sign-in
})

/** Tables whose rows go by a job, whatever people keep. */
const boundedBy: Record<string, string> = {
  ...Object.fromEntries(tables.map((table) => [table, 'discard expired rows'])),
  audit_events: 'discard audit events',
}

/** Tables that grow with what people keep, or with what the operator does. */
const growsWith: Record<string, string> = {
  authenticators: 'users: one each',
  client_secrets: 'clients: two each',
  clients: 'clients',
  consents: 'users, and the clients that they use',
  'drizzle.__drizzle_migrations': 'releases',
  passkeys: 'passkeys',
  product_withdrawals: 'users, and the products that are withdrawn from them',
  recovery_codes: 'users: a fixed number each',
  refresh_keys: 'rotations of keys: two a year, and one for each of the operator’s',
  signing_keys: 'rotations of keys: two a year, and one for each of the operator’s',
  users: 'users',
}

test('every table is bounded by a job, or grows with what people keep', async () => {
  const listed = [...Object.keys(boundedBy), ...Object.keys(growsWith)]
  expect(listed.toSorted()).toEqual(await tableNames(idp.databaseUrl))
  expect(Object.keys(housekeepingJobs(365))).toEqual(expect.arrayContaining([...new Set(Object.values(boundedBy))]))
})

test('under the jobs of the identity provider, every bounded table has as many rows on day 366 as on day 400', async () => {
  await idp.deps.db.delete(auditEvents)
  const counts: Record<string, number>[] = []
  // What is left after the first days follows from the age of each row, however often the jobs ran.
  for (let day = 0; day < 400;) {
    const last = day === 0 ? 364 : day + 2
    const noons = Array.from({ length: last - day }, (_, n) => new Date(Date.UTC(2025, 0, 1 + day + n, 12)))
    for (const noon of noons.slice(-10)) await fill(1, noon)
    await idp.deps.db
      .insert(auditEvents)
      .values(noons.map((at) => ({ id: newIdAt(at), at, actor: 'system', action: 'x', subject: 'x', details: {} })))
    day = last
    const deps = { ...idp.deps, now: () => new Date(Date.UTC(2025, 0, 1 + day)) }
    for (const run of Object.values(housekeepingJobs(365))) await run(deps)
    if (day >= 366) counts.push(await countRows(Object.keys(boundedBy)))
  }
  expect(counts.length).toBe(18)
  for (const each of counts) expect(each).toEqual(counts[0])
  expect(counts[0]).toMatchObject({ audit_events: 365, attempts: 1, sessions: 0 })
})

test('a row that a request holds is passed over until the next time', async () => {
  await fill(5, new Date(idp.now().getTime() - DAY - 1_000))
  await idp.deps.db.transaction(async (tx) => {
    for (const table of tables.slice(0, -1)) await tx.execute(`select from ${table} limit 1 for update`)
    await discardExpired(idp.deps)
    expect(await countRows()).toEqual({ ...each(1), refresh_families: 0 })
  })
  await discardExpired(idp.deps)
  expect(await countRows()).toEqual(each(0))
})
