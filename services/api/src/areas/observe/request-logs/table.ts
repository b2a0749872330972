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

/** What served the request, if anything did, as of then (wire.md). */
export interface ServedBy {
  deploymentStatus?: string
  deploymentFunction?: { id: string; name: string; path: string; region: string | null }
  deploymentAsset?: { id: string; path: string; objectKey: string }
  storageBucket?: { id: string; name: string; slug: string }
  storageObject?: { id: string; key: string; contentType: string }
}

/** SQL: the id of the object, file or Function that served the request. */
export const servedById = (servedBy: SQLWrapper): SQL<string | null> =>
  sql`coalesce(${servedBy}->'storageObject'->>'id', ${servedBy}->'deploymentAsset'->>'id', ${servedBy}->'deploymentFunction'->>'id')`

/**
 * One row per request, in partitions of a day. The id is a UUIDv7 of the start time, so ids sort by time, and a partition is a
 * range of ids.
 */
export const requestLogs = pgTable(
  'request_logs',
  {
    id: uuid().notNull(),
    /** No foreign key: logs never block changes of their application, and are dropped with their day. */
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
    // Indexes for rare rows that people search for: failures, and one path among many.
    index('request_logs_failures')
      .on(t.applicationId, sql`(${t.status} / 100)`, t.id)
      .where(sql`${t.status} >= 400`),
    index('request_logs_paths').on(t.applicationId, sql`${t.path} text_pattern_ops`, t.id),
    index('request_logs_served_by').on(t.applicationId, servedById(t.servedBy), t.id),
  ],
)

/** An application's requests per hour and kind, so that lists need not count rows. */
export const requestCounts = pgTable(
  'request_counts',
  {
    applicationId: uuid('application_id').notNull(),
    hour: instant('hour').notNull(),
    /** Hash of the other columns: an index over all of them would be as long as the row. */
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
 * An application's requests per hour, place and bucket. A separate table, since these have few distinct values and the kinds
 * above have many.
 */
export const requestPlaceCounts = pgTable(
  'request_place_counts',
  {
    applicationId: uuid('application_id').notNull(),
    hour: instant('hour').notNull(),
    /** Empty if the request has none, as in the columns below. */
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
 * The sorted paths of an hour, each with the number of its requests and of those before it, so that counting by prefix reads no
 * rows. The worker fills it for past hours of days with many requests (path-ranks.ts).
 */
export const requestPathRanks = pgTable(
  'request_path_ranks',
  {
    hour: instant('hour').notNull(),
    applicationId: uuid('application_id').notNull(),
    /** As in request_counts; empty: all kinds together. */
    kind: bytea().notNull(),
    firstPath: bytea('first_path').notNull(),
    /** UTF-8, ascending bytewise. */
    paths: bytea().array().notNull(),
    /** Running total of the hour's requests of this kind, up to and including each path. */
    running: integer().array().notNull(),
  },
  (t) => [primaryKey({ columns: [t.hour, t.applicationId, t.kind, t.firstPath] })],
)

/** The dimensions that a summary can be grouped by; total: everything. */
export type SummaryDimension = 'total' | 'status' | 'path' | 'hostname' | 'country' | 'cacheStatus' | 'deploymentId'

/**
 * Sums of requests by minute, hour and day, kept independently of the requests' own rows. The duration is part of the key, in
 * buckets of a fixed scale (summary-buckets.ts), so that batches add up without reading each other.
 */
export const requestSummaries = pgTable(
  'request_summaries',
  {
    applicationId: uuid('application_id').notNull(),
    /** Length of the row's span in minutes: 1, 60 or 1,440. */
    minutes: smallint().notNull(),
    dimension: text().$type<SummaryDimension>().notNull(),
    /** Start of the span. */
    at: instant('at').notNull(),
    /** Value of the dimension; empty if the request has none. */
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
 * Requests in the order in which they were stored, for applications with followers. Ids sort by start time, so a long request
 * appears after ones with later ids that were already sent.
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
