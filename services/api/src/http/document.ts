import { OpenAPIHono } from '@hono/zod-openapi'
import { apiKeyScopes, type Scope, scopeCatalogue } from '@platform/auth/scopes'
import { platformName } from '@platform/look/name'
import type { Operation } from './endpoint.ts'

/** Changes whenever the API does (A §9). */
const API_VERSION = '0.27.0'

const description = `## Authentication
Send \`Authorization: Bearer <access token>\` with every request: a user's token from the identity provider, or a token that
\`POST /oauth2/token\` issues for an API key. A 401 is worth one retry with a fresh token. The token endpoint, the documents below
\`/.well-known\` and this reference need no credential.

## Conventions
- **Bodies** are JSON, except at the token endpoint, which takes a form. An operation with nothing to return answers 204.
- **Timestamps** are ISO 8601 in UTC with milliseconds, such as \`2026-11-21T09:30:00.000Z\`, in requests and responses.
- **Lengths** of free text count bytes of UTF-8, those of names count characters. Names lose white space around them.
- **Queries**: a parameter that is given twice is refused with 422. Parameters that an operation does not know are ignored, except
  those of AI usage.
- **Request ids**: every response has an \`X-Request-Id\`. It is the request's own, if that consists of up to 128 letters, digits, \`_\`,
  \`.\` and \`-\`. Below \`/ai/v1\` the id is always the platform's own, and also in \`X-Service-Request-Id\`.
- **Caching**: what you read has an \`ETag\`; with \`If-None-Match\` an unchanged resource is answered with 304.

## Pagination
Almost every list is \`{ items, total }\`; \`total\` counts everything that matches and is in reach. Most lists are returned whole. Where there is a
\`from\`, send the id of the last item to get the next page. Where there is a \`cursor\`, send the \`nextCursor\` of the last page with the
same filters; it is null on the last page.

## Errors
Every failure is \`{ "error": "…" }\` with a message for a person; branch on the status. A 422 also lists every field that failed. Below
\`/ai/v1\` errors are nested as in OpenAI's API; the token endpoint answers as OAuth 2.0 defines. Repeat only 500, 502 and 503 unchanged,
with exponential backoff and jitter. Any request may also be answered with 400 if it is not valid HTTP, 408 if its body does not arrive in
time, 413 if its body is too large, and 431 if its headers exceed 16 KiB.

## Rate limits
Counted in windows of 60 seconds: 3,000 requests for an API key, 6,000 for an address with a bearer token, 600 without. Beyond that the
status is 429 with \`Retry-After\`. A 429 without \`Retry-After\` is a quota or a provider's limit, which waiting does not clear.

## Idempotency
Operations that create something take an \`Idempotency-Key\` of up to 255 printable ASCII characters. For 24 hours, a repeat of the same
request gets the first response with \`Idempotency-Replayed: true\`; the same key with another request is a 422. A response with a secret
is not kept: its repeat is a 409.`

/** What each group of operations is about, in the order of the reference. */
const tagDescriptions: Record<string, string> = {
  Organizations: 'Organizations own everything else. People are their members, and products are enabled for them.',
  Applications: 'What you deploy. Every application has the environments `production` and `preview`.',
  Deployments: 'Uploaded archives, and the sites built from them.',
  Hostnames: 'Where applications and deployments are reachable.',
  'Environment variables':
    'Variables in three layers: organization, application and environment. The narrower layer wins when they are pulled.',
  'API keys': 'Credentials that act as one application, without a person. Managed with a user-backed token only.',
  Storage:
    'Buckets of objects. Their content is read and written by S3 (`/s3`), resumable uploads (`/files`) and the hostnames of buckets.',
  'AI gateway':
    'Models behind one address that works with the `openai` package: set `baseURL` to `/ai/v1` of this API. Errors are nested: `{ "error": { "message", "type", "param", "code" } }`.',
  'AI governance': 'Provider keys, budgets, policies and usage of an organization.',
  'Sticky sessions': 'URLs whose requests all go to the same process of a Function. Only Functions can create them.',
  'Request logs': 'Requests that an application received, for as long as the plan keeps them.',
  'Runtime logs': 'What Functions printed, for as long as the plan keeps it.',
  Activity: 'Changes to an application: as they happen, and those of the last 30 days.',
  Tokens: 'Access tokens for API keys.',
  Discovery: 'Public metadata for OAuth libraries: token issuers and signing keys.',
  Reference: 'This reference and its OpenAPI document.',
}

/** The tags that the routes use, with descriptions. Throws if a tag has no description. */
function describedTags(used: ReadonlySet<string>): { name: string; description: string }[] {
  for (const name of used)
    if (!(name in tagDescriptions)) throw new Error(`Describe the tag "${name}" in src/http/document.ts`)
  return Object.entries(tagDescriptions)
    .filter(([name]) => used.has(name))
    .map(([name, text]) => ({ name, description: text }))
}

/**
 * Drops `nullable` from schemas without a type: they allow anything, null included, and `nullable` is only valid beside a type.
 */
function withoutBareNullable(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('nullable' in value)) return value
  if (value.nullable !== true || ['type', 'allOf', 'anyOf', 'oneOf'].some((key) => key in value)) return value
  const { nullable: _bare, ...rest } = value
  return rest
}

/** Builds the OpenAPI 3.0.3 document of the mounted operations (A §1, §9). */
export function createDocument(endpoints: readonly Operation[], publicUrl: string, idpUrl: string): object {
  const registry = new OpenAPIHono()
  registry.openAPIRegistry.registerComponent('securitySchemes', 'bearer', {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'An access token of a user, or one issued for an API key.',
  })
  const described = (scopes: readonly Scope[]) => Object.fromEntries(scopes.map((scope) => [scope, scope]))
  registry.openAPIRegistry.registerComponent('securitySchemes', 'oauth2', {
    type: 'oauth2',
    flows: {
      authorizationCode: {
        authorizationUrl: `${idpUrl}/oauth2/authorize`,
        tokenUrl: `${idpUrl}/oauth2/token`,
        refreshUrl: `${idpUrl}/oauth2/token`,
        scopes: described(scopeCatalogue),
      },
      clientCredentials: { tokenUrl: `${publicUrl}/oauth2/token`, scopes: described(apiKeyScopes) },
    },
  })
  const listed = endpoints.filter(({ isListed }) => isListed)
  for (const { route } of listed) registry.openAPIRegistry.registerPath(route)
  const document = registry.getOpenAPIDocument({
    openapi: '3.0.3',
    info: {
      title: `${platformName} API`,
      version: API_VERSION,
      description,
      contact: { name: `${platformName} API`, url: `${publicUrl}/docs` },
    },
    servers: [{ url: publicUrl }],
    tags: describedTags(new Set(listed.flatMap(({ route }) => route.tags ?? []))),
  })
  return JSON.parse(JSON.stringify(document), withoutBareNullable) as object
}
