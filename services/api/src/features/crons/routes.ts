import { z } from '@hono/zod-openapi'
import { endpoint } from '../../http/endpoint.ts'
import { id, instant, pathId, shown } from '../../http/fields.ts'
import { keysetQuery, page } from '../../http/pages.ts'
import { reachDeployment } from '../deployments/reach.ts'
import { reachCron } from './reach.ts'
import { runCronNow } from './run-now.ts'
import { cronRunsPage, listCrons } from './shown-crons.ts'

const tag = 'Deployments'
const spec = 'wire.md Extensions'

const CronRun = z
  .object({
    id,
    trigger: z.enum(['schedule', 'manual']),
    dueAt: instant.openapi({ description: 'The beginning of its minute, or when it was asked for.' }),
    startedAt: instant.nullable().openapi({ description: 'When an edge made the request; null until then.' }),
    completedAt: instant.nullable().openapi({ description: 'null while it goes on.' }),
    durationMs: z.number().int().min(0).nullable().openapi({ example: 840 }),
    status: z.number().int().nullable().openapi({ description: 'Of the answer, if there was one.', example: 200 }),
    outcome: z
      .enum(['succeeded', 'failed'])
      .nullable()
      .openapi({ description: 'An answer of 400 and more has failed; null while it goes on.' }),
    error: shown('The deployment answered 500').nullable().openapi({ description: 'Why it failed.' }),
  })
  .openapi('CronRun')

const Cron = z
  .object({
    id,
    path: shown('/api/nightly'),
    schedule: shown('0 5 * * *').openapi({
      description: 'Minute, hour, day of the month, month and day of the week, in UTC.',
    }),
    isActive: z
      .boolean()
      .openapi({ description: 'Whether it runs by its schedule: the deployment is the current one of production.' }),
    nextRunAt: instant.nullable().openapi({ description: 'null where it is not active.' }),
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
    summary: 'List the crons of a deployment',
    description:
      'The `crons` of its output, in their order. Those of the current deployment of production run by their schedule, those of others by hand alone. Empty until its output is stored.',
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
    summary: 'List the runs of a cron',
    description:
      'Newest first, a page at a time. The last 100 are kept, for as long as the logs of the plan that keeps them longest.',
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
    summary: 'Run a cron now',
    description:
      'Of any deployment that is ACTIVE and not retired, also of one that is not current; its schedule is not touched. Answers with the run when it has ended, or after 25 seconds as it is then: `completedAt` is null, and it goes on. A run that fails is answered with 200 as well.',
    actor: 'any',
    scope: 'network:deployments:trigger',
    params: ofCron,
    reach: (call) => reachCron(call, call.params),
    returns: [200, CronRun],
    fails: [409],
    handle: ({ deps, target }) => runCronNow(deps, target),
  }),
]
