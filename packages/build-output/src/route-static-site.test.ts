import { describe, expect, test } from 'vitest'
import type { RouteRequest } from './answer.ts'
import type { SiteRules } from './manifest.ts'
import { parseHeaders, splitByHost } from './parse-headers.ts'
import { parseRedirects } from './parse-redirects.ts'
import { compileOutput } from './router.ts'

function site(files: string[], redirects = '', headers = '', more: Partial<SiteRules> = {}) {
  const written = splitByHost(parseHeaders(headers).headers)
  const rules: SiteRules = { redirects: parseRedirects(redirects).redirects, ...written, ...more }
  const router = compileOutput({ version: 1, kind: 'static', routes: [], wildcard: [], site: rules, functions: {} })
  return (url: string, request: Partial<RouteRequest> = {}) => {
    const [path = '', query = ''] = url.split(/\?(.*)/s)
    const whole = { method: 'GET', path, query, host: 'a.example', headers: {}, protocol: 'https', ...request } as const
    return router.route(whole, (path) => files.includes(path))
  }
}

/** An answer in a few words: the file, the status and where it leads. */
function short(answer: ReturnType<ReturnType<typeof site>>): string {
  if (answer.kind === 'asset') return `${answer.status} ${answer.path}`
  if (answer.kind === 'redirect') return `${answer.status} → ${answer.location}`
  if (answer.kind === 'not-found') return `404 ${answer.path ?? '-'}${answer.isHashed ? ' hashed' : ''}`
  return answer.kind === 'status' ? String(answer.status) : answer.kind
}

const FILES = [
  'index.html',
  'about.html',
  'docs/index.html',
  'docs/guide.html',
  'both.html',
  'both/index.html',
  'plain',
  'plain.html',
  'logo.png',
  'a b.txt',
  'café.html',
  'assets/index-BdF3k2Lq.css',
]

describe('addresses', () => {
  test.each([
    ['/', '200 index.html'],
    ['/index.html', '308 → /'],
    ['/index', '308 → /'],
    ['/index/', '308 → /'],
    ['/about', '200 about.html'],
    ['/about?x=1', '200 about.html'],
    ['/about.html', '308 → /about'],
    ['/about.html?x=1&y', '308 → /about?x=1&y'],
    ['/about/', '308 → /about'],
    ['/docs', '308 → /docs/'],
    ['/docs?a=b', '308 → /docs/?a=b'],
    ['/docs/', '200 docs/index.html'],
    ['/docs/index.html', '308 → /docs/'],
    ['/docs/index', '308 → /docs/'],
    ['/docs/guide', '200 docs/guide.html'],
    ['/docs//guide', '200 docs/guide.html'],
    ['/docs/./x/../guide', '200 docs/guide.html'],
    ['/docs/%67uide', '200 docs/guide.html'],
    ['/docs%2Fguide', '404 -'],
    ['/docs%5Cguide', '404 -'],
    ['/both', '200 both.html'],
    ['/both/', '200 both/index.html'],
    ['/plain', '200 plain'],
    ['/plain.html', '200 plain.html'],
    ['/logo.png', '200 logo.png'],
    ['/Logo.png', '404 -'],
    ['/a%20b.txt', '200 a b.txt'],
    ['/caf%c3%a9', '200 café.html'],
    ['/caf%C3%A9.html', '308 → /caf%C3%A9'],
    ['/caf\u00c3\u00a9', '200 café.html'],
    ['/%ff', '404 -'],
    ['/%', '404 -'],
    ['/assets/index-BdF3k2Lq.css', '200 assets/index-BdF3k2Lq.css'],
    ['/assets/index-AdF3k2Lq.css', '404 - hashed'],
    ['/nothing', '404 -'],
    [`/${'a'.repeat(2_047)}`, '404 -'],
    [`/${'a'.repeat(2_048)}`, '414'],
  ])('%s is %s', (url, expected) => {
    expect(short(site(FILES)(url))).toBe(expected)
  })

  test.each(['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])('%s is refused with what is allowed', (method) => {
    expect(site(FILES)('/about', { method })).toMatchObject({
      kind: 'status',
      status: 405,
      headers: [['allow', 'GET, HEAD']],
    })
  })
  test('HEAD is as GET', () => {
    expect(short(site(FILES)('/about', { method: 'HEAD' }))).toBe('200 about.html')
  })
})

