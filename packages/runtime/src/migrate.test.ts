// engines: postgres
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createDatabase } from '@platform/testkit/databases'
import { holding } from '@platform/testkit/holding'
import { dumpDatabase } from '@platform/testkit/dump-database'
import postgres from 'postgres'
import { describe, expect, onTestFinished, test } from 'vitest'
import { MIGRATION_LOCK } from './advisory-locks.ts'
import { createLogger } from './logger.ts'
import { requireMigrations, runMigrations } from './migrate.ts'

/** Three files, as a release would have them. */
const FILES = [
  ['create table people (id int primary key)', 'insert into people values (1)'],
  ['create table places (id int primary key)'],
  [
    'alter table people add column name text',
    'alter table places add column name text',
    "update people set name = 'Ana'",
  ],
]

async function migrationsFolder(files: readonly (readonly string[])[] = FILES): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-test-migrations-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await mkdir(join(folder, 'meta'))
  const entries = files.map((_, idx) => ({
    idx,
    version: '7',
    when: idx + 1,
    tag: `000${idx}_file`,
    breakpoints: true,
  }))
  await writeFile(join(folder, 'meta/_journal.json'), JSON.stringify({ entries }))
  for (const [n, statements] of files.entries())
    await writeFile(join(folder, `000${n}_file.sql`), statements.join('--> statement-breakpoint'))
  return folder
}

/** An empty database and two ways to ask it. */
async function newDatabase() {
  const { url } = await createDatabase('empty')
  const sql = postgres(url, { max: 2, onnotice: () => {}, connection: { application_name: 'nightly report' } })
  onTestFinished(() => sql.end({ timeout: 5 }))
  const applied = async () => {
    const rows = await sql<{ n: string }[]>`select created_at as n from drizzle.__drizzle_migrations order by id`
    return rows.map(({ n }) => Number(n))
  }
  return { url, sql, applied }
}

