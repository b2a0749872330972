import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { id, instant, pathId, shown } from '../../../http/fields.ts'
import { cursorPage, cursorQuery } from '../../../http/pages.ts'
import { deploymentStatuses } from '../../deploy/deployments/table.ts'
import { reachOrganization } from '../../tenancy/organizations/reach.ts'
import { getOverview } from './overview.ts'

const requests = z.number().int().min(0)

const state = z.object({ deploymentId: id, status: z.enum(deploymentStatuses), createdAt: instant })

const ApplicationOverview = z
  .object({
    applicationId: id,
    name: shown('Shop'),
    slug: shown('shop'),
    url: z.url().nullable().openapi({
      format: 'uri',
      description: 'The production hostname; until one is set, that of the current deployment.',
      example: 'https://shop.apps.example.net',
    }),
    current: state.nullable().openapi({ description: 'The deployment that production serves.' }),
    lastDeployment: z
      .object({ ...state.shape, environment: z.enum(['production', 'preview']) })
      .nullable()
      .openapi({ description: 'The newest deployment, whatever its environment and status.' }),
    hours: z
      .array(
        z.object({
          start: instant,
          requests: requests.openapi({ example: 1_204 }),
          errors: requests.openapi({ description: 'Requests answered with 5xx.', example: 3 }),
        }),
      )
      .openapi({ description: 'The last 24 hours, oldest first, including the current one so far.' }),
  })
  .openapi('ApplicationOverview')

export const organizationOverviewEndpoints = [
  endpoint({
    operation: 'getOverview',
    on: 'GET /organizations/{id}/overview',
    spec: 'wire.md Extensions',
    tag: 'Organizations',
    summary: 'Get the overview',
    description:
      'The applications of an organization, newest first, with their current and newest deployments and their requests of the last 24 hours.',
    actor: 'any',
    scope: 'network:applications:read',
    params: { id: pathId('Organization') },
    query: z.object(cursorQuery(100)),
    reach: (call) => reachOrganization(call, call.params.id),
    returns: [200, cursorPage(ApplicationOverview)],
    fails: [400],
    handle: ({ deps, target, query }) => getOverview(deps, target, query),
  }),
]
