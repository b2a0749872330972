import { ConfigError } from '@platform/runtime/config'
import type { Command } from '@platform/service/cli'
import type { TenancyDeps } from '../deps.ts'
import { activatePlan, setEntitlement } from '../products/products.ts'
import { isPlan, type PlanSlug } from '../products/registry.ts'
import { onOrganization, readProduct } from './arguments.ts'

function readPlan(text = ''): PlanSlug {
  if (isPlan(text)) return text
  throw new ConfigError(`There is no plan ${text}`)
}

const entitle = (
  verb: string,
  action: string,
  status: 'ACTIVE' | 'SUSPENDED' | 'REVOKED',
  summary: string,
): Command<TenancyDeps> =>
  onOrganization(
    { name: `product ${verb}`, action, usage: `product ${verb} <organizationId> <product>`, summary, wordCount: 2 },
    async (deps, organizationId, [product]) => {
      await setEntitlement(deps, organizationId, readProduct(product), status)
      return { product, status }
    },
  )

export const productCommands = [
  entitle('grant', 'product.granted', 'ACTIVE', "give access, whatever the product's default"),
  entitle('suspend', 'product.suspended', 'SUSPENDED', 'take it away for a time'),
  entitle('revoke', 'product.revoked', 'REVOKED', 'take it away'),
  onOrganization(
    {
      name: 'plan activate',
      action: 'plan.activated',
      usage: 'plan activate <organizationId> <product> <plan>',
      summary: 'put an organization on a plan of a product',
      wordCount: 3,
    },
    async (deps, organizationId, [product, plan]) => {
      await activatePlan(deps, organizationId, readProduct(product), readPlan(plan))
      return { product, plan }
    },
  ),
]
