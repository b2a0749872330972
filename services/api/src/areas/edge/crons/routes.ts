import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { id, instant, pathId, shown } from '../../../http/fields.ts'
import { keysetQuery, page } from '../../../http/pages.ts'
import { reachDeployment } from '../../deploy/deployments/reach.ts'
import { reachCron } from './reach.ts'
import { runCronNow } from './run-now.ts'
import { cronRunsPage, listCrons } from './shown-crons.ts'

const tag = 'Deployments'
const spec = 'wire.md Extensions'

const CronRun = z
  .object({
    id,
    trigger: z.enum(['schedule', 'manual']),
    dueAt: instant.openapi({ description: 'The scheduled minute, or when the run was requested.' }),
    startedAt: instant.nullable().openapi({ description: 'When an edge sent the request; null before that.' }),
    completedAt: instant.nullable().openapi({ description: 'null while the run is in progress.' }),
    durationMs: z.number().int().min(0).nullable().openapi({ example: 840 }),
    status: z
      .number()
      .int()
      .nullable()
      .openapi({ description: 'Status of the response, if there was one.', example: 200 }),
    outcome: z
      .enum(['succeeded', 'failed'])
      .nullable()
      .openapi({ description: 'A status of 400 or above counts as failed. null while the run is in progress.' }),
    error: shown('The deployment answered 500').nullable().openapi({ description: 'Why the run failed.' }),
  })
  .openapi('CronRun')

const Cron = z
  .object({
    id,
    path: shown('/api/nightly'),
    schedule: shown('0 5 * * *').openapi({
      description: 'Minute, hour, day of the month, month and day of the week, in UTC.',
    }),
    isActive: z.boolean().openapi({
      description: 'Whether it runs on schedule, because the deployment is the current one of production.',
    }),
    nextRunAt: instant.nullable().openapi({ description: 'null if it is not active.' }),
    lastRun: CronRun.nullable(),
  })
  .openapi('Cron')

const ofDeployment = { id: pathId('Deployment') }
const ofCron = { ...ofDeployment, cronId: pathId('Cron') }

export const cronEndpoints = [
  endpoint({
    operation: 'listCrons',
    on: 'GET /deployments/{id}/crons',
    spec,
    tag,
    summary: 'List cron jobs',
    description:
      'The `crons` of the build output, in order. They run on schedule while the deployment is the current one of production, otherwise only on demand. Empty until the build output is stored.',
    actor: 'any',
    scope: 'network:deployments:read',
    params: ofDeployment,
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, page(Cron)],
    handle: ({ deps, target }) => listCrons(deps, target),
  }),
  endpoint({
    operation: 'listCronRuns',
    on: 'GET /deployments/{id}/crons/{cronId}/runs',
    spec,
    tag,
    summary: 'List cron job runs',
    description:
      'Newest first. The last 100 runs are kept, for as long as the plan with the longest log retention keeps its logs.',
    actor: 'any',
    scope: 'network:deployments:read',
    params: ofCron,
    query: z.object(keysetQuery),
    reach: (call) => reachCron(call, call.params),
    returns: [200, page(CronRun)],
    handle: ({ deps, target: { cron }, query }) => cronRunsPage(deps, cron.id, query),
  }),
  endpoint({
    operation: 'runCron',
    on: 'POST /deployments/{id}/crons/{cronId}/run',
    spec,
    tag,
    summary: 'Run a cron job',
    description:
      'Works for every ACTIVE deployment that is not retired, current or not; the schedule is unaffected. Returns the finished run, or after 25 seconds the run in progress with `completedAt: null`. A failed run is also a 200.',
    actor: 'any',
    scope: 'network:deployments:trigger',
    params: ofCron,
    reach: (call) => reachCron(call, call.params),
    returns: [200, CronRun],
    fails: [409],
    handle: ({ deps, target }) => runCronNow(deps, target),
  }),
]