describe('what is not there', () => {
  const files = ['index.html', '404.html', 'docs/404.html', '200.html']
  test.each([
    ['/x', '404 404.html'],
    ['/docs/x', '404 docs/404.html'],
    ['/docs/a/b/c', '404 docs/404.html'],
    ['/docs', '404 404.html'],
    ['/app.3f2a9c1b.js', '404 - hashed'],
    ['/_astro/x.css', '404 - hashed'],
  ])('%s shows the nearest 404.html: %s', (url, expected) => {
    expect(short(site(files)(url))).toBe(expected)
  })

  const spa = ['index.html', '200.html']
  test.each([
    ['/x', {}, '200 200.html'],
    ['/x/y', { accept: 'text/html,*/*' }, '200 200.html'],
    ['/john.doe', { accept: 'text/html' }, '200 200.html'],
    ['/x', { 'sec-fetch-mode': 'navigate' }, '200 200.html'],
    ['/x', { 'sec-fetch-mode': 'cors' }, '404 -'],
    ['/x', { accept: 'application/json' }, '404 -'],
    ['/x.png', {}, '404 -'],
    ['/app.3f2a9c1b.js', { accept: 'text/html' }, '404 - hashed'],
  ])('%s with %o falls back to 200.html for pages alone: %s', (url, headers, expected) => {
    expect(short(site(spa)(url, { headers }))).toBe(expected)
  })
  test('200.html is no fallback for what is sent', () => {
    expect(short(site(spa)('/x', { method: 'POST' }))).toBe('405')
  })
})

describe('_redirects', () => {
  const redirects = `
/old /new
/301 /new 301
/303 /new 303
/307 /new 307
/308 /new 308
/query /new?a=1
/hash /new#part
/away https://b.example/x?y=1
/away2 https://b.example/x
/about /elsewhere
/rewritten /docs/guide 200
/rewritten2 /docs/guide.html 200
/rewritten3 /docs/ 200
/lost /nowhere 200
/logo.png /about 200
/caf\u00e9 /th\u00e9
/news/:year/:slug /archive/:slug-:year
/blog/* /posts/:splat
/old /shadowed
/blog/late /never
/app/* /docs/guide 200
`
  test.each([
    ['/old', '302 → /new'],
    ['/old?x=1', '302 → /new?x=1'],
    ['/OLD', '404 -'],
    ['/old/', '404 -'],
    ['/%6fld', '302 → /new'],
    ['/301', '301 → /new'],
    ['/303', '303 → /new'],
    ['/307', '307 → /new'],
    ['/308', '308 → /new'],
    ['/query?b=2', '302 → /new?a=1'],
    ['/hash?b=2', '302 → /new?b=2#part'],
    ['/away?z', '302 → https://b.example/x?y=1'],
    ['/away2?z', '302 → https://b.example/x?z'],
    ['/about', '302 → /elsewhere'],
    ['/rewritten', '200 docs/guide.html'],
    ['/rewritten2', '200 docs/guide.html'],
    ['/rewritten3', '200 docs/index.html'],
    ['/lost', '404 -'],
    ['/logo.png', '200 about.html'],
    ['/caf%C3%A9', '302 → /th%C3%A9'],
    ['/news/2024/hi', '302 → /archive/hi-2024'],
    ['/news/2024/hi/x', '404 -'],
    ['/blog/a/b?x', '302 → /posts/a/b?x'],
    ['/blog/', '302 → /posts/'],
    ['/blog', '404 -'],
    ['/blog//evil.example', '302 → /posts/evil.example'],
    ['/blog/late', '302 → /posts/late'],
    ['/app/x', '200 docs/guide.html'],
  ])('%s is %s', (url, expected) => {
    expect(short(site(FILES, redirects)(url))).toBe(expected)
  })
  test('redirects any method, and rewrites for GET alone', () => {
    expect(short(site(FILES, redirects)('/old', { method: 'POST' }))).toBe('302 → /new')
    expect(short(site(FILES, redirects)('/rewritten', { method: 'POST' }))).toBe('405')
  })
  test.each([
    ['/', '200 index.html'],
    ['/logo.png', '200 logo.png'],
    ['/any/where', '200 index.html'],
    ['/app.3f2a9c1b.js', '404 - hashed'],
  ])('a rewrite of everything to the index page is for what has no file: %s is %s', (url, expected) => {
    expect(short(site(FILES, '/* /index.html 200')(url))).toBe(expected)
  })

  test.each([
    ['/a', 'it takes a path, a destination and at most a status'],
    ['/a /b 301 x', 'it takes a path, a destination and at most a status'],
    ['/a /b 404', 'status 404 is none of 200, 301, 302, 303, 307, 308'],
    ['/a /b x', 'status x is none of 200, 301, 302, 303, 307, 308'],
    ['a /b', 'the path begins with a slash'],
    ['https://a.example/x /b', 'the path begins with a slash'],
    ['/a b', 'the destination is a path or an http address'],
    ['/a javascript:alert(1)', 'the destination is a path or an http address'],
    ['/a https://', 'the destination is no address'],
    ['/a https://b.example 200', 'a rewrite (200) leads to a path of the same site'],
    ['/a //b.example 200', 'a rewrite (200) leads to a path of the same site'],
    ['/* /index.html', 'it would redirect in a circle'],
    ['/*/* /b', 'a name, or *, is in the path twice'],
    ['/:a/:a /b', 'a name, or *, is in the path twice'],
    [`/${'a'.repeat(2_000)} /b`, 'it is longer than 2000 characters'],
  ])('%s is left out: %s', (line, reason) => {
    const { redirects, warnings } = parseRedirects(`# comment\n\n${line}\n/ok /fine # comment\n`)
    expect(warnings).toEqual([`_redirects line 3 is left out: ${reason}.`])
    expect(redirects).toEqual([{ from: '/ok', to: '/fine', status: 302 }])
  })

  test('takes 2,000 static and 100 dynamic redirects', () => {
    const fixed = Array.from({ length: 2_001 }, (_, n) => `/s${n} /x`)
    const dynamic = Array.from({ length: 101 }, (_, n) => `/d${n}/* /x`)
    const { redirects, warnings } = parseRedirects([...fixed, ...dynamic].join('\r\n'))
    expect(redirects).toHaveLength(2_100)
    expect(warnings).toEqual([
      '_redirects line 2001 is left out: there are 2000 redirects already.',
      '_redirects line 2102 is left out: there are 100 dynamic redirects already.',
    ])
  })
})

