import { expect, test } from 'vitest'
import { parseOAuthForm, parseOAuthJson, readClientCredentials } from './oauth-form.ts'

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

test('an empty parameter counts as absent, a repeated one is refused even when both are empty (RFC 6749 §3.2)', () => {
  expect([...parseOAuthForm('a=1&b=&c=x+y%20z')]).toEqual([
    ['a', '1'],
    ['c', 'x y z'],
  ])
  expect(() => parseOAuthForm('a=1&a=1')).toThrow('more than once')
  expect(() => parseOAuthForm('a=&a=')).toThrow('more than once')
})

test('NUL and lone surrogates are refused', () => {
  expect(() => parseOAuthForm('a=%00')).toThrow('not text')
  expect(() => parseOAuthJson('{"a":"\\ud800"}')).toThrow('not text')
})

test.each(['', '[]', 'null', '"x"', '{'])('%j is no JSON object of parameters', (body) => {
  expect(() => parseOAuthJson(body)).toThrow('JSON')
})

test('Basic wins over the body and is form-decoded (B §4, D11)', () => {
  const form = parseOAuthForm('client_id=body&client_secret=body')
  expect(readClientCredentials(basic('a%3Ab:s%2Fe+t'), form)).toEqual({
    clientId: 'a:b',
    secret: 's/e t',
    method: 'basic',
  })
  expect(readClientCredentials(undefined, form)).toEqual({ clientId: 'body', secret: 'body', method: 'body' })
  expect(readClientCredentials('Bearer x', form)).toMatchObject({ clientId: 'body' })
})

test.each([
  basic('nocolon'),
  basic(':secret'),
  'Basic !!!',
  'Basic ',
  'Basic',
  `${basic('a:b')} x`,
  basic('%zz:x'),
  basic('a%00:x'),
])('a broken Basic %j never falls back to the body (D11)', (header) => {
  expect(() => readClientCredentials(header, parseOAuthForm('client_id=a&client_secret=b'))).toThrow(
    'Client authentication failed',
  )
})

test('an empty secret counts as absent (D11)', () => {
  expect(readClientCredentials(basic('a:'), new Map())).toEqual({ clientId: 'a', secret: undefined, method: 'basic' })
})
