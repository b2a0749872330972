import { describe, expect, test } from 'vitest'
import type { RouteRequest } from './answer.ts'
import { readOutput } from './read-output.ts'
import { readVercel } from './read-vercel.ts'
import { compileFiles, compileOutput } from './router.ts'
import { shortAnswer } from './short-answer.ts'
import { treeOf } from './tree-of.ts'
import { headerCases, redirectCases, rewriteCases, spelledPages, spellingCases } from './vercel-cases.ts'

/** Reads a project with its vercel.json; returns what it answers to a URL. */
async function project(config: object, files: Record<string, string>) {
  const tree = treeOf({ ...files, 'vercel.json': JSON.stringify(config) })
  const output = await readOutput(tree, '', { vercel: await readVercel(tree, '') })
  const paths = new Set(output.assets.map(({ path }) => path))
  const askOf =
    (router: ReturnType<typeof compileOutput>) =>
    (url: string, request: Partial<RouteRequest> = {}) => {
      const [path = '', query = ''] = url.split(/\?(.*)/s)
      const whole = {
        method: 'GET',
        path,
        query,
        host: 'a.example',
        headers: {},
        protocol: 'https',
        ...request,
      } as const
      return router.route(whole, (name) => paths.has(name))
    }
  const ask = askOf(compileOutput(output.manifest))
  return {
    ...output,
    ask,
    short: (url: string, request?: Partial<RouteRequest>) => shortAnswer(ask(url, request)),
    fileOf: (url: string) => shortAnswer(askOf(compileFiles(output.manifest))(url)),
  }
}

const filesOf = (paths: readonly string[]): Record<string, string> =>
  Object.fromEntries(paths.map((path) => [path.includes('.') ? path : `${path}.html`, path]))
const server = { 'server.js': '', 'package.json': '{}' }
/** What plain files answer in place of Build Output: pages have their endings, and a Function is a page. */
const asFile = (is: string): string => is.replace(/^ƒ fn .*/, '200 fn').replace(/^200 ([^.]+)$/, '200 $1.html')

describe.each([
  ['redirects', redirectCases],
  ['rewrites', rewriteCases],
])('%s of vercel.json', async (_, { config, files, functions, cases }) => {
  // A page for every path keeps the single-page rule out.
  const site = await project(config, filesOf([...files, ...functions, 'x/y']))
  test.each(cases)('plain files answer $url with $is', ({ url, is, request }) => {
    expect(site.short(url, request)).toBe(asFile(is))
  })

  const app = await project(config, server)
  test.each(cases)('a server is asked for $url, or $is answers', ({ url, is, sees, request }) => {
    expect(app.short(url, request)).toBe(/→|external/.test(is) ? is : `ƒ server.js ${sees ?? url}`)
  })
})

describe('headers of vercel.json', async () => {
  const { config, files, cases } = headerCases
  const site = await project(config, filesOf([...files, 'index']))
  const app = await project(config, server)
  test.each(cases)('plain files, and a server, answer $url with $headers', ({ url, headers }) => {
    expect(Object.fromEntries(site.ask(url).headers)).toEqual(headers)
    expect(Object.fromEntries(app.ask(url).headers)).toEqual(headers)
  })
})

describe.each(spellingCases)('cleanUrls $cleanUrls, trailingSlash $trailingSlash', async ({ cases, ...config }) => {
  const site = await project(config, filesOf(spelledPages))
  test.each(cases)('plain files answer $url with $is', ({ url, is }) => {
    expect(site.short(url)).toBe(asFile(is))
  })
  test('no address redirects to one that redirects', () => {
    const urls = ['/', '/about', '/about/', '/docs', '/docs/', '/about.html', '/docs/index.html', '/logo.png']
    const again = urls.filter((url) => {
      const answer = site.ask(url)
      return answer.kind === 'redirect' && site.ask(answer.location).kind === 'redirect'
    })
    expect(again).toEqual([])
  })
})

