import { describe, expect, test } from 'vitest'
import type { Answer, HeaderPairs, RouteRequest } from './answer.ts'
import type { Condition, Route, Transform } from './manifest.ts'
import { buildOutputOf, shortAnswer } from './short-answer.ts'

const handle = (phase: NonNullable<Route['handle']>): Route => ({ handle: phase })

describe('look-ups', () => {
  const output = buildOutputOf(
    [],
    ['index.html', 'about/index.html', 'logo.png', 'page', 'both', 'caf\u00e9.txt', 'a b.txt', '%41.txt', 'x/index'],
    ['api/hi', 'blog/index', 'both', '[slug]'],
  )
  test.each([
    ['/', '200 index.html'],
    ['/index.html', '200 index.html'],
    ['/about', '200 about/index.html'],
    ['/about/', '200 about/index.html'],
    ['/about.html', '404 -'],
    ['/page', '200 page'],
    ['/page/', '200 page'],
    ['/x', '200 x/index'],
    ['/both', '200 both'],
    ['/logo.png', '200 logo.png'],
    ['/LOGO.png', '404 -'],
    ['/caf%c3%a9.txt', '200 café.txt'],
    ['/a%20b.txt', '200 a b.txt'],
    ['/a b.txt', '200 a b.txt'],
    ['/%2541.txt', '200 %41.txt'],
    ['/%41.txt', '404 -'],
    ['/api/hi', 'ƒ api/hi /api/hi'],
    ['/api/hi?a=1&b', 'ƒ api/hi /api/hi?a=1&b'],
    ['/api//hi', 'ƒ api/hi /api/hi'],
    ['/api\\hi', 'ƒ api/hi /api/hi'],
    ['/api/x/../hi', 'ƒ api/hi /api/hi'],
    ['/api/x/%2e%2E/hi', 'ƒ api/hi /api/hi'],
    ['/api%2Fhi', '404 -'],
    ['/api%5Chi', '404 -'],
    ['/api/hi%00', '404 -'],
    ['/blog', 'ƒ blog/index /blog'],
    ['/blog/', 'ƒ blog/index /blog/'],
    ['/%5Bslug%5D', 'ƒ [slug] /[slug]'],
    ['/../../etc/passwd', '404 -'],
    ['/chunk-3f2a9c1b.js', '404 - hashed'],
    [`/${'a'.repeat(2_048)}`, '414'],
  ])('%s is %s', (url, expected) => {
    expect(shortAnswer(output(url))).toBe(expected)
  })
  test.each([
    ['POST', '/logo.png', '405'],
    ['OPTIONS', '/logo.png', '405'],
    ['HEAD', '/logo.png', '200 logo.png'],
    ['POST', '/api/hi', 'ƒ api/hi /api/hi'],
  ])('%s %s is %s', (method, url, expected) => {
    expect(shortAnswer(output(url, { method }))).toBe(expected)
  })
})

