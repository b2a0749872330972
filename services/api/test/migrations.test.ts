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

test('while a session holds buckets, readers of environments go on, until all later migrations are through', async () => {
  const { url } = await databaseAt('0010_open_streams')
  const holder = withClient(url, (sql) =>
    sql.begin(async (tx) => {
      await tx`lock table buckets in row exclusive mode`
      await sleep(4_000)
    }),
  )
  const over = runMigrations(url, folder).then(() => true)
  // Of its wait for locks alone, by the server's clock. Behind the holder it would wait as long as the migrations do, up to 2 s.
  const reader = postgres(url, { max: 1, connection: { lock_timeout: isDrill ? 200 : 1_000 } })
  onTestFinished(() => reader.end({ timeout: 5 }))
  let isOver = false
  while (!isOver) {
    await expect(reader`select count(*) from environments`).resolves.toHaveLength(1)
    isOver = await Promise.race([over, sleep(10, false)])
  }
  await holder
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