describe('plain files behind vercel.json', () => {
  const files = { 'index.html': '', 'about.html': '', 'docs/index.html': '', '404.html': '' }

  test('names without .html stand for pages unless cleanUrls is false', async () => {
    const never = await project({ cleanUrls: false }, files)
    expect([never.short('/about'), never.short('/about.html'), never.short('/docs')]).toEqual([
      '404 404.html',
      '200 about.html',
      '200 docs/index.html',
    ])
    const slash = await project({ trailingSlash: false }, files)
    expect([slash.short('/about'), slash.short('/about.html')]).toEqual(['200 about.html', '200 about.html'])
  })

  test('vercel.json comes before _redirects, and rewrites come behind them and the files', async () => {
    const site = await project(
      {
        redirects: [{ source: '/a', destination: '/v' }],
        rewrites: [
          { source: '/b', destination: '/about' },
          { source: '/c', destination: '/about' },
          { source: '/docs', destination: '/about' },
        ],
      },
      { ...files, _redirects: '/a /r\n/b /r\n/* /index.html 200' },
    )
    expect(['/a', '/b', '/c', '/docs', '/d'].map((url) => site.short(url))).toEqual([
      '308 → /v',
      '302 → /r',
      '200 about.html',
      '308 → /docs/',
      '200 index.html',
    ])
  })

  test('headers of vercel.json are on pages, redirects and errors, and win over _headers', async () => {
    const site = await project(
      { headers: [{ source: '/(.*)', headers: [{ key: 'x-a', value: 'v' }] }] },
      { ...files, _redirects: '/r /about 301', _headers: '/*\n  x-a: h\n  x-b: h\n  ! etag' },
    )
    for (const url of ['/about', '/r', '/nothing'])
      expect(site.ask(url)).toMatchObject({
        headers: [
          ['x-b', 'h'],
          ['x-a', 'v'],
        ],
        unset: ['etag'],
      })
  })

  test('a rewrite to a script shows it, and one of everything keeps the rule of single-page applications out', async () => {
    const site = await project(
      {
        rewrites: [
          { source: '/latest', destination: '/app.js' },
          { source: '/(.*)', destination: '/index.html' },
        ],
      },
      { 'index.html': '', 'app.js': '' },
    )
    expect(site.short('/latest')).toBe('200 app.js')
    expect([site.manifest.site?.isSinglePage, site.notes]).toEqual([
      undefined,
      ["vercel.json: 2 routes in front of the site's own."],
    ])
  })

  test('a rewrite of everything leaves missing scripts with a hash, and other methods, alone', async () => {
    const site = await project({ rewrites: [{ source: '/(.*)', destination: '/index.html' }] }, files)
    expect(site.short('/any/page')).toBe('200 index.html')
    expect(site.short('/assets/app.3f2a9c1b.js')).toBe('404 - hashed')
    expect(site.short('/any', { method: 'POST' })).toBe('405')
  })

  test('a status of routes is that of the page which they lead to, and error pages are asked for', async () => {
    const site = await project(
      {
        routes: [
          { src: '/teapot', dest: '/about.html', status: 418 },
          { src: '/secret', status: 403 },
          { src: '/lost', dest: '/about.html', status: 404 },
          { handle: 'filesystem' },
          { src: '/app/.*', dest: '/docs/index.html' },
          { handle: 'error' },
          { src: '/.*', dest: '/about.html', status: 404 },
          { handle: 'hit' },
          { src: '/about.*', headers: { 'x-hit': 'about' }, continue: true },
        ],
      },
      files,
    )
    expect(site.ask('/about').headers).toEqual([['x-hit', 'about']])
    expect(['/teapot', '/secret', '/lost', '/app/x', '/none'].map((url) => site.short(url))).toEqual([
      '418 about.html',
      '403',
      '404 about.html',
      '200 docs/index.html',
      '404 about.html',
    ])
  })

  test('no spelling of a path passes a route by', async () => {
    const site = await project({ redirects: [{ source: '/about', destination: '/v' }] }, files)
    for (const url of ['//about', '/./about', '/x/../about', '/%61bout', '/\\about'])
      expect(site.short(url)).toBe('308 → /v')
  })
})