describe('one route', () => {
  const files = ['page', 'other']
  const functions = ['fn', '_render']
  const cases: [route: Route, url: string, expected: string, request?: Partial<RouteRequest>][] = [
    [{ src: '/old', dest: '/page' }, '/old', '200 page'],
    [{ src: '/OLD', dest: '/page' }, '/old', '200 page'],
    [{ src: '/OLD', dest: '/page', caseSensitive: true }, '/old', '404 -'],
    [{ src: '/old', dest: '/page', caseSensitive: true }, '/old', '200 page'],
    [{ src: '/old', dest: '/page' }, '/older', '404 -'],
    [{ src: '^/old', dest: '/page' }, '/older', '404 -'],
    [{ src: '/old$', dest: '/page' }, '/x/old', '404 -'],
    [{ src: '^/?', dest: '/page' }, '/', '200 page'],
    [{ src: '^/?', dest: '/page' }, '/other', '200 other'],
    [{ src: '/a|/b', dest: '/page' }, '/b', '200 page'],
    [{ src: '/caf\u00e9', dest: '/page' }, '/caf%C3%A9', '200 page'],
    [{ src: '/(.*)-([0-9]+)', dest: '/fn?name=$1&n=$2' }, '/ab-12', 'ƒ fn /ab-12?name=ab&n=12'],
    [{ src: '/(?<name>.*)/x', dest: '/fn?n=$name' }, '/ab/x', 'ƒ fn /ab/x?n=ab'],
    [{ src: '/(?<a>[^/]+)/(?<ab>[^/]+)', dest: '/fn?x=$ab&y=$a' }, '/1/2', 'ƒ fn /1/2?x=2&y=1'],
    [{ src: '/(x)', dest: '/fn?n=$2&m=$nope&o=$' }, '/x', 'ƒ fn /x?n=$2&m=$nope&o=$'],
    [{ src: '/x', dest: '/fn?p=$0' }, '/x', 'ƒ fn /x?p=/x'],
    [{ src: '/(a)?x', dest: '/fn?p=$1' }, '/x', 'ƒ fn /x?p='],
    [{ src: '/(.*)', dest: '/fn?p=$1' }, '/a&b=c+d', 'ƒ fn /a&b=c+d?p=a%26b%3Dc%2Bd'],
    [{ src: '/(.*)', dest: '/fn?p=$1' }, '/caf%C3%A9%20x', 'ƒ fn /caf%C3%A9%20x?p=caf%C3%A9%20x'],
    [{ src: '/x', dest: '/fn?a=1' }, '/x?b=2', 'ƒ fn /x?b=2&a=1'],
    [{ src: '/x', dest: '/fn?a=1' }, '/x?a=9&b=2&%61=8', 'ƒ fn /x?b=2&a=1'],
    [{ src: '/x', dest: '_render' }, '/x', 'ƒ _render /x'],
    [{ src: '/x', dest: '_render', status: 404 }, '/x', 'ƒ _render /x 404'],
    [{ src: '/x', dest: '/page', status: 404 }, '/x', '404 page'],
    [{ src: '/x', dest: '/page', status: 503 }, '/x', '503 page'],
    [{ src: '/page', status: 403 }, '/page', '403'],
    [{ src: '/page', status: 404 }, '/page', '404 -'],
    [{ src: '/page', status: 404, continue: true }, '/page', '404 page'],
    [{ src: '/x', status: 308, headers: { Location: '/y' } }, '/x', '308 → /y'],
    [{ src: '/x', status: 308, headers: { location: '/y' }, continue: true }, '/x?a=1', '308 → /y?a=1'],
    [{ src: '/x', status: 302, headers: { Location: '/y?b#c' } }, '/x?a=1', '302 → /y?b#c'],
    [{ src: '/x', status: 302, headers: { Location: '/y#c' } }, '/x?a=1', '302 → /y?a=1#c'],
    [{ src: '^/(?:(.+)/)$', status: 308, headers: { Location: '/$1' } }, '/a/b/', '308 → /a/b'],
    [{ src: '^/(?:(.+)/)$', status: 308, headers: { Location: '/$1' } }, '//evil.example/', '308 → /evil.example'],
    [{ src: '^/(?:(.+)/)$', status: 308, headers: { Location: '/$1' } }, '/\\evil.example/', '308 → /evil.example'],
    [{ src: '/x', headers: { Location: '/y' } }, '/x', '404 -'],
    [{ src: '/x', dest: 'https://b.example/y' }, '/x', 'external https://b.example/y'],
    [{ src: '/x/(.*)', dest: 'https://b.example/$1' }, '/x/a/b?c=d', 'external https://b.example/a/b?c=d'],
    [{ src: '/x', dest: 'https://b.example/y?c=1' }, '/x?d=2&c=3', 'external https://b.example/y?d=2&c=1'],
    [{ src: '/x', dest: '/page', methods: ['POST'] }, '/x', '404 -'],
    [{ src: '/x', dest: '/fn', methods: ['post'] }, '/x', 'ƒ fn /x', { method: 'POST' }],
    [{ src: '/x', dest: '/nowhere', check: true }, '/x', '404 -'],
    [{ src: '/x', dest: '/caf\u00e9' }, '/x', '404 -'],
    [{ src: '/(.*)', dest: '/$wildcard/$1' }, '/x', '404 -'],
  ]
  test.each(cases)('%j at %s is %s', (route, url, expected, request = {}) => {
    expect(shortAnswer(buildOutputOf([route], files, functions)(url, request))).toBe(expected)
  })
  test('finds a file of a name beyond ASCII that the author wrote as text', () => {
    expect(shortAnswer(buildOutputOf([{ src: '/x', dest: '/caf\u00e9' }], ['caf\u00e9'])('/x'))).toBe('200 café')
  })
})

