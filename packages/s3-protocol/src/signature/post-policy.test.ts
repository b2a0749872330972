import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { readFormClaim } from './claim.ts'
import { checkPolicy, readPolicy } from './post-policy.ts'
import { deriveSigningKey } from './signing-key.ts'
import { verifyPolicy } from './verify.ts'

const now = new Date('2015-12-29T00:00:00Z')
const encode = (policy: unknown) => Buffer.from(JSON.stringify(policy)).toString('base64')
const check = (conditions: unknown[], fields: Record<string, string>, expiration = '2015-12-30T12:00:00.000Z') =>
  checkPolicy(readPolicy(encode({ expiration, conditions })), new Map(Object.entries({ bucket: 'b', ...fields })), now)

/** "Example: Browser-Based Upload using HTTP POST" of the Amazon S3 API reference. */
const documented = {
  policy:
    'eyAiZXhwaXJhdGlvbiI6ICIyMDE1LTEyLTMwVDEyOjAwOjAwLjAwMFoiLA0KICAiY29uZGl0aW9ucyI6IFsNCiAgICB7ImJ1Y2tldCI6ICJzaWd2NGV4YW1wbGVidWNrZXQifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAidXNlci91c2VyMS8iXSwNCiAgICB7ImFjbCI6ICJwdWJsaWMtcmVhZCJ9LA0KICAgIHsic3VjY2Vzc19hY3Rpb25fcmVkaXJlY3QiOiAiaHR0cDovL3NpZ3Y0ZXhhbXBsZWJ1Y2tldC5zMy5hbWF6b25hd3MuY29tL3N1Y2Nlc3NmdWxfdXBsb2FkLmh0bWwifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sDQogICAgeyJ4LWFtei1tZXRhLXV1aWQiOiAiMTQzNjUxMjM2NTEyNzQifSwNCiAgICB7IngtYW16LXNlcnZlci1zaWRlLWVuY3J5cHRpb24iOiAiQUVTMjU2In0sDQogICAgWyJzdGFydHMtd2l0aCIsICIkeC1hbXotbWV0YS10YWciLCAiIl0sDQoNCiAgICB7IngtYW16LWNyZWRlbnRpYWwiOiAiQUtJQUlPU0ZPRE5ON0VYQU1QTEUvMjAxNTEyMjkvdXMtZWFzdC0xL3MzL2F3czRfcmVxdWVzdCJ9LA0KICAgIHsieC1hbXotYWxnb3JpdGhtIjogIkFXUzQtSE1BQy1TSEEyNTYifSwNCiAgICB7IngtYW16LWRhdGUiOiAiMjAxNTEyMjlUMDAwMDAwWiIgfQ0KICBdDQp9',
  fields: {
    bucket: 'sigv4examplebucket',
    key: 'user/user1/photo.jpg',
    acl: 'public-read',
    success_action_redirect: 'http://sigv4examplebucket.s3.amazonaws.com/successful_upload.html',
    'content-type': 'image/jpeg',
    'x-amz-meta-uuid': '14365123651274',
    'x-amz-server-side-encryption': 'AES256',
    'x-amz-credential': 'AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request',
    'x-amz-algorithm': 'AWS4-HMAC-SHA256',
    'x-amz-date': '20151229T000000Z',
    'x-amz-meta-tag': '',
    'x-amz-signature': '8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e',
  },
}

test('the documented form is signed by its key, and meets its policy', () => {
  const fields = new Map(Object.entries(documented.fields))
  const claim = readFormClaim(fields)
  expect(claim).toMatchObject({ keyId: 'AKIAIOSFODNN7EXAMPLE', day: '20151229', region: 'us-east-1' })
  const dayKey = createHmac('sha256', 'AWS4wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY').update(claim.day).digest()
  verifyPolicy(documented.policy, claim, deriveSigningKey(dayKey, claim.region))
  expect(() => verifyPolicy(`${documented.policy} `, claim, deriveSigningKey(dayKey, claim.region))).toThrow(
    expect.objectContaining({ code: 'SignatureDoesNotMatch' }),
  )
  const policy = readPolicy(documented.policy)
  expect(checkPolicy(policy, fields, now)).toEqual({ min: 0, max: Number.MAX_SAFE_INTEGER })
  expect(() => checkPolicy(policy, fields, new Date('2015-12-30T12:00:00Z'))).toThrow('Policy expired')
})

