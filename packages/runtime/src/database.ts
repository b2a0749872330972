import { channel } from 'node:diagnostics_channel'
import { Unavailable } from '@platform/errors/api-error'
import { drizzle, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { Gauge } from 'prom-client'
import { withDeadline } from './deadline.ts'

export type Db = PostgresJsDatabase
/** The client below drizzle; for LISTEN and other things that the query builder cannot express. */
export type Sql = postgres.Sql

const STATEMENT_TIMEOUT_MS = 5_000
const ACQUIRE_TIMEOUT_MS = 5_000
/** Covers waiting for a connection and the statement's own limit, with a margin: after that no answer will come. */
const ANSWER_TIMEOUT_MS = 12_000
const IN_FLIGHT_MAX = 5_000
const SWEEP_MS = 250
/** A sweep that comes later than this by so much says that the process stood still, and read no answers. */
const STOOD_STILL_MS = 1_000
/** A load balancer that checks readiness gets its answer within a second, whatever Postgres does. */
const PROBE_TIMEOUT_MS = 800

interface Pool {
  name: string
  queries: ReadonlyMap<Promise<unknown>, Waiting>
}

/** A query without an answer. `isInTransaction`: it has its connection, or will get it. */
interface Waiting {
  since: number
  isInTransaction: boolean
}
const pools = new Set<Pool>()

/**
 * Publishes each statement that a pool sends, as `{ pool, text }` with the pool's name; values are not in it. Nothing is built while
 * nobody subscribes.
 */
const statements = channel('platform:database:statement')

// oxlint-disable-next-line no-new -- it registers itself
new Gauge({
  name: 'database_queries',
  help: 'Queries of a pool that no answer has come to yet, those that wait for a connection included.',
  labelNames: ['pool'],
  collect() {
    this.reset()
    for (const { name, queries } of pools) this.inc({ pool: name }, queries.size)
  },
})

interface DatabaseOptions {
  /** Shown in pg_stat_activity. */
  name: string
  /** Connections of this process. */
  max: number
  /** False behind a transaction-mode pooler, which cannot hold named statements. */
  prepare: boolean
  /** For how long a connection without a query stays open; 0, the default, for as long as the pool. */
  idleMs?: number
}

/** The error if the server hangs: its connections stay open, so nothing else would end the wait. */
const notAnswering = () =>
  Object.assign(new Error(`The database has not answered for ${ANSWER_TIMEOUT_MS} ms`), { code: 'ETIMEDOUT' })

/** With Postgres' own code for too many connections: drizzle wraps the error, which hides its class from `isUnavailable`. */
const tooManyWaiting = () =>
  Object.assign(new Unavailable('Too many requests are waiting for the database'), { code: '53300' })

/** Members of the driver's queries that its types leave out. */
interface DriverQuery {
  /** null until the query is assigned to a connection. */
  state: unknown
  reject(error: Error): void
  /** Set for BEGIN alone. */
  options: { onexecute?: unknown }
}

/**
 * Opens a pool of connections to one database; nothing connects until the first query. Queries fail after 5 s of execution,
 * after 5 s of waiting for a connection, and after 12 s without any answer; with 5,000 in flight, further ones are rejected:
 * postgres.js itself would queue without limit and wait for ever. `isUnavailable` is true for all four errors. Time in which the
 * process stood still does not count as waiting.
 */
export function openDatabase(
  url: string,
  { name, max, prepare, idleMs = 0 }: DatabaseOptions,
): { db: Db; sql: Sql; close(): Promise<void> } {
  const sql = postgres(url, {
    max,
    prepare,
    idle_timeout: idleMs / 1000,
    connect_timeout: 5,
    // The default backs off to many seconds, during which we would not use a database that is back.
    backoff: () => 0.1 + Math.random() * 0.2,
    onnotice: () => {},
    // drizzle parses arrays itself. Fetching their types on every new connection costs a round trip, and if the connection
    // breaks during it, nothing handles postgres.js' rejection, which ends the process.
    fetch_types: false,
    // JIT-compiling a statement takes 50 ms, and none of ours runs long enough to gain that back.
    connection: { application_name: name, statement_timeout: STATEMENT_TIMEOUT_MS, TimeZone: 'UTC', jit: 'off' },
  })

  // drizzle sends everything through `unsafe`, and postgres.js sends BEGIN itself, so these two are enough to intercept.
  const waiting = new Map<Promise<unknown>, Waiting>()
  const pool = { name, queries: waiting }
  pools.add(pool)
  const watch = (unsafe: typeof sql.unsafe, isInTransaction: boolean): typeof sql.unsafe => {
    let isUnhurried = false
    return (text, args, options) => {
      if (waiting.size >= IN_FLIGHT_MAX) throw tooManyWaiting()
      if (statements.hasSubscribers) statements.publish({ pool: name, text })
      const query = unsafe(text, args, { ...options, prepare: prepare && options?.prepare === true })
      // A transaction that raises its statement timeout is exempt from the answer timeout too.
      if (/^set local statement_timeout/i.test(text)) isUnhurried = true
      if (isUnhurried) return query as never
      waiting.set(query, { since: Date.now(), isInTransaction })
      const settled = () => void waiting.delete(query)
      // `then` starts the query, but only in the next tick: drizzle's `.values()` still gets called first.
      query.then(settled, settled)
      return query as never
    }
  }
  sql.unsafe = watch(sql.unsafe.bind(sql), false)
  const begin = sql.begin.bind(sql)
  // drizzle passes no options to `begin`, and neither does anybody here.
  const watchedBegin = async (work: (tx: postgres.TransactionSql) => unknown): Promise<unknown> => {
    const begun = Promise.withResolvers<void>()
    const worked = Promise.withResolvers<void>()
    let isTooLate = false
    const whole = begin(async (tx) => {
      // The caller already got an error: the ROLLBACK that follows releases the connection.
      if (isTooLate) throw notAnswering()
      begun.resolve()
      tx.unsafe = watch(tx.unsafe.bind(tx), true)
      try {
        return await work(tx)
      } finally {
        worked.resolve()
      }
    })
    try {
      await withDeadline(ANSWER_TIMEOUT_MS, notAnswering, Promise.race([begun.promise, whole]))
    } catch (error) {
      isTooLate = true
      throw error
    }
    await Promise.race([worked.promise, whole])
    // The driver sends COMMIT and ROLLBACK itself, bypassing `unsafe`.
    return withDeadline(ANSWER_TIMEOUT_MS, notAnswering, whole)
  }
  sql.begin = watchedBegin as typeof sql.begin
  let sweptAt = Date.now()
  const sweep = setInterval(() => {
    const now = Date.now()
    const lateMs = now - sweptAt - SWEEP_MS
    sweptAt = now
    // Answers that came meanwhile are still unread. Without this, a pause of the process fails every query that it had sent.
    if (lateMs > STOOD_STILL_MS) for (const entry of waiting.values()) entry.since = Math.min(now, entry.since + lateMs)
    for (const [query, { since, isInTransaction }] of waiting) {
      if (now - since < ACQUIRE_TIMEOUT_MS) break // insertion order is time order
      const driverQuery = query as unknown as DriverQuery
      // Cancelling a queued query of a transaction makes the driver lose its connection.
      if (driverQuery.state === null && !isInTransaction) (query as postgres.PendingQuery<never>).cancel()
      // A BEGIN that was rejected here would still start a transaction once the database recovers, and nothing would end it.
      else if (now - since >= ANSWER_TIMEOUT_MS && !driverQuery.options.onexecute) driverQuery.reject(notAnswering())
      else continue
      waiting.delete(query)
    }
  }, SWEEP_MS).unref()

  return {
    db: drizzle(sql),
    sql,
    async close() {
      clearInterval(sweep)
      pools.delete(pool)
      await sql.end({ timeout: 5 })
    },
  }
}

/**
 * Checks whether a database responds, on a connection of its own, so that neither a full pool nor a server that hangs delays
 * the reply: it comes within `limitMs`. While a check is pending, no second one is sent, so a server that is merely slow does
 * not cost a new connection each time; after 12 s the connection is given up.
 */
export function openDatabaseProbe(
  url: string,
  limitMs = PROBE_TIMEOUT_MS,
): { isAnswering(): Promise<boolean>; close(): Promise<void> } {
  const connect = () =>
    postgres(url, {
      max: 1,
      fetch_types: false,
      connect_timeout: 5,
      onnotice: () => {},
      connection: { application_name: 'probe' },
    })
  let sql = connect()
  let asking: Promise<void> | undefined

  async function ask(): Promise<void> {
    try {
      await withDeadline(ANSWER_TIMEOUT_MS, notAnswering, sql`select 1`)
    } catch (error) {
      const silent = sql
      sql = connect()
      void silent.end({ timeout: 0 })
      throw error
    } finally {
      asking = undefined
    }
  }
  return {
    isAnswering: () =>
      withDeadline(limitMs, notAnswering, (asking ??= ask())).then(
        () => true,
        () => false,
      ),
    close: () => sql.end({ timeout: 1 }),
  }
}

/** The causes of an error, from itself down; drizzle wraps what the driver throws. */
function* causes(error: unknown): Generator<{ code?: unknown; severity?: unknown; constraint_name?: unknown }> {
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth++)
    yield current as never
}

