import { eq, inArray, isNull, notInArray, or, type SQL, sql } from 'drizzle-orm'
import { type CacheStatus, type requestCounts, requestLogs, type requestPlaceCounts, servedById } from './table.ts'

/** The filters of a list (A §2 Request log record). */
export interface RequestFilters {
  /** Inclusive. */
  from?: Date | undefined
  /** Exclusive. */
  to?: Date | undefined
  method?: string | undefined
  status?: number | undefined
  /** 1 to 5. */
  statusFamily?: number | undefined
  hostname?: string | undefined
  pathPrefix?: string | undefined
  country?: string | undefined
  cacheStatus?: CacheStatus | undefined
  cacheHit?: boolean | undefined
  deploymentId?: string | undefined
  storageBucketId?: string | undefined
  storageObjectId?: string | undefined
  deploymentFunctionId?: string | undefined
  deploymentAssetId?: string | undefined
  region?: string | undefined
  edgeLocation?: string | undefined
}

/** Statuses of requests that the cache answered by itself. */
const hits: readonly CacheStatus[] = ['hit', 'stale', 'updating', 'revalidated']
export const isHit = (status: CacheStatus | null): boolean => status !== null && hits.includes(status)

export const hasPathPrefix = ({ pathPrefix = '' }: RequestFilters): boolean => pathPrefix !== '' && pathPrefix !== '/'

/** Conditions for filters on columns that both rows and their hourly counts have. */
export function matching(t: typeof requestLogs | typeof requestCounts, filters: RequestFilters): (SQL | undefined)[] {
  const { method, status, statusFamily, hostname, country, cacheStatus, cacheHit, deploymentId } = filters
  return [
    method === undefined ? undefined : eq(t.method, method),
    status === undefined ? undefined : eq(t.status, status),
    // The redundant condition matches the index of failures: Postgres cannot derive it from the family.
    statusFamily === undefined ? undefined : sql`${t.status} / 100 = ${sql.raw(String(statusFamily))}`,
    (status ?? (statusFamily ?? 0) * 100) >= 400 ? sql`${t.status} >= 400` : undefined,
    hostname === undefined ? undefined : eq(t.hostname, hostname),
    country === undefined ? undefined : eq(t.country, country),
    cacheStatus === undefined ? undefined : eq(t.cacheStatus, cacheStatus),
    cacheHit === true ? inArray(t.cacheStatus, [...hits]) : undefined,
    cacheHit === false ? or(isNull(t.cacheStatus), notInArray(t.cacheStatus, [...hits])) : undefined,
    deploymentId === undefined ? undefined : eq(t.deploymentId, deploymentId),
  ]
}

/** SQL: true if this thing served the request. */
const isServedBy = (kind: 'storageObject' | 'deploymentAsset' | 'deploymentFunction', id: string): SQL =>
  // The first condition matches the index, the second checks the kind.
  sql`${servedById(requestLogs.servedBy)} = ${id} and ${requestLogs.servedBy}->${sql.raw(`'${kind}'`)}->>'id' = ${id}`

/** Conditions on what served the request. These have no counts, but an index finds the rows. */
const ofThing = ({ storageObjectId, deploymentFunctionId, deploymentAssetId }: RequestFilters): (SQL | undefined)[] => [
  storageObjectId === undefined ? undefined : isServedBy('storageObject', storageObjectId),
  deploymentAssetId === undefined ? undefined : isServedBy('deploymentAsset', deploymentAssetId),
  deploymentFunctionId === undefined ? undefined : isServedBy('deploymentFunction', deploymentFunctionId),
]

/** Conditions on place and bucket, which have their own hourly counts. */
export function ofPlace(
  t: typeof requestLogs | typeof requestPlaceCounts,
  { storageBucketId, region, edgeLocation }: RequestFilters,
): (SQL | undefined)[] {
  const bucketId = 'storageBucketId' in t ? t.storageBucketId : sql`${t.servedBy}->'storageBucket'->>'id'`
  return [
    storageBucketId === undefined ? undefined : sql`${bucketId} = ${storageBucketId}`,
    region === undefined ? undefined : eq(t.region, region),
    edgeLocation === undefined ? undefined : eq(t.edgeLocation, edgeLocation),
  ]
}

const isAny = (conditions: (SQL | undefined)[]): boolean => conditions.some((condition) => condition !== undefined)

/** True if the counts of places alone give the number of matching requests. */
export const isOfPlaceOnly = (filters: RequestFilters): boolean =>
  isAny(ofPlace(requestLogs, filters)) &&
  !hasPathPrefix(filters) &&
  !isAny(matching(requestLogs, filters)) &&
  !isAny(ofThing(filters))

/** True if no counts give the number of matching requests. */
export const isUncounted = (filters: RequestFilters): boolean =>
  isAny([...ofThing(filters), ...ofPlace(requestLogs, filters)]) && !isOfPlaceOnly(filters)

const likePrefix = (prefix: string): string => `${prefix.replaceAll(/[\\%_]/g, '\\$&')}%`

/** The conditions for matching rows. */
export const conditionsOf = (filters: RequestFilters): (SQL | undefined)[] => [
  hasPathPrefix(filters) ? sql`${requestLogs.path} like ${likePrefix(filters.pathPrefix ?? '')}` : undefined,
  ...matching(requestLogs, filters),
  ...ofPlace(requestLogs, filters),
  ...ofThing(filters),
]

/**
 * Like `conditionsOf`, but rows are read in order of time whatever the path: the prefix is written so that no index is chosen for
 * it.
 */
export const conditionsByTime = (filters: RequestFilters): (SQL | undefined)[] => {
  const prefix = sql`${filters.pathPrefix ?? ''}::text`
  return [
    sql`left(${requestLogs.path}, length(${prefix})) = ${prefix}`,
    ...matching(requestLogs, filters),
    ...ofPlace(requestLogs, filters),
    ...ofThing(filters),
  ]
}

/** True if some requests of a span may not match. */
export const hasFilters = (filters: RequestFilters): boolean => isAny(conditionsOf(filters))
