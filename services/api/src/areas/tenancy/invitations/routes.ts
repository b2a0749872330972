import { z } from '@hono/zod-openapi'
import { readMailAddress } from '@platform/mail/mail-address'
import { throttleAddress } from '../../../http/exchange.ts'
import { id, instant, pathId, shown } from '../../../http/fields.ts'
import { asWholeSet, page } from '../../../http/pages.ts'
import { endpoint, openEndpoint } from '../deps.ts'
import { reachMembership, reachOrganization } from '../organizations/reach.ts'
import { role } from '../organizations/shapes.ts'
import { assertInvitation } from './assertion.ts'
import { createInvitation, listInvitations, revokeInvitation } from './invitations.ts'

const tag = 'Organizations'
const spec = 'wire.md Extensions'

/** An email address as `<input type=email>` takes it; in its one spelling when parsed. */
const email = z
  .string()
  .overwrite((text) => readMailAddress(text) ?? text)
  .refine((text) => readMailAddress(text) === text, 'Expected one email address')
  .openapi({ format: 'email', maxLength: 254, example: 'ana@example.com' })

const Invitation = z
  .object({
    id,
    organizationId: id,
    email: shown('ana@example.com'),
    role,
    invitedByUserId: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20'),
    createdAt: instant,
    expiresAt: instant,
  })
  .openapi('Invitation')

const NewInvitation = z
  .object({
    ...Invitation.shape,
    url: shown(`https://api.example.com/.well-known/invitation/${'A'.repeat(43)}`).openapi({
      description: 'The link to join by. Returned once, in this response only.',
    }),
    isMailed: z.boolean().openapi({
      description:
        'Whether a letter with the link was sent. If not, pass the link on yourself. An address gets at most 5 letters a day.',
    }),
  })
  .openapi('NewInvitation')

export const invitationEndpoints = [
  endpoint({
    operation: 'listInvitations',
    on: 'GET /organizations/{id}/invitations',
    spec,
    tag,
    summary: 'List invitations',
    description: 'Invitations that can still be accepted, newest first. Needs the role OWNER or ADMIN.',
    actor: 'user',
    scope: 'platform:members:read',
    params: { id: pathId('Organization') },
    reach: (call) => reachOrganization(call, call.params.id, 'admin'),
    returns: [200, page(Invitation)],
    handle: async ({ deps, target }) => asWholeSet(await listInvitations(deps, target)),
  }),
  endpoint({
    operation: 'createInvitation',
    on: 'POST /organizations/{id}/invitations',
    spec,
    tag,
    summary: 'Invite somebody to an organization',
    description:
      'Adds nobody: whoever has the address joins by the link, once they sign in and say so. To change a member’s role, invite them with the new one. The link works for 7 days and once; another invitation of the same address ends it, and so does the inviter’s losing the role. At most 50 can be waiting (409); beyond the day’s quota the answer is 403. Needs the role OWNER or ADMIN; only an OWNER invites an OWNER, and whoever owns as many organizations as they may becomes none by it. Inviting an OWNER or ADMIN takes a sign-in within the last 15 minutes. Otherwise the answer is 403 with `WWW-Authenticate: Bearer error="insufficient_user_authentication", max_age="900"` (RFC 9470): sign in again with that `max_age`.',
    actor: 'user',
    scope: 'platform:members:write',
    params: { id: pathId('Organization') },
    body: z.strictObject({ email, role }).openapi({ example: { email: 'ana@example.com', role: 'MEMBER' } }),
    reach: (call) => reachMembership(call, call.params.id, 'admin'),
    returns: [201, NewInvitation],
    isShownOnce: true,
    fails: [404],
    handle: ({ deps, actor, target, body }) => createInvitation(deps, actor, target, body),
  }),
  endpoint({
    operation: 'deleteInvitation',
    on: 'DELETE /organizations/{id}/invitations/{invitationId}',
    spec,
    tag,
    summary: 'Revoke an invitation',
    description: 'Its link no longer works. 404 if it was accepted or has ended. Needs the role OWNER or ADMIN.',
    actor: 'user',
    scope: 'platform:members:write',
    params: { id: pathId('Organization'), invitationId: pathId('Invitation') },
    reach: (call) => reachOrganization(call, call.params.id, 'admin'),
    returns: [204],
    handle: ({ deps, actor, target, params }) => revokeInvitation(deps, actor, target, params.invitationId),
  }),
  openEndpoint({
    operation: 'openInvitation',
    on: 'GET /.well-known/invitation/{token}',
    // A link that was cut leads to the same page.
    also: ['/.well-known/invitation/', '/.well-known/invitation'],
    tag,
    summary: 'Open an invitation',
    description:
      'The link of an invitation, for a browser. Redirects to the identity provider, where people sign in or up and join. Changes nothing. A link that no longer works leads to a page that says so.',
    request: {
      params: z.object({
        token: z.string().openapi({ description: 'The token of the link.', example: 'A'.repeat(43) }),
      }),
    },
    responses: {
      303: {
        description: 'See the identity provider',
        headers: {
          Location: {
            description: 'The page of the identity provider, with an assertion of what the link invites to.',
            schema: { type: 'string', format: 'uri' },
          },
        },
      },
    },
    fails: [503],
    async run(exchange) {
      await throttleAddress(exchange)
      const { deps, c } = exchange
      const location = await deps.invitationEndpoint()
      const assertion = await assertInvitation(deps, c.req.param('token') ?? '')
      if (assertion !== undefined) location.searchParams.set('invitation', assertion)
      // The address of this page is a secret, and where it leads to is good for an hour.
      const headers = { location: location.href, 'referrer-policy': 'no-referrer', 'cache-control': 'no-store' }
      return { status: 303, headers, body: null }
    },
  }),
]
