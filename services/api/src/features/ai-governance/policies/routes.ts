import { z } from '@hono/zod-openapi'
import type { Actor, Deps } from '../../../deps.ts'
import { endpoint } from '../../../http/endpoint.ts'
import { id, instant, pathId, text } from '../../../http/fields.ts'
import { type Need, type Organization, reachOrganization } from '../../organizations/reach.ts'
import { requireApplication } from '../own-application.ts'
import { deletePolicy, findPolicy, setPolicy } from './policies.ts'

const tag = 'AI governance'
const spec = 'A §4 AI gateway, D90'
const scope = 'network:ai_gateway:policies'
const NAMES_MAX = 1_000
const NAME_BYTES_MAX = 255
const OUTPUT_TOKENS_MAX = 2_147_483_647

const names = (example: string) => z.array(text(NAME_BYTES_MAX).min(1).openapi({ example })).max(NAMES_MAX).nullable()

const applicationId = id.nullable().openapi({ description: 'null: the policy is the organization’s own.' })
const rules = {
  allowedModels: names('openai/gpt-4o').openapi({
    description: 'Ids of models that may be called. null: all; `[]`: none.',
  }),
  allowedProviders: names('openai').openapi({
    description: 'Ids of providers that may be asked; `local` is the platform itself. null: all; `[]`: none.',
  }),
  requireZdr: z.boolean().openapi({ description: 'true: only providers that keep nothing of a request are asked.' }),
  allowFallbacks: z.boolean().openapi({
    description: 'false: a call goes to one provider, and fails if that fails.',
  }),
  maxOutputTokens: z.number().int().min(1).max(OUTPUT_TOKENS_MAX).nullable().openapi({
    description: 'The largest output cap of a chat or response; it is set where a request has none. null: any.',
    example: 4_096,
  }),
}

const Policy = z
  .object({ id, organizationId: id, applicationId, ...rules, createdAt: instant, updatedAt: instant })
  .openapi('AiPolicy')

/** Unnamed within: the document drops the null of a schema that has a name already. */
const PolicyOrNull = z.object(Policy.shape).nullable().openapi('AiPolicyOrNull')

/** A member of the answer that a client may send back: it changes nothing. */
const ignored = z.unknown().optional().openapi({ description: 'Ignored.' })

const PolicyInput = z
  .strictObject({
    applicationId: applicationId.default(null),
    allowedModels: rules.allowedModels.default(null),
    allowedProviders: rules.allowedProviders.default(null),
    requireZdr: rules.requireZdr.default(false),
    allowFallbacks: rules.allowFallbacks.default(true),
    maxOutputTokens: rules.maxOutputTokens.default(null),
    id: ignored,
    organizationId: ignored,
    createdAt: ignored,
    updatedAt: ignored,
  })
  .openapi('AiPolicyInput')

const ofOrganization = { id: pathId('Organization') }
const query = z.object({
  applicationId: id.optional().openapi({ description: 'Absent: the organization’s own policy.' }),
})

/** The organization and, where one is named, its application (D17). */
async function reachSubject(
  call: { deps: Pick<Deps, 'db'>; actor: Actor; params: { id: string } },
  named: string | null | undefined,
  need: Need,
): Promise<{ organization: Organization; applicationId: string | null }> {
  const organization = await reachOrganization(call, call.params.id, need)
  const applicationId = named ?? null
  await requireApplication(call.deps, organization.id, applicationId)
  return { organization, applicationId }
}

export const aiPolicyEndpoints = [
  endpoint({
    operation: 'getAiPolicy',
    on: 'GET /organizations/{id}/ai-gateway/policies',
    spec,
    tag,
    summary: 'Get the AI policy of an organization or application',
    description: '`null` if there is no policy; then nothing is limited.',
    actor: 'user',
    scope,
    params: ofOrganization,
    query,
    reach: (call) => reachSubject(call, call.query.applicationId, 'member'),
    returns: [200, PolicyOrNull],
    handle: async ({ deps, target }) => (await findPolicy(deps, target.organization, target.applicationId)) ?? null,
  }),
  endpoint({
    operation: 'setAiPolicy',
    on: 'PUT /organizations/{id}/ai-gateway/policies',
    spec,
    tag,
    summary: 'Set the AI policy of an organization or application',
    description:
      'Replaces the policy that was there; what the body leaves out takes its default. Calls of an application come under its own policy and under that of the organization, and both have to allow them. The answer of GET can be sent back as it is. Needs the role OWNER or ADMIN.',
    actor: 'user',
    scope,
    params: ofOrganization,
    body: PolicyInput,
    reach: (call) => reachSubject(call, call.body.applicationId, 'admin'),
    returns: [200, Policy],
    handle({ deps, actor, target, body }) {
      const { allowedModels, allowedProviders, requireZdr, allowFallbacks, maxOutputTokens } = body
      const policy = { allowedModels, allowedProviders, requireZdr, allowFallbacks, maxOutputTokens }
      return setPolicy(deps, actor, target.organization, target.applicationId, policy)
    },
  }),
  endpoint({
    operation: 'deleteAiPolicy',
    on: 'DELETE /organizations/{id}/ai-gateway/policies',
    spec: 'D90',
    tag,
    summary: 'Delete the AI policy of an organization or application',
    description: 'It limits nothing any more. 404 if there is none. Needs the role OWNER or ADMIN.',
    actor: 'user',
    scope,
    params: ofOrganization,
    query,
    reach: (call) => reachSubject(call, call.query.applicationId, 'admin'),
    returns: [204],
    handle: ({ deps, actor, target }) => deletePolicy(deps, actor, target.organization, target.applicationId),
  }),
]
