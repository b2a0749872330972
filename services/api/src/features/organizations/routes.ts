import { z } from '@hono/zod-openapi'
import { endpoint } from '../../http/endpoint.ts'
import { id, imageUrl, instant, name, pathId, shown } from '../../http/fields.ts'
import { asWholeSet, keysetQuery, page } from '../../http/pages.ts'
import { slug } from './labels.ts'
import { listMembers } from './members.ts'
import { createOrganization, organizationsPage } from './organizations.ts'
import { reachOrganization } from './reach.ts'
import { Organization } from './shapes.ts'

const tag = 'Organizations'

const Member = z
  .object({
    membershipId: id,
    organizationId: id,
    userId: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20').openapi({
      description: 'The `sub` of the identity provider.',
    }),
    email: shown('ana@example.com').nullable(),
    givenName: shown('Ana').nullable(),
    familyName: shown('Ruiz').nullable(),
    imageUrl: imageUrl.nullable(),
    role: z.enum(['OWNER', 'ADMIN', 'MEMBER']),
    joinedAt: instant,
  })
  .openapi('Member')

export const organizationEndpoints = [
  endpoint({
    operation: 'listOrganizations',
    on: 'GET /organizations',
    spec: 'A §4 Organizations',
    tag,
    summary: 'List organizations',
    description:
      'Newest first, a page at a time: send the id of the last item as `from`. An API key belongs to none and gets an empty list.',
    actor: 'any',
    scope: 'platform:organizations:read',
    query: z.object(keysetQuery),
    reach: async ({ actor }) => actor, // the list itself holds what is in reach
    returns: [200, page(Organization)],
    handle: ({ deps, target, query }) => organizationsPage(deps, target, query),
  }),
  endpoint({
    operation: 'createOrganization',
    on: 'POST /organizations',
    spec: 'A §4 Organizations',
    tag,
    summary: 'Create an organization and become its owner',
    description:
      'The caller becomes its owner. Without a `slug` one is made from the name; one that is given must be free, otherwise 409. A new organization is on the free plan.',
    actor: 'user',
    scope: 'platform:organizations:write',
    body: z.strictObject({ name, slug: slug.optional() }),
    reach: async ({ actor }) => actor, // anybody may found one
    returns: [201, Organization],
    fails: [409],
    handle: ({ deps, target, body }) => createOrganization(deps, target, body),
  }),
  endpoint({
    operation: 'getOrganization',
    on: 'GET /organizations/{id}',
    spec: 'A §4 Organizations',
    tag,
    summary: 'Get one organization',
    description: 'Open to every member. An API key gets 403 for any organization that exists.',
    actor: 'any',
    scope: 'platform:organizations:read',
    params: { id: pathId('Organization') },
    reach: (call) => reachOrganization(call, call.params.id),
    returns: [200, Organization],
    handle: async ({ target }) => target,
  }),
  endpoint({
    operation: 'listMembers',
    on: 'GET /organizations/{id}/members',
    spec: 'A §4 Organizations',
    tag,
    summary: 'List the members of an organization',
    description:
      'All of them, in the order they joined. Email and names come from the identity provider and are null until it was asked.',
    actor: 'any',
    scope: 'platform:organizations:read',
    params: { id: pathId('Organization') },
    reach: (call) => reachOrganization(call, call.params.id),
    returns: [200, page(Member)],
    handle: async ({ deps, target }) => asWholeSet(await listMembers(deps, target)),
  }),
]
