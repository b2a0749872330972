import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { type Db, isUnavailable } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import { newIdAt } from '@platform/runtime/new-id'
import { getTableColumns, type SQL, sql, type Table } from 'drizzle-orm'
import { Counter, Gauge } from 'prom-client'
import { makeDay } from './days.ts'
import { hourOf } from './hours.ts'
import { sanitizeHeaders, sanitizeQuery, storable } from './sanitize.ts'
import { type CacheStatus, requestCounts, requestLogs, type ServedBy } from './table.ts'

const BATCH_MS = 200
const BATCH_MAX = 500
const WAITING_MAX = 10_000
const RETRY_MS = 1_000

const waitingGauge = new Gauge({ name: 'request_logs_waiting', help: 'Request logs that are not stored yet.' })
const dropped = new Counter({
  name: 'request_logs_dropped_total',
  help: 'Request logs that were given up: too many waited, or the database refused them.',
})

/** A request that was served, as it came and as it went. */
export interface ServedRequest {
  applicationId: string
  deploymentId?: string | undefined
  servedBy?: ServedBy
  method: string
  hostname: string
  path: string
  /** Without the `?`. */
  query: string
  /** Such as HTTP/1.1. */
  protocol: string
  /** ISO 3166-1 alpha-2, where it is known. */
  country?: string | undefined
  status: number
  cacheStatus?: CacheStatus | undefined
  region?: string | undefined
  edgeLocation?: string | undefined
  requestBodyBytes: number
  responseBodyBytes: number
  /** Body and headers. */
  bytesSent: number
  startedAt: Date
  completedAt: Date
  requestHeaders: IncomingHttpHeaders
  responseHeaders: IncomingHttpHeaders
}

type Row = typeof requestLogs.$inferInsert
type Count = typeof requestCounts.$inferInsert

const headerOf = (headers: IncomingHttpHeaders, name: 'user-agent' | 'referer'): string | null => {
  const value = headers[name]
  return value === undefined ? null : storable(value, 1_024)
}

