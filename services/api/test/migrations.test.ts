// engines: postgres
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { runMigrations } from '@platform/runtime/migrate'
import {
  databaseAt as serviceDatabaseAt,
  exceptions,
  migrateTo as migrateServiceTo,
  migrationsOf,
  releases,
} from '@platform/testing/earlier-schemas'
import { createServiceDatabase } from '@platform/testing/service-databases'
import { countStatements, migrationHashes, migrationTags, withMigrationsUpTo } from '@platform/testkit/migration-folder'
import { startWorkload } from '@platform/testkit/release-workload'
import { schemaText } from '@platform/testkit/schema-text'
import { isDrill } from '@platform/testkit/test-environment'
import { getTableName } from 'drizzle-orm'
import postgres from 'postgres'
import { describe, expect, onTestFinished, test } from 'vitest'
import * as schema from '../src/schema.ts'

const folder = migrationsOf('api')
const tags = await migrationTags(folder)
/**
 * The newest migrations, each with the one before it: what the release before expects. Older files change no more, and passed all this
 * when they were new.
 */
const TRIED = 6
const steps = tags
  .slice(1)
  .map((tag, n) => [tag, tags[n] ?? ''] as const)
  .slice(-TRIED)

const ROWS = 30
/**
 * Numbers of statements, from 1. The two newest migrations are killed after each statement. Older files change no more and passed that
 * when they were new, and each file runs in one transaction: for them the first, the middle and the last statement do.
 */
function statementsToKillAfter(tag: string, count: number): number[] {
  const all = Array.from({ length: count }, (_, n) => n + 1)
  return tags.indexOf(tag) >= tags.length - 2 ? all : [...new Set([1, Math.ceil(count / 2), count])]
}

/** Holds a migration where a test wants to look at it. */
const PAUSE = 4_711

const migrateTo = (url: string, tag: string) => migrateServiceTo('api', url, tag)
const databaseAt = (tag: string) => serviceDatabaseAt('api', tag, ROWS)