/** Lets one more connection hold a table until it is released. */
async function hold(sql: postgres.Sql, statement: string): Promise<() => Promise<void>> {
  const [begun, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const transaction = sql.begin(async (tx) => {
    await tx.unsafe(statement)
    begun.resolve()
    await released.promise
  })
  await Promise.race([begun.promise, transaction])
  return async () => {
    released.resolve()
    await transaction
  }
}

/** A run whose last file waits for a table that a session holds: `waits` settles with the first line that says so. */
async function startWaiting(table: string, patienceMs?: number) {
  const database = await newDatabase()
  const folder = await migrationsFolder()
  await runMigrations(database.url, await migrationsFolder(FILES.slice(0, 2)))
  const release = await hold(database.sql, `lock table ${table} in access share mode`)
  const waits = Promise.withResolvers<void>()
  const logger = createLogger('test', 'warn', { write: () => waits.resolve() })
  const run = runMigrations(database.url, folder, { logger, ...(patienceMs !== undefined && { patienceMs }) })
  run.catch(() => {}) // the test looks at it
  return { ...database, folder, release, run, waits: waits.promise }
}

describe('runMigrations', () => {
  test('a run makes an empty database the newest, and changes nothing the second time', async () => {
    const { url, sql, applied } = await newDatabase()
    const folder = await migrationsFolder()
    for (let n = 0; n < 2; n++) {
      await runMigrations(url, folder)
      expect(await applied()).toEqual([1, 2, 3])
      expect(await sql`select id, name from people`).toEqual([{ id: 1, name: 'Ana' }])
    }
  })

  test('each file is committed by itself: when the last one waits for a lock, the others are there and nobody waits for their tables', async () => {
    const { url, sql, applied } = await newDatabase()
    const folder = await migrationsFolder()
    await runMigrations(url, await migrationsFolder(FILES.slice(0, 1)))
    const release = await hold(sql, 'lock table people in access share mode')
    await expect(runMigrations(url, folder, { patienceMs: 1 })).rejects.toThrow('migration 0002_file waited')
    expect(await applied()).toEqual([1, 2])
    expect(await sql`select * from places`).toEqual([])
    await release()
  })

  test('a run whose patience is over says who held the lock, and applies nothing of that file', async () => {
    const { url, sql, applied, folder, release, run } = await startWaiting('places', 4_000)
    await expect(run).rejects.toThrow(
      /^migration 0002_file waited \d s for a lock \(55P03\); session \d+ \(nightly report, its transaction open for \d s\) held it; nothing of it was applied; start again$/,
    )
    expect(await applied()).toEqual([1, 2])
    expect(await sql`select * from people`).toEqual([{ id: 1 }])
    await release()
    await runMigrations(url, folder)
    expect(await applied()).toEqual([1, 2, 3])
  })

  test('a run goes on by itself when the lock is released', async () => {
    const { applied, release, run, waits } = await startWaiting('people')
    await waits
    await release()
    await run
    expect(await applied()).toEqual([1, 2, 3])
  })

  test('a file that is chosen to end a deadlock or is cancelled is tried again', async () => {
    for (const code of ['40P01', '57014']) {
      const { url, sql, applied } = await newDatabase()
      await sql`create sequence public.tries`
      // A sequence does not go back with its transaction: only the first attempt fails.
      const fails = `do $$ begin if nextval('public.tries') = 1 then raise exception using errcode = '${code}'; end if; end $$`
      await runMigrations(url, await migrationsFolder([['create table people (id int)', fails]]))
      expect([code, await applied()]).toEqual([code, [1]])
    }
  })

  test('a file that fails at any of its statements leaves nothing, is named, and passes once it is mended', async () => {
    const file = FILES[2] ?? []
    for (const at of file.keys()) {
      const { url, sql, applied } = await newDatabase()
      const broken = [...FILES.slice(0, 2), file.toSpliced(at, 0, 'select 1 / 0')]
      await expect(runMigrations(url, await migrationsFolder(broken))).rejects.toThrow(
        'migration 0002_file failed (division by zero); nothing of it was applied',
      )
      expect([at, await applied()]).toEqual([at, [1, 2]])
      expect(await sql`select * from people`).toEqual([{ id: 1 }])
      await runMigrations(url, await migrationsFolder())
      expect(await applied()).toEqual([1, 2, 3])
    }
  })

  test('one of two processes at once migrates, and the other finds everything done', async () => {
    const { url, sql, applied } = await newDatabase()
    const folder = await migrationsFolder()
    await runMigrations(url, await migrationsFolder(FILES.slice(0, 2)))
    const lines: string[] = []
    const logger = createLogger('test', 'info', { write: (line) => void lines.push(line) })
    const run = () => runMigrations(url, folder, { logger })
    // The first holds the lock of migrations while it waits for the row, and the second waits for the first.
    await holding(url, (tx) => tx`select from people for update`, [run, run])
    expect(await applied()).toEqual([1, 2, 3])
    expect(lines.filter((line) => line.includes('"migrated"'))).toHaveLength(1)
    expect(await sql`select * from people`).toEqual([{ id: 1, name: 'Ana' }])
  })

  test('a run goes on with a new session when its own is ended between two attempts, and two of them still take turns', async () => {
    const { url, sql, applied, folder, release, run, waits } = await startWaiting('people')
    const runs = [run, runMigrations(url, folder)]
    await waits
    await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'platform-migrations' and datname = current_database() and state = 'idle'`
    await release()
    await Promise.all(runs)
    expect(await applied()).toEqual([1, 2, 3])
  })

  test('a run waits without an end for a process of another release that migrates, and says so', async () => {
    const { url, sql, applied } = await newDatabase()
    const said = Promise.withResolvers<string>()
    const logger = createLogger('test', 'warn', { write: said.resolve })
    const earlier = await sql.reserve()
    await earlier`select pg_advisory_lock(${MIGRATION_LOCK})`
    const run = runMigrations(url, await migrationsFolder(), { patienceMs: 1, logger })
    expect(await said.promise).toContain('another process migrates')
    await earlier`select pg_advisory_unlock(${MIGRATION_LOCK})`
    earlier.release()
    await run
    expect(await applied()).toEqual([1, 2, 3])
  })

  test('a file waits for all its locks together no longer than for one, and for each at least 100 ms', async () => {
    const { url, sql } = await newDatabase()
    const note = "insert into notes select current_setting('lock_timeout')"
    const statements = [
      'create table notes (limited text)',
      note,
      'select pg_sleep(0.1)',
      note,
      'select pg_sleep(0.2)',
      note,
    ]
    await runMigrations(url, await migrationsFolder([statements]))
    const notes = await sql<{ limited: string }[]>`select limited from notes`
    const [first = 0, second = 0, third] = notes.map(({ limited }) => Number(limited.replace('ms', '')))
    expect(first).toBeLessThanOrEqual(250)
    expect(second).toBeLessThanOrEqual(first - 90)
    expect(third).toBe(100)
  })

  test('a run whose turn is cancelled ends, and is not tried again', async () => {
    const { url, sql } = await newDatabase()
    const earlier = await sql.reserve()
    await earlier`select pg_advisory_lock(${MIGRATION_LOCK})`
    const ended = runMigrations(url, await migrationsFolder()).then(
      () => 'migrated',
      (error: unknown) => error,
    )
    let cancelled: readonly unknown[] = []
    while (cancelled.length === 0)
      cancelled = await sql`
        select pg_cancel_backend(pid) from pg_locks
        where locktype = 'advisory' and not granted
          and database = (select oid from pg_database where datname = current_database())`
    expect(await ended).toMatchObject({ code: '57014' })
    earlier.release()
  })

  test('limits that the database has for statements and transactions do not stop a migration', async () => {
    const { url, sql, applied } = await newDatabase()
    const known = await sql<{ name: string }[]>`
      select name from pg_settings where name in ('statement_timeout', 'transaction_timeout', 'lock_timeout')`
    for (const { name } of known)
      await sql.unsafe(`alter database ${new URL(url).pathname.slice(1)} set ${name} = '100ms'`)
    await runMigrations(url, await migrationsFolder([['create table people (id int)', 'select pg_sleep(0.3)']]))
    expect(await applied()).toEqual([1])
  })
})

describe('whose database it is', () => {
  test.each([
    [['create table invoices (id int)'], 'it has invoices, and no migration of ours'],
    [['create schema erp', 'create table erp.invoices (id int)'], 'it has erp.invoices, and no migration of ours'],
    [['create view invoices as select 1 as id'], 'it has invoices, and no migration of ours'],
    [
      ['create schema drizzle', 'create table drizzle.__drizzle_migrations (name text)'],
      'it has drizzle.__drizzle_migrations, and no migration of ours',
    ],
    [
      [
        'create schema drizzle',
        'create table drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint)',
        "insert into drizzle.__drizzle_migrations (hash, created_at) values ('theirs', 1)",
      ],
      'its first migration is not ours',
    ],
  ])(
    'a database in which somebody else ran %j is refused, migrating or not, and stays as it was',
    async (statements, why) => {
      const { url, sql } = await newDatabase()
      for (const statement of statements) await sql.unsafe(statement)
      const before = await dumpDatabase(url)
      const folder = await migrationsFolder()
      const sentence = `The database of DATABASE_URL belongs to another program: ${why}`
      await expect(runMigrations(url, folder)).rejects.toThrow(sentence)
      await expect(requireMigrations(url, folder, 'migrate')).rejects.toThrow(sentence)
      expect(await dumpDatabase(url)).toBe(before)
    },
  )

  test.each(['"$user"', 'nowhere', '"My Erp", public'])(
    'a search_path of %s is named, and nothing is written',
    async (path) => {
      const { url, sql } = await newDatabase()
      await sql`create schema "My Erp"`
      const before = await dumpDatabase(url)
      await sql.unsafe(`alter database ${new URL(url).pathname.slice(1)} set search_path = ${path}`)
      await expect(runMigrations(url, await migrationsFolder())).rejects.toThrow(
        'has a search_path that does not begin with public',
      )
      expect(await dumpDatabase(url)).toBe(before)
    },
  )

  test('tables of an extension and an empty table of migrations make no database another program’s', async () => {
    const { url, sql, applied } = await newDatabase()
    await sql`create table spatial_ref_sys (id int)`
    await sql`alter extension plpgsql add table spatial_ref_sys`
    await sql`create schema drizzle`
    await sql`create table drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint)`
    await runMigrations(url, await migrationsFolder())
    expect(await applied()).toEqual([1, 2, 3])
  })

  test('a database whose later migrations are others is refused by the name of the first that differs', async () => {
    const { url } = await newDatabase()
    await runMigrations(url, await migrationsFolder(FILES.with(1, ['create table places (id bigint)'])))
    await expect(runMigrations(url, await migrationsFolder())).rejects.toThrow(
      'The database of DATABASE_URL belongs to another program: its migration 2 is not 0001_file.',
    )
  })
})

describe('requireMigrations', () => {
  test('a database that is empty or lacks a migration is refused with the command that makes the schema', async () => {
    const { url } = await newDatabase()
    const folder = await migrationsFolder()
    const before = await dumpDatabase(url)
    await expect(requireMigrations(url, folder, 'make migrate')).rejects.toThrow(/is empty, .*: run make migrate$/)
    expect(await dumpDatabase(url)).toBe(before)
    await runMigrations(url, await migrationsFolder(FILES.slice(0, 1)))
    await expect(requireMigrations(url, folder, 'make migrate')).rejects.toThrow(
      /lacks 0001_file, .*: run make migrate$/,
    )
  })

  test('a database with the newest schema, or a file ahead, is accepted and stays as it was', async () => {
    const { url } = await newDatabase()
    await runMigrations(url, await migrationsFolder())
    await requireMigrations(url, await migrationsFolder(), 'migrate')
    const before = await dumpDatabase(url)
    const older = await migrationsFolder(FILES.slice(0, 2))
    await requireMigrations(url, older, 'migrate')
    await runMigrations(url, older)
    expect(await dumpDatabase(url)).toBe(before)
  })
})
