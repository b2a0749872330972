import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Db } from '@platform/runtime/database'
import { insertInto } from '@platform/runtime/insert-rows'
import { openLogBatches } from '@platform/runtime/log-batches'
import type { Logger } from '@platform/runtime/logger'
import { newIdAt } from '@platform/runtime/new-id'
import { rememberPartitions } from '@platform/runtime/partitions'
import { sql } from 'drizzle-orm'
import { Counter, Gauge } from 'prom-client'
import { noteFollowed } from './follow.ts'
import { hourOf } from './hours.ts'
import { sanitizeHeaders, sanitizeQuery, storable } from './sanitize.ts'
import { openSeenPaths, type SeenPaths, summarize } from './summarize.ts'
import {
  type CacheStatus,
  requestCounts,
  requestLogs,
  requestPlaceCounts,
  requestSummaries,
  type ServedBy,
} from './table.ts'

const BATCH_MS = 200
const BATCH_MAX = 500
const WAITING_MAX = 10_000
const HOUR_MS = 3_600_000

const waitingGauge = new Gauge({ name: 'request_logs_waiting', help: 'Request logs that are not stored yet.' })
const dropped = new Counter({
  name: 'request_logs_dropped_total',
  help: 'Request logs that were given up: too many waited, or the database refused them.',
})

/** A served request and its response. */
export interface ServedRequest {
  /** A UUIDv7 of `startedAt`, if it was handed out before the request ended, for example to a Function. */
  id?: string | undefined
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
  /** ISO 3166-1 alpha-2, if known. */
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
  /** An object, or alternating names and values. */
  responseHeaders: IncomingHttpHeaders | readonly string[]
}

type Row = typeof requestLogs.$inferInsert
type Count = typeof requestCounts.$inferInsert

const headerOf = (headers: IncomingHttpHeaders, name: 'user-agent' | 'referer'): string | null => {
  const value = headers[name]
  return value === undefined ? null : storable(value, 1_024)
}

/** Sanitized headers that many responses share. */
const sanitized = new WeakMap<object, Record<string, string>>()

/** Response headers as a log may hold them. Lists are cached by identity: the caller must not change them. */
function sanitizeResponse(headers: ServedRequest['responseHeaders']): Record<string, string> {
  if (!isList(headers)) return sanitizeHeaders(headers)
  const before = sanitized.get(headers)
  if (before) return before
  const gathered: Record<string, string> = {}
  for (let n = 0; n + 1 < headers.length; n += 2) {
    const [name = '', value = ''] = [headers[n], headers[n + 1]]
    gathered[name] = gathered[name] === undefined ? value : `${gathered[name]}, ${value}`
  }
  const result = sanitizeHeaders(gathered)
  sanitized.set(headers, result)
  return result
}
const isList = (headers: ServedRequest['responseHeaders']): headers is readonly string[] => Array.isArray(headers)

/** The row of a request, without anything that lets its reader act as the sender. */
function toRow(request: ServedRequest): Row {
  const { startedAt, completedAt, requestHeaders, responseHeaders } = request
  // Without its query, which may carry credentials.
  const referer = headerOf(requestHeaders, 'referer')?.replace(/[?#].*$/, '') ?? null
  const headers = sanitizeHeaders(requestHeaders)
  if (referer !== null) headers.referer = referer
  return {
    id: request.id ?? newIdAt(startedAt),
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
    referer,
    status: request.status,
    cacheStatus: request.cacheStatus ?? null,
    region: request.region ?? null,
    edgeLocation: request.edgeLocation ?? null,
    requestBodyBytes: request.requestBodyBytes,
    responseBodyBytes: request.responseBodyBytes,
    bytesSent: request.bytesSent,
    durationMs: Math.max(0, completedAt.getTime() - startedAt.getTime()),
    completedAt,
    requestHeaders: headers,
    responseHeaders: sanitizeResponse(responseHeaders),
  }
}

/** A batch's additions to the hourly counts, sorted by key, so that two batches cannot deadlock. */
function countsOf(batch: readonly { row: Row; startedAt: Date }[]): Count[] {
  // Most requests of a batch are of a few kinds, so each kind is hashed only once.
  const requests = new Map<string, { row: Row; startedAt: Date; count: number }>()
  for (const { row, startedAt } of batch) {
    const { applicationId, method, hostname, status, country, cacheStatus, deploymentId } = row
    const key = `${Math.floor(startedAt.getTime() / HOUR_MS)} ${applicationId} ${deploymentId} ${status} ${country} ${cacheStatus} ${hostname} ${method}`
    const known = requests.get(key)
    if (known) known.count++
    else requests.set(key, { row, startedAt, count: 1 })
  }
  const counts = Array.from(requests.values(), ({ row, startedAt, count }): [string, Count] => {
    const { applicationId, method, hostname, status, country, cacheStatus, deploymentId } = row
    const hour = hourOf(startedAt)
    const kind = hash(
      'sha256',
      JSON.stringify([method, hostname, status, country, cacheStatus, deploymentId]),
      'buffer',
    )
    return [
      `${applicationId} ${hour.toISOString()} ${kind.toString('hex')}`,
      {
        applicationId,
        hour,
        kind: kind.subarray(0, 16),
        method,
        hostname,
        status,
        country,
        cacheStatus,
        deploymentId,
        requests: count,
      },
    ]
  })
  return counts.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, count]) => count)
}

