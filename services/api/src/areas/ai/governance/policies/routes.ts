import { z } from '@hono/zod-openapi'
import type { Actor } from '../../../../http/actor.ts'
import type { AiDeps } from '../../deps.ts'
import { endpoint } from '../../deps.ts'
import { id, instant, pathId, text } from '../../../../http/fields.ts'
import { type Organization, reachOrganization } from '../../../tenancy/organizations/reach.ts'
import { reachReadable, requireApplication } from '../reach.ts'
import { deletePolicy, findPolicy, setPolicy } from './policies.ts'

const tag = 'AI governance'
const spec = 'A §4 AI gateway, D90'
const scope = 'network:ai_gateway:policies'
const NAMES_MAX = 1_000
const NAME_BYTES_MAX = 255
const OUTPUT_TOKENS_MAX = 2_147_483_647

const listOf = (name: z.ZodType<string>) => z.array(name).max(NAMES_MAX).nullable()
const storedId = (example: string) => text(NAME_BYTES_MAX).min(1).openapi({ example })
/** A pattern matches no id, so a policy with `openai/*` would forbid everything. Earlier releases accepted and stored patterns. */
const wholeId = (example: string) =>
  storedId(example)
    .refine((name) => !name.includes('*'), 'Expected a whole id, without *')
    .openapi({ pattern: String.raw`^[^\u0000*]+$` })

const models = { description: 'Ids of allowed models, without patterns. null allows all, `[]` none.' }
const providers = {
  description: 'Ids of allowed providers; `local` is the platform itself. null allows all, `[]` none.',
}

const applicationId = id.nullable().openapi({ description: 'null for the organization’s own policy.' })
const rules = {
  allowedModels: listOf(storedId('openai/gpt-4o')).openapi(models),
  allowedProviders: listOf(storedId('openai')).openapi(providers),
  requireZdr: z.boolean().openapi({ description: 'If true, only providers that retain no data are used.' }),
  allowFallbacks: z.boolean().openapi({
    description: 'If false, a call fails when its first provider fails.',
  }),
  maxOutputTokens: z.number().int().min(1).max(OUTPUT_TOKENS_MAX).nullable().openapi({
    description:
      'Maximum output tokens of a chat completion or response, and the default for requests without a limit. null for no limit.',
    example: 4_096,
  }),
}

const unknownModels = z.array(z.string().openapi({ example: 'openai/gpt-4-o' })).openapi({
  description: 'Ids of `allowedModels` that the platform does not offer: misspelt ones, for instance.',
})

const Policy = z
  .object({ id, organizationId: id, applicationId, ...rules, unknownModels, createdAt: instant, updatedAt: instant })
  .openapi('AiPolicy')

/** Wraps the shape, not the named schema: the document drops the null of a schema that already has a name. */
const PolicyOrNull = z.object(Policy.shape).nullable().openapi('AiPolicyOrNull')

/** A member of the response that a client may send back: it is ignored. */
const ignored = z.unknown().optional().openapi({ description: 'Ignored.' })

const PolicyInput = z
  .strictObject({
    applicationId: applicationId.default(null),
    allowedModels: listOf(wholeId('openai/gpt-4o')).default(null).openapi(models),
    allowedProviders: listOf(wholeId('openai')).default(null).openapi(providers),
    requireZdr: rules.requireZdr.default(false),
    allowFallbacks: rules.allowFallbacks.default(true),
    maxOutputTokens: rules.maxOutputTokens.default(null),
    id: ignored,
    organizationId: ignored,
    unknownModels: ignored,
    createdAt: ignored,
    updatedAt: ignored,
  })
  .openapi('AiPolicyInput')

const ofOrganization = { id: pathId('Organization') }
const query = z.object({
  applicationId: id
    .optional()
    .openapi({ description: 'The application whose policy is meant. Without it, the organization’s own.' }),
})

/** Reaches the organization and, if named, its application, to change its policy (D17). */
async function reachSubject(
  call: { deps: Pick<AiDeps, 'db'>; actor: Actor; params: { id: string } },
  named: string | null | undefined,
): Promise<{ organization: Organization; applicationId: string | null }> {
  const organization = await reachOrganization(call, call.params.id, 'admin')
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
    summary: 'Get a policy',
    description:
      'The policy of the organization, or of the application that `applicationId` names. `null` if there is none; nothing is restricted then. An API key gets the policy of its own application, whether it names that or not.',
    actor: 'any',
    scope,
    params: ofOrganization,
    query,
    reach: (call) => reachReadable(call, call.query.applicationId),
    returns: [200, PolicyOrNull],
    handle: async ({ deps, target }) => (await findPolicy(deps, target.organizationId, target.applicationId)) ?? null,
  }),
  endpoint({
    operation: 'setAiPolicy',
    on: 'PUT /organizations/{id}/ai-gateway/policies',
    spec,
    tag,
    summary: 'Set a policy',
    description:
      'Replaces the policy; fields that are left out get their defaults. Calls of an application must be allowed by its own policy and by that of the organization. The response of GET can be sent back unchanged, but for ids with `*`, which earlier releases accepted. Models that the platform does not offer are accepted and listed in `unknownModels`. Needs the role OWNER or ADMIN.',
    actor: 'user',
    scope,
    params: ofOrganization,
    body: PolicyInput,
    reach: (call) => reachSubject(call, call.body.applicationId),
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
    summary: 'Delete a policy',
    description: 'Lifts its restrictions. 404 if there is none. Needs the role OWNER or ADMIN.',
    actor: 'user',
    scope,
    params: ofOrganization,
    query,
    reach: (call) => reachSubject(call, call.query.applicationId),
    returns: [204],
    handle: ({ deps, actor, target }) => deletePolicy(deps, actor, target.organization, target.applicationId),
  }),
]
