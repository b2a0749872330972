import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { instant, pathId, shown, text } from '../../../http/fields.ts'
import { asWholeSet, page } from '../../../http/pages.ts'
import { secretBody } from '../../../http/validate.ts'
import { reachOrganization } from '../../tenancy/organizations/reach.ts'
import { PROVIDER_KEY } from './key-format.ts'
import { deleteProviderKey, listProviderKeys, setProviderKey } from './provider-keys.ts'

const tag = 'AI governance'
const spec = 'D111'
const scope = 'network:ai_gateway:policies'

const provider = shown('openai')

const ProviderKey = z
  .object({
    provider,
    last4: shown('x9Qe').openapi({
      description: 'The last four characters of the key, masked where they would reveal more than a third of it.',
    }),
    createdByUserId: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20'),
    createdAt: instant,
    updatedAt: instant,
  })
  .openapi('AiProviderKey')

const key = z
  .string()
  .regex(PROVIDER_KEY, 'Expected 1 to 4096 printable ASCII characters without spaces')
  .openapi({ example: 'sk-example-4fT1x9Qe' })

const ofOrganization = { id: pathId('Organization') }
const idOfProvider = text(255).openapi({ example: 'openai', description: 'The id of the provider.' })
const ofProvider = { ...ofOrganization, provider: { schema: idOfProvider, resource: 'Provider' } }
const ofProviderKey = { ...ofOrganization, provider: { schema: idOfProvider, resource: 'Provider key' } }

export const aiGovernanceEndpoints = [
  endpoint({
    operation: 'listAiProviderKeys',
    on: 'GET /organizations/{id}/ai-gateway/provider-keys',
    spec,
    tag,
    summary: 'List provider keys',
    description:
      'The organization’s own keys for AI providers, sorted by provider. The keys themselves are never returned. Needs the role OWNER or ADMIN.',
    actor: 'user',
    scope,
    params: ofOrganization,
    reach: (call) => reachOrganization(call, call.params.id, 'admin'),
    returns: [200, page(ProviderKey)],
    handle: async ({ deps, target }) => asWholeSet(await listProviderKeys(deps, target)),
  }),
  endpoint({
    operation: 'setAiProviderKey',
    on: 'PUT /organizations/{id}/ai-gateway/provider-keys/{provider}',
    spec,
    tag,
    summary: 'Set a provider key',
    description:
      'From then on, the organization’s calls to this provider use only this key and are billed by the provider. Replaces the previous key. 404 if the platform does not offer the provider. Needs the role OWNER or ADMIN.',
    actor: 'user',
    scope,
    params: ofProvider,
    body: secretBody(z.strictObject({ key })),
    reach: (call) => reachOrganization(call, call.params.id, 'admin'),
    returns: [200, ProviderKey],
    handle: ({ deps, actor, target, params, body }) => setProviderKey(deps, actor, target, params.provider, body.key),
  }),
  endpoint({
    operation: 'deleteAiProviderKey',
    on: 'DELETE /organizations/{id}/ai-gateway/provider-keys/{provider}',
    spec,
    tag,
    summary: 'Delete a provider key',
    description: 'Calls to this provider use the operator’s key again, if there is one. Needs the role OWNER or ADMIN.',
    actor: 'user',
    scope,
    params: ofProviderKey,
    reach: (call) => reachOrganization(call, call.params.id, 'admin'),
    returns: [204],
    handle: ({ deps, actor, target, params }) => deleteProviderKey(deps, actor, target, params.provider),
  }),
]
