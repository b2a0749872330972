import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { instant, shown } from '../../../http/fields.ts'
import { reachDeployment } from '../../deploy/deployments/reach.ts'
import { createStickyUrl } from './create-sticky-url.ts'
import { ENDPOINT_LENGTH_MAX, readStickyEndpoint } from './sticky-endpoint.ts'
import { stickyMethods } from './sticky-token.ts'

const key = z
  .string()
  .refine((text) => text !== '' && Array.from(text).length <= 255, 'Expected 1 to 255 characters')
  .refine((text) => text.isWellFormed(), 'Expected text without lone surrogates')
  .openapi({
    minLength: 1,
    maxLength: 255,
    description: 'URLs with the same key lead to the same process.',
    example: 'cart-4711',
  })

const stickyEndpoint = z
  .string()
  .transform((text, { addIssue }) => {
    const read = readStickyEndpoint(text)
    if (typeof read !== 'string') return read
    addIssue({ code: 'custom', message: read })
    return z.NEVER
  })
  .openapi({
    type: 'string',
    minLength: 1,
    maxLength: ENDPOINT_LENGTH_MAX,
    description: 'A path of the deployment, optionally with a query.',
    example: '/carts/4711?tab=items',
  })

export const stickySessionEndpoints = [
  endpoint({
    operation: 'createStickyUrl',
    on: 'POST /sticky-sessions/urls',
    spec: 'A §4 Sticky sessions, D9, D83, D87',
    tag: 'Sticky sessions',
    summary: 'Create a sticky URL',
    description:
      'Every request to this URL goes to the same process of a Function of the calling Function’s deployment. The URL routes requests and identifies nobody: whoever has it may use it until it expires. It works for the path with any further query and, if `method` is set, for that method only; OPTIONS is always allowed, and HEAD wherever GET is. The deployment is kept while its URLs are valid. 409 if it has been retired or has failed.',
    actor: 'function',
    scope: 'network:sticky_sessions:write',
    body: z.strictObject({
      key,
      endpoint: stickyEndpoint,
      method: z
        .enum(stickyMethods)
        .optional()
        .openapi({ description: 'The only method to allow; all methods by default.' }),
      expiresInSeconds: z.number().int().min(60).max(86_400).default(14_400),
    }),
    reach: (call) => reachDeployment(call, call.actor.deploymentId),
    returns: [
      200,
      z
        .object({
          url: shown(
            'https://my-shop-k3v9x2m7q4.apps.example.com/carts/4711?tab=items&__sticky=2026.touie0.Zk4pR0bJ5sQ0xV7cYtE2wA.pB5kq0mX8wVnYc1rT6uZ3dE9hJ2sL7fG4aQxKoM_1yU',
          ),
          expiresAt: instant,
        })
        .openapi('StickyUrl'),
    ],
    fails: [404, 409],
    handle: ({ deps, target, body }) => createStickyUrl(deps, target, body),
  }),
]
