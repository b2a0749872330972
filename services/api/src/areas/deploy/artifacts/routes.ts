import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { id, pathId, shown } from '../../../http/fields.ts'
import { cursorPage, cursorQuery } from '../../../http/pages.ts'
import { assetIdOf } from '../deployments/asset-id.ts'
import { reachDeployment } from '../deployments/reach.ts'
import { deployedFilesPage } from './files-page.ts'

const DeployedFile = z
  .object({
    id: id.openapi({ description: 'The id that request logs use.' }),
    path: shown('assets/app.3f9c01ab.js').openapi({ description: 'Relative to the root of the site.' }),
    bytes: z.number().int().min(0).openapi({ example: 48_213 }),
    type: shown('text/javascript; charset=utf-8'),
  })
  .openapi('DeployedFile')

export const artifactEndpoints = [
  endpoint({
    operation: 'listDeploymentFiles',
    on: 'GET /deployments/{id}/files',
    spec: 'wire.md Extensions',
    tag: 'Deployments',
    summary: 'List deployed files',
    description: 'Sorted by path. Empty until the files are stored, and again once the deployment is retired.',
    actor: 'any',
    scope: 'network:deployments:read',
    params: { id: pathId('Deployment') },
    query: z.object(cursorQuery()),
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, cursorPage(DeployedFile)],
    fails: [400],
    async handle({ deps, target, query }) {
      const { items, ...rest } = await deployedFilesPage(deps, target.id, query)
      return {
        ...rest,
        items: items.map(({ contentType: type, ...file }) => ({ id: assetIdOf(target.id, file.path), ...file, type })),
      }
    },
  }),
]