describe('_headers', () => {
  const headers = `
# comment
/*
  X-All: 1
  Cache-Control: no-store
/docs/*
  X-Rest: :splat
  X-All: 2
/logo.png
  ! Cache-Control
  ! X-All
  X-Logo: yes
/user/:name/x
  X-Name: :name
/cookies
  Set-Cookie: a=1
  Set-Cookie: b=2
`
  const all = [
    ['x-all', '1'],
    ['cache-control', 'no-store'],
  ]
  test.each([
    ['/', all, []],
    ['/nothing', all, []],
    ['/about.html', all, []],
    ['/docs/guide', [['x-all', '1, 2'], all[1], ['x-rest', 'guide']], []],
    ['/docs/%67uide', [['x-all', '1, 2'], all[1], ['x-rest', 'guide']], []],
    ['/logo.png', [['x-logo', 'yes']], ['cache-control', 'x-all']],
    ['/user/eve/x', [...all, ['x-name', 'eve']], []],
    ['/cookies', [...all, ['set-cookie', 'a=1'], ['set-cookie', 'b=2']], []],
  ])('of %s are %o', (url, expected, unset) => {
    expect(site(FILES, '', headers)(url)).toMatchObject({ headers: expected, unset })
  })

  test.each([
    ['/a\n  nothing', 2, 'a header is a name, a colon and a value'],
    ['/a\n  x-a:', 2, 'a header is a name, a colon and a value'],
    ['/a\n  x a: b', 2, '"x a" is no header that a site may set'],
    ['/a\n  Content-Length: 5', 2, '"content-length" is no header that a site may set'],
    ['/a\n  Transfer-Encoding: chunked', 2, '"transfer-encoding" is no header that a site may set'],
    ['/a\n  !', 2, 'it names no header'],
    ['/a\n  x-a: \u0001', 2, 'the value has a character that headers cannot hold'],
    ['  x-a: b', 1, 'a path comes before headers'],
    ['ftp://a.example/*', 1, 'its address is neither http nor https'],
    ['https://me@a.example/*', 1, 'its host cannot be read'],
    ['https:///*', 1, 'its host cannot be read'],
    ['https://:a.example/:a', 1, 'a name, or *, is in the path twice'],
    ['https://:a.:a.example/', 1, 'a name, or *, is in the path twice'],
    ['https://*.*.example/', 1, 'its host cannot be read'],
    ['https://:project.pages.dev/*', 1, 'no hostname of a site here matches :project.pages.dev'],
    ['/:a/:a', 1, 'a name, or *, is in the path twice'],
    ['/:a/:a\n  x-a: b\n  x-b: c', 1, 'a name, or *, is in the path twice'],
    [`/a\n  x-a: ${'b'.repeat(2_000)}`, 2, 'it is longer than 2000 characters'],
  ])('%j is left out', (text, line, reason) => {
    const { headers, warnings } = parseHeaders(text, { appsHostname: 'apps.example' })
    expect(warnings).toEqual([`_headers line ${line} is left out: ${reason}.`])
    expect(headers).toEqual([])
  })
  test('takes 100 rules', () => {
    const { headers, warnings } = parseHeaders(Array.from({ length: 101 }, (_, n) => `/${n}\n  x-a: b`).join('\n'))
    expect(headers).toHaveLength(100)
    expect(warnings[0]).toBe('_headers line 201 is left out: there are 100 rules already.')
  })

  test('headers of a rule that is left out do not become those of the rule before it', () => {
    const { headers } = parseHeaders('/a\n  x-a: b\n/\0\n  x-c: d')
    expect(headers).toEqual([{ path: '/a', set: [['x-a', 'b']], unset: [] }])
  })

  const byHost = `
https://:project--preview.apps.example/*
  X-Robots-Tag: noindex
  X-Project: :project
/*
  X-All: 1
http://shop.apps.example:8080/docs/*
  X-Rest: :splat
  ! X-All
https://*.example
  X-Host: :splat, :constructor
/docs/x
  X-All: 2
`
  const common = ['x-all', '1']
  test.each([
    ['shop.apps.example', '/a', [common]],
    ['shop.apps.example', '/', [common, ['x-host', 'shop.apps, :constructor']]],
    ['shop--preview.apps.example', '/a', [['x-robots-tag', 'noindex'], ['x-project', 'shop'], common]],
    [
      'shop--preview.apps.example:8080',
      '/docs/x',
      [
        ['x-robots-tag', 'noindex'],
        ['x-project', 'shop'],
        ['x-all', '1, 2'],
      ],
    ],
    ['a.shop--preview.apps.example', '/a', [common]],
    [
      'shop.apps.example:8080',
      '/docs/x',
      [
        ['x-rest', 'x'],
        ['x-all', '2'],
      ],
    ],
    ['shop.apps.example:8081', '/docs/x', [['x-all', '1, 2']]],
    ['apps.elsewhere', '/', [common]],
  ])('rules with hosts apply at theirs, in the order of the file: %s%s has %j', (host, url, expected) => {
    expect(site(FILES, '', byHost)(url, { host })).toMatchObject({ headers: expected })
  })
  test('rules with hosts stand apart from the others, for edges of an earlier release', () => {
    const { headers, hostHeaders } = splitByHost(parseHeaders(byHost).headers)
    expect(headers.map(({ path }) => path)).toEqual(['/*', '/docs/x'])
    expect(hostHeaders?.map(({ host, after }) => [host, after])).toEqual([
      [':project--preview.apps.example', 0],
      ['shop.apps.example:8080', 1],
      ['*.example', 1],
    ])
  })
})

