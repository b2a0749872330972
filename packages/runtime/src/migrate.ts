import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import postgres from 'postgres'
import { MIGRATION_LOCK } from './advisory-locks.ts'
import { ConfigError } from './config.ts'
import { isUnavailable } from './database.ts'
import type { Logger } from './logger.ts'

/**
 * How long a statement waits for a lock, at the first attempt at a file; each further attempt waits twice as long, up to the
 * maximum. Whoever wants a table that a migration waits for, or holds while it waits for another, waits as well, and the
 * services' statements fail after 5 s. The maximum is longer than Postgres' deadlock_timeout (1 s), after which an autovacuum
 * gives way.
 */
const LOCK_TIMEOUT_MS = { first: 250, max: 2_000 }
/** The pause before the next attempt: so much, and as much again at random. */
const PAUSE_MS = { min: 250, random: 1_750 }
const PATIENCE_MS = 60_000
const WATCH_MS = 100

/** Lock timeout, deadlock, cancelled: the same file may pass a moment later. */
const passing = new Set(['55P03', '40P01', '57014'])

const codeOf = (error: unknown): string | undefined =>
  error instanceof postgres.PostgresError ? error.code : undefined

interface Migration {
  tag: string
  statements: readonly string[]
  hash: string
  /** The time in the journal, in ms: what the releases before this one order by. */
  createdAt: number
}

interface Holder {
  pid: number
  application: string
  /** Age of its transaction in seconds; null where this role may not see it. */
  age: number | null
}

/** How runMigrations waits and what it tells. */
interface Patience {
  /** For how long a file is tried again, in ms; 60,000 if absent. */
  patienceMs?: number
  logger?: Logger | undefined
}

function readMigrations(folder: string): Migration[] {
  const journal = JSON.parse(readFileSync(join(folder, 'meta/_journal.json'), 'utf8')) as { entries: { tag: string }[] }
  return readMigrationFiles({ migrationsFolder: folder }).map(({ sql, hash, folderMillis }, n) => ({
    tag: journal.entries[n]?.tag ?? '',
    statements: sql,
    hash,
    createdAt: folderMillis,
  }))
}

