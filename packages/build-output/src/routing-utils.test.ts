import { getTransformedRoutes } from '@vercel/routing-utils'
import { describe, expect, test } from 'vitest'
import type { RouteRequest } from './answer.ts'
import { buildOutputOf, shortAnswer } from './short-answer.ts'

/** Builds a project's configuration into the routes that Vercel's own tools make of it. */
function project(config: Parameters<typeof getTransformedRoutes>[0], files: string[], functions: string[] = []) {
  const { routes, error } = getTransformedRoutes(config)
  if (error !== null) throw new Error(error.message)
  return buildOutputOf(routes ?? [], files, functions)
}

type Cases = [url: string, expected: string, request?: Partial<RouteRequest>][]

describe('redirects', () => {
  const ask = project(
    {
      redirects: [
        { source: '/me', destination: '/profile' },
        { source: '/temporary', destination: '/profile', permanent: false },
        { source: '/301', destination: '/profile', statusCode: 301 },
        { source: '/blog/:slug', destination: '/news/:slug' },
        { source: '/all/:path*', destination: '/every/:path*' },
        { source: '/num/:id(\\d{1,3})', destination: '/n/:id' },
        { source: '/q/:id', destination: '/item?id=:id' },
        { source: '/out/:path+', destination: 'https://b.example/:path+' },
        { source: '/hash', destination: '/x#part' },
        { source: '/opt/:a?', destination: '/o/:a?' },
        { source: '/host', destination: '/h', has: [{ type: 'host', value: 'b.example' }] },
        {
          source: '/who',
          destination: '/u/:name',
          has: [{ type: 'header', key: 'x-name', value: '(?<name>.+)' }],
          missing: [{ type: 'cookie', key: 'stay' }],
        },
      ],
    },
    ['me', 'profile', 'who'],
  )
  test.each<Cases[number]>([
    ['/me', '308 → /profile'],
    ['/ME', '308 → /profile'],
    ['/me?a=1', '308 → /profile?a=1'],
    ['/me/x', '404 -'],
    ['/temporary', '307 → /profile'],
    ['/301', '301 → /profile'],
    ['/blog/a-b', '308 → /news/a-b'],
    ['/blog/a/b', '404 -'],
    ['/all', '308 → /every/'],
    ['/all/a/b/c', '308 → /every/a/b/c'],
    ['/num/12', '308 → /n/12'],
    ['/num/1234', '404 -'],
    ['/q/7?x=1', '308 → /item?id=7'],
    ['/out/a/b?c', '308 → https://b.example/a/b?c'],
    ['/out', '404 -'],
    ['/hash?a', '308 → /x?a#part'],
    ['/opt', '308 → /o/'],
    ['/opt/1', '308 → /o/1'],
    ['/host', '404 -'],
    ['/host', '308 → /h', { host: 'b.example:8080' }],
    ['/who', '200 who'],
    ['/who', '308 → /u/eve', { headers: { 'x-name': 'eve' } }],
    ['/who', '200 who', { headers: { 'x-name': 'eve', cookie: 'stay=1' } }],
    ['/me', '308 → /profile', { method: 'POST' }],
  ])('%s is %s', (url, expected, request = {}) => {
    expect(shortAnswer(ask(url, request))).toBe(expected)
  })
})

