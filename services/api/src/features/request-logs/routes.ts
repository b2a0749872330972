import { z } from '@hono/zod-openapi'
import { endpoint, eventStream } from '../../http/endpoint.ts'
import { id, instant, pathId, shown, text } from '../../http/fields.ts'
import { cursorPage, cursorQuery } from '../../http/pages.ts'
import { reachApplication } from '../applications/reach.ts'
import { requireStreamAuthority } from '../streams/stream-authority.ts'
import { placeToFollowFrom } from './follow.ts'
import { getRequestLog, requestLogsPage } from './request-logs.ts'
import { summarizeRequests } from './request-summary.ts'

const tag = 'Request logs'
const spec = 'A §4 Applications'

const cacheStatus = z.enum(['hit', 'miss', 'bypass', 'revalidated', 'stale', 'updating'])
const bytes = z.number().int().min(0).openapi({ example: 512 })
const country = z.string().openapi({ description: 'ISO 3166-1 alpha-2.', example: 'DE' })

const RequestLog = z
  .object({
    id,
    application: z.object({ id, name: shown('Shop') }),
    deployment: z.object({ id, status: shown('ACTIVE') }).nullable(),
    deploymentFunction: z
      .object({ id, name: shown('checkout'), path: shown('/api/checkout'), region: shown('local').nullable() })
      .nullable(),
    deploymentAsset: z.object({ id, path: shown('/logo.svg'), objectKey: shown('assets/logo.svg') }).nullable(),
    storageBucket: z.object({ id, name: shown('media'), slug: shown('media-x') }).nullable(),
    storageObject: z.object({ id, key: shown('photos/cat.jpg'), contentType: shown('image/jpeg') }).nullable(),
    request: z.object({
      method: z.string().openapi({ example: 'GET' }),
      hostname: z.string().openapi({ example: 'shop.apps.example.com' }),
      path: z.string().openapi({ example: '/products' }),
      query: shown('page=2').openapi({
        description: 'Without the question mark; values that carry authority are redacted.',
      }),
      protocol: z.string().openapi({ example: 'HTTP/1.1' }),
      country: country.nullable(),
      userAgent: shown('curl/8.9.1').nullable(),
      referer: shown('https://www.example.com/').nullable(),
    }),
    response: z.object({
      status: z.number().int().openapi({ example: 200 }),
      cacheStatus: cacheStatus.nullable(),
      cacheHit: z.boolean().openapi({ description: 'Whether the cache answered by itself.' }),
      region: shown('local').nullable(),
      edgeLocation: shown('local').nullable(),
    }),
    metrics: z.object({
      requestBodyBytes: bytes,
      responseBodyBytes: bytes,
      bytesSent: bytes,
      durationMs: z.number().int().min(0).openapi({ example: 12 }),
    }),
    startedAt: instant,
    completedAt: instant,
  })
  .openapi('RequestLog')

const headers = z.record(z.string(), z.string()).openapi({ description: 'Values that carry authority are redacted.' })
const RequestLogDetail = z
  .object({ ...RequestLog.shape, requestHeaders: headers, responseHeaders: headers })
  .openapi('RequestLogDetail')

const milliseconds = z.number().int().min(0).nullable().openapi({ description: 'Within 5 %.', example: 12 })
const figures = {
  requests: z.number().int().min(0).openapi({ example: 1_200 }),
  requestBodyBytes: bytes,
  responseBodyBytes: bytes,
  bytesSent: bytes,
  p50Ms: milliseconds,
  p95Ms: milliseconds,
}
const interval = z.enum(['minute', 'hour'])
const RequestSummary = z
  .object({
    from: instant,
    to: instant,
    interval,
    total: z.object(figures),
    series: z.array(z.object({ at: instant, ...figures })).openapi({ description: 'Intervals that had requests.' }),
    groups: z
      .array(z.object({ value: shown('404').nullable(), ...figures }))
      .openapi({ description: 'The 100 with the most requests; empty without `groupBy`.' }),
  })
  .openapi('RequestSummary')

const status = z
  .string()
  .regex(/^[1-5]\d\d$/, 'Expected a status from 100 to 599')
  .transform(Number)
  .openapi({ type: 'integer', minimum: 100, maximum: 599, example: 404 })
const statusFamily = z
  .enum(['1', '2', '3', '4', '5', '1xx', '2xx', '3xx', '4xx', '5xx'])
  .transform((family) => Number(family[0]))
const method = z
  .string()
  .regex(/^[A-Z]{1,16}$/, 'Expected a method in capitals')
  .openapi({ example: 'GET' })
const flag = z.enum(['true', 'false']).transform((given) => given === 'true')
const ofApplication = { id: pathId('Application') }