async function withConnection<T>(databaseUrl: string, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(databaseUrl, {
    max: 1,
    fetch_types: false,
    onnotice: () => {},
    connect_timeout: 10,
    connection: { application_name: 'platform-migrations' },
  })
  try {
    // Limits that the role has for its requests are none for an index that takes minutes. (The driver sends no 0 at the start.)
    await sql.unsafe('set lock_timeout = 0; set statement_timeout = 0')
    return await work(sql)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

const another = (why: string): ConfigError =>
  new ConfigError(`The database of DATABASE_URL belongs to another program: ${why}`)

/**
 * Returns how many of these migrations the database has. Writes nothing.
 *
 * Throws ConfigError if it is not ours: its migrations have to begin as these do, or these as they do, since a newer release may
 * have been there; and without any it has to be without tables.
 */
async function countApplied(sql: postgres.Sql, ours: readonly Migration[]): Promise<number> {
  const [found] = await sql<{ journal: string | null }[]>`select to_regclass('drizzle.__drizzle_migrations') as journal`
  const applied = found?.journal
    ? await sql<{ hash: string }[]>`select hash from drizzle.__drizzle_migrations order by created_at, id`
    : []
  const strange = applied.findIndex(({ hash }, n) => n < ours.length && hash !== ours[n]?.hash)
  if (strange === 0) throw another('its first migration is not ours. Does the other service of the platform use it?')
  if (strange > 0) throw another(`its migration ${strange + 1} is not ${ours[strange]?.tag}.`)
  if (applied.length > 0) return applied.length
  // Tables of extensions do not count.
  const [table] = await sql<{ name: string }[]>`
    select relname as name from pg_class c
    where relkind in ('r', 'p') and relnamespace = current_schema()::regnamespace
      and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
    order by relname limit 1`
  if (table) throw another(`it has tables such as ${table.name}, and no migration of ours. Name an empty one.`)
  return 0
}

/** Notes who holds the locks that a session waits for, until it is stopped. Returns the last one seen. */
function watchHolders(sql: postgres.Sql, pid: number): () => Promise<Holder | undefined> {
  const over = new AbortController()
  let holder: Holder | undefined
  async function watch(): Promise<void> {
    for (;;) {
      await sleep(WATCH_MS, undefined, { signal: over.signal })
      const [seen] = await sql<Holder[]>`
        select pid, application_name as application, extract(epoch from clock_timestamp() - xact_start)::int as age
        from pg_stat_activity where pid = any(pg_blocking_pids(${pid})) order by xact_start limit 1`
      holder = seen ?? holder
    }
  }
  const watching = watch().catch(() => {}) // stopped, or not answered: then nobody is named
  return async () => {
    over.abort()
    await watching
    return holder
  }
}

/** Applies one file in a transaction of its own. */
const applyOnce = (sql: postgres.Sql, { statements, hash, createdAt }: Migration, lockTimeoutMs: number) =>
  sql.begin(async (tx) => {
    await tx.unsafe(`set local lock_timeout = ${lockTimeoutMs}`)
    for (const statement of statements) await tx.unsafe(statement)
    await tx`insert into drizzle.__drizzle_migrations (hash, created_at) values (${hash}, ${createdAt})`
  })

const described = ({ pid, application, age }: Holder): string =>
  `session ${pid} (${application || 'without a name'}${age === null ? '' : `, its transaction open for ${age} s`}) held it`

/** Applies one file, again and again while locks stand in the way. */
async function applyPatiently(
  sql: postgres.Sql,
  migration: Migration,
  { patienceMs = PATIENCE_MS, logger, databaseUrl }: Patience & { databaseUrl: string },
): Promise<void> {
  const [{ pid } = { pid: 0 }] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`
  const startedAt = Date.now()
  let holder: Holder | undefined
  for (let attempt = 0; ; attempt++) {
    const lockTimeoutMs = Math.min(LOCK_TIMEOUT_MS.max, LOCK_TIMEOUT_MS.first * 2 ** attempt)
    try {
      // The watching connection comes with the first wait: most files need none.
      await (attempt === 0
        ? applyOnce(sql, migration, lockTimeoutMs)
        : withConnection(databaseUrl, async (watching) => {
            const stop = watchHolders(watching, pid)
            try {
              await applyOnce(sql, migration, lockTimeoutMs)
            } finally {
              holder = (await stop()) ?? holder
            }
          }))
      logger?.info({ migration: migration.tag }, 'migrated')
      return
    } catch (error) {
      const code = codeOf(error)
      if (code === undefined || !passing.has(code)) {
        // Who may not, or is cut off, is told so by what the start says of its database.
        if (code === undefined || code === '42501' || isUnavailable(error)) throw error
        throw new Error(`migration ${migration.tag} failed (${(error as Error).message}); nothing of it was applied`)
      }
      const pauseMs = PAUSE_MS.min + Math.random() * PAUSE_MS.random
      const waitedMs = Date.now() - startedAt
      if (waitedMs + pauseMs > patienceMs)
        throw new Error(
          `migration ${migration.tag} waited ${Math.round(waitedMs / 1_000)} s for a lock (${code})` +
            `${holder ? `; ${described(holder)}` : ''}; nothing of it was applied; start again`,
        )
      logger?.warn(
        { migration: migration.tag, code, waitedMs, ...(holder && { holder }) },
        'a migration waits for a lock',
      )
      await sleep(pauseMs)
    }
  }
}

/**
 * Migrates a database to the latest schema: each file in a transaction of its own, so that no lock outlasts its file, and what
 * was applied stays. Processes that start together wait for each other. A file that does not get a lock, is chosen to end a
 * deadlock or is cancelled is rolled back and tried again.
 *
 * folder: drizzle-kit's SQL files and journal. What was applied stands in the table of drizzle's migrator, which earlier
 * releases read.
 * Throws ConfigError, before anything is written, if the database belongs to another program; an error naming the file and
 * whoever held the lock once the patience is over.
 */
export const runMigrations = (databaseUrl: string, folder: string, patience: Patience = {}): Promise<void> =>
  withConnection(databaseUrl, async (sql) => {
    const ours = readMigrations(folder)
    await sql`select pg_advisory_lock(${MIGRATION_LOCK})`
    const pending = ours.slice(await countApplied(sql, ours))
    await sql`create schema if not exists drizzle`
    await sql`create table if not exists drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint)`
    for (const migration of pending) await applyPatiently(sql, migration, { ...patience, databaseUrl })
  })

/**
 * For a process that does not migrate itself.
 *
 * command: what makes the schema.
 * Throws ConfigError naming it if the database lacks a migration, and as runMigrations if it belongs to another program.
 */
export const requireMigrations = (databaseUrl: string, folder: string, command: string): Promise<void> =>
  withConnection(databaseUrl, async (sql) => {
    const ours = readMigrations(folder)
    const applied = await countApplied(sql, ours)
    if (applied === 0)
      throw new ConfigError(`The database of DATABASE_URL is empty, and MIGRATE_ON_START is false: run ${command}`)
    if (applied < ours.length)
      throw new ConfigError(
        `The database of DATABASE_URL lacks ${ours[applied]?.tag}, and MIGRATE_ON_START is false: run ${command}`,
      )
  })
