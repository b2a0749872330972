import { z } from '@hono/zod-openapi'
import { endpoint } from '../../http/endpoint.ts'
import { id, pathId, shown } from '../../http/fields.ts'
import { cursorPage, cursorQuery } from '../../http/pages.ts'
import { reachDeployment } from '../deployments/reach.ts'
import { deploymentFunctionsPage } from './functions-page.ts'

const amount = z.number().int().min(0)

const DeployedFunction = z
  .object({
    id: id.openapi({ description: 'As the request log and the runtime log name it.' }),
    path: shown('api/checkout').openapi({ description: 'In the output; of a worker or server its entry file.' }),
    kind: z.enum(['handler', 'edge', 'worker', 'server']),
    slots: amount.openapi({ description: 'Processes that answer its requests now, on all edges.', example: 2 }),
    memoryBytes: amount.openapi({ description: 'What these take now.', example: 84_213_760 }),
    coldStarts: amount.openapi({
      description: 'Processes that were started for it since it was deployed.',
      example: 7,
    }),
    requests: amount.openapi({ description: 'Requests that it was given since it was deployed.', example: 1_200 }),
  })
  .openapi('DeployedFunction')

export const functionEndpoints = [
  endpoint({
    operation: 'listDeploymentFunctions',
    on: 'GET /deployments/{id}/functions',
    spec: 'wire.md Extensions',
    tag: 'Deployments',
    summary: 'List the Functions of a deployment and what they take',
    description:
      'By path, a page at a time: send `nextCursor` as `cursor`. What runs now is at most 15 seconds old. Empty until they are stored.',
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