export const requestLogEndpoints = [
  endpoint({
    operation: 'listRequests',
    on: 'GET /applications/{id}/requests',
    spec,
    tag,
    summary: 'List the requests that an application was sent',
    description:
      'Newest first, as far back as the plan keeps them, a page at a time: send `nextCursor` as `cursor`, with the same filters. All filters that are sent must match.',
    actor: 'any',
    scope: 'network:applications:read',
    params: ofApplication,
    query: z.object({
      ...cursorQuery(),
      from: instant.optional().openapi({ description: 'The first moment.' }),
      to: instant.optional().openapi({ description: 'The first moment that is left out.' }),
      method: method.optional().openapi({ description: 'Requests of this method.' }),
      status: status.optional().openapi({ description: 'Requests answered with this status.' }),
      statusFamily: statusFamily.optional().openapi({ description: 'Requests answered with a status of this family.' }),
      hostname: text(253)
        .optional()
        .openapi({ description: 'Requests of this hostname.', example: 'shop.apps.example.com' }),
      pathPrefix: text(2_048).optional().openapi({ description: 'Requests of paths that begin so.', example: '/api/' }),
      country: country.regex(/^[A-Z]{2}$/, 'Expected two capital letters').optional(),
      cacheStatus: cacheStatus.optional().openapi({ description: 'Requests that met the cache so.' }),
      cacheHit: flag.optional().openapi({ description: 'Whether the cache answered by itself.' }),
      deploymentId: id.optional().openapi({ description: 'Requests that this deployment served.' }),
      deploymentFunctionId: id.optional().openapi({ description: 'Requests that this Function answered.' }),
      deploymentAssetId: id.optional().openapi({ description: 'Requests for this file of a deployment.' }),
      storageBucketId: id.optional().openapi({ description: 'Requests for objects of this bucket.' }),
      storageObjectId: id.optional().openapi({ description: 'Requests for this object.' }),
      region: text(64)
        .optional()
        .openapi({ description: 'Requests that were answered in this region.', example: 'local' }),
      edgeLocation: text(64)
        .optional()
        .openapi({ description: 'Requests that arrived at this edge.', example: 'local' }),
    }),
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, cursorPage(RequestLog)],
    fails: [400],
    handle: ({ deps, target, query }) => requestLogsPage(deps, target, query),
  }),
  endpoint({
    operation: 'summarizeRequests',
    on: 'GET /applications/{id}/requests/summary',
    spec: 'wire.md Extensions',
    tag,
    summary: 'Summarize the requests of an application',
    description:
      'Counts and bytes are exact, durations within 5 %; by the minute for 48 hours and by the hour for 35 days, however long the requests themselves are kept. The last 24 hours unless said. The span is widened to whole minutes, or to whole hours where it begins more than 48 hours ago; `from` and `to` of the answer say what it became. `groupBy=path` tells about a thousand paths apart in an hour and sums up further ones as `*`.',
    actor: 'any',
    scope: 'network:applications:read',
    params: ofApplication,
    query: z.object({
      from: instant.optional().openapi({ description: 'The first moment.' }),
      to: instant.optional().openapi({ description: 'The first moment that is left out.' }),
      interval: interval.optional().openapi({
        description:
          'Of `series`. Unless said, the minute for a span of up to three hours, and the hour for a longer one.',
      }),
      groupBy: z
        .enum(['status', 'path', 'hostname', 'country', 'cacheStatus', 'deploymentId'])
        .optional()
        .openapi({ description: 'What `groups` tells apart.' }),
    }),
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, RequestSummary],
    handle: ({ deps, target, query }) => summarizeRequests(deps, target.id, query),
  }),
  endpoint({
    operation: 'streamRequests',
    on: 'GET /applications/{id}/requests/stream',
    spec: 'wire.md Extensions, D86',
    tag,
    summary: 'Follow the requests of an application',
    description:
      'Server-sent events: `request` with a record as the list shows it, in the order in which they ended, from now on or behind `Last-Event-ID`; `gap` with the number of requests that were left out, because the reader was too slow or away for too long. A stream ends after 15 minutes, or within a minute once its reader may no longer read. 429 with `too_many_concurrent_streams` when 20 streams of the application are open.',
    actor: 'any',
    scope: 'network:applications:read',
    params: ofApplication,
    headers: z.object({ 'Last-Event-ID': id.optional().openapi({ description: 'The last request received.' }) }),
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, eventStream],
    async handle({ deps, actor, target, headers }) {
      const { place, greeting } = await placeToFollowFrom(deps, target.id, headers['Last-Event-ID'])
      const requireAuthority = () =>
        requireStreamAuthority({ deps, actor }, () => reachApplication({ deps, actor }, target.id))
      return deps.requestFeed.watch(target.id, place, requireAuthority, { greeting })
    },
  }),
  endpoint({
    operation: 'getRequest',
    on: 'GET /applications/{id}/requests/{requestId}',
    spec,
    tag,
    summary: 'Get one request with its sanitized headers',
    description: 'With its headers, from which whatever carries authority was removed.',
    actor: 'any',
    scope: 'network:applications:read',
    params: { ...ofApplication, requestId: pathId('Request') },
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, RequestLogDetail],
    handle: ({ deps, target, params }) => getRequestLog(deps, target, params.requestId),
  }),
]
