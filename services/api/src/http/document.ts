import { OpenAPIHono } from '@hono/zod-openapi'
import { scopeCatalogue } from '@platform/auth/scopes'
import type { Endpoint } from './endpoint.ts'

/** Moves whenever the API does (A §9). */
const API_VERSION = '0.19.0'

const description = `Every request carries \`Authorization: Bearer <access token>\`: a user's token from the identity provider, or a token
that an API key was exchanged for at \`/oauth2/token\`. Failures answer \`{ "error": "…" }\`; branch on the status. Throttles
answer 429 with \`Retry-After\`; other 429s are not cleared by waiting.`

/** What each group of operations is about; in this order in the reference. */
const tagDescriptions: Record<string, string> = {
  Organizations: 'Who belongs together, and which products they may use. Everything else belongs to an organization.',
  Applications: 'What is deployed. Each has the environments `production` and `preview`.',
  Deployments: 'Archives that were uploaded, and the sites that became of them.',
  Hostnames: 'Where an application answers.',
  'Environment variables':
    'Three layers, of the organization, the application and the environment; the narrower one wins where they are pulled.',
  'API keys': 'Credentials that act as one application, without a person. Managed with a user-backed token only.',
  Storage:
    'Buckets of objects. Their bytes come and go by S3 (`/s3`), by resumable uploads (`/files`) and by their own hostnames.',
  'AI gateway':
    'Models by one address, in the layout that the `openai` package speaks: `baseURL` is `/ai/v1` of this API. Failures nest: `{ "error": { "message", "type", "param", "code" } }`.',
  'AI governance': "Whose keys an organization's calls to AI providers go by.",
  'Sticky sessions': 'URLs whose requests all go to the same process of a Function. Created by Functions only.',
  'Request logs': 'What an application was asked and answered, for as long as the plan keeps it.',
  'Runtime logs': 'What Functions printed, for as long as the plan keeps it.',
  Activity: 'What is done to an application, as it is done.',
  Tokens: 'Where an API key is exchanged for a token of 300 seconds.',
  Discovery: 'Public documents for libraries: who issues tokens and how they are verified. They need no credential.',
  Reference: 'This reference and the document it shows. They need no credential.',
}

/** The tags that the routes use, described. Throws for one that is not. */
function describedTags(used: ReadonlySet<string>): { name: string; description: string }[] {
  for (const name of used)
    if (!(name in tagDescriptions)) throw new Error(`Describe the tag "${name}" in src/http/document.ts`)
  return Object.entries(tagDescriptions)
    .filter(([name]) => used.has(name))
    .map(([name, text]) => ({ name, description: text }))
}

/** Without a type a schema allows anything, null included; the generator says `nullable` as well, which needs a type. */
function withoutBareNullable(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('nullable' in value)) return value
  if (value.nullable !== true || ['type', 'allOf', 'anyOf', 'oneOf'].some((key) => key in value)) return value
  const { nullable: _bare, ...rest } = value
  return rest
}

/** The OpenAPI 3.0.3 document of the operations that are mounted (A §1, §9). */
export function createDocument(endpoints: readonly Endpoint[], publicUrl: string, idpUrl: string): object {
  const registry = new OpenAPIHono()
  registry.openAPIRegistry.registerComponent('securitySchemes', 'bearer', {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'An access token: of a user, or one that an API key was exchanged for.',
  })
  const scopes = Object.fromEntries(scopeCatalogue.map((scope) => [scope, scope]))
  registry.openAPIRegistry.registerComponent('securitySchemes', 'oauth2', {
    type: 'oauth2',
    flows: {
      authorizationCode: {
        authorizationUrl: `${idpUrl}/oauth2/authorize`,
        tokenUrl: `${idpUrl}/oauth2/token`,
        refreshUrl: `${idpUrl}/oauth2/token`,
        scopes,
      },
      clientCredentials: { tokenUrl: `${publicUrl}/oauth2/token`, scopes },
    },
  })
  const listed = endpoints.filter(({ isListed }) => isListed)
  for (const { route } of listed) registry.openAPIRegistry.registerPath(route)
  const document = registry.getOpenAPIDocument({
    openapi: '3.0.3',
    info: {
      title: 'Platform API',
      version: API_VERSION,
      description,
      contact: { name: 'Platform API', url: `${publicUrl}/docs` },
    },
    servers: [{ url: publicUrl }],
    tags: describedTags(new Set(listed.flatMap(({ route }) => route.tags ?? []))),
  })
  return JSON.parse(JSON.stringify(document), withoutBareNullable) as object
}
