import type { HeaderPairs } from '@platform/build-output/router'
import { describe, expect, test } from 'vitest'
import { isCurrent, negotiate, notModifiedHeaders, withVary } from './negotiate-encoding.ts'

const HTML: HeaderPairs = [['content-type', 'text/html; charset=utf-8']]
const GET = { method: 'GET', incoming: { headers: { 'accept-encoding': 'gzip, br' } }, upgrade: undefined }

const requestOf = (headers: Record<string, string>, more = {}) => ({ ...GET, incoming: { headers }, ...more })

describe('what is left untouched', () => {
  test.each<[string, Parameters<typeof negotiate>]>([
    ['to POST', [{ ...GET, method: 'POST' }, 200, HTML, undefined]],
    ['to OPTIONS', [{ ...GET, method: 'OPTIONS' }, 200, HTML, undefined]],
    ['to a request with Range', [requestOf({ 'accept-encoding': 'br', range: 'bytes=0-1' }), 200, HTML, undefined]],
    ['to an upgrade', [{ ...GET, upgrade: {} }, 200, HTML, undefined]],
    ['with 204', [GET, 204, HTML, undefined]],
    ['with 205', [GET, 205, HTML, undefined]],
    ['with 206', [GET, 206, HTML, undefined]],
    ['with 199', [GET, 199, HTML, undefined]],
    ['with 302', [GET, 302, HTML, undefined]],
    ['with 404', [GET, 404, HTML, undefined]],
    ['with 500', [GET, 500, HTML, undefined]],
    ['of 1,023 bytes', [GET, 200, HTML, 1_023]],
    ['of a length that is no number', [GET, 200, HTML, Number.NaN]],
    ['without Content-Type', [GET, 200, [], undefined]],
    ['of an image', [GET, 200, [['content-type', 'image/png']], undefined]],
    ['of bytes', [GET, 200, [['content-type', 'application/octet-stream']], undefined]],
    ['of events', [GET, 200, [['content-type', 'text/event-stream']], undefined]],
    ['of events in capitals', [GET, 200, [['content-type', 'Text/Event-Stream; charset=utf-8']], undefined]],
    ['with Content-Encoding', [GET, 200, [...HTML, ['content-encoding', 'gzip']], undefined]],
    ['with Content-Encoding: identity', [GET, 200, [...HTML, ['content-encoding', 'identity']], undefined]],
    ['with Content-Range', [GET, 200, [...HTML, ['content-range', 'bytes 0-1/2']], undefined]],
    ['with no-transform', [GET, 200, [...HTML, ['cache-control', 'public, No-Transform']], undefined]],
    ['with a digest of its bytes', [GET, 200, [...HTML, ['content-digest', 'sha-256=:x:']], undefined]],
  ])('an answer %s is left untouched', (_, [request, status, headers, length]) => {
    expect(negotiate(request, status, headers, length)).toBeUndefined()
  })
})

describe('what may be compressed', () => {
  test.each<[string, Parameters<typeof negotiate>]>([
    ['to HEAD', [{ ...GET, method: 'HEAD' }, 200, HTML, undefined]],
    ['of 1,024 bytes', [GET, 200, HTML, 1_024]],
    ['with 201', [GET, 201, HTML, undefined]],
    ['with 299', [GET, 299, HTML, undefined]],
    ['of JSON', [GET, 200, [['content-type', 'application/json']], undefined]],
    ['of a type that ends in +json', [GET, 200, [['content-type', 'application/problem+json']], undefined]],
    ['of lines of JSON', [GET, 200, [['content-type', 'application/x-ndjson']], undefined]],
    ['of SVG', [GET, 200, [['content-type', 'image/svg+xml']], undefined]],
    ['of React components', [GET, 200, [['content-type', 'text/x-component']], undefined]],
    ['with x-no-transform', [GET, 200, [...HTML, ['cache-control', 'x-no-transform']], undefined]],
  ])('an answer %s may be compressed', (_, [request, status, headers, length]) => {
    expect(negotiate(request, status, headers, length)?.encoded?.encoding).toBe('br')
  })
})

test('a compressed answer has no Content-Length and no Accept-Ranges, and a weak ETag (RFC 9110 §8.8.1)', () => {
  const headers: HeaderPairs = [
    ...HTML,
    ['etag', '"a"'],
    ['content-length', '5000'],
    ['accept-ranges', 'bytes'],
    ['set-cookie', 'a=1'],
    ['set-cookie', 'b=2'],
  ]
  expect(negotiate(GET, 200, headers, 5_000)).toEqual({
    plain: [...headers, ['vary', 'Accept-Encoding']],
    encoded: {
      encoding: 'br',
      headers: [
        ...HTML,
        ['etag', 'W/"a"'],
        ['set-cookie', 'a=1'],
        ['set-cookie', 'b=2'],
        ['vary', 'Accept-Encoding'],
        ['content-encoding', 'br'],
      ],
    },
  })
})

test('a client without Accept-Encoding gets the answer as it is, with Vary', () => {
  expect(negotiate(requestOf({}), 200, HTML, undefined)).toEqual({
    plain: [...HTML, ['vary', 'Accept-Encoding']],
    encoded: undefined,
  })
})

test.each<[string, string[], string[]]>([
  ['no Vary', [], ['Accept-Encoding']],
  ['Vary: *', ['*'], ['*']],
  ['Vary: Cookie', ['Cookie'], ['Cookie, Accept-Encoding']],
  ['Vary: accept-encoding', ['accept-encoding'], ['accept-encoding']],
  ['two headers', ['Cookie', 'RSC, Next-Url'], ['Cookie, RSC, Next-Url, Accept-Encoding']],
  ['the name twice', ['Accept-Encoding', 'Cookie, accept-encoding'], ['Cookie, Accept-Encoding']],
  ['an empty Vary', [''], ['Accept-Encoding']],
])('an answer with %s varies by Accept-Encoding once', (_, before, after) => {
  const headers: HeaderPairs = before.map((value): [string, string] => ['vary', value])
  expect(withVary(headers).map(([, value]) => value)).toEqual(after)
})

test.each<[string, string | undefined, string, boolean]>([
  ['names the weak tag', 'W/"a"', '"a"', true],
  ['names the strong tag', '"a"', '"a"', true],
  ['names it among others', '"b", W/"a"', '"a"', true],
  ['is *', '*', '"a"', true],
  ['names another', 'W/"b"', '"a"', false],
  ['is not there', undefined, '"a"', false],
])('a client whose If-None-Match %s has the answer: %s, %s', (_, tags, etag, expected) => {
  const request = requestOf(tags === undefined ? {} : { 'if-none-match': tags })
  expect(isCurrent(request, 200, [['etag', etag]])).toBe(expected)
  expect(isCurrent(request, 201, [['etag', etag]])).toBe(false)
})

test('a 304 of the Function has the tag of the compressed answer only for a client that named it', () => {
  const headers: HeaderPairs = [['etag', '"a"']]
  const weak = [
    ['etag', 'W/"a"'],
    ['vary', 'Accept-Encoding'],
  ]
  expect(notModifiedHeaders(requestOf({ 'if-none-match': 'W/"b", W/"a"' }), headers)).toEqual(weak)
  expect(notModifiedHeaders(requestOf({ 'if-none-match': '"a"' }), headers)).toEqual(headers)
  expect(notModifiedHeaders(requestOf({}), headers)).toEqual(headers)
})
