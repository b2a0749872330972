import type { ListRequestsData, RequestLog } from '@platform/sdk'
import { timeOfId } from './ids.ts'

/** The filters of requests, as the API takes them. */
export type RequestFilter = Omit<NonNullable<ListRequestsData['query']>, 'cursor' | 'limit'>

/**
 * Whether a request that a stream brought belongs to the list of a filter: the stream has no filters of its own. By the rules of the API
 * (services/api/src/areas/observe/request-logs/filters.ts), which a test compares.
 */
export function isOfFilter(filter: RequestFilter, log: RequestLog): boolean {
  const { request, response, deployment, deploymentFunction, deploymentAsset, storageBucket, storageObject } = log
  const is = <T>(wanted: T | undefined, value: T | null): boolean => wanted === undefined || wanted === value
  const isId = (wanted: string | undefined, thing: { id: string } | null): boolean =>
    wanted === undefined || wanted.toLowerCase() === thing?.id
  // A request has one thing that served it, even where its record names more.
  const server = storageObject ?? deploymentAsset ?? deploymentFunction
  const isServer = (wanted: string | undefined, thing: { id: string } | null): boolean =>
    wanted === undefined || (isId(wanted, thing) && isId(wanted, server))
  // By the start of a request, which is in its id.
  const startedAt = timeOfId(log.id)
  const { from, to, statusFamily, pathPrefix = '', cacheHit } = filter
  return (
    (from === undefined || startedAt >= Date.parse(from)) &&
    (to === undefined || startedAt < Date.parse(to)) &&
    is(filter.method, request.method) &&
    is(filter.status, response.status) &&
    (statusFamily === undefined || Math.floor(response.status / 100) === Number(statusFamily[0])) &&
    is(filter.hostname, request.hostname) &&
    (pathPrefix === '/' || request.path.startsWith(pathPrefix)) &&
    is(filter.country, request.country) &&
    is(filter.cacheStatus, response.cacheStatus) &&
    (cacheHit === undefined || response.cacheHit === (cacheHit === 'true')) &&
    isId(filter.deploymentId, deployment) &&
    isServer(filter.storageObjectId, storageObject) &&
    isServer(filter.deploymentAssetId, deploymentAsset) &&
    isServer(filter.deploymentFunctionId, deploymentFunction) &&
    isId(filter.storageBucketId, storageBucket) &&
    is(filter.region, response.region) &&
    is(filter.edgeLocation, response.edgeLocation)
  )
}
