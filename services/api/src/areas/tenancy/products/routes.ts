import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { id, instant, pathId, shown } from '../../../http/fields.ts'
import { asWholeSet, page } from '../../../http/pages.ts'
import { reachOrganization } from '../organizations/reach.ts'
import { getProductAccess, listProductAccess } from './products.ts'

const tag = 'Organizations'
const spec = 'A §4 Organizations'
const scope = 'platform:organizations:read'

const product = z.string().openapi({ example: 'network' })
const plan = z.string().openapi({ example: 'free' })

const ProductAccess = z
  .object({
    product: z.object({
      slug: product,
      displayName: shown('Network'),
      accessMode: z.literal('organization'),
      defaultAccessPolicy: z.enum(['granted', 'explicit_entitlement_required']),
      plans: z.array(
        z.object({
          slug: plan,
          displayName: shown('Free'),
          description: shown('To try things and for small projects.'),
        }),
      ),
    }),
    hasAccess: z.boolean(),
    resolutionSource: z.enum(['explicit', 'default']),
    explicitEntitlement: z
      .object({
        id,
        product,
        status: z.enum(['ACTIVE', 'SUSPENDED', 'REVOKED']),
        grantedByUserId: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20').nullable(),
        revokedAt: instant.nullable(),
        createdAt: instant,
        updatedAt: instant,
      })
      .nullable(),
    subscription: z
      .object({
        id,
        product,
        plan,
        status: z.enum(['ACTIVE', 'CANCELED']),
        activatedByUserId: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20').nullable(),
        createdAt: instant,
        updatedAt: instant,
      })
      .nullable(),
  })
  .openapi('ProductAccess')

const Entitlement = z.object({ organizationId: id, product, hasAccess: z.boolean() }).openapi('Entitlement')

const ofOrganization = { id: pathId('Organization') }
// A name, not a UUID (A §4); an unknown one is a 404 after the organization was reached.
const ofProduct = {
  ...ofOrganization,
  product: { schema: product.openapi({ description: 'The name of the product.' }), resource: 'Product' },
}

export const productEndpoints = [
  endpoint({
    operation: 'listProducts',
    on: 'GET /organizations/{id}/products',
    spec,
    tag,
    summary: 'List product access',
    description: 'Every product with the decision that grants or denies access, and the subscription if there is one.',
    actor: 'any',
    scope,
    params: ofOrganization,
    reach: (call) => reachOrganization(call, call.params.id),
    returns: [200, page(ProductAccess)],
    handle: async ({ deps, target }) => asWholeSet(await listProductAccess(deps, target)),
  }),
  endpoint({
    operation: 'getProduct',
    on: 'GET /organizations/{id}/products/{product}',
    spec,
    tag,
    summary: 'Get product access',
    description: '`hasAccess` follows the explicit entitlement if there is one, otherwise the default of the product.',
    actor: 'any',
    scope,
    params: ofProduct,
    reach: (call) => reachOrganization(call, call.params.id),
    returns: [200, ProductAccess],
    handle: ({ deps, target, params }) => getProductAccess(deps, target, params.product),
  }),
  endpoint({
    operation: 'getEntitlement',
    on: 'GET /organizations/{id}/products/{product}/entitlement',
    spec,
    tag,
    summary: 'Check product entitlement',
    description: 'Returns only whether the organization may use the product. 404 for an unknown product.',
    actor: 'any',
    scope,
    params: ofProduct,
    reach: (call) => reachOrganization(call, call.params.id),
    returns: [200, Entitlement],
    handle: async ({ deps, target, params }) => {
      const { hasAccess } = await getProductAccess(deps, target, params.product)
      return { organizationId: target.id, product: params.product, hasAccess }
    },
  }),
]