/** The row of a request, with nothing in it that lets its reader act for its sender. */
function toRow(request: ServedRequest): Row {
  const { startedAt, completedAt, requestHeaders, responseHeaders } = request
  const referer = headerOf(requestHeaders, 'referer')
  return {
    id: newIdAt(startedAt),
    applicationId: request.applicationId,
    deploymentId: request.deploymentId ?? null,
    servedBy: request.servedBy ?? {},
    method: storable(request.method, 16),
    hostname: storable(request.hostname, 253),
    path: storable(request.path),
    query: sanitizeQuery(request.query),
    protocol: storable(request.protocol, 16),
    country: request.country ?? null,
    userAgent: headerOf(requestHeaders, 'user-agent'),
    // The page's address without its query, which may carry authority of its own.
    referer: referer?.replace(/[?#].*$/, '') ?? null,
    status: request.status,
    cacheStatus: request.cacheStatus ?? null,
    region: request.region ?? null,
    edgeLocation: request.edgeLocation ?? null,
    requestBodyBytes: request.requestBodyBytes,
    responseBodyBytes: request.responseBodyBytes,
    bytesSent: request.bytesSent,
    durationMs: Math.max(0, completedAt.getTime() - startedAt.getTime()),
    completedAt,
    requestHeaders: {
      ...sanitizeHeaders(requestHeaders),
      ...(referer !== null && { referer: referer.replace(/[?#].*$/, '') }),
    },
    responseHeaders: sanitizeHeaders(responseHeaders),
  }
}

/** What a batch adds to the hourly counts, in the order of their keys, so that two batches never wait in a circle. */
function countsOf(batch: readonly { row: Row; startedAt: Date }[]): Count[] {
  const counts = new Map<string, Count>()
  for (const { row, startedAt } of batch) {
    const { applicationId, method, hostname, status, country, cacheStatus, deploymentId } = row
    const hour = hourOf(startedAt)
    const kind = hash(
      'sha256',
      JSON.stringify([method, hostname, status, country, cacheStatus, deploymentId]),
      'buffer',
    )
    const key = `${applicationId} ${hour.toISOString()} ${kind.toString('hex')}`
    const known = counts.get(key)
    if (known) known.requests++
    else
      counts.set(key, {
        applicationId,
        hour,
        kind: kind.subarray(0, 16),
        method,
        hostname,
        status,
        country,
        cacheStatus,
        deploymentId,
        requests: 1,
      })
  }
  return [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, count]) => count)
}

/** Rows as one JSON parameter: a statement of any number of rows is parsed and planned once. */
function rowsOf(table: Table, rows: readonly object[]): SQL {
  const columns = Object.entries(getTableColumns(table))
  const named = rows.map((row) =>
    Object.fromEntries(
      columns.map(([key, { name }]) => {
        const value = (row as Record<string, unknown>)[key]
        return [name, Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : value]
      }),
    ),
  )
  const names = sql.join(
    columns.map(([, { name }]) => sql.identifier(name)),
    sql`, `,
  )
  return sql`insert into ${table} (${names}) select ${names} from json_populate_recordset(null::${table}, ${JSON.stringify(named)}::json)`
}

/** Stores requests and their counts in one transaction. */
async function store({ db }: { db: Db }, batch: readonly { row: Row; startedAt: Date }[]): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.execute(
      rowsOf(
        requestLogs,
        batch.map(({ row }) => row),
      ),
    )
    await tx.execute(
      sql`${rowsOf(requestCounts, countsOf(batch))} on conflict (application_id, hour, kind)
          do update set requests = ${requestCounts}.requests + excluded.requests`,
    )
  })
}

export interface RequestLogWriter {
  /** Takes note of a request; returns at once. When 10,000 wait, further ones are dropped and counted. */
  write(request: ServedRequest): void
  /** Stores what waits. Resolves when it is stored or given up. */
  flush(): Promise<void>
  /** Stores what waits, and takes no more. */
  close(): Promise<void>
}

/**
 * Collects the log of served requests and stores it in batches, every 200 ms or 500 requests. While the database is away
 * they wait; whatever it refuses is dropped, counted and logged without its content.
 */
export function openRequestLog(deps: { db: Db; logger: Logger }): RequestLogWriter {
  let waiting: { row: Row; startedAt: Date }[] = []
  let timer: NodeJS.Timeout | undefined
  let flushing: Promise<void> | undefined
  let isClosed = false
  const days = new Set<string>()

  const later = (ms: number) => (timer ??= setTimeout(() => void flush(), ms).unref())

  async function storeNext(): Promise<boolean> {
    const batch = waiting.slice(0, BATCH_MAX)
    try {
      for (const { startedAt } of batch) {
        const day = startedAt.toISOString().slice(0, 10)
        if (!days.has(day)) await makeDay(deps, startedAt)
        days.add(day)
      }
      await store(deps, batch)
    } catch (error) {
      if (isUnavailable(error) && !isClosed) {
        deps.logger.warn({ err: error, waiting: waiting.length }, 'request logs wait for the database')
        later(RETRY_MS)
        return false
      }
      dropped.inc(batch.length)
      days.clear()
      deps.logger.error({ err: error, count: batch.length }, 'request logs could not be stored')
    }
    waiting = waiting.slice(batch.length)
    waitingGauge.set(waiting.length)
    return true
  }

  async function storeAll(): Promise<void> {
    while (waiting.length > 0 && (await storeNext()));
  }

  function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    flushing ??= storeAll().finally(() => {
      flushing = undefined
    })
    return flushing
  }

  return {
    write(request) {
      if (isClosed || waiting.length >= WAITING_MAX) {
        dropped.inc()
        return
      }
      waiting.push({ row: toRow(request), startedAt: request.startedAt })
      waitingGauge.set(waiting.length)
      if (waiting.length >= BATCH_MAX) void flush()
      else later(BATCH_MS)
    },
    flush,
    async close() {
      isClosed = true
      await flush()
    },
  }
}