describe('conditions', () => {
  const request = {
    headers: { 'x-a': 'one', cookie: 'id=7; q="x"; id=8', 'x-list': ['a', 'b'], accept: 'text/html' },
    host: 'fr.a.example:3000',
  }
  const header = (value?: Condition['value']): Condition => ({
    type: 'header',
    key: 'X-A',
    ...(value === undefined ? {} : { value }),
  })
  const cases: [holds: boolean, condition: Condition][] = [
    [true, header()],
    [true, header('one')],
    [true, header('o.*')],
    [false, header('on')],
    [false, header('ONE')],
    [false, { type: 'header', key: 'x-b' }],
    [true, { type: 'header', key: 'x-list', value: 'a, b' }],
    [true, { type: 'cookie', key: 'id', value: '7' }],
    [false, { type: 'cookie', key: 'i' }],
    [true, { type: 'query', key: 'n', value: '12' }],
    [true, { type: 'query', key: 's', value: 'a b' }],
    [true, { type: 'query', key: 'empty' }],
    [false, { type: 'query', key: 'none' }],
    [true, { type: 'host', value: 'fr.a.example' }],
    [true, { type: 'host', value: '(?<lang>..)\\.a\\.example' }],
    [false, { type: 'host', value: 'a.example' }],
    [true, header({ eq: 'one' })],
    [false, header({ eq: 'two' })],
    [false, header({ neq: 'one' })],
    [true, header({ neq: 'two' })],
    [true, header({ inc: ['one', 'two'] })],
    [false, header({ inc: ['two'] })],
    [false, header({ ninc: ['one'] })],
    [true, header({ ninc: ['two'] })],
    [true, header({ pre: 'on', suf: 'ne' })],
    [false, header({ pre: 'on', suf: 'x' })],
    [true, header({ re: 'o\\w+' })],
    [false, header({ re: 'o' })],
    [true, { type: 'query', key: 'n', value: { gt: 11, lt: 13 } }],
    [true, { type: 'query', key: 'n', value: { gte: 12, lte: 12, eq: 12 } }],
    [false, { type: 'query', key: 'n', value: { gt: 12 } }],
    [false, { type: 'query', key: 's', value: { gt: 0 } }],
  ]
  test.each(cases)('%s: %j', (expected, condition) => {
    const url = '/x?n=12&s=a+b&empty'
    const has = buildOutputOf([{ src: '/x', dest: '/page', has: [condition] }], ['page'])
    const missing = buildOutputOf([{ src: '/x', dest: '/page', missing: [condition] }], ['page'])
    expect(shortAnswer(has(url, request))).toBe(expected ? '200 page' : '404 -')
    expect(shortAnswer(missing(url, request))).toBe(expected ? '404 -' : '200 page')
  })

  test('lend their named groups, and their value by its key, to the destination', () => {
    const route: Route = {
      src: '/(.*)',
      dest: '/fn?lang=$lang&id=$userid&path=$1',
      has: [
        { type: 'host', value: '(?<lang>..)\\..*' },
        { type: 'cookie', key: 'user-id', value: '\\d+' },
      ],
    }
    const answer = buildOutputOf([route], [], ['fn'])('/x', { ...request, headers: { cookie: 'user-id=7' } })
    expect(shortAnswer(answer)).toBe('ƒ fn /x?lang=fr&id=7&path=x')
  })
  test('cannot break a header or an address by what they captured', () => {
    const has: Condition[] = [{ type: 'query', key: 'to', value: '(?<to>[\\s\\S]*)' }]
    const redirect = buildOutputOf([{ src: '/x', status: 302, headers: { Location: '/y/$to?' }, has }])
    expect(shortAnswer(redirect('/x?to=%0d%0aset-cookie:%20a%3db'))).toBe('302 → /y/%0D%0Aset-cookie: a=b?')
    const rewrite = buildOutputOf([{ src: '/x', dest: '/fn?n=$to', has }], [], ['fn'])
    expect(shortAnswer(rewrite('/x?to=a%26admin%3D1'))).toBe('ƒ fn /x?to=a%26admin%3D1&n=a%26admin%3D1')
  })
  test('do not try a pattern on a value of more than 4,096 characters', () => {
    const output = buildOutputOf(
      [{ src: '/x', dest: '/page', has: [{ type: 'header', key: 'a', value: '.*' }] }],
      ['page'],
    )
    expect(shortAnswer(output('/x', { headers: { a: 'x'.repeat(4_096) } }))).toBe('200 page')
    expect(shortAnswer(output('/x', { headers: { a: 'x'.repeat(4_097) } }))).toBe('404 -')
  })
})

