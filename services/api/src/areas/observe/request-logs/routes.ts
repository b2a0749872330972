import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { eventStream } from '../../../http/endpoint.ts'
import { id, instant, pathId, shown, text } from '../../../http/fields.ts'
import { cursorPage, cursorQuery } from '../../../http/pages.ts'
import { reachApplication } from '../../tenancy/applications/reach.ts'
import { requireStreamAuthority } from '../../cluster/streams/stream-authority.ts'
import { placeToFollowFrom } from './follow.ts'
import { getRequestLog, requestLogsPage } from './request-logs.ts'
import { summarizeRequests } from './request-summary.ts'

const tag = 'Request logs'
const spec = 'A §4 Applications'

const cacheStatus = z.enum(['hit', 'miss', 'bypass', 'revalidated', 'stale', 'updating'])
const bytes = z.number().int().min(0).openapi({ example: 512 })
const country = z.string().openapi({ description: 'Country code (ISO 3166-1 alpha-2).', example: 'DE' })

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
        description: 'Without the question mark. Credentials are redacted.',
      }),
      protocol: z.string().openapi({ example: 'HTTP/1.1' }),
      country: country.nullable(),
      userAgent: shown('curl/8.9.1').nullable(),
      referer: shown('https://www.example.com/').nullable(),
    }),
    response: z.object({
      status: z.number().int().openapi({ example: 200 }),
      cacheStatus: cacheStatus.nullable(),
      cacheHit: z.boolean().openapi({ description: 'Whether the response came from the cache.' }),
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

const headers = z.record(z.string(), z.string()).openapi({ description: 'Credentials are redacted.' })
const RequestLogDetail = z
  .object({ ...RequestLog.shape, requestHeaders: headers, responseHeaders: headers })
  .openapi('RequestLogDetail')

const milliseconds = z.number().int().min(0).nullable().openapi({ description: 'Accurate to 5 %.', example: 12 })
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
      .openapi({ description: 'The 100 groups with the most requests; empty without `groupBy`.' }),
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
const flag = z.enum(['true', 'false']).transform((text) => text === 'true')
const ofApplication = { id: pathId('Application') }

export const requestLogEndpoints = [
  endpoint({
    operation: 'listRequests',
    on: 'GET /applications/{id}/requests',
    spec,
    tag,
    summary: 'List requests',
    description:
      'Requests that the application received, newest first, for as long as the plan keeps them. All filters must match.',
    actor: 'any',
    scope: 'network:applications:read',
    params: ofApplication,
    query: z.object({
      ...cursorQuery(),
      from: instant.optional().openapi({ description: 'Start of the period, inclusive.' }),
      to: instant.optional().openapi({ description: 'End of the period, exclusive.' }),
      method: method.optional().openapi({ description: 'Requests with this method.' }),
      status: status.optional().openapi({ description: 'Requests answered with this status.' }),
      statusFamily: statusFamily.optional().openapi({ description: 'Requests answered with a status of this class.' }),
      hostname: text(253)
        .optional()
        .openapi({ description: 'Requests for this hostname.', example: 'shop.apps.example.com' }),
      pathPrefix: text(2_048)
        .optional()
        .openapi({ description: 'Requests for paths with this prefix.', example: '/api/' }),
      country: country.regex(/^[A-Z]{2}$/, 'Expected two capital letters').optional(),
      cacheStatus: cacheStatus.optional().openapi({ description: 'Requests with this cache status.' }),
      cacheHit: flag.optional().openapi({ description: 'Whether the response came from the cache.' }),
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
    summary: 'Summarize requests',
    description:
      'Counts and bytes are exact, durations within 5 %. Available by the minute for 48 hours and by the hour for 35 days, however long the requests themselves are kept; by default the last 24 hours. The period is widened to whole minutes, or to whole hours if it starts more than 48 hours ago; `from` and `to` of the response show the result. `groupBy=path` distinguishes about a thousand paths an hour and adds up the others as `*`.',
    actor: 'any',
    scope: 'network:applications:read',
    params: ofApplication,
    query: z.object({
      from: instant.optional().openapi({ description: 'Start of the period, inclusive.' }),
      to: instant.optional().openapi({ description: 'End of the period, exclusive.' }),
      interval: interval.optional().openapi({
        description:
          'Interval of `series`. By default minutes for periods of up to three hours, hours for longer ones.',
      }),
      groupBy: z
        .enum(['status', 'path', 'hostname', 'country', 'cacheStatus', 'deploymentId'])
        .optional()
        .openapi({ description: 'What to group by in `groups`.' }),
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
    summary: 'Stream requests',
    description:
      'Server-sent events: `request` for each request, in the order in which they ended, from now on or after `Last-Event-ID`; `gap` with the number of requests that were skipped because the reader was too slow or away for too long. A stream ends after 15 minutes, or within a minute of its reader losing access. 429 `too_many_concurrent_streams` when the application has 20 open streams.',
    actor: 'any',
    scope: 'network:applications:read',
    params: ofApplication,
    headers: z.object({
      'Last-Event-ID': id.optional().openapi({ description: 'The id of the last request received.' }),
    }),
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
    summary: 'Get a request',
    description: 'Includes the request and response headers, with credentials removed.',
    actor: 'any',
    scope: 'network:applications:read',
    params: { ...ofApplication, requestId: pathId('Request') },
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, RequestLogDetail],
    handle: ({ deps, target, params }) => getRequestLog(deps, target, params.requestId),
  }),
]
