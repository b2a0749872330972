import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import spectral, { type RulesetDefinition } from '@stoplight/spectral-core'
import spectralRulesets from '@stoplight/spectral-rulesets'
import { endpoints } from '../src/endpoints.ts'
import { createDocument } from '../src/http/document.ts'
import { name } from '../src/http/fields.ts'
import { faultsOf } from './answer-check.ts'
import { exampleOf } from './example-of.ts'
import { currentDocument, goldenDocument } from './golden-document.ts'
import { document, operations, resolved, type Schema } from './operations.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

test('the document is valid OpenAPI 3.0.3, needs no credential and names its servers (A §1, §9)', async () => {
  const answer = await platform.call(null, 'GET /docs/json')
  expect(answer.status).toBe(200)
  const validator = new Validator()
  const result = await validator.validate(structuredClone(answer.body) as Record<string, unknown>)
  expect(result.errors ?? []).toEqual([])
  expect([result.valid, validator.version]).toEqual([true, '3.0'])
  expect(answer.body).toMatchObject({
    openapi: '3.0.3',
    info: { version: expect.stringMatching(/^\d+\.\d+\.\d+$/) as string },
    servers: [{ url: platform.apiUrl }],
  })
})

test('the document is the one last agreed on; a new one has a new version (A §9): `npm run golden` writes it', () => {
  expect(currentDocument()).toEqual(goldenDocument())
})

test.each(['Acme', ' x ', '日本', '', '   ', '\u00a0', '\tTab', 'a\u0085', 'a\nb', '\ufeff', '\u200b'])(
  'the pattern of names says of %j what the service says (D95)',
  (text) => {
    const create = operations.find(({ method, path }) => method === 'POST' && path === '/organizations')
    const body = create?.requestBody?.content['application/json']?.schema
    const pattern = body && resolved(body).properties?.name?.pattern
    if (!pattern) throw new Error('The document has no pattern of names')
    expect(new RegExp(pattern, 'u').test(text)).toBe(name.safeParse(text).success)
  },
)

test('every operation has an id of its own, a tag, a summary and its failures', async () => {
  const { body } = await platform.call(null, 'GET /docs/json')
  type Operation = {
    operationId: string
    tags: string[]
    summary: string
    description: string
    security: object[]
    responses: Record<string, object>
  }
  const operations = Object.values(body.paths as Record<string, Record<string, Operation>>).flatMap((methods) =>
    Object.values(methods),
  )
  const ids = operations.map(({ operationId }) => operationId)
  expect(new Set(ids).size).toBe(ids.length)
  for (const { operationId, tags, summary, description, security, responses } of operations) {
    expect([operationId, tags.length, summary.length > 5]).toEqual([operationId, 1, true])
    expect([operationId, security.length === 0 || description.indexOf('\n\nNeeds a') > 5]).toEqual([operationId, true])
    const failures = Object.keys(responses)
    if (security.length > 0)
      expect(failures, operationId).toEqual(expect.arrayContaining(['401', '403', '429', '500', '503']))
  }
})

/** The document as it is linted. Its origins are made up; linters refuse example.com. */
const lintedDocument = (): object => createDocument(endpoints, 'https://api.platform.test', 'https://id.platform.test')

test('every rule of Redocly passes, but for those that A or this document decides otherwise', async () => {
  const rules = {
    'info-license': 'off', // the operator decides on the terms
    'operation-2xx-response': 'off', // an invitation's link redirects; Spectral asks for 2xx or 3xx
    'operation-4xx-problem-details-rfc7807': 'off', // A §7 defines the error bodies
    'path-segment-plural': 'off', // A §4 names the paths
    'request-mime-type': 'off', // A §1, §4: forms at the token endpoint and for transcriptions
    'required-string-property-missing-min-length': 'off', // most of these strings are ids, instants or enums
    'response-mime-type': 'off', // A §4, §6: events, CSV, audio and video
    'scalar-property-missing-example': 'off', // enums and booleans are their own; a test below finds everything else
    'tags-alphabetical': 'off', // the reference begins with what everything else belongs to
    'no-http-verbs-in-paths': { severity: 'error', splitIntoWords: true }, // unsplit it takes "budgets" for GET
  } as const
  const config = await createConfig({ extends: ['all'], rules })
  const source = JSON.stringify(lintedDocument())
  const problems = await lintFromString({ source, absoluteRef: 'openapi.json', config })
  expect(problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`)).toEqual([])
})

test('every rule of Spectral for OpenAPI passes, but for those that this document decides otherwise', async () => {
  const linter = new spectral.Spectral()
  const rules = {
    'contact-properties': 'off', // it wants an email address, and the platform knows none of its operator
    'info-license': 'off', // as above
    'license-url': 'off',
    'openapi-tags-alphabetical': 'off',
  } as const
  // Its own type lacks `extends`, which a ruleset may do without.
  linter.setRuleset({ extends: [[spectralRulesets.oas as RulesetDefinition, 'all']], rules })
  const problems = await linter.run(JSON.stringify(lintedDocument()))
  expect(problems.map(({ code, message, path }) => `${code}: ${message} ${path.join('/')}`)).toEqual([])
})

test('every operation documents its failures, each with a body in the shape of its path (A §7)', () => {
  const shapesOf = (path: string): string[] => {
    if (path === '/oauth2/token') return ['OAuthError', 'OAuthThrottleError']
    return path.startsWith('/ai/v1/') ? ['AiError'] : ['Error', 'ValidationError', 'ThrottleError']
  }
  const wrong = operations.flatMap(({ operationId, path, responses }) => {
    const failures = Object.entries(responses).filter(([status]) => Number(status) >= 400)
    const named = shapesOf(path).map((name) => `#/components/schemas/${name}`)
    return [
      ...[429, 500].filter((status) => !(status in responses)).map((status) => `${operationId} lacks ${status}`),
      ...failures
        .filter(([, { content }]) => !named.includes(content?.['application/json']?.schema.$ref ?? ''))
        .map(([status]) => `${operationId} ${status}`),
    ]
  })
  expect(wrong).toEqual([])
})