describe('phases', () => {
  /** Each list of routes against each URL. */
  const cases: [what: string, routes: Route[], url: string, expected: string][] = [
    ['routes before any handle come before files', [{ src: '/page', dest: '/other' }], '/page', '200 other'],
    ['files come before filesystem', [handle('filesystem'), { src: '/page', dest: '/other' }], '/page', '200 page'],
    ['filesystem rewrites what is no file', [handle('filesystem'), { src: '/x', dest: '/other' }], '/x', '200 other'],
    [
      'the order is that of the phases, not of the list',
      [handle('miss'), { src: '/x', dest: '/page' }, handle('rewrite'), { src: '/x', dest: '/other' }],
      '/x',
      '200 other',
    ],
    [
      'resource comes after rewrite',
      [handle('resource'), { src: '/x', dest: '/page' }, handle('rewrite'), { src: '/x', dest: '/other' }],
      '/x',
      '200 other',
    ],
    [
      'a rewrite to nothing goes on to the next phase by its new path',
      [handle('filesystem'), { src: '/x', dest: '/y' }, handle('resource'), { src: '/y', dest: '/page' }],
      '/x',
      '200 page',
    ],
    [
      'continue goes on, and the last destination counts',
      [
        { src: '/x', dest: '/y', continue: true },
        { src: '/y', dest: '/page' },
      ],
      '/x',
      '200 page',
    ],
    [
      'without continue the phase ends',
      [
        { src: '/x', dest: '/y' },
        { src: '/y', dest: '/page' },
      ],
      '/x',
      '404 404',
    ],
    [
      'a check that finds nothing goes on in its phase',
      [
        { src: '/x', dest: '/y', check: true },
        { src: '/y', dest: '/page', check: true },
      ],
      '/x',
      '200 page',
    ],
    [
      'a check that finds something ends',
      [
        { src: '/x', dest: '/page', check: true },
        { src: '/page', dest: '/other' },
      ],
      '/x',
      '200 page',
    ],
    [
      'a check looks at pages with parameters, too',
      [
        { src: '/x', dest: '/posts/7', check: true },
        { src: '/posts/7', dest: '/other' },
        handle('rewrite'),
        { src: '^/posts/(?<id>[^/]+)$', dest: '/posts/[id]?nxtPid=$id', check: true },
      ],
      '/x',
      'ƒ posts/[id] /x?nxtPid=7',
    ],
    [
      'a trial that fails leaves nothing behind',
      [
        { src: '/x', dest: '/y?a=1', check: true },
        handle('rewrite'),
        { src: '/y', dest: '/z?b=2', headers: { 'x-trial': '1' }, continue: true },
        handle('resource'),
        { src: '/z', dest: '/fn' },
      ],
      '/x',
      'ƒ fn /x?a=1&b=2',
    ],
    [
      'a missing file of a build is no page, however greedy the pages are',
      [
        handle('filesystem'),
        handle('miss'),
        { src: '/_next/static/(.+)', status: 404, check: true, dest: '/_next/static/not-found.txt' },
        handle('rewrite'),
        { src: '^/(?<rest>.+)$', dest: '/fn', check: true },
      ],
      '/_next/static/chunks/gone.js',
      '404 _next/static/not-found.txt hashed',
    ],
    [
      'a resource that ends everything with 404 leaves miss its turn',
      [handle('resource'), { src: '/.*', status: 404 }, handle('miss'), { src: '/x', dest: '/page' }],
      '/x',
      '404 page',
    ],
    ['error shows its page', [handle('error'), { src: '/.*', dest: '/404', status: 404 }], '/x', '404 404'],
    [
      'error chooses by status',
      [
        { src: '/x', status: 500 },
        handle('error'),
        { src: '/.*', dest: '/404', status: 404 },
        { src: '/.*', dest: '/500', status: 500 },
      ],
      '/x',
      '500 500',
    ],
    [
      'error may be a Function',
      [handle('error'), { src: '/.*', dest: '/fn', status: 404 }],
      '/x?a=1',
      'ƒ fn /x?a=1 404',
    ],
    [
      'a page of error that is not there',
      [handle('error'), { src: '/.*', dest: '/gone', status: 404 }],
      '/x',
      '404 404',
    ],
  ]
  test.each(cases)('%s', (_, routes, url, expected) => {
    const output = buildOutputOf(
      routes,
      ['page', 'other', '404', '500', '_next/static/not-found.txt'],
      ['fn', 'posts/[id]'],
    )
    expect(shortAnswer(output(url))).toBe(expected)
  })

  test.each([
    ['/x', '404 404.html'],
    ['/x/y', '404 404.html'],
    ['/app.3f2a9c1b.js', '404 - hashed'],
  ])('without a page of error, 404.html is shown: %s is %s', (url, expected) => {
    expect(shortAnswer(buildOutputOf([handle('filesystem')], ['404.html'])(url))).toBe(expected)
  })

  test('error pages answer any method', () => {
    const output = buildOutputOf(
      [handle('error'), { src: '/.*', dest: '/500', status: 500 }, { src: '/x', status: 500 }],
      ['500'],
    )
    expect(shortAnswer(output('/x', { method: 'POST' }))).toBe('404 -')
    const failing = buildOutputOf(
      [{ src: '/x', status: 500 }, handle('error'), { src: '/.*', dest: '/500', status: 500 }],
      ['500'],
    )
    expect(shortAnswer(failing('/x', { method: 'POST' }))).toBe('500 500')
  })
})

