import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { id, instant, name, pathId, shown } from '../../../http/fields.ts'
import { asWholeSet, page } from '../../../http/pages.ts'
import { reachApplication } from '../../tenancy/applications/reach.ts'
import { createApiKey, deleteApiKey, listApiKeys, SCOPE_DEFAULT } from './api-keys.ts'
import { reachApiKey } from './reach.ts'

const tag = 'API keys'
const spec = 'A §4 API keys'
const SCOPES_MAX = 100

const freshSignIn =
  'In the console this takes a sign-in within the last 15 minutes. Otherwise the answer is 403 with `WWW-Authenticate: Bearer error="insufficient_user_authentication", max_age="900"` (RFC 9470): sign in again with that `max_age`.'

const scopes = z
  .array(z.string())
  .max(SCOPES_MAX)
  .openapi({ example: [SCOPE_DEFAULT] })

const ApiKey = z
  .object({
    id,
    name,
    applicationId: id,
    scopes,
    expiresAt: instant.nullable(),
    createdByUserId: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20'),
    lastUsedAt: instant.nullable().openapi({
      description:
        'The beginning of the day, in UTC, on which the key was last exchanged or signed a request of `/s3`; null if it never was.',
    }),
    createdAt: instant,
    updatedAt: instant,
  })
  .openapi('ApiKey')

const NewApiKey = z
  .object({
    ...ApiKey.shape,
    secret: z
      .string()
      .openapi({ description: 'Returned once, in this response only.', example: `svc_secret_${'A'.repeat(43)}` }),
  })
  .openapi('NewApiKey')

export const apiKeyEndpoints = [
  endpoint({
    operation: 'listApiKeys',
    on: 'GET /api-keys',
    spec,
    tag,
    summary: 'List API keys',
    description: 'Keys that have not been revoked, expired ones included, newest first. Secrets are never returned.',
    actor: 'user',
    scope: ['platform:api_keys:read', 'platform:api_keys:write'],
    query: z.object({ applicationId: id.openapi({ description: 'The application whose keys to list.' }) }),
    reach: (call) => reachApplication(call, call.query.applicationId),
    returns: [200, page(ApiKey)],
    handle: async ({ deps, target }) => asWholeSet(await listApiKeys(deps, target)),
  }),
  endpoint({
    operation: 'createApiKey',
    on: 'POST /api-keys',
    spec,
    tag,
    summary: 'Create an API key',
    description: `\`secret\` is in this response and never returned again. \`scopes\` defaults to reading variables, \`expiresAt\` to 90 days from now. A key cannot have scopes that the caller’s token lacks, nor those that manage keys. Needs the role OWNER or ADMIN. ${freshSignIn}`,
    actor: 'user',
    scope: 'platform:api_keys:write',
    body: z
      .strictObject({
        name,
        applicationId: id,
        scopes: scopes.default([]),
        expiresAt: instant.nullable().optional(),
      })
      .openapi({
        example: { name: 'ci', applicationId: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10', scopes: [SCOPE_DEFAULT] },
      }),
    reach: (call) => reachApplication(call, call.body.applicationId, 'admin'),
    returns: [201, NewApiKey],
    isShownOnce: true,
    fails: [404],
    handle: ({ deps, actor, target, body }) => createApiKey(deps, actor, target, body),
  }),
  endpoint({
    operation: 'deleteApiKey',
    on: 'DELETE /api-keys/{apiKeyId}',
    spec,
    tag,
    summary: 'Revoke an API key',
    description: `The key can no longer be exchanged; tokens already issued stay valid for up to 300 seconds. Needs the role OWNER or ADMIN. ${freshSignIn}`,
    actor: 'user',
    scope: ['platform:api_keys:delete', 'platform:api_keys:write'],
    params: { apiKeyId: pathId('API key') },
    reach: (call) => reachApiKey(call, call.params.apiKeyId, 'admin'),
    returns: [204],
    handle: ({ deps, actor, target }) => deleteApiKey(deps, actor, target),
  }),
]