test.each([
  ['no algorithm', { 'x-amz-algorithm': undefined }, 'InvalidArgument'],
  ['another algorithm', { 'x-amz-algorithm': 'AWS4-HMAC-SHA1' }, 'InvalidArgument'],
  ['half a credential', { 'x-amz-credential': 'A/20151229' }, 'AuthorizationHeaderMalformed'],
  ['another date', { 'x-amz-date': '20151230T000000Z' }, 'AccessDenied'],
  ['no signature', { 'x-amz-signature': undefined }, 'InvalidArgument'],
  ['a signature of version 2', { 'x-amz-signature': undefined, signature: 'c2ln' }, 'AccessDenied'],
])('a form with %s is refused', (_, change, code) => {
  const entries = Object.entries<string | undefined>({ ...documented.fields, ...change })
  const fields = new Map(entries.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])))
  expect(() => readFormClaim(fields)).toThrow(expect.objectContaining({ code }))
})

test('every field has to be named by a condition, but for those that S3 exempts', () => {
  check([{ key: 'k' }], { key: 'k', 'x-amz-signature': 's', file: 'f', policy: 'p', 'x-ignore-me': 'i' })
  expect(() => check([{ key: 'k' }], { key: 'k', acl: 'private' })).toThrow('Extra input fields: acl')
})

test.each([
  ['an equal value', ['eq', '$Key', 'a'], { key: 'a' }, true],
  ['another value', ['eq', '$key', 'a'], { key: 'ab' }, false],
  ['a prefix', ['starts-with', '$key', 'a'], { key: 'ab' }, true],
  ['another prefix', ['starts-with', '$key', 'b'], { key: 'ab' }, false],
  ['any value', ['starts-with', '$key', ''], { key: 'ab' }, true],
  [
    'a list of types with one prefix',
    ['starts-with', '$Content-Type', 'image/'],
    { 'content-type': 'image/a, image/b' },
    true,
  ],
  [
    'a list with another type',
    ['starts-with', '$Content-Type', 'image/'],
    { 'content-type': 'image/a, text/b' },
    false,
  ],
  ['an unknown kind of condition', ['ends-with', '$key', 'b'], { key: 'ab' }, false],
  ['a field that is missing', { acl: 'private' }, {}, false],
] as const)('a policy that names %s decides', (_, condition, fields, holds) => {
  const run = () => check([condition], fields)
  if (holds) run()
  else expect(run).toThrow(expect.objectContaining({ code: 'AccessDenied' }))
})

test('length ranges narrow each other', () => {
  const range = check(
    [
      ['content-length-range', 1, 100],
      ['content-length-range', '10', '200'],
    ],
    {},
  )
  expect(range).toEqual({ min: 10, max: 100 })
})

test.each([
  ['no base64 of JSON', '%%'],
  ['without an expiration', encode({ conditions: [{ a: '' }] })],
  ['with a date that is none', encode({ expiration: 'tomorrow', conditions: [{ a: '' }] })],
  ['without conditions', encode({ expiration: '2016-01-01T00:00:00Z' })],
  ['with an empty list of conditions', encode({ expiration: '2016-01-01T00:00:00Z', conditions: [] })],
  ['with an empty condition', encode({ expiration: '2016-01-01T00:00:00Z', conditions: [{ a: '' }, {}] })],
  [
    'with a negative length',
    encode({ expiration: '2016-01-01T00:00:00Z', conditions: [['content-length-range', -1, 0]] }),
  ],
  [
    'with a range of words',
    encode({ expiration: '2016-01-01T00:00:00Z', conditions: [['content-length-range', 'a', 'b']] }),
  ],
  [
    'with 201 conditions',
    encode({ expiration: '2016-01-01T00:00:00Z', conditions: Array.from({ length: 201 }, () => ({ a: '' })) }),
  ],
])('a policy %s is an InvalidArgument', (_, text) => {
  expect(() => readPolicy(text)).toThrow(expect.objectContaining({ code: 'InvalidArgument' }))
})
