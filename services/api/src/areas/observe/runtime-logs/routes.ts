import { z } from '@hono/zod-openapi'
import type { Actor } from '../../../http/actor.ts'
import type { ObserveDeps } from '../deps.ts'
import { endpoint } from '../deps.ts'
import { eventStream } from '../../../http/endpoint.ts'
import { id, instant, pathId, shown, text } from '../../../http/fields.ts'
import { cursorPage, cursorQuery } from '../../../http/pages.ts'
import { reachApplication } from '../../tenancy/applications/reach.ts'
import { reachDeployment } from '../../deploy/deployments/reach.ts'
import { requireStreamAuthority } from '../../cluster/streams/stream-authority.ts'
import { placeToFollowFrom } from './feed.ts'
import { type LineFilters, passes, runtimeLogsPage } from './runtime-logs.ts'

const tag = 'Runtime logs'
const spec = 'wire.md Runtime log, D84, D85'
const SEARCH_BYTES_MAX = 256
const REQUEST_ID_BYTES_MAX = 128

const level = z.enum(['DEBUG', 'INFO', 'WARN', 'ERROR'])

const RuntimeLog = z
  .object({
    id,
    deploymentFunctionId: id,
    functionName: shown('api/checkout'),
    slot: z.number().int().min(0).openapi({ example: 0 }),
    requestId: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10')
      .nullable()
      .openapi({ description: 'The request that was being answered, by its id in the request logs.' }),
    level,
    message: shown('checkout took 120 ms'),
    createdAt: instant,
  })
  .openapi('RuntimeLog')
const ApplicationRuntimeLog = z.object({ ...RuntimeLog.shape, deploymentId: id }).openapi('ApplicationRuntimeLog')

const filters = {
  level: level.optional().openapi({ description: 'Lines with this level.' }),
  search: text(SEARCH_BYTES_MAX)
    .refine((sought) => sought !== '', 'Expected some text')
    .optional()
    .openapi({ description: 'Lines that contain this text, ignoring case.', example: 'checkout' }),
  functionId: id.optional().openapi({ description: 'Lines of this Function.' }),
}
const listQuery = z.object({
  ...cursorQuery(),
  ...filters,
  requestId: text(REQUEST_ID_BYTES_MAX).optional().openapi({
    description: 'Lines printed while answering this request.',
    example: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10',
  }),
  from: instant.optional().openapi({ description: 'Start of the period, inclusive.' }),
  to: instant.optional().openapi({ description: 'End of the period, exclusive.' }),
})
const streamQuery = z.object(filters)
const streamHeaders = z.object({
  'Last-Event-ID': id
    .optional()
    .openapi({ description: 'The id of the last line received; the stream continues after it.' }),
})

const listed =
  'What Functions printed, newest first, for as long as the plan keeps it. All filters must match. A page searches 100,000 lines, so it may hold fewer than `limit` and still have a `nextCursor`. `total` counts up to 10,000.'
const streamed = (of: string) =>
  `Server-sent events: \`log\` for each line, in the order in which they were stored, from now on or after \`Last-Event-ID\`. A stream ends after 15 minutes, or within a minute of its reader losing access. Reconnect with \`Last-Event-ID\` to miss nothing. 429 \`too_many_concurrent_streams\` when the ${of} has 20 open streams.`

const ofDeployment = { id: pathId('Deployment') }
const ofApplication = { id: pathId('Application') }

interface Following {
  deps: ObserveDeps
  actor: Actor
  query: LineFilters
  headers: z.output<typeof streamHeaders>
}

/** Streams the lines of an application, or of one of its deployments. reach: decides again whether the actor may follow. */
async function follow(
  { deps, actor, query, headers }: Following,
  applicationId: string,
  deploymentId: string | undefined,
  reach: () => Promise<unknown>,
) {
  const place = await placeToFollowFrom(deps, applicationId, headers['Last-Event-ID'])
  const isWanted = passes(query)
  return deps.runtimeLogFeed.watch(applicationId, place, () => requireStreamAuthority({ deps, actor }, reach), {
    slotsOf: deploymentId ?? applicationId,
    passes: ({ line }) => (deploymentId === undefined || line.deploymentId === deploymentId) && isWanted(line),
  })
}

export const runtimeLogEndpoints = [
  endpoint({
    operation: 'listRuntimeLogs',
    on: 'GET /deployments/{id}/runtime-logs',
    spec,
    tag,
    summary: 'List deployment runtime logs',
    description: listed,
    actor: 'any',
    scope: 'network:deployments:read',
    params: ofDeployment,
    query: listQuery,
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, cursorPage(RuntimeLog)],
    fails: [400],
    handle: ({ deps, target: { id: deploymentId, applicationId, organizationId }, query }) =>
      runtimeLogsPage(
        deps,
        { operation: 'listRuntimeLogs', application: { id: applicationId, organizationId }, deploymentId },
        query,
      ),
  }),
  endpoint({
    operation: 'streamRuntimeLogs',
    on: 'GET /deployments/{id}/runtime-logs/stream',
    spec: 'wire.md Runtime log, D85, D86',
    tag,
    summary: 'Stream deployment runtime logs',
    description: streamed('deployment'),
    actor: 'any',
    scope: 'network:deployments:read',
    params: ofDeployment,
    query: streamQuery,
    headers: streamHeaders,
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, eventStream],
    handle: (call) =>
      follow(call, call.target.applicationId, call.target.id, () => reachDeployment(call, call.target.id)),
  }),
  endpoint({
    operation: 'listApplicationRuntimeLogs',
    on: 'GET /applications/{id}/runtime-logs',
    spec: 'wire.md Extensions, D84',
    tag,
    summary: 'List application runtime logs',
    description: listed,
    actor: 'any',
    scope: 'network:deployments:read',
    params: ofApplication,
    query: listQuery,
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, cursorPage(ApplicationRuntimeLog)],
    fails: [400],
    handle: ({ deps, target, query }) =>
      runtimeLogsPage(
        deps,
        { operation: 'listApplicationRuntimeLogs', application: target, deploymentId: undefined },
        query,
      ),
  }),
  endpoint({
    operation: 'streamApplicationRuntimeLogs',
    on: 'GET /applications/{id}/runtime-logs/stream',
    spec: 'wire.md Extensions, D85, D86',
    tag,
    summary: 'Stream application runtime logs',
    description: streamed('application'),
    actor: 'any',
    scope: 'network:deployments:read',
    params: ofApplication,
    query: streamQuery,
    headers: streamHeaders,
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, eventStream],
    handle: (call) => follow(call, call.target.id, undefined, () => reachApplication(call, call.target.id)),
  }),
]