/** A batch's additions to the hourly counts of places and buckets, sorted by key. */
function placeCountsOf(batch: readonly { row: Row; startedAt: Date }[]): (typeof requestPlaceCounts.$inferInsert)[] {
  const counts = new Map<string, typeof requestPlaceCounts.$inferInsert>()
  for (const { row, startedAt } of batch) {
    const { applicationId, servedBy } = row
    const [region, edgeLocation] = [row.region ?? '', row.edgeLocation ?? '']
    const storageBucketId = servedBy.storageBucket?.id ?? ''
    const hour = hourOf(startedAt)
    const key = `${applicationId} ${hour.toISOString()} ${region} ${edgeLocation} ${storageBucketId}`
    const count = counts.get(key)
    if (count) count.requests++
    else counts.set(key, { applicationId, hour, region, edgeLocation, storageBucketId, requests: 1 })
  }
  return [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, count]) => count)
}

const insertLogs = insertInto(requestLogs)
const insertCounts = insertInto(requestCounts)
const insertPlaceCounts = insertInto(requestPlaceCounts)
const insertSums = insertInto(requestSummaries)

/** Stores requests, their counts and their sums in one transaction, and notifies followers. */
async function store(
  { db }: { db: Db },
  batch: readonly { row: Row; startedAt: Date }[],
  paths: SeenPaths,
): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.execute(insertLogs(batch.map(({ row }) => row)))
    await tx.execute(
      sql`${insertCounts(countsOf(batch))} on conflict (application_id, hour, kind)
          do update set requests = ${requestCounts}.requests + excluded.requests`,
    )
    await tx.execute(
      sql`${insertPlaceCounts(placeCountsOf(batch))}
          on conflict (application_id, hour, region, edge_location, storage_bucket_id)
          do update set requests = ${requestPlaceCounts}.requests + excluded.requests`,
    )
    await tx.execute(
      sql`${insertSums(summarize(batch, paths))} on conflict (application_id, minutes, dimension, at, value, bucket)
          do update set requests = ${requestSummaries}.requests + excluded.requests,
            request_body_bytes = ${requestSummaries}.request_body_bytes + excluded.request_body_bytes,
            response_body_bytes = ${requestSummaries}.response_body_bytes + excluded.response_body_bytes,
            bytes_sent = ${requestSummaries}.bytes_sent + excluded.bytes_sent`,
    )
    await noteFollowed(
      tx,
      batch.map(({ row }) => row),
    )
  })
}

export interface RequestLogWriter {
  /** Records a request; returns at once. While 10,000 wait, further ones are dropped and counted. */
  write(request: ServedRequest): void
  /** Resolves when all waiting requests are stored or dropped. */
  flush(): Promise<void>
  /** Stores the waiting requests, and accepts no more. */
  close(): Promise<void>
}

/**
 * Collects served requests and stores them in batches, every 200 ms or 500 requests. During a database outage they wait; what the
 * database rejects is dropped, counted and logged without its content.
 */
export function openRequestLog(deps: { db: Db; logger: Logger }): RequestLogWriter {
  const withPartitions = rememberPartitions(deps, 'request_logs')
  const paths = openSeenPaths()
  // Rows are built when they are stored: dropped requests cost next to nothing, and bursts are answered first.
  const batches = openLogBatches<ServedRequest>({
    name: 'request logs',
    batchMs: BATCH_MS,
    batchMax: BATCH_MAX,
    logger: deps.logger,
    waitingGauge,
    dropped,
    store: (requests) =>
      withPartitions(
        requests.map(({ startedAt }) => startedAt),
        () =>
          store(
            deps,
            requests.map((request) => ({ row: toRow(request), startedAt: request.startedAt })),
            paths,
          ),
      ),
  })
  return {
    write: (request) => {
      if (batches.isClosed || batches.length >= WAITING_MAX) dropped.inc()
      else batches.add(request)
    },
    flush: batches.flush,
    close: batches.close,
  }
}