describe('a server behind vercel.json', () => {
  test('sees the path to the letter unless a route rewrote it', async () => {
    const app = await project({ headers: [{ source: '/(.*)', headers: [{ key: 'a', value: 'b' }] }] }, server)
    expect(app.short('/a%2Fb//c/../z?q')).toBe('ƒ server.js /a%2Fb//c/../z?q')
  })

  test('keeps the path of a rewrite to code, which on Vercel is the Function that it is', async () => {
    const config = {
      rewrites: [
        { source: '/api/(.*)', destination: '/api/index?from=$1' },
        { source: '/(.*)', destination: '/server.js' },
      ],
    }
    const app = await project(config, { ...server, 'api/index.ts': '' })
    expect([app.short('/api/x?a=1'), app.short('/y//z')]).toEqual([
      'ƒ server.js /api/x?a=1&from=x',
      'ƒ server.js /y//z',
    ])
    // As `builds` were routed: nothing behind it is asked.
    const routes = [{ src: '/(.*)', dest: '/server.js' }]
    const old = await project({ routes, rewrites: [{ source: '/x', destination: '/y' }] }, server)
    expect(old.short('/x')).toBe('ƒ server.js /x')
  })

  test('gets the headers of a transform, the path of another, and the status of a route', async () => {
    const app = await project(
      {
        routes: [
          {
            src: '/old/(.*)',
            dest: '/new/$1',
            status: 203,
            transforms: [{ type: 'request.headers', op: 'set', target: { key: 'x-t' }, args: '$1' }],
          },
          { handle: 'filesystem' },
          {
            src: '/seen',
            dest: '/x',
            check: true,
            transforms: [{ type: 'request.path', op: 'set', args: '/other' }],
          },
        ],
      },
      server,
    )
    expect(app.ask('/old/a')).toMatchObject({ url: '/new/a', status: 203, requestHeaders: [['x-t', 'a']] })
    expect(app.ask('/seen')).toMatchObject({ url: '/other' })
  })
})

test('a worker sees rewrites to paths that it handles, files come before them, and its own files are not rewritten', async () => {
  const site = await project(
    {
      cleanUrls: true,
      redirects: [{ source: '/r', destination: '/v' }],
      rewrites: [
        { source: '/x/:id', destination: '/api/:id' },
        { source: '/y', destination: '/about' },
      ],
    },
    {
      '_worker.js': '',
      '_routes.json': '{"version":1,"include":["/api/*","/own"],"exclude":[]}',
      'index.html': '',
      'about.html': '',
    },
  )
  expect(['/r', '/x/7', '/y', '/about', '/own', '/api//b', '/none'].map((url) => site.short(url))).toEqual([
    '308 → /v',
    'ƒ _worker.js /api/7',
    '200 about.html',
    '200 about.html',
    'ƒ _worker.js /own',
    'ƒ _worker.js /api//b',
    '404 -',
  ])
  expect([site.fileOf('/r'), site.fileOf('/about'), site.fileOf('/about.html')]).toEqual([
    '404 -',
    '200 about.html',
    '200 about.html',
  ])
})

describe('Build Output behind vercel.json', () => {
  const config = {
    cleanUrls: true,
    redirects: [{ source: '/a', destination: '/v' }],
    rewrites: [{ source: '/b', destination: '/page' }],
    crons: [
      { path: '/x', schedule: '0  5 * * *' },
      { path: '/y', schedule: '0 5 * * *' },
    ],
    images: { sizes: [10] },
  }
  const files = {
    '.vercel/output/config.json': JSON.stringify({
      version: 3,
      routes: [{ src: '/a', dest: '/page' }, { handle: 'filesystem' }, { src: '/(.*)', dest: '/index.html' }],
      crons: [{ path: '/x', schedule: '0 5 * * *' }],
      images: { sizes: [20] },
    }),
    '.vercel/output/static/index.html': '',
    '.vercel/output/static/page.html': '',
  }

  test('vercel.json comes first in each phase; crons are joined, and images are its own', async () => {
    const site = await project(config, files)
    expect(['/a', '/b', '/page', '/page.html', '/c'].map((url) => site.short(url))).toEqual([
      '308 → /v',
      '200 page',
      '200 page',
      '308 → /page',
      '200 index.html',
    ])
    expect(site.manifest.crons).toEqual([
      { path: '/x', schedule: '0 5 * * *' },
      { path: '/y', schedule: '0 5 * * *' },
    ])
    expect(site.manifest.images?.sizes).toEqual([20])
    expect(site.manifest.vercel).toBeUndefined()
  })

  test('vercel.json is not applied again to what vercel build made', async () => {
    const site = await project(config, { ...files, '.vercel/output/builds.json': '{}' })
    expect(site.short('/a')).toBe('200 index.html')
    expect(site.notes).toContain(
      'vercel.json is part of this Build Output, which `vercel build` made: it is not applied again.',
    )
    expect(site.manifest.crons).toHaveLength(1)
  })
})

test('crons and images of vercel.json are those of plain files and of a server', async () => {
  const config = { crons: [{ path: '/x', schedule: '0 5 * * *' }], images: { sizes: [10], domains: ['A.example'] } }
  for (const files of [{ 'index.html': '' }, server]) {
    const { manifest } = await project(config, files)
    expect(manifest.crons).toEqual(config.crons)
    expect(manifest.images).toMatchObject({ sizes: [10], domains: ['a.example'] })
    expect(manifest.vercel).toBeUndefined()
  }
})
