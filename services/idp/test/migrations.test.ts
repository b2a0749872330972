// engines: postgres
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { runMigrations } from '@platform/runtime/migrate'
import { databaseAt, exceptions, migrationsOf, releases } from '@platform/testing/earlier-schemas'
import { createServiceDatabase, createStrangersDatabase } from '@platform/testing/service-databases'
import { serviceEnvironment, startServiceProcess, untilStatus } from '@platform/testing/service-process'
import { callProgram } from '@platform/testkit/call-program'
import { dumpDatabase } from '@platform/testkit/dump-database'
import { migrationHashes } from '@platform/testkit/migration-folder'
import { startWorkload } from '@platform/testkit/release-workload'
import { schemaText } from '@platform/testkit/schema-text'
import { isDrill } from '@platform/testkit/test-environment'
import { getTableName } from 'drizzle-orm'
import postgres from 'postgres'
import { describe, expect, onTestFinished, test } from 'vitest'
import { run } from '../src/run.ts'
import * as schema from '../src/schema.ts'

/** A lock that nobody lets go of for so long only delays a start: the patience is 60 s. */
const HELD_MS = isDrill ? 20_000 : 0

const main = new URL('../src/main.ts', import.meta.url)

test('the migrations make the schema that test/schema.golden.sql shows (`npm run schema` writes it)', async () => {
  const { url } = await createServiceDatabase('idp')
  await expect(await schemaText(url)).toMatchFileSnapshot('schema.golden.sql')
})

test('src/schema.ts lists every table, so that drizzle-kit takes none for dropped', async () => {
  const { url } = await createServiceDatabase('idp')
  const tables = (await schemaText(url)).matchAll(/^create table (\w+)/gm).map(([, name]) => name)
  expect(new Set(Object.values(schema).map((table) => getTableName(table)))).toEqual(new Set(tables))
})

test('a migration that was noted is never changed, and a new one is noted (test/migrations.golden.json)', async () => {
  const noted = JSON.parse(await readFile(new URL('migrations.golden.json', import.meta.url), 'utf8')) as unknown
  expect(await migrationHashes(migrationsOf('idp'))).toEqual(noted)
})

test.each(releases)(
  'from the schema of $version, filled, one call reaches the newest while that release works, and nothing of it fails',
  async ({ lastMigration }) => {
    const { url } = await databaseAt('idp', lastMigration.idp, 30)
    const workload = await startWorkload(url, exceptions.idp)
    await workload.rounds()
    await runMigrations(url, migrationsOf('idp'))
    await workload.rounds()
    expect(await workload.stop()).toMatchObject({ failures: [] })
    const { url: fresh } = await createServiceDatabase('idp')
    expect(await schemaText(url)).toBe(await schemaText(fresh))
  },
)

describe('a process that starts while a session holds the table that its migration changes', () => {
  /** A database that lacks the newest migrations, a session that holds a table of theirs, and the environment of a process. */
  async function startHeld(more: Record<string, string>) {
    const { url } = await databaseAt('idp', '0005_what_started_a_device', 0)
    const env = await serviceEnvironment('idp', { DATABASE_URL: url, ...more })
    const sql = postgres(url, { max: 1, connection: { application_name: 'nightly report' } })
    onTestFinished(() => sql.end({ timeout: 5 }))
    await sql`begin`
    const [holder] = await sql`select pg_backend_pid() as pid, count(*) from refresh_families`
    const health = `http://127.0.0.1:${env.HEALTH_PORT}`
    return { ...startServiceProcess(main, env), holder, health, release: () => sql`commit` }
  }

  test('a process whose migration waits for a lock is live and not ready, and starts once the lock is released', async () => {
    const { health, release, child } = await startHeld({ LOG_LEVEL: 'warn' })
    const waiting = new Promise<void>((resolve) => {
      child.stdout.on('data', (lines) => String(lines).includes('a migration waits for a lock') && resolve())
    })
    await untilStatus(`${health}/live`, 200)
    await waiting
    expect((await fetch(`${health}/ready`)).status).toBe(503)
    await sleep(HELD_MS)
    await release()
    await untilStatus(`${health}/ready`, 200)
  })

  test('a process ends with 1 once MIGRATION_PATIENCE_MS is over, and names the file, the session and what to do', async () => {
    const { ended, holder } = await startHeld({ MIGRATION_PATIENCE_MS: '4000' })
    const { code, stderr } = await ended
    expect(code).toBe(1)
    expect(stderr).toMatch(/migration 000\d_\w+ waited \d s for a lock \(55P03\)/)
    expect(stderr).toContain(`session ${holder?.pid} (nightly report, its transaction open for`)
    expect(stderr.trimEnd()).toMatch(/nothing of it was applied; start again$/)
  })
})

test.each([
  ['the API’s database', () => createServiceDatabase('api')],
  ['a stranger’s database', createStrangersDatabase],
])('a start on %s ends with a sentence, migrating or not, and writes nothing there', async (_, create) => {
  const { url } = await create()
  const before = await dumpDatabase(url)
  for (const MIGRATE_ON_START of ['true', 'false']) {
    const env = await serviceEnvironment('idp', { DATABASE_URL: url, MIGRATE_ON_START })
    const { code, stderr } = await callProgram(run, { words: [], env })
    expect(code).toBe(1)
    expect(stderr).toContain('The database of DATABASE_URL belongs to another program: ')
  }
  expect(await dumpDatabase(url)).toBe(before)
})
