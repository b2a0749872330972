import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { instant, pathId } from '../../../http/fields.ts'
import { page } from '../../../http/pages.ts'
import { reachOrganization } from '../../tenancy/organizations/reach.ts'
import { quotaNames } from '../../tenancy/products/registry.ts'
import { listQuotas } from './organization-quotas.ts'

const amount = z.number().int().min(0)

const Quota = z
  .object({
    name: z.enum(quotaNames as [(typeof quotaNames)[number], ...(typeof quotaNames)[number][]]),
    limit: amount.openapi({ example: 500 }),
    used: amount
      .nullable()
      .openapi({ description: 'null for quotas that limit a single item or a person.', example: 12 }),
    windowEnd: instant.nullable().openapi({ description: 'When the count resets; null for quotas without a period.' }),
  })
  .openapi('Quota')

const micros = amount.openapi({ description: 'Millionths of a US dollar.', example: 2_500_000 })

const Quotas = z
  .object({
    ...page(Quota).shape,
    billing: z.object({
      capMicros: micros.nullable().openapi({ description: 'null if nothing beyond the included compute may be used.' }),
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
    summary: 'List quotas and usage',
    description:
      'Every quota of the plan, or the value that the operator has set instead, with current usage. Days and months are in UTC. `billing` holds what this month costs beyond the included compute, and the cap at which deployments are refused.',
    actor: 'any',
    scope: 'platform:organizations:read',
    params: { id: pathId('Organization') },
    reach: (call) => reachOrganization(call, call.params.id),
    returns: [200, Quotas],
    handle: ({ deps, target }) => listQuotas(deps, target),
  }),
]
