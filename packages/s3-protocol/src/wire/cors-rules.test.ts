import { expect, test } from 'vitest'
import { corsRuleHeaders, type CorsRule, readCorsDocument, writeCorsDocument } from './cors-rules.ts'

const document = (rules: string) => Buffer.from(`<CORSConfiguration>${rules}</CORSConfiguration>`)
const rule = (more = '', origin = 'https://a.example', method = 'GET') =>
  `<CORSRule><AllowedOrigin>${origin}</AllowedOrigin><AllowedMethod>${method}</AllowedMethod>${more}</CORSRule>`

test('a configuration reads back as it was written', () => {
  const rules: CorsRule[] = [
    {
      id: 'one',
      allowedOrigins: ['https://a.example', 'https://*.b.example'],
      allowedMethods: ['GET', 'PUT'],
      allowedHeaders: ['x-amz-*', 'content-type'],
      exposeHeaders: ['ETag'],
      maxAgeSeconds: 3_000,
    },
    { allowedOrigins: ['*'], allowedMethods: ['HEAD'], allowedHeaders: [], exposeHeaders: [] },
  ]
  expect(readCorsDocument(Buffer.from(writeCorsDocument(rules)))).toEqual(rules)
})

test.each([
  ['no rules', '', 'MalformedXML'],
  ['something else than rules', '<Rule/>', 'MalformedXML'],
  ['a rule without an origin', '<CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>', 'MalformedXML'],
  ['a rule without a method', '<CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule>', 'MalformedXML'],
  ['an element that no rule has', rule('<AllowCredentials>true</AllowCredentials>'), 'MalformedXML'],
  ['two ages', rule('<MaxAgeSeconds>1</MaxAgeSeconds><MaxAgeSeconds>2</MaxAgeSeconds>'), 'MalformedXML'],
  ['an age that is no number', rule('<MaxAgeSeconds>soon</MaxAgeSeconds>'), 'MalformedXML'],
  ['an age below zero', rule('<MaxAgeSeconds>-1</MaxAgeSeconds>'), 'MalformedXML'],
  ['a method that S3 lacks', rule('', '*', 'PATCH'), 'InvalidRequest'],
  ['a method in lower case', rule('', '*', 'get'), 'InvalidRequest'],
  ['two wildcards in an origin', rule('', 'https://*.*.example'), 'InvalidRequest'],
  ['two wildcards in a header', rule('<AllowedHeader>x-*-*</AllowedHeader>'), 'InvalidRequest'],
  ['a wildcard in an exposed header', rule('<ExposeHeader>x-*</ExposeHeader>'), 'InvalidRequest'],
  ['a header that is two lines', rule('<ExposeHeader>a&#13;&#10;b: c</ExposeHeader>'), 'InvalidRequest'],
  ['an origin with a space', rule('', 'https://a b'), 'InvalidRequest'],
  ['an ID twice', rule('<ID>x</ID>') + rule('<ID>x</ID>'), 'InvalidRequest'],
  ['an ID of 256 characters', rule(`<ID>${'x'.repeat(256)}</ID>`), 'InvalidRequest'],
  ['101 rules', rule().repeat(101), 'InvalidRequest'],
])('a configuration with %s is refused', (_, rules, code) => {
  expect(() => readCorsDocument(document(rules))).toThrow(expect.objectContaining({ code, status: 400 }))
})

test('100 rules are taken', () => {
  expect(readCorsDocument(document(rule().repeat(100)))).toHaveLength(100)
})

const allowed = (rules: string, origin: string, method = 'GET', headers: string[] = []) =>
  corsRuleHeaders(readCorsDocument(document(rules)), { origin, method, headers })

test.each([
  ['https://a.example', 'https://a.example', true],
  ['https://a.example', 'https://a.example.org', false],
  ['https://a.example', 'http://a.example', false],
  ['*', 'https://any.example', true],
  ['https://*.example', 'https://a.b.example', true],
  ['https://*.example', 'https://example', false],
  ['https://*', 'http://a', false],
  ['http://localhost:*', 'http://localhost:5173', true],
  // The text before the wildcard and the text after it may not overlap.
  ['https://aa*aa.example', 'https://aaa.example', false],
])('the origin %s allows %s: %s', (pattern, origin, isAllowed) => {
  expect(allowed(rule('', pattern), origin) !== undefined).toBe(isAllowed)
})

test('the first rule that allows origin, method and every header decides', () => {
  const rules =
    rule('<AllowedHeader>x-amz-*</AllowedHeader><MaxAgeSeconds>1</MaxAgeSeconds>', 'https://a.example', 'PUT') +
    rule('<AllowedHeader>*</AllowedHeader><MaxAgeSeconds>2</MaxAgeSeconds>', '*', 'PUT') +
    rule('<ExposeHeader>ETag</ExposeHeader><ExposeHeader>x-amz-request-id</ExposeHeader>', '*', 'GET')
  expect(allowed(rules, 'https://a.example', 'PUT', ['X-AMZ-date'])).toEqual({
    'access-control-allow-origin': 'https://a.example',
    'access-control-allow-credentials': 'true',
    'access-control-allow-methods': 'PUT',
    'access-control-allow-headers': 'X-AMZ-date',
    'access-control-max-age': '1',
    vary: 'Origin, Access-Control-Request-Headers, Access-Control-Request-Method',
  })
  const second = allowed(rules, 'https://a.example', 'PUT', ['x-amz-date', 'content-type'])
  expect(second).toMatchObject({ 'access-control-allow-origin': '*', 'access-control-max-age': '2' })
  expect(second).not.toHaveProperty('access-control-allow-credentials')
  expect(allowed(rules, 'https://b.example', 'GET')).toMatchObject({
    'access-control-expose-headers': 'ETag, x-amz-request-id',
  })
  expect(allowed(rules, 'https://b.example', 'GET', ['x-amz-date'])).toBeUndefined()
  expect(allowed(rules, 'https://b.example', 'DELETE')).toBeUndefined()
})
