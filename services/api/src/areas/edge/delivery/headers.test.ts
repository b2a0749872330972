import { expect, test } from 'vitest'
import { cleanAnswerHeaders, cleanRequestHeaders } from './headers.ts'

test.each([
  // Hop-by-hop headers.
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  // Headers that only the platform may set.
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-forwarded-anything',
  'x-real-ip',
  'x-vercel-id',
  'x-vercel-ip-country',
  'x-now-route-matches',
  'x-now-trace',
  'x-matched-path',
  'x-middleware-subrequest',
  'x-middleware-rewrite',
  'x-middleware-override-headers',
  'x-invoke-path',
  'x-invoke-status',
  'x-invocation-id',
  'x-nextjs-data',
  'x-nextjs-rewritten-path',
  'x-astro-path',
  'next-resume',
  'x-sticky-restarted',
  'x-next-cache-tags',
  'x-next-revalidate-tag-token',
  'x-prerender-revalidate',
  // Which frameworks read as one of these.
  'x_forwarded_for',
  'x_forwarded-host',
  'x-real_ip',
  'x_vercel_id',
  'x_middleware_subrequest',
  'next_resume',
  'transfer_encoding',
  'proxy_authorization',
  'content_length',
  'x_request_id',
  'cdn_loop',
])('a client that sends %s is not believed', (name) => {
  expect(cleanRequestHeaders({ [name]: 'x', accept: '*/*' })).toEqual({ accept: '*/*' })
})

test.each([
  'accept',
  'cookie',
  'authorization',
  'rsc',
  'next-router-state-tree',
  'x-real-ip-like',
  'x-requested-with',
  'x-now',
  'content-length',
  'x-request-id',
  'my_header',
  'x_real_ip_like',
  '_',
])('the header %s of a client is passed on', (name) =>
  expect(cleanRequestHeaders({ [name]: 'x' })).toEqual({ [name]: 'x' }),
)

test('headers that Connection names end with the connection, whatever they are', () => {
  expect(
    cleanRequestHeaders({ connection: 'close, X-Mine ,cookie', 'x-mine': 'x', cookie: 'a=b', accept: 'y' }),
  ).toEqual({
    accept: 'y',
  })
})

test('of an answer what is of its connection, and what frameworks mean for the platform, goes no further', () => {
  const kept: [string, string][] = [
    ['content-type', 'text/plain'],
    ['x-next-version', '16'],
    ['set-cookie', 'a=b'],
    ['set-cookie', 'c=d'],
  ]
  const dropped: [string, string][] = [
    ['connection', 'keep-alive, X-Mine'],
    ['x-mine', 'x'],
    ['keep-alive', 'timeout=5'],
    ['transfer-encoding', 'chunked'],
    ['upgrade', 'h2c'],
    ['te', 'trailers'],
    ['trailer', 'x'],
    ['proxy-authenticate', 'Basic'],
    ['x-middleware-next', '1'],
    ['x-middleware-set-cookie', 'a=b'],
    ['x-next-cache-tags', 'a,b'],
  ]
  expect(cleanAnswerHeaders([...dropped, ...kept], 'shop.apps.example.net')).toEqual(kept)
})

test.each([
  ['a=b', true],
  ['a=b; Path=/; HttpOnly', true],
  ['a=b; Domain=shop.apps.example.net', true],
  ['a=b; domain = .Shop.Apps.Example.NET ; Secure', true],
  ['a=b; Domain=', true],
  ['domain=apps.example.net', true],
  ['a=b; Domain=apps.example.net', false],
  ['a=b; domain=.example.net', false],
  ['a=b; Domain=other.apps.example.net', false],
  ['a=b; Domain=shop.apps.example.net; Domain=apps.example.net', false],
  ['a=b;Domain=apps.example.net', false],
  ['a=b; Domain=apps.example.net; Domain=shop.apps.example.net', false],
  [`a=b; Domain=apps.example.net; Domain=${'\u00a0'.repeat(1_100)}shop.apps.example.net`, false],
])('the cookie %s is passed on: %s', (cookie, isKept) => {
  expect(cleanAnswerHeaders([['set-cookie', cookie]], 'shop.apps.example.net')).toHaveLength(isKept ? 1 : 0)
})
