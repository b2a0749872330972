import { z } from '@hono/zod-openapi'
import { endpoint } from '../../http/endpoint.ts'
import { instant, shown } from '../../http/fields.ts'
import { reachDeployment } from '../deployments/reach.ts'
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
    description: 'URLs of the same key go to the same process.',
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
    description: 'A path of the deployment, with or without a query.',
    example: '/carts/4711?tab=items',
  })

export const stickySessionEndpoints = [
  endpoint({
    operation: 'createStickyUrl',
    on: 'POST /sticky-sessions/urls',
    spec: 'A §4 Sticky sessions, D9, D83, D87',
    tag: 'Sticky sessions',
    summary: 'Create a URL whose requests all go to the same Function process',
    description:
      "A URL of the calling Function's own deployment. It says where requests go and not who sends them: whoever has it may use it until it expires. It is good for this path, with any further query, and with `method` for that method alone: OPTIONS always passes, and HEAD with GET. The deployment is kept for as long as its URLs are good; one that was retired or has failed answers 409.",
    actor: 'function',
    scope: 'network:sticky_sessions:write',
    body: z.strictObject({
      key,
      endpoint: stickyEndpoint,
      method: z.enum(stickyMethods).optional().openapi({ description: 'Every method passes without it.' }),
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