const unavailableCodes = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_ENDED',
  'CONNECTION_DESTROYED',
  'CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  '57014', // canceled: statement timeout, or waited too long for a connection
  '57P01',
  '57P02',
  '57P03', // shutting down, crashed, starting up
  '53100', // its disk is full
  '53300',
  '53400', // too many connections, limit reached
  '08000',
  '08001',
  '08003',
  '08004',
  '08006',
  '40001',
  '40P01',
  '55P03', // serialization failure, deadlock, lock timeout: the same request may succeed
  '25006', // read-only: a failover is under way
])

/** True if Postgres was unavailable, rather than rejecting the statement. */
export function isUnavailable(error: unknown): boolean {
  for (const { code, severity } of causes(error)) {
    if (typeof code === 'string' && unavailableCodes.has(code)) return true
    // On a full disk it can refuse a connection with the code of an internal error.
    if (code === 'XX000' && severity === 'FATAL') return true
  }
  return false
}

/** True if Postgres aborted the statement to resolve a deadlock: none of it took effect. */
export function isDeadlock(error: unknown): boolean {
  for (const { code } of causes(error)) if (code === '40P01') return true
  return false
}

/** True if an insert or update violated the named unique constraint or index. */
export function isUniqueViolation(error: unknown, constraint: string): boolean {
  for (const { code, constraint_name } of causes(error))
    if (code === '23505' && constraint_name === constraint) return true
  return false
}

/** True if a row refers to one that does not exist. */
export function isForeignKeyViolation(error: unknown): boolean {
  for (const { code } of causes(error)) if (code === '23503') return true
  return false
}

/** Returns the only row of a statement. Throws if there is not exactly one. */
export function one<T>(rows: readonly T[]): T {
  const [row] = rows
  if (row === undefined || rows.length > 1) throw new Error(`Expected one row, got ${rows.length}`)
  return row
}
