import type { RouteRequest } from './answer.ts'

/** One address asked of a project with some vercel.json. For tests of its routes by themselves, over HTTP and behind a server. */
export interface VercelCase {
  url: string
  /** What Build Output of these files and Functions answers, as `shortAnswer` writes it. */
  is: string
  /** What a server sees in its place, which has none of the files; absent: the address itself, unless `is` is a redirect. */
  sees?: string
  request?: Partial<RouteRequest>
}

interface VercelProject {
  config: Record<string, unknown>
  files: string[]
  functions: string[]
  cases: VercelCase[]
}

/** Redirects of every form, and what they leave alone. */
export const redirectCases: VercelProject = {
  config: {
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
  files: ['me', 'profile', 'who'],
  functions: [],
  cases: [
    { url: '/me', is: '308 → /profile' },
    { url: '/ME', is: '308 → /profile' },
    { url: '/me?a=1', is: '308 → /profile?a=1' },
    { url: '/me/x', is: '404 -' },
    { url: '/temporary', is: '307 → /profile' },
    { url: '/301', is: '301 → /profile' },
    { url: '/blog/a-b', is: '308 → /news/a-b' },
    { url: '/blog/a/b', is: '404 -' },
    { url: '/all', is: '308 → /every/' },
    { url: '/all/a/b/c', is: '308 → /every/a/b/c' },
    { url: '/num/12', is: '308 → /n/12' },
    { url: '/num/1234', is: '404 -' },
    { url: '/q/7?x=1', is: '308 → /item?id=7' },
    { url: '/out/a/b?c', is: '308 → https://b.example/a/b?c' },
    { url: '/out', is: '404 -' },
    { url: '/hash?a', is: '308 → /x?a#part' },
    { url: '/opt', is: '308 → /o/' },
    { url: '/opt/1', is: '308 → /o/1' },
    { url: '/host', is: '404 -' },
    { url: '/host', is: '308 → /h', request: { host: 'b.example:8080' } },
    { url: '/who', is: '200 who' },
    { url: '/who', is: '308 → /u/eve', request: { headers: { 'x-name': 'eve' } } },
    { url: '/who', is: '200 who', request: { headers: { 'x-name': 'eve', cookie: 'stay=1' } } },
    { url: '/me', is: '308 → /profile', request: { method: 'POST' } },
  ],
}

/** Rewrites to files, Functions and another origin, behind the files. */
export const rewriteCases: VercelProject = {
  config: {
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
  files: ['about-us', 'page', 'spa', 'index.html'],
  functions: ['fn'],
  cases: [
    { url: '/about', is: '200 about-us', sees: '/about-us' },
    { url: '/page', is: '200 page', sees: '/about-us' },
    { url: '/api/a/b?x=1', is: 'ƒ fn /api/a/b?x=1&path=a/b', sees: '/fn?x=1&path=a/b' },
    { url: '/api', is: 'ƒ fn /api?path=', sees: '/fn?path=' },
    { url: '/user/7', is: 'ƒ fn /user/7?id=7', sees: '/fn?id=7' },
    { url: '/user/7?id=8', is: 'ƒ fn /user/7?id=7', sees: '/fn?id=7' },
    { url: '/fixed/7', is: 'ƒ fn /fixed/7?kind=a&id=7', sees: '/fn?kind=a&id=7' },
    { url: '/proxy/a/b?c=d', is: 'external https://b.example/a/b?c=d' },
    { url: '/gone', is: '200 spa', sees: '/nowhere' },
    { url: '/en?l=en', is: 'ƒ fn /en?l=en&lang=en', sees: '/fn?l=en&lang=en' },
    { url: '/en?l=fr', is: '200 spa', sees: '/spa?l=fr' },
    { url: '/any/thing', is: '200 spa', sees: '/spa' },
    { url: '/', is: '200 index.html', sees: '/spa' },
  ],
}

/** Headers by path and query; each expectation is what routes add. */
export const headerCases: Pick<VercelProject, 'config' | 'files'> & {
  cases: { url: string; headers: Record<string, string> }[]
} = {
  config: {
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
  files: ['x', 'static/a.js'],
  cases: [
    { url: '/x', headers: { 'x-all': '1' } },
    { url: '/x?on', headers: { 'x-all': '1', 'x-has': 'yes' } },
    { url: '/static/a.js', headers: { 'x-all': '1', 'cache-control': 'immutable', 'x-file': 'a.js' } },
    { url: '/none', headers: { 'x-all': '1' } },
  ],
}

interface SpellingCases {
  cleanUrls: boolean
  trailingSlash?: boolean
  cases: { url: string; is: string }[]
}

/** What `cleanUrls` and `trailingSlash` make of addresses. Build Output has its pages without `.html`. */
export const spellingCases: SpellingCases[] = [
  {
    cleanUrls: true,
    cases: [
      { url: '/about.html', is: '308 → /about' },
      { url: '/about.html?a=1', is: '308 → /about?a=1' },
      { url: '/docs/index.html', is: '308 → /docs' },
      { url: '/index.html', is: '308 → /' },
      { url: '/index', is: '308 → /' },
      { url: '/about', is: '200 about' },
      { url: '/docs', is: '200 docs/index' },
    ],
  },
  {
    cleanUrls: true,
    trailingSlash: true,
    cases: [
      { url: '/about.html', is: '308 → /about/' },
      { url: '/about', is: '308 → /about/' },
      { url: '/about/', is: '200 about' },
      { url: '/docs/index.html', is: '308 → /docs/' },
      { url: '/logo.png', is: '200 logo.png' },
      { url: '/logo.png/', is: '308 → /logo.png' },
    ],
  },
  {
    cleanUrls: true,
    trailingSlash: false,
    cases: [
      { url: '/about/', is: '308 → /about' },
      { url: '/about/?a=1', is: '308 → /about?a=1' },
      { url: '/about.html', is: '308 → /about' },
      { url: '/about', is: '200 about' },
      { url: '/', is: '200 index' },
      { url: '//evil.example/', is: '308 → /evil.example' },
      { url: '/%5Cevil.example/', is: '308 → /%5Cevil.example' },
    ],
  },
  {
    cleanUrls: false,
    trailingSlash: true,
    cases: [
      { url: '/docs', is: '308 → /docs/' },
      { url: '/docs/', is: '200 docs/index' },
      { url: '/', is: '200 index' },
    ],
  },
  {
    cleanUrls: false,
    trailingSlash: false,
    cases: [
      { url: '/docs/', is: '308 → /docs' },
      { url: '/docs', is: '200 docs/index' },
      { url: '/', is: '200 index' },
    ],
  },
]

/** Pages of the site that `spellingCases` are about, as Build Output names them. */
export const spelledPages = ['index', 'about', 'docs/index', 'logo.png']
