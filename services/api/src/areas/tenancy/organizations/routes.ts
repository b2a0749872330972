import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { id, imageUrl, instant, name, pathId, shown } from '../../../http/fields.ts'
import { asWholeSet, keysetQuery, page } from '../../../http/pages.ts'
import { slug } from './labels.ts'
import { listMembers } from './members.ts'
import { createOrganization, organizationsPage } from './organizations.ts'
import { reachOrganization } from './reach.ts'
import { reachRemovable, removeMembership } from './remove-membership.ts'
import { Organization, role } from './shapes.ts'

const tag = 'Organizations'

const Member = z
  .object({
    membershipId: id,
    organizationId: id,
    userId: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20').openapi({
      description: 'The user id (`sub`) at the identity provider.',
    }),
    email: shown('ana@example.com').nullable(),
    givenName: shown('Ana').nullable(),
    familyName: shown('Ruiz').nullable(),
    imageUrl: imageUrl.nullable(),
    role,
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
    description: 'Organizations you are a member of, newest first. API keys are members of none and get an empty list.',
    actor: 'any',
    scope: 'platform:organizations:read',
    query: z.object(keysetQuery),
    reach: async ({ actor }) => actor, // the list contains only what the actor reaches
    returns: [200, page(Organization)],
    handle: ({ deps, target, query }) => organizationsPage(deps, target, query),
  }),
  endpoint({
    operation: 'createOrganization',
    on: 'POST /organizations',
    spec: 'A §4 Organizations',
    tag,
    summary: 'Create an organization',
    description:
      'The caller becomes its owner. `slug` must be unused (409); without one it is derived from the name. New organizations start on the operator’s default plan. 403 if you own as many as your plan allows.',
    actor: 'user',
    scope: 'platform:organizations:write',
    body: z.strictObject({ name, slug: slug.optional() }),
    reach: async ({ actor }) => actor, // anybody may create one
    returns: [201, Organization],
    fails: [409],
    handle: ({ deps, target, body }) => createOrganization(deps, target, body),
  }),
  endpoint({
    operation: 'getOrganization',
    on: 'GET /organizations/{id}',
    spec: 'A §4 Organizations',
    tag,
    summary: 'Get an organization',
    description: 'Open to every member. API keys get 403.',
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
    summary: 'List members',
    description:
      'All members in the order they joined. Email and names come from the identity provider and are null until it has supplied them.',
    actor: 'any',
    scope: 'platform:organizations:read',
    params: { id: pathId('Organization') },
    reach: (call) => reachOrganization(call, call.params.id),
    returns: [200, page(Member)],
    handle: async ({ deps, target }) => asWholeSet(await listMembers(deps, target)),
  }),
  endpoint({
    operation: 'deleteMembership',
    on: 'DELETE /memberships/{membershipId}',
    spec: 'wire.md Extensions',
    tag,
    summary: 'Leave an organization, or remove a member',
    description:
      'Everybody may leave but the only OWNER (409). Removing others needs the role OWNER or ADMIN; only an OWNER removes an OWNER. It takes a sign-in within the last 15 minutes. Otherwise the answer is 403 with `WWW-Authenticate: Bearer error="insufficient_user_authentication", max_age="900"` (RFC 9470): sign in again with that `max_age`. Invitations that the member made end with the membership.',
    actor: 'user',
    scope: 'platform:members:write',
    params: { membershipId: pathId('Membership') },
    reach: (call) => reachRemovable(call, call.params.membershipId),
    returns: [204],
    fails: [409],
    handle: ({ deps, actor, target }) => removeMembership(deps, actor, target),
  }),
]
