import { z } from '@hono/zod-openapi'
import type { Actor } from '../../../http/actor.ts'
import type { TenancyDeps } from '../deps.ts'
import { endpoint } from '../deps.ts'
import { id, imageUrl, instant, name, pathId, shown, text } from '../../../http/fields.ts'
import { keysetQuery, page } from '../../../http/pages.ts'
import { slug } from '../organizations/labels.ts'
import { reachOrganization } from '../organizations/reach.ts'
import { requireProduct } from '../products/product-access.ts'
import { Organization } from '../organizations/shapes.ts'
import { applicationsPage, createApplication, listEnvironments, type ListReach } from './applications.ts'
import { organizationOf, reachApplication } from './reach.ts'
import { ROOT_DIRECTORY_BYTES_MAX } from './root-directory.ts'

const tag = 'Applications'

const Application = z
  .object({
    id,
    organization: Organization,
    organizationId: id,
    name,
    slug: shown('shop'),
    imageUrl: imageUrl.nullable(),
    rootDirectory: shown('apps/shop').nullable(),
    defaultEnvironmentSlug: z.string().openapi({ example: 'production' }),
    createdAt: instant,
    updatedAt: instant,
  })
  .openapi('Application')

const Environment = z
  .object({ id, slug: z.enum(['production', 'preview']), name: shown('Production') })
  .openapi('Environment')

/**
 * The scope of a list: a user's organizations, or an API key's own application. A filter must name an organization in reach; for
 * an API key, the one of its application (D17).
 */
async function reachList(
  call: { deps: TenancyDeps; actor: Actor },
  organizationId: string | undefined,
): Promise<ListReach> {
  const { actor } = call
  if (actor.kind !== 'user') {
    const application = await reachApplication(call, actor.applicationId)
    if (organizationId !== undefined && organizationId !== application.organizationId)
      await reachOrganization(call, organizationId)
    return { kind: 'application', application, organization: await organizationOf(call.deps, application) }
  }
  if (organizationId === undefined) return { kind: 'user', userId: actor.userId }
  return { kind: 'organization', organization: await reachOrganization(call, organizationId) }
}

export const applicationEndpoints = [
  endpoint({
    operation: 'listApplications',
    on: 'GET /applications',
    spec: 'A §4 Applications',
    tag,
    summary: 'List applications',
    description:
      'Applications of every organization you are a member of, or of one of them, newest first. API keys see their own application.',
    actor: 'any',
    scope: 'network:applications:read',
    query: z.object({
      ...keysetQuery,
      organizationId: id.optional().openapi({ description: 'Applications of this organization.' }),
    }),
    reach: (call) => reachList(call, call.query.organizationId),
    returns: [200, page(Application)],
    handle: ({ deps, target, query }) => applicationsPage(deps, target, query),
  }),
  endpoint({
    operation: 'createApplication',
    on: 'POST /applications',
    spec: 'A §4 Applications',
    tag,
    summary: 'Create an application',
    description:
      'Creates its environments `production` and `preview` as well. 409 if the organization has an application of this name. 403 if the organization has no access to the product `network`; 429 without `Retry-After` once the quota of the plan is used up.',
    actor: 'any',
    scope: 'network:applications:write',
    body: z.strictObject({
      organizationId: id,
      name,
      slug: slug.optional(),
      rootDirectory: text(ROOT_DIRECTORY_BYTES_MAX).optional().openapi({ example: 'apps/shop' }),
    }),
    async reach(call) {
      const organization = await reachOrganization(call, call.body.organizationId)
      await requireProduct(call.deps, 'network', organization.id)
      return organization
    },
    returns: [201, Application],
    fails: [404, 409],
    handle: ({ deps, target, body }) => createApplication(deps, target, body),
  }),
  endpoint({
    operation: 'listEnvironments',
    on: 'GET /applications/{id}/environments',
    spec: 'wire.md Extensions, D94',
    tag,
    summary: 'List environments',
    description:
      'Every application has exactly two, `production` and `preview`. Use the slug or the id wherever an operation takes an environment.',
    actor: 'any',
    scope: 'network:applications:read',
    params: { id: pathId('Application') },
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, page(Environment)],
    handle: ({ deps, target }) => listEnvironments(deps, target),
  }),
]