describe('rewrites', () => {
  const ask = project(
    {
      rewrites: [
        { source: '/about', destination: '/about-us' },
        { source: '/page', destination: '/about-us' },
        { source: '/api/:path*', destination: '/fn?path=:path*' },
        { source: '/user/:id', destination: '/fn' },
        { source: '/fixed/:id', destination: '/fn?kind=a&id=:id' },
        { source: '/proxy/:path*', destination: 'https://b.example/:path*' },
        { source: '/gone', destination: '/nowhere' },
        { source: '/en', destination: '/fn?lang=en', has: [{ type: 'query', key: 'l', value: 'en' }] },
        { source: '/(.*)', destination: '/spa' },
      ],
    },
    ['about-us', 'page', 'spa', 'index.html'],
    ['fn'],
  )
  test.each<Cases[number]>([
    ['/about', '200 about-us'],
    ['/page', '200 page'],
    ['/api/a/b?x=1', 'ƒ fn /api/a/b?x=1&path=a/b'],
    ['/api', 'ƒ fn /api?path='],
    ['/user/7', 'ƒ fn /user/7?id=7'],
    ['/user/7?id=8', 'ƒ fn /user/7?id=7'],
    ['/fixed/7', 'ƒ fn /fixed/7?kind=a&id=7'],
    ['/proxy/a/b?c=d', 'external https://b.example/a/b?c=d'],
    ['/gone', '200 spa'],
    ['/en?l=en', 'ƒ fn /en?l=en&lang=en'],
    ['/en?l=fr', '200 spa'],
    ['/any/thing', '200 spa'],
    ['/', '200 index.html'],
  ])('%s is %s', (url, expected, request = {}) => {
    expect(shortAnswer(ask(url, request))).toBe(expected)
  })
})

describe('headers', () => {
  const ask = project(
    {
      headers: [
        { source: '/(.*)', headers: [{ key: 'X-All', value: '1' }] },
        {
          source: '/static/:file*',
          headers: [
            { key: 'Cache-Control', value: 'immutable' },
            { key: 'X-File', value: ':file*' },
          ],
        },
        { source: '/x', headers: [{ key: 'x-has', value: 'yes' }], has: [{ type: 'query', key: 'on' }] },
      ],
    },
    ['x', 'static/a.js'],
  )
  test.each([
    ['/x', { 'x-all': '1' }],
    ['/x?on', { 'x-all': '1', 'x-has': 'yes' }],
    ['/static/a.js', { 'x-all': '1', 'cache-control': 'immutable', 'x-file': 'a.js' }],
    ['/none', { 'x-all': '1' }],
  ])('of %s are %o', (url, expected) => {
    expect(Object.fromEntries(ask(url).headers)).toEqual(expected)
  })
})

describe.each<[cleanUrls: boolean, trailingSlash: boolean | undefined, cases: Cases]>([
  [
    true,
    undefined,
    [
      ['/about.html', '308 → /about'],
      ['/about.html?a=1', '308 → /about?a=1'],
      ['/docs/index.html', '308 → /docs'],
      ['/index.html', '308 → /'],
      ['/index', '308 → /'],
      ['/about', '200 about'],
      ['/docs', '200 docs/index'],
    ],
  ],
  [
    true,
    true,
    [
      ['/about.html', '308 → /about/'],
      ['/about', '308 → /about/'],
      ['/about/', '200 about'],
      ['/docs/index.html', '308 → /docs/'],
      ['/logo.png', '200 logo.png'],
      ['/logo.png/', '308 → /logo.png'],
    ],
  ],
  [
    true,
    false,
    [
      ['/about/', '308 → /about'],
      ['/about/?a=1', '308 → /about?a=1'],
      ['/about.html', '308 → /about'],
      ['/about', '200 about'],
      ['/', '200 index'],
      ['//evil.example/', '308 → /evil.example'],
      ['/%5Cevil.example/', '308 → /%5Cevil.example'],
    ],
  ],
  [
    false,
    true,
    [
      ['/docs', '308 → /docs/'],
      ['/docs/', '200 docs/index'],
      ['/', '200 index'],
    ],
  ],
  [
    false,
    false,
    [
      ['/docs/', '308 → /docs'],
      ['/docs', '200 docs/index'],
      ['/', '200 index'],
    ],
  ],
])('cleanUrls %s, trailingSlash %s', (cleanUrls, trailingSlash, cases) => {
  const ask = project({ cleanUrls, ...(trailingSlash === undefined ? {} : { trailingSlash }) }, [
    'index',
    'about',
    'docs/index',
    'logo.png',
  ])
  test.each(cases)('%s is %s', (url, expected) => {
    expect(shortAnswer(ask(url))).toBe(expected)
  })
})