describe('headers', () => {
  const headersOf = (answer: Answer): Record<string, string> => Object.fromEntries(answer.headers)

  test('of all routes that match are set, the last one of a name, in lower case', () => {
    const output = buildOutputOf(
      [
        { src: '/(.*)', headers: { 'X-A': '1', 'X-Path': '$1' }, continue: true },
        { src: '/page', headers: { 'x-a': '2' }, continue: true },
        { src: '/other', headers: { 'x-b': '3' }, continue: true },
      ],
      ['page'],
    )
    expect(output('/page').headers).toEqual([
      ['x-a', '2'],
      ['x-path', 'page'],
    ])
  })
  test('that say how an answer is framed are not set', () => {
    const headers = {
      'Content-Length': '1',
      'Transfer-Encoding': 'chunked',
      Connection: 'close',
      'bad name': 'x',
      'x-ok': 'é\n',
    }
    expect(buildOutputOf([{ src: '/page', headers, continue: true }], ['page'])('/page').headers).toEqual([
      ['x-ok', '%C3%A9%0A'],
    ])
  })
  test('of hit go by the path that was found, and tell the Function which it is', () => {
    const output = buildOutputOf(
      [
        { src: '^/blog/(?<slug>[^/]+)$', dest: '/blog/[slug]?nxtPslug=$slug' },
        handle('hit'),
        { src: '/index(?:/)?', headers: { 'x-matched-path': '/' }, continue: true, important: true },
        { src: '/((?!index$).*?)(?:/)?', headers: { 'x-matched-path': '/$1' }, continue: true, important: true },
      ],
      [],
      ['blog/[slug]', 'index'],
    )
    const answer = output('/blog/hi')
    expect(headersOf(answer)).toEqual({ 'x-matched-path': '/blog/[slug]' })
    expect(answer).toMatchObject({
      kind: 'function',
      important: ['x-matched-path'],
      requestHeaders: [['x-matched-path', '/blog/[slug]']],
      url: '/blog/hi?nxtPslug=hi',
    })
    expect(headersOf(output('/'))).toEqual({ 'x-matched-path': '/' })
  })
  test('come with redirects, other origins and what is not found', () => {
    const output = buildOutputOf([
      { src: '/.*', headers: { 'x-a': '1' }, continue: true },
      { src: '/r', status: 307, headers: { Location: '/x' } },
      { src: '/e', dest: 'https://b.example' },
    ])
    for (const url of ['/r', '/e', '/none']) expect(output(url).headers).toEqual([['x-a', '1']])
  })
})

