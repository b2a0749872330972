import { eq, inArray, isNull, notInArray, or, type SQL, sql } from 'drizzle-orm'
import { type CacheStatus, type requestCounts, requestLogs, type requestPlaceCounts, servedById } from './table.ts'

/** What a list may be narrowed to (A §2 Request log record). */
export interface RequestFilters {
  /** The first moment. */
  from?: Date | undefined
  /** The first moment that is left out. */
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

/** What the cache answered by itself. */
const hits: readonly CacheStatus[] = ['hit', 'stale', 'updating', 'revalidated']
export const isHit = (status: CacheStatus | null): boolean => status !== null && hits.includes(status)

export const hasPathPrefix = ({ pathPrefix = '' }: RequestFilters): boolean => pathPrefix !== '' && pathPrefix !== '/'

/** The filters that rows and their hourly counts have columns for. */
export function matching(t: typeof requestLogs | typeof requestCounts, filters: RequestFilters): (SQL | undefined)[] {
  const { method, status, statusFamily, hostname, country, cacheStatus, cacheHit, deploymentId } = filters
  return [
    method === undefined ? undefined : eq(t.method, method),
    status === undefined ? undefined : eq(t.status, status),
    // Twice what it says, for the index of failures, whose condition Postgres does not derive from the family.
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

/** SQL: what served the request is this thing. */
const isServedBy = (kind: 'storageObject' | 'deploymentAsset' | 'deploymentFunction', id: string): SQL =>
  // The first is what the index holds, the second what is asked.
  sql`${servedById(requestLogs.servedBy)} = ${id} and ${requestLogs.servedBy}->${sql.raw(`'${kind}'`)}->>'id' = ${id}`

/** The filters by what served the request. No count is kept for these, but an index leads to the rows. */
const ofThing = ({ storageObjectId, deploymentFunctionId, deploymentAssetId }: RequestFilters): (SQL | undefined)[] => [
  storageObjectId === undefined ? undefined : isServedBy('storageObject', storageObjectId),
  deploymentAssetId === undefined ? undefined : isServedBy('deploymentAsset', deploymentAssetId),
  deploymentFunctionId === undefined ? undefined : isServedBy('deploymentFunction', deploymentFunctionId),
]

/** The filters by place and bucket, which have hourly counts of their own. */
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

/** True where the counts of places alone tell how many requests match. */
export const isOfPlaceOnly = (filters: RequestFilters): boolean =>
  isAny(ofPlace(requestLogs, filters)) &&
  !hasPathPrefix(filters) &&
  !isAny(matching(requestLogs, filters)) &&
  !isAny(ofThing(filters))

/** True where no count tells how many requests match. */
export const isUncounted = (filters: RequestFilters): boolean =>
  isAny([...ofThing(filters), ...ofPlace(requestLogs, filters)]) && !isOfPlaceOnly(filters)

const likePrefix = (prefix: string): string => `${prefix.replaceAll(/[\\%_]/g, '\\$&')}%`

/** What rows have to pass. */
export const conditionsOf = (filters: RequestFilters): (SQL | undefined)[] => [
  hasPathPrefix(filters) ? sql`${requestLogs.path} like ${likePrefix(filters.pathPrefix ?? '')}` : undefined,
  ...matching(requestLogs, filters),
  ...ofPlace(requestLogs, filters),
  ...ofThing(filters),
]

/** As `conditionsOf`, but rows are read in the order of time whatever the path: what has no index is no reason to take another. */
export const conditionsByTime = (filters: RequestFilters): (SQL | undefined)[] => {
  const prefix = sql`${filters.pathPrefix ?? ''}::text`
  return [
    sql`left(${requestLogs.path}, length(${prefix})) = ${prefix}`,
    ...matching(requestLogs, filters),
    ...ofPlace(requestLogs, filters),
    ...ofThing(filters),
  ]
}

/** True when some requests of the span do not match. */
export const hasFilters = (filters: RequestFilters): boolean => isAny(conditionsOf(filters))
