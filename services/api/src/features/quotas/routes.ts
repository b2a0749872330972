import { z } from '@hono/zod-openapi'
import { endpoint } from '../../http/endpoint.ts'
import { instant, pathId } from '../../http/fields.ts'
import { page } from '../../http/pages.ts'
import { reachOrganization } from '../organizations/reach.ts'
import { quotaNames } from '../products/registry.ts'
import { listQuotas } from './organization-quotas.ts'

const amount = z.number().int().min(0)

const Quota = z
  .object({
    name: z.enum(quotaNames as [(typeof quotaNames)[number], ...(typeof quotaNames)[number][]]),
    limit: amount.openapi({ example: 500 }),
    used: amount.nullable().openapi({ description: 'null for a quota that bounds one thing at a time.', example: 12 }),
    windowEnd: instant
      .nullable()
      .openapi({ description: 'When the count starts again; null for a quota that is not counted by time.' }),
  })
  .openapi('Quota')

const micros = amount.openapi({ description: 'In millionths of a US dollar.', example: 2_500_000 })

const Quotas = z
  .object({
    ...page(Quota).shape,
    billing: z.object({
      capMicros: micros.nullable().openapi({ description: 'null: nothing beyond the included time may be used.' }),
      spentMicros: micros,
      windowEnd: instant,
    }),
  })
  .openapi('Quotas')

export const quotaEndpoints = [
  endpoint({
    operation: 'listQuotas',
    on: 'GET /organizations/{id}/quotas',
    spec: 'wire.md Extensions',
    tag: 'Organizations',
    summary: 'List the quotas of an organization and their use',
    description:
      'Every quota of its plan, or the value that the operator set instead. Days and months are those of UTC. `billing` holds what this month costs beyond the included time, and the cap at which deployments are refused.',
    actor: 'any',
    scope: 'platform:organizations:read',
    params: { id: pathId('Organization') },
    reach: (call) => reachOrganization(call, call.params.id),
    returns: [200, Quotas],
    handle: ({ deps, target }) => listQuotas(deps, target),
  }),
]