describe('transforms', () => {
  const cases: [transform: Transform, url: string, expected: object][] = [
    [{ type: 'request.query', op: 'delete', target: { key: 'a' } }, '/x?a=1&b=2&a=3', { url: '/x?b=2' }],
    [{ type: 'request.query', op: 'delete', target: { key: { re: 'a' } } }, '/x?a=1&b=2', { url: '/x?a=1&b=2' }],
    [{ type: 'request.query', op: 'delete', target: { key: { pre: 'u' } } }, '/x?u1=1&b=2&u2=3', { url: '/x?b=2' }],
    [{ type: 'request.query', op: 'set', target: { key: 'a' }, args: '$1&' }, '/x?a=1&b', { url: '/x?b&a=x%26' }],
    [
      { type: 'request.query', op: 'append', target: { key: 'a' }, args: ['2', '3'] },
      '/x?a=1',
      { url: '/x?a=1&a=2&a=3' },
    ],
    [
      { type: 'request.headers', op: 'set', target: { key: 'X-A' }, args: '$1' },
      '/x',
      { requestHeaders: [['x-a', 'x']] },
    ],
    [
      { type: 'request.headers', op: 'append', target: { key: 'x-b' }, args: '2' },
      '/x',
      { requestHeaders: [['x-b', '1, 2']] },
    ],
    [
      { type: 'request.headers', op: 'delete', target: { key: { pre: 'x-' } } },
      '/x',
      { requestHeaders: [], requestHeadersRemoved: ['x-b'] },
    ],
    [
      { type: 'response.headers', op: 'set', target: { key: { eq: 'x-r' } }, args: '1' },
      '/x',
      {
        headers: [
          ['x-r', '1'],
          ['x-r2', '0'],
        ],
      },
    ],
    [
      { type: 'response.headers', op: 'append', target: { key: 'X-R2' }, args: '1' },
      '/x',
      {
        headers: [
          ['x-r', '0'],
          ['x-r2', '0, 1'],
        ],
      },
    ],
    [{ type: 'response.headers', op: 'delete', target: { key: { pre: 'x-r' } } }, '/x', { headers: [] }],
    [{ type: 'request.path', op: 'set', args: '/seen/$1' }, '/x?a', { url: '/seen/x?a' }],
  ]
  test.each(cases)('%j of %s', (transform, url, expected) => {
    const routes: Route[] = [
      { src: '/x', headers: { 'x-r': '0', 'x-r2': '0' }, continue: true },
      { src: '/(x)', dest: '/fn', transforms: [transform] },
    ]
    expect(buildOutputOf(routes, [], ['fn'])(url, { headers: { 'x-b': '1' } })).toMatchObject(expected)
  })
})

