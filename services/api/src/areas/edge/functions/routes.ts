import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { id, pathId, shown } from '../../../http/fields.ts'
import { cursorPage, cursorQuery } from '../../../http/pages.ts'
import { reachDeployment } from '../../deploy/deployments/reach.ts'
import { deploymentFunctionsPage } from './functions-page.ts'

const amount = z.number().int().min(0)

const DeployedFunction = z
  .object({
    id: id.openapi({ description: 'The id that request and runtime logs use.' }),
    path: shown('api/checkout').openapi({
      description: 'Path in the build output; for workers and servers, the entry file.',
    }),
    kind: z.enum(['handler', 'edge', 'worker', 'server']),
    slots: amount.openapi({ description: 'Processes currently running, on all edges.', example: 2 }),
    memoryBytes: amount.openapi({ description: 'Memory these processes use.', example: 84_213_760 }),
    coldStarts: amount.openapi({
      description: 'Processes started since the deployment.',
      example: 7,
    }),
    requests: amount.openapi({ description: 'Requests received since the deployment.', example: 1_200 }),
  })
  .openapi('DeployedFunction')

export const functionEndpoints = [
  endpoint({
    operation: 'listDeploymentFunctions',
    on: 'GET /deployments/{id}/functions',
    spec: 'wire.md Extensions',
    tag: 'Deployments',
    summary: 'List Functions',
    description:
      'Functions of a deployment, sorted by path, with their resource usage at most 15 seconds ago. Empty until the build output is stored.',
    actor: 'any',
    scope: 'network:deployments:read',
    params: { id: pathId('Deployment') },
    query: z.object(cursorQuery()),
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, cursorPage(DeployedFunction)],
    fails: [400],
    handle: ({ deps, target, query }) => deploymentFunctionsPage(deps, target.id, query),
  }),
]