describe('a single-page application', () => {
  const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
  test.each<[string, Partial<RouteRequest>, string]>([
    ['/', { headers: html }, '200 index.html'],
    ['/about', { headers: html }, '200 index.html'],
    ['/about/', { headers: html }, '200 index.html'],
    ['/v1.2/about?x=1', { headers: html }, '200 index.html'],
    ['/about', { headers: { accept: 'TEXT/HTML' } }, '200 index.html'],
    ['/about', { headers: html, method: 'HEAD' }, '200 index.html'],
    ['/%ff', { headers: html }, '200 index.html'],
    ['/about', { headers: html, method: 'POST' }, '405'],
    ['/about', {}, '404 -'],
    ['/about', { headers: { accept: '*/*' } }, '404 -'],
    ['/about', { headers: { accept: 'application/json' } }, '404 -'],
    ['/logo.png', { headers: html }, '404 -'],
    ['/logo%2Epng', { headers: html }, '404 -'],
    ['/john.doe', { headers: html }, '404 -'],
    ['/john.doe/', { headers: html }, '404 -'],
    ['/assets/index-BdF3k2Lq.css', { headers: html }, '404 - hashed'],
    ['/_next/static/x', { headers: html }, '404 - hashed'],
    ['/gone', { headers: html }, '200 index.html'],
    ['/moved', { headers: html }, '302 → /'],
  ])('a single-page application answers %s with %j by %s', (url, request, expected) => {
    const ask = site(['index.html', 'app.js'], '/gone /nothing 200\n/moved /', '', { isSinglePage: true })
    expect(short(ask(url, request))).toBe(expected)
  })
  test('a site is a single-page application only where its rules say so', () => {
    expect(short(site(['index.html'])('/about', { headers: html }))).toBe('404 -')
  })
})