describe('locales', () => {
  const locale = { redirect: { en: '/', fr: '/fr', 'pt-BR': '/pt-BR' }, cookie: 'NEXT_LOCALE' }
  const output = buildOutputOf([{ src: '/', locale, continue: true }], ['index.html'])
  test.each([
    [{}, '200 index.html'],
    [{ 'accept-language': 'fr' }, '307 → /fr?a=1'],
    [{ 'accept-language': 'de, fr;q=0.5' }, '307 → /fr?a=1'],
    [{ 'accept-language': 'fr;q=0.5, en;q=0.8' }, '200 index.html'],
    [{ 'accept-language': 'fr;q=0, de' }, '200 index.html'],
    [{ 'accept-language': 'pt' }, '307 → /pt-BR?a=1'],
    [{ 'accept-language': 'fr-CA' }, '307 → /fr?a=1'],
    [{ cookie: 'NEXT_LOCALE=en', 'accept-language': 'fr' }, '200 index.html'],
    [{ cookie: 'NEXT_LOCALE=FR' }, '307 → /fr?a=1'],
    [{ cookie: 'NEXT_LOCALE=xx', 'accept-language': 'fr' }, '307 → /fr?a=1'],
  ])('%o: %s', (headers, expected) => {
    expect(shortAnswer(output('/?a=1', { headers }))).toBe(expected)
  })
  test('by domain fill $wildcard', () => {
    const output = buildOutputOf([{ src: '/(.*)', dest: '/$wildcard/$1' }], ['en/x', 'fr/x'], [], {
      wildcard: [
        { domain: 'a.example', value: 'en' },
        { domain: 'FR.a.example', value: 'fr' },
      ],
    })
    expect(shortAnswer(output('/x'))).toBe('200 en/x')
    expect(shortAnswer(output('/x', { host: 'fr.a.example' }))).toBe('200 fr/x')
  })
})

