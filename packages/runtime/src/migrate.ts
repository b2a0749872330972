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
 * How long a file waits for its locks, over all its statements: at the first attempt, and at each further one twice as long, up to
 * the maximum. Whoever wants a table that it waits for or holds waits as well, and the services' statements fail after 5 s. The
 * maximum is longer than Postgres' deadlock_timeout (1 s), after which an autovacuum gives way.
 */
const LOCKS_MS = { first: 250, max: 2_000 }
/** After a statement that took long by itself, the next one still gets a lock that somebody holds for a moment. */
const LOCK_MIN_MS = 100
/** The pause before the next attempt: so much, and as much again at random. */
const PAUSE_MS = { min: 250, random: 1_750 }
const PATIENCE_MS = 60_000
/** How long one wait for another process that migrates is. */
const TURN_MS = 5_000
const WATCH_MS = 100

/** Lock timeout, deadlock, cancelled: the same file may pass a moment later. */
const passing = new Set(['55P03', '40P01', '57014'])

interface Migration {
  tag: string
  statements: readonly string[]
  hash: string
  /** The time in the journal, in ms: what the releases before this one order by. */
  createdAt: number
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
 * have been there; and without any it has to be empty.
 */
async function countApplied(sql: postgres.ISql, ours: readonly Migration[]): Promise<number> {
  const [found] = await sql<{ schema: string | null; columns: number }[]>`
    select current_schema() as schema, (select count(*)::int from pg_attribute
      where attrelid = to_regclass('drizzle.__drizzle_migrations') and attname in ('id', 'hash', 'created_at')) as columns`
  if (found?.schema !== 'public')
    throw new ConfigError(
      'The role of DATABASE_URL has a search_path that does not begin with public, where the tables are',
    )
  const applied =
    found.columns === 3
      ? await sql<{ hash: string }[]>`select hash from drizzle.__drizzle_migrations order by created_at, id`
      : []
  const strange = applied.findIndex(({ hash }, n) => n < ours.length && hash !== ours[n]?.hash)
  if (strange === 0) throw another('its first migration is not ours. Does the other service of the platform use it?')
  if (strange > 0) throw another(`its migration ${strange + 1} is not ${ours[strange]?.tag}.`)
  if (applied.length > 0) return applied.length
  // What belongs to an extension does not count, nor does a table of migrations that nothing was written to yet.
  const [relation] = await sql<{ name: string }[]>`
    select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = relnamespace
    where relkind in ('r', 'p', 'v', 'm', 'f') and nspname !~ '^(pg_|information_schema$)'
      and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
      and (${found.columns} <> 3 or c.oid is distinct from to_regclass('drizzle.__drizzle_migrations'))
    order by 1 limit 1`
  if (relation) throw another(`it has ${relation.name}, and no migration of ours. Name an empty one.`)
  return 0
}

/** What is known of an attempt while it runs. */
interface Attempt {
  /** Its session. */
  pid: number
  /** Undefined while it waits for its turn, and if there is nothing to apply. */
  migration: Migration | undefined
}

/**
 * Applies the first migration that the database lacks, in a transaction that stands for itself: it waits for its turn, looks what
 * there is, and notes what it has applied. So it does not matter whether the connection is the one of the file before.
 */
const applyNext = (sql: postgres.Sql, ours: readonly Migration[], locksMs: number, attempt: Attempt) =>
  sql.begin(async (tx) => {
    // Limits that the role has for its requests are none for an index that takes minutes. What a lost process has left ends.
    const [session] = await tx<{ pid: number }[]>`
      select pg_backend_pid() as pid, set_config('idle_in_transaction_session_timeout', '60s', true),
        set_config('lock_timeout', ${`${TURN_MS}ms`}, true), (select count(set_config(name, '0', true)) from pg_settings
          where name in ('statement_timeout', 'transaction_timeout'))`
    attempt.pid = session?.pid ?? 0
    await tx`select pg_advisory_xact_lock(${MIGRATION_LOCK})`
    const count = await countApplied(tx, ours)
    attempt.migration = ours[count]
    if (!attempt.migration) return
    if (count === 0) {
      await tx`create schema if not exists drizzle`
      await tx`create table if not exists drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint)`
    }
    const startedAt = Date.now()
    for (const statement of attempt.migration.statements) {
      const leftMs = Math.max(LOCK_MIN_MS, locksMs - (Date.now() - startedAt))
      await tx.unsafe(`set local lock_timeout = ${leftMs};\n${statement}`)
    }
    const { hash, createdAt } = attempt.migration
    await tx`insert into drizzle.__drizzle_migrations (hash, created_at) values (${hash}, ${createdAt})`
  })

interface Holder {
  /** 0 for a prepared transaction. */
  pid: number
  application: string | null
  /** Age of its transaction in seconds; null where this role may not see it. */
  age: number | null
}

/** Notes who holds the locks that an attempt waits for, until it is stopped. Returns the last one seen. */
function watchHolders(databaseUrl: string, attempt: Attempt): () => Promise<Holder | undefined> {
  const over = new AbortController()
  let holder: Holder | undefined
  const watching = withConnection(databaseUrl, async (sql) => {
    for (;;) {
      await sleep(WATCH_MS, undefined, { signal: over.signal })
      const [seen] = await sql<Holder[]>`
        select blocking.pid, application_name as application, extract(epoch from clock_timestamp() - xact_start)::int as age
        from unnest(pg_blocking_pids(${attempt.pid})) as blocking (pid) left join pg_stat_activity a on a.pid = blocking.pid
        order by xact_start limit 1`
      holder = seen ?? holder
    }
  }).catch(() => {}) // stopped, or without a connection: then nobody is named
  return async () => {
    over.abort()
    await watching
    return holder
  }
}

function described({ pid, application, age }: Holder): string {
  if (pid === 0) return 'a prepared transaction (pg_prepared_xacts) held it'
  return `session ${pid} (${application || 'without a name'}${age === null ? '' : `, its transaction open for ${age} s`}) held it`
}

/** What the attempts at a file have come to so far. */
interface Wait {
  /** Undefined: another process migrates. */
  tag: string | undefined
  attempts: number
  since: number
  holder: Holder | undefined
}

/** Pauses after an attempt that something passing ended. Throws once the patience is over, and at once on anything else. */
async function pauseAfter(error: unknown, wait: Wait, { patienceMs = PATIENCE_MS, logger }: Patience): Promise<void> {
  const { tag, since, holder } = wait
  // Who may not, or is cut off, is told so by what the start says of its database.
  if (!(error instanceof postgres.PostgresError) || error.code === '42501') throw error
  // Of a turn only its time passes; a limit of the role that ends it again and again would never end.
  if (!passing.has(error.code) || (tag === undefined && error.code !== '55P03')) {
    if (tag === undefined || isUnavailable(error)) throw error
    throw new Error(`migration ${tag} failed (${error.message}); nothing of it was applied`)
  }
  const pauseMs = PAUSE_MS.min + Math.random() * PAUSE_MS.random
  const waitedMs = Date.now() - since
  if (tag !== undefined && waitedMs + pauseMs > patienceMs)
    throw new Error(
      `migration ${tag} waited ${Math.round(waitedMs / 1_000)} s for a lock (${error.code})` +
        `${holder ? `; ${described(holder)}` : ''}; nothing of it was applied; start again`,
    )
  const what = tag === undefined ? 'another process migrates' : 'a migration waits for a lock'
  logger?.warn(
    { ...(tag !== undefined && { migration: tag }), code: error.code, waitedMs, ...(holder && { holder }) },
    what,
  )
  await sleep(pauseMs)
}

/**
 * Migrates a database to the latest schema: each file in a transaction of its own, so that no lock outlasts its file, and what
 * was applied stays. Processes that start together wait for each other. A file that does not get a lock, is chosen to end a
 * deadlock or is cancelled is rolled back and tried again.
 *
 * folder: drizzle-kit's SQL files and journal. What was applied stands in the table of drizzle's migrator, which earlier
 * releases read.
 * Throws ConfigError, before anything is written, if the database belongs to another program. Throws an error that names the file
 * and the session that holds its lock once the patience is over.
 */
export const runMigrations = (databaseUrl: string, folder: string, patience: Patience = {}): Promise<void> =>
  withConnection(databaseUrl, async (sql) => {
    const ours = readMigrations(folder)
    let wait: Wait | undefined
    for (;;) {
      const attempt: Attempt = { pid: 0, migration: undefined }
      const startedAt = Date.now()
      // Most files pass at once: who holds a lock is asked from the second attempt on.
      const stopWatching = wait && watchHolders(databaseUrl, attempt)
      const locksMs = Math.min(LOCKS_MS.max, LOCKS_MS.first * 2 ** (wait?.attempts ?? 0))
      const failure = await applyNext(sql, ours, locksMs, attempt).then(
        () => undefined,
        (error: unknown) => ({ error }),
      )
      const seen = await stopWatching?.()
      const tag = attempt.migration?.tag
      if (failure) {
        const before: Wait = wait && wait.tag === tag ? wait : { tag, attempts: 0, since: startedAt, holder: undefined }
        wait = { ...before, attempts: before.attempts + 1, holder: seen ?? before.holder }
        await pauseAfter(failure.error, wait, patience)
      } else {
        if (tag === undefined) return
        patience.logger?.info({ migration: tag }, 'migrated')
        wait = undefined
      }
    }
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