/** Every schema and media type that stands anywhere in the document with an example of its own. */
function* withExamples(value: unknown, text: string): Generator<{ at: string; schema: Schema; example: unknown }> {
  if (typeof value !== 'object' || value === null) return
  if ('example' in value) {
    const schema = 'schema' in value ? (value.schema as Schema) : (value as Schema)
    yield { at: text, schema, example: value.example }
  }
  for (const [key, inner] of Object.entries(value)) if (key !== 'example') yield* withExamples(inner, `${text}/${key}`)
}

test('every example in the document is right by the schema that it stands beside', () => {
  const examples = [...withExamples(document.components.schemas, '#/components/schemas')].concat(
    ...operations.map((operation) => [...withExamples(operation, operation.operationId)]),
  )
  expect(examples.length).toBeGreaterThan(operations.length)
  expect(
    examples.flatMap(({ at: text, schema, example }) => faultsOf(schema, example).map((fault) => `${text}: ${fault}`)),
  ).toEqual([])
})

test('every body, asked or answered, has an example down to its last text and number', () => {
  const bodies = operations.flatMap(({ operationId, requestBody, responses }) =>
    Object.entries({ asked: requestBody, ...responses }).flatMap(([status, body]) =>
      Object.entries(body?.content ?? {})
        .filter(([type]) => !type.startsWith('text/'))
        .map(([, { schema }]) => ({ at: `${operationId} ${status}`, schema })),
    ),
  )
  expect(
    bodies.flatMap(({ at: text, schema }) =>
      faultsOf(schema, exampleOf(schema, text)).map((fault) => `${text}: ${fault}`),
    ),
  ).toEqual([])
})

test('nullable fields and instants are what they say (the generator drops them easily)', async () => {
  const { body } = await platform.call(null, 'GET /docs/json')
  expect(body.components.schemas.ApiKey.properties.expiresAt).toMatchObject({
    type: 'string',
    format: 'date-time',
    nullable: true,
  })
  expect(body.components.schemas.EnvironmentVariable.properties.environmentId).toMatchObject({
    type: 'string',
    format: 'uuid',
    nullable: true,
  })
  expect(body.components.schemas.ApiKey.properties.createdAt).toMatchObject({ type: 'string', format: 'date-time' })
  expect(body.components.schemas.ApiKey.properties.createdAt.nullable).toBeUndefined()
})

test('the API publishes its keys and metadata (D5, RFC 8414, RFC 9728)', async () => {
  const jwks = await platform.call(null, 'GET /.well-known/jwks.json')
  expect(jwks.headers['cache-control']).toBe('public, max-age=300, stale-while-revalidate=600')
  expect(jwks.body.keys.length).toBeGreaterThan(0)
  for (const key of jwks.body.keys)
    expect(Object.keys(key as object).toSorted()).toEqual(['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'])
  expect((await platform.call(null, 'GET /.well-known/oauth-authorization-server')).body).toMatchObject({
    issuer: platform.apiUrl,
    token_endpoint: `${platform.apiUrl}/oauth2/token`,
    jwks_uri: `${platform.apiUrl}/.well-known/jwks.json`,
    grant_types_supported: ['client_credentials'],
    response_types_supported: [],
  })
  expect((await platform.call(null, 'GET /.well-known/oauth-protected-resource')).body).toMatchObject({
    resource: platform.apiUrl,
    authorization_servers: [platform.idpUrl, platform.apiUrl],
  })
})