describe('middleware', () => {
  const routes: Route[] = [
    { src: '/.*', headers: { 'x-before': '1' }, continue: true },
    { src: '^/(?:admin(?:/.*)?|x)$', middlewarePath: '/_middleware', continue: true, override: true },
    { src: '/blocked', has: [{ type: 'header', key: 'x-secret' }], dest: '/page' },
    { src: '/signed', has: [{ type: 'header', key: 'x-user', value: '(?<user>.*)' }], dest: '/fn?u=$user' },
  ]
  const output = buildOutputOf(routes, ['page', 'admin/page', 'admin/@me', 'logo'], ['_middleware', 'fn', 'x'])
  const ask = (headers: HeaderPairs, status = 200, url = '/x?a=1', request?: Partial<RouteRequest>): Answer => {
    const answer = output(url, request)
    if (answer.kind !== 'middleware') throw new Error(`No middleware: ${shortAnswer(answer)}`)
    return answer.resume({ status, headers })
  }

  test.each([
    ['/x?a=1', 'middleware _middleware /x?a=1'],
    ['/admin/page', 'middleware _middleware /admin/page'],
    ['/ADMIN/page', 'middleware _middleware /ADMIN/page'],
    ['/%61dmin/page', 'middleware _middleware /admin/page'],
    ['//admin//page', 'middleware _middleware /admin/page'],
    ['/./admin/page', 'middleware _middleware /admin/page'],
    ['/logo/../admin/page', 'middleware _middleware /admin/page'],
    ['/logo/%2e%2e/admin/page', 'middleware _middleware /admin/page'],
    ['\\admin\\page', 'middleware _middleware /admin/page'],
    ['/admin/%40me', 'middleware _middleware /admin/@me'],
    ['/admin%2Fpage', 'middleware _middleware /admin%2Fpage'],
    ['/admin%2fpage', 'middleware _middleware /admin%2Fpage'],
    ['/admin%252Fpage', '404 -'],
    ['/%61%64min', 'middleware _middleware /admin'],
    ['/logo', '200 logo'],
    ['/_middleware', '404 -'],
  ])('%s is %s: no spelling passes it by, and it is no page', (url, expected) => {
    expect(shortAnswer(output(url))).toBe(expected)
  })

  test.each([
    ['next', [['x-middleware-next', '1']], 200, 'ƒ x /x?a=1'],
    ['rewrite', [['x-middleware-rewrite', 'http://a.example:8080/page']], 200, '200 page'],
    ['rewrite by https', [['x-middleware-rewrite', 'https://a.example:8080/fn?b=2']], 200, 'ƒ fn /fn?b=2'],
    ['rewrite to a path', [['x-middleware-rewrite', '/fn?b=2']], 200, 'ƒ fn /fn?b=2'],
    [
      'rewrite elsewhere',
      [['x-middleware-rewrite', 'https://b.example/y?c=3#d']],
      200,
      'external https://b.example/y?c=3',
    ],
    ['rewrite to itself', [['x-middleware-rewrite', '/_middleware']], 200, '404 -'],
    ['rewrite to no address', [['x-middleware-rewrite', 'javascript:1']], 200, '500'],
    ['redirect', [['location', '/login']], 307, '307 → /login'],
    ['answer', [['content-type', 'text/plain']], 401, 'answered 401'],
  ] satisfies [string, HeaderPairs, number, string][])('%s', (_, headers, status, expected) => {
    expect(shortAnswer(ask(headers, status))).toBe(expected)
  })

  test('adds headers to the answer, and none of its protocol', () => {
    const headers: HeaderPairs = [
      ['x-middleware-next', '1'],
      ['x-middleware-set-cookie', 'a=1'],
      ['set-cookie', 'a=1'],
      ['set-cookie', 'b=2'],
      ['x-own', '1'],
      ['content-length', '0'],
      ['content-type', 'text/plain'],
      ['x-nextjs-rewritten-path', '/y'],
    ]
    expect(ask(headers).headers).toEqual([
      ['x-before', '1'],
      ['x-own', '1'],
      ['x-nextjs-rewritten-path', '/y'],
      ['set-cookie', 'a=1'],
      ['set-cookie', 'b=2'],
    ])
    expect(
      ask(
        [
          ['content-type', 'text/plain'],
          ['x-middleware-x', '1'],
        ],
        403,
      ).headers,
    ).toEqual([
      ['x-before', '1'],
      ['content-type', 'text/plain'],
    ])
  })
  test('replaces the headers of the request: those it does not list are gone', () => {
    const answer = ask(
      [
        ['x-middleware-next', '1'],
        ['x-middleware-override-headers', 'accept,x-new'],
        ['x-middleware-request-accept', 'text/x'],
        ['x-middleware-request-x-new', '1'],
        ['x-middleware-request-unlisted', '1'],
      ],
      200,
      '/x',
      { headers: { accept: 'text/html', cookie: 'a=1' } },
    )
    expect(answer).toMatchObject({
      requestHeaders: [
        ['accept', 'text/x'],
        ['x-new', '1'],
      ],
      requestHeadersRemoved: ['cookie'],
    })
  })
  test('decides which headers later routes see', () => {
    const signed: HeaderPairs = [
      ['x-middleware-rewrite', '/signed'],
      ['x-middleware-override-headers', 'x-user'],
      ['x-middleware-request-x-user', 'eve'],
    ]
    expect(shortAnswer(ask(signed))).toBe('ƒ fn /signed?u=eve')
    const blocked: HeaderPairs = [
      ['x-middleware-rewrite', '/blocked'],
      ['x-middleware-override-headers', 'accept'],
    ]
    expect(shortAnswer(ask(blocked, 200, '/x', { headers: { 'x-secret': '1' } }))).toBe('404 -')
  })
  test('may be resumed twice, as if it never was', () => {
    const answer = output('/x')
    if (answer.kind !== 'middleware') throw new Error('No middleware')
    const next = {
      status: 200,
      headers: [
        ['x-middleware-next', '1'],
        ['x-a', '1'],
      ] satisfies HeaderPairs,
    }
    expect(JSON.stringify(answer.resume(next))).toBe(JSON.stringify(answer.resume(next)))
    expect(shortAnswer(answer.resume({ status: 200, headers: [['x-middleware-rewrite', '/page']] }))).toBe('200 page')
    expect(answer.resume(next).headers).toEqual([
      ['x-before', '1'],
      ['x-a', '1'],
    ])
  })
  test('of several routes run one after the other', () => {
    const two = buildOutputOf(
      [
        { src: '/x', middlewarePath: 'one', continue: true },
        { src: '/.*', middlewarePath: 'two', continue: true },
      ],
      [],
      ['one', 'two', 'x'],
    )
    const next = { status: 200, headers: [['x-middleware-next', '1']] satisfies HeaderPairs }
    const first = two('/x')
    const second = first.kind === 'middleware' ? first.resume(next) : first
    const last = second.kind === 'middleware' ? second.resume(next) : second
    expect([first, second, last].map(shortAnswer)).toEqual(['middleware one /x', 'middleware two /x', 'ƒ x /x'])
  })
})
