import { bytea, instant } from '@platform/runtime/columns'
import { type SQL, sql, type SQLWrapper } from 'drizzle-orm'
import {
  bigint,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  smallint,
  text,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core'

export type CacheStatus = 'hit' | 'miss' | 'bypass' | 'revalidated' | 'stale' | 'updating'

/** What served the request, where something did; kept as it was then (wire.md). */
export interface ServedBy {
  deploymentStatus?: string
  deploymentFunction?: { id: string; name: string; path: string; region: string | null }
  deploymentAsset?: { id: string; path: string; objectKey: string }
  storageBucket?: { id: string; name: string; slug: string }
  storageObject?: { id: string; key: string; contentType: string }
}

/** SQL: the id of what served the request, where that was an object, a file or a Function. */
export const servedById = (servedBy: SQLWrapper): SQL<string | null> =>
  sql`coalesce(${servedBy}->'storageObject'->>'id', ${servedBy}->'deploymentAsset'->>'id', ${servedBy}->'deploymentFunction'->>'id')`

/**
 * One row a request, in partitions of a day. The id is a UUIDv7 of the moment it started, so the order of ids is the order
 * of time, and a partition is a range of ids.
 */
export const requestLogs = pgTable(
  'request_logs',
  {
    id: uuid().notNull(),
    /** No foreign key: a log never waits for its application, and goes with its day. */
    applicationId: uuid('application_id').notNull(),
    deploymentId: uuid('deployment_id'),
    servedBy: jsonb('served_by').$type<ServedBy>().notNull(),
    method: text().notNull(),
    hostname: text().notNull(),
    path: text().notNull(),
    query: text().notNull(),
    protocol: text().notNull(),
    country: text(),
    userAgent: text('user_agent'),
    referer: text(),
    status: smallint().notNull(),
    cacheStatus: text('cache_status').$type<CacheStatus>(),
    region: text(),
    edgeLocation: text('edge_location'),
    requestBodyBytes: bigint('request_body_bytes', { mode: 'number' }).notNull(),
    responseBodyBytes: bigint('response_body_bytes', { mode: 'number' }).notNull(),
    bytesSent: bigint('bytes_sent', { mode: 'number' }).notNull(),
    durationMs: integer('duration_ms').notNull(),
    completedAt: instant('completed_at').notNull(),
    requestHeaders: jsonb('request_headers').$type<Record<string, string>>().notNull(),
    responseHeaders: jsonb('response_headers').$type<Record<string, string>>().notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.applicationId, t.id] }),
    // What people look for is rare: failures, and one path among many.
    index('request_logs_failures')
      .on(t.applicationId, sql`(${t.status} / 100)`, t.id)
      .where(sql`${t.status} >= 400`),
    index('request_logs_paths').on(t.applicationId, sql`${t.path} text_pattern_ops`, t.id),
    index('request_logs_served_by').on(t.applicationId, servedById(t.servedBy), t.id),
  ],
)

/** How many requests of a kind an application had in an hour, so that no list has to count its rows. */
export const requestCounts = pgTable(
  'request_counts',
  {
    applicationId: uuid('application_id').notNull(),
    hour: instant('hour').notNull(),
    /** Of the other columns: an index over all of them would be as long as the row. */
    kind: bytea().notNull(),
    method: text().notNull(),
    hostname: text().notNull(),
    status: smallint().notNull(),
    country: text(),
    cacheStatus: text('cache_status').$type<CacheStatus>(),
    deploymentId: uuid('deployment_id'),
    requests: bigint({ mode: 'number' }).notNull(),
  },
  (t) => [uniqueIndex('request_counts_kind').on(t.applicationId, t.hour, t.kind)],
)

/**
 * How many requests of an application were answered in an hour by each place and bucket. A table of its own, since these have few values
 * where the kinds above have many.
 */
export const requestPlaceCounts = pgTable(
  'request_place_counts',
  {
    applicationId: uuid('application_id').notNull(),
    hour: instant('hour').notNull(),
    /** Empty where the request has none, as in the columns below. */
    region: text().notNull(),
    edgeLocation: text('edge_location').notNull(),
    storageBucketId: text('storage_bucket_id').notNull(),
    requests: bigint({ mode: 'number' }).notNull(),
  },
  (t) => [
    primaryKey({
      name: 'request_place_counts_key',
      columns: [t.applicationId, t.hour, t.region, t.edgeLocation, t.storageBucketId],
    }),
  ],
)

/**
 * The paths of an hour in order, with how many requests came to each and to those before it, so that no prefix has to be
 * counted by row. The worker makes them when an hour is over, for days with many requests (path-ranks.ts).
 */
export const requestPathRanks = pgTable(
  'request_path_ranks',
  {
    hour: instant('hour').notNull(),
    applicationId: uuid('application_id').notNull(),
    /** As in request_counts; empty: of all kinds. */
    kind: bytea().notNull(),
    firstPath: bytea('first_path').notNull(),
    /** In UTF-8, ascending bytewise. */
    paths: bytea().array().notNull(),
    /** Requests of the hour and the kind up to each of the paths. */
    running: integer().array().notNull(),
  },
  (t) => [primaryKey({ columns: [t.hour, t.applicationId, t.kind, t.firstPath] })],
)

/** What a summary can be grouped by; total: everything. */
export type SummaryDimension = 'total' | 'status' | 'path' | 'hostname' | 'country' | 'cacheStatus' | 'deploymentId'

/**
 * Sums of requests by minute, hour and day, kept whatever becomes of the requests' own rows. The time that they took is part of the key,
 * in buckets of a fixed scale (summary-buckets.ts), so that two batches add up without reading each other.
 */
export const requestSummaries = pgTable(
  'request_summaries',
  {
    applicationId: uuid('application_id').notNull(),
    /** How long the span is that the row sums: 1, 60 or 1,440. */
    minutes: smallint().notNull(),
    dimension: text().$type<SummaryDimension>().notNull(),
    /** When the span begins. */
    at: instant('at').notNull(),
    /** Of the dimension; empty where the request has none. */
    value: text().notNull(),
    bucket: smallint().notNull(),
    requests: bigint({ mode: 'number' }).notNull(),
    requestBodyBytes: bigint('request_body_bytes', { mode: 'number' }).notNull(),
    responseBodyBytes: bigint('response_body_bytes', { mode: 'number' }).notNull(),
    bytesSent: bigint('bytes_sent', { mode: 'number' }).notNull(),
  },
  (t) => [
    primaryKey({
      name: 'request_summaries_key',
      columns: [t.applicationId, t.minutes, t.dimension, t.at, t.value, t.bucket],
    }),
    index('request_summaries_by_age').on(t.minutes, t.at),
  ],
)

/**
 * Requests in the order in which they were stored, of applications whose requests somebody follows. Ids are in the order in which requests
 * began, so a long one appears behind others that were sent already.
 */
export const followedRequests = pgTable(
  'followed_requests',
  {
    applicationId: uuid('application_id').notNull(),
    number: bigint({ mode: 'number' }).generatedAlwaysAsIdentity(),
    requestId: uuid('request_id').notNull(),
    storedAt: instant('stored_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.applicationId, t.number] }),
    index('followed_requests_by_id').on(t.applicationId, t.requestId),
    index('followed_requests_by_age').on(t.storedAt),
  ],
)