async function withClient<T>(url: string, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  try {
    return await work(sql)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** The schema after a migration that nothing happened to. */
const schemas = new Map<string, Promise<string>>()
function schemaAt(tag: string): Promise<string> {
  const known = schemas.get(tag) ?? databaseAt(tag).then(({ url }) => schemaText(url))
  schemas.set(tag, known)
  return known
}

test('the schema that all migrations make is the one last agreed on: `npm run schema` writes it', async () => {
  const { url } = await createServiceDatabase('api')
  await expect(await schemaText(url)).toMatchFileSnapshot('schema.golden.sql')
})

test('src/schema.ts lists every table, so that drizzle-kit takes none for dropped', async () => {
  const { url } = await createServiceDatabase('api')
  const tables = (await schemaText(url)).matchAll(/^create table (\w+)/gm).map(([, name]) => name)
  expect(new Set(Object.values(schema).map((table) => getTableName(table)))).toEqual(new Set(tables))
})

test('a migration that was noted is never changed, and a new one is noted (test/migrations.golden.json)', async () => {
  const noted = JSON.parse(await readFile(new URL('migrations.golden.json', import.meta.url), 'utf8')) as unknown
  expect(await migrationHashes(folder)).toEqual(noted)
})

test.each(releases)(
  'from the schema of $version, filled, one call reaches the newest while that release works, and nothing of it fails',
  async ({ lastMigration }) => {
    const { url } = await databaseAt(lastMigration.api)
    const workload = await startWorkload(url, exceptions.api)
    await workload.rounds()
    await runMigrations(url, folder)
    await workload.rounds()
    expect(await workload.stop()).toMatchObject({ failures: [] })
    const { url: fresh } = await createServiceDatabase('api')
    expect(await schemaText(url)).toBe(await schemaText(fresh))
  },
)

test('while a session holds buckets for 4 s, no reader of environments waits behind a migration that waits for that session', async () => {
  const { url } = await databaseAt('0010_open_streams')
  // A drill has the machine to itself, and no read takes 200 ms in it.
  const open = () => postgres(url, { max: 1, connection: { statement_timeout: isDrill ? 200 : 0 } })
  const [holder, reader] = [open(), open()]
  onTestFinished(async () => void (await Promise.all([holder.end({ timeout: 5 }), reader.end({ timeout: 5 })])))
  const pidOf = async (sql: postgres.Sql) => (await sql<{ pid: number }[]>`select pg_backend_pid() as pid`)[0]?.pid ?? 0
  const [holderPid, readerPid] = [await pidOf(holder), await pidOf(reader)]
  const held = Promise.withResolvers<void>()
  const hold = holder.begin(async (tx) => {
    await tx`lock table buckets in row exclusive mode`
    held.resolve()
    await sleep(4_000)
  })
  await held.promise
  const over = new AbortController()
  const migrate = runMigrations(url, folder).finally(() => over.abort())
  async function read(): Promise<void> {
    for (; !over.signal.aborted; await sleep(10))
      expect(await reader`select count(*) from environments`).toHaveLength(1)
  }
  let waits = 0
  const watch = withClient(url, async (sql) => {
    for (; !over.signal.aborted; await sleep(10)) {
      const [seen] = await sql<{ waiting: number; isBehind: boolean }[]>`
        select count(*)::int as waiting, coalesce(bool_or(pid = any (pg_blocking_pids(${readerPid}))), false) as "isBehind"
        from pg_stat_activity where datname = current_database() and application_name = 'platform-migrations'
          and ${holderPid} = any (pg_blocking_pids(pid))`
      waits += seen?.waiting ?? 0
      expect(seen).toMatchObject({ isBehind: false })
    }
  })
  await Promise.all([hold, migrate, read(), watch])
  expect(waits).toBeGreaterThan(0)
})

test('deployments of the release before are counted in their environments', async () => {
  const { url } = await databaseAt('0023_working_folders')
  await migrateTo(url, '0024_deployments_by_environment')
  await withClient(url, async (sql) => {
    const counted = await sql`
      select environment_id, status, deployments::int from environment_deployment_counts order by environment_id`
    expect(counted.length).toBe(ROWS)
    expect(counted).toEqual(
      await sql`select environment_id, status, count(*)::int as deployments from deployments group by 1, 2 order by 1`,
    )
  })
})

describe.each(steps)('%s', (tag, before) => {
  test('runs while the release before it works, and nothing of that fails', async () => {
    const { url } = await databaseAt(before)
    const workload = await startWorkload(url, exceptions.api)
    await workload.rounds()
    await migrateTo(url, tag)
    await workload.rounds()
    expect(await workload.stop()).toMatchObject({ failures: [] })
    expect(await schemaText(url)).toBe(await schemaAt(tag))
  })

  test('gives way where it would hold up the release behind a backup, and runs afterwards', async () => {
    const { url } = await databaseAt(before)
    const workload = await startWorkload(url, exceptions.api)
    await workload.rounds()
    await withClient(url, (sql) =>
      sql.begin(async (tx) => {
        // As pg_dump does, for as long as it takes.
        const tables = await tx<{ name: string }[]>`
          select oid::regclass::text as name from pg_class
          where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')`
        await tx.unsafe(`lock table ${tables.map(({ name }) => name).join(', ')} in access share mode`)
        await withMigrationsUpTo(folder, tag, (upTo) => runMigrations(url, upTo, { patienceMs: 1 })).catch(
          (error: Error) => expect(error.message).toMatch(/waited \d s for a lock \(55P03\)/),
        )
        await workload.rounds()
      }),
    )
    await migrateTo(url, tag)
    await workload.rounds()
    expect(await workload.stop()).toMatchObject({ failures: [] })
    expect(await schemaText(url)).toBe(await schemaAt(tag))
  })

  test('is killed after its statements, disturbs nobody, and is completed by the next run', async () => {
    const count = await countStatements(folder, tag)
    expect(count).toBeGreaterThan(0)
    for (const statement of statementsToKillAfter(tag, count)) {
      const { url, drop } = await databaseAt(before)
      await withClient(url, async (sql) => {
        await sql`select pg_advisory_lock(${PAUSE})`
        const run = withMigrationsUpTo(folder, tag, (upTo) => runMigrations(url, upTo), {
          statement,
          run: `select pg_advisory_xact_lock(${PAUSE})`,
        })
        const outcome = run.then(
          () => 'completed',
          () => 'failed',
        )
        let killed: readonly unknown[] = []
        while (killed.length === 0)
          killed = await sql`
            select pg_terminate_backend(pid) from pg_locks
            where locktype = 'advisory' and objid = ${PAUSE} and not granted
              and database = (select oid from pg_database where datname = current_database())`
        expect([statement, await outcome]).toEqual([statement, 'failed'])
      })
      const workload = await startWorkload(url, exceptions.api, 1)
      await workload.rounds()
      await migrateTo(url, tag)
      await workload.rounds()
      expect(await workload.stop()).toMatchObject({ failures: [] })
      expect([statement, await schemaText(url)]).toEqual([statement, await schemaAt(tag)])
      await drop()
    }
  })
})
