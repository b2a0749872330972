import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deploy, giveHostname, visit } from '../../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { buildOutput } from '../../../../test/functions.ts'
import { prerendered } from '../../../../test/prerender.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import type { ZipEntry } from '../../../../test/zip.ts'
import type { EnvironmentSlug } from '../../tenancy/applications/table.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true })
})
afterAll(() => platform.close())

async function deployArchive(owner: Owner, archive: readonly ZipEntry[], environment: EnvironmentSlug = 'production') {
  const { id } = await newDeployment(platform, owner, { archive, environment })
  const { status, label } = await untilEnded(platform, id)
  const log = await logOf(platform, id)
  if (status !== 'ACTIVE') throw new Error(log)
  return { log, host: `${label}.${platform.api.appsUrl.host}` }
}

const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
const robotsOf = async (host: string, path: string, options: Parameters<typeof visit>[3] = {}) =>
  (await visit(platform, host, path, options)).headers['x-robots-tag']

describe('a site of plain files', () => {
  const code = [
    'api/hello.js',
    'functions/hi.js',
    'netlify/functions/n.js',
    'netlify/edge-functions/e.ts',
    'middleware.ts',
  ]
  const configuration = [
    'vercel.json',
    'netlify.toml',
    'wrangler.toml',
    'fly.toml',
    'render.yaml',
    'firebase.json',
    'Dockerfile',
    'compose.yaml',
  ]
  let log: string
  let production: string
  let preview: string
  let own: string
  beforeAll(async () => {
    const owner = await newOwner(platform)
    production = await giveHostname(platform, owner.applicationId)
    preview = await giveHostname(platform, owner.applicationId, 'BRANCH')
    const domain = platform.api.appsUrl.hostname
    const rules = `
https://:label--preview.${domain}/*
  X-Label: :label
https://${production.toUpperCase()}/*
  X-Production: yes
https://:project.pages.dev/*
  X-Robots-Tag: noindex
/*
  X-All: yes
/indexed.txt
  X-Robots-Tag: all
/silent.txt
  ! X-Robots-Tag
`
    const files: ZipEntry[] = [
      { name: 'index.html', content: 'the app' },
      ...[...code, ...configuration].map((name) => ({ name, content: name.endsWith('.json') ? '{}' : 'secret' })),
      ...['indexed.txt', 'silent.txt', 'favicon.ico', 'app.ts', 'v/live.m3u8', 'v/720p/1.ts'].map((name) => ({
        name,
        content: name,
      })),
      // As Info-ZIP, macOS and old Windows write names.
      { name: 'ä b.txt'.normalize('NFC'), content: 'composed', flags: 0 },
      { name: 'é.txt'.normalize('NFD'), content: 'decomposed', flags: 0 },
      { name: Buffer.from([0x81, 0x2e, 0x74, 0x78, 0x74]), content: 'guessed', flags: 0, madeBy: 0 },
      { name: '_headers', content: rules },
    ]
    const live = await deployArchive(owner, files)
    own = live.host
    log = live.log
    await deployArchive(owner, files, 'preview')
  })

  test.each([...code, ...configuration])('%s is not sent as a file', async (path) => {
    expect((await visit(platform, own, `/${path}`)).status).toBe(404)
    expect((await visit(platform, own, `/${path}`, { headers: html })).text).not.toContain('secret')
  })

  test('the log warns of each kind of file that is not sent, and says what to use instead', () => {
    const lines = log.split('\n').filter((line) => line.startsWith('WARN '))
    for (const path of code) expect(lines.filter((line) => line.includes(path))).toHaveLength(1)
    for (const path of configuration) expect(lines.filter((line) => line.startsWith(`WARN ${path} `))).toHaveLength(1)
    expect(log).toContain('api/hello.js): a worker, _worker.js beside the files')
    expect(log).toMatch(
      /^WARN _headers line \d+ is left out: no hostname of a site here matches :project\.pages\.dev\.$/m,
    )
    expect(log).toMatch(/^WARN The name "ü\.txt" is not in UTF-8 and is read in code page 437: /m)
  })

  test.each([
    ['composed', 'ä b.txt'],
    ['decomposed', 'é.txt'],
    ['guessed', 'ü.txt'],
  ])('the name of a %s file is found in either Unicode normal form: %s', async (text, name) => {
    for (const form of ['NFC', 'NFD'])
      expect(await visit(platform, own, encodeURI(`/${name.normalize(form)}`))).toMatchObject({ status: 200, text })
  })

  test.each([
    ['/favicon.ico', 'image/vnd.microsoft.icon'],
    ['/app.ts', 'text/plain; charset=utf-8'],
    ['/v/live.m3u8', 'application/vnd.apple.mpegurl'],
    ['/v/720p/1.ts', 'video/mp2t'],
  ])('the type of %s is %s', async (path, type) => {
    expect((await visit(platform, own, path)).headers['content-type']).toBe(type)
  })

  test('navigation in a single-page application gets its page, and all else stays 404', async () => {
    expect(log).toMatch(/^INFO A single-page application: .* A 404\.html switches that off\.$/m)
    const page = await visit(platform, own, '/users/7?tab=1', { headers: html })
    expect([page.status, page.text, page.headers['content-type']]).toEqual([200, 'the app', 'text/html; charset=utf-8'])
    const head = await visit(platform, own, '/users/7', { headers: html, method: 'HEAD' })
    expect([head.status, head.headers['content-length']]).toEqual([200, '7'])
    expect((await visit(platform, own, '/users/7')).status).toBe(404)
    expect((await visit(platform, own, '/users/7', { headers: { accept: 'application/json' } })).status).toBe(404)
    expect((await visit(platform, own, '/users/7.png', { headers: html })).status).toBe(404)
    expect((await visit(platform, own, '/users/7', { headers: html, method: 'POST' })).status).toBe(405)
  })

  test('a rule of _headers with a host applies where its host is the visitor’s', async () => {
    const headersOf = async (host: string) => {
      const { 'x-label': label, 'x-production': isProduction, 'x-all': all } = (await visit(platform, host)).headers
      return [label, isProduction, all]
    }
    const [label = ''] = preview.split('--preview')
    expect(await headersOf(preview)).toEqual([label, undefined, 'yes'])
    expect(await headersOf(production)).toEqual([undefined, 'yes', 'yes'])
    expect(await headersOf(own)).toEqual([undefined, undefined, 'yes'])
  })

  test('a site’s own word to search engines stands, and so does its silence', async () => {
    for (const host of [own, preview]) {
      expect(await robotsOf(host, '/indexed.txt')).toBe('all')
      expect(await robotsOf(host, '/silent.txt')).toBeUndefined()
      expect(await robotsOf(host, '/')).toBe('noindex')
    }
    expect(await robotsOf(production, '/indexed.txt')).toBe('all')
    expect(await robotsOf(production, '/')).toBeUndefined()
  })
})

test('a server that stands beside code in api/ gets a warning, and none for middleware, which is its own', async () => {
  const { log } = await deployArchive(await newOwner(platform), [
    {
      name: 'server.js',
      content: `require('node:http').createServer((_, res) => res.end('x')).listen(process.env.PORT)`,
    },
    ...['vercel.json', 'api/hello.js', 'middleware.js'].map((name) => ({ name, content: '{}' })),
  ])
  expect(log).toMatch(/^WARN Code in api\/ is no Function here, .*\(api\/hello\.js\)/m)
  expect(log).not.toContain('Middleware')
})

test('a deployment from before is no single-page application', async () => {
  const { host } = await deploy(platform, await newOwner(platform), { files: { 'index.html': 'a page' } })
  expect((await visit(platform, host, '/about', { headers: html })).status).toBe(404)
})

describe('search engines', () => {
  const code = `export default function (req, res) {
    if (req.url === '/own') res.setHeader('x-robots-tag', 'nofollow')
    if (req.url === '/cached') res.setHeader('cache-control', 's-maxage=600')
    if (req.url === '/moved') res.statusCode = 302
    if (req.url === '/crash') process.exit(1)
    res.end('page')
  }`
  const middleware = `export default (request) => new Response('answered')`
  let own: string
  let production: string
  let preview: string
  beforeAll(async () => {
    const owner = await newOwner(platform)
    production = await giveHostname(platform, owner.applicationId)
    preview = await giveHostname(platform, owner.applicationId, 'BRANCH')
    const routes = [
      { src: '/middleware', middlewarePath: '_middleware' },
      { src: '/redirect', status: 308, headers: { location: '/' } },
      { src: '/gone', status: 410 },
      { handle: 'filesystem' },
      { src: '/none/.*', status: 404 },
      { src: '/.*', dest: '/control' },
    ]
    const { host } = await deployArchive(owner, [
      ...prerendered({ kept: {} }, { code, routes, files: { 'file.txt': 'file' } }),
      ...buildOutput({ _middleware: { code: middleware, config: { useWebApi: true } } }).slice(1),
    ])
    own = host
  })

  const head = { method: 'HEAD' }
  const upgrade = { connection: 'upgrade', upgrade: 'websocket' }
  const ofFile = async () => (await visit(platform, own, '/file.txt')).headers.etag ?? ''
  test.each<[what: string, path: string, status: number, options?: () => Promise<object>]>([
    ['a file', '/file.txt', 200],
    ['a file without its body', '/file.txt', 200, async () => head],
    ['a file that the client has', '/file.txt', 304, async () => ({ headers: { 'if-none-match': await ofFile() } })],
    ['a range of a file', '/file.txt', 206, async () => ({ headers: { range: 'bytes=0-1' } })],
    ['a range beyond a file', '/file.txt', 416, async () => ({ headers: { range: 'bytes=9-' } })],
    ['a method that files do not have', '/file.txt', 405, async () => ({ method: 'PUT' })],
    ['a redirect of a route', '/redirect', 308],
    ['a status of a route', '/gone', 410],
    ['a missing page', '/none/x', 404],
    ['a Function', '/function', 200],
    ['a Function’s redirect', '/moved', 302],
    ['an answer that is not cached yet', '/cached', 200],
    ['a cached answer', '/cached', 200],
    ['a page that is made', '/kept', 200],
    ['a page that is kept', '/kept', 200],
    ['a middleware', '/middleware', 200],
    ['a Function that crashes', '/crash', 502],
    ['a Function that refuses an upgrade', '/function', 501, async () => ({ headers: upgrade })],
    ['an image that cannot be made', '/_platform/image/%2Ffile.txt/x?width=1', 415],
    ['a sticky URL that is not valid', '/file.txt?__sticky=x', 403],
  ])(
    '%s (%s, %i) is kept out of search at a deployment’s hostname, and not at production’s',
    async (_, path, status, options) => {
      const sent = await options?.()
      for (const [host, expected] of [
        [own, 'noindex'],
        [production, undefined],
      ] as const) {
        const got = await visit(platform, host, path, sent)
        expect([got.status, got.headers['x-robots-tag']]).toEqual([status, expected])
      }
    },
  )

  test('a header that a Function sets itself stands', async () => {
    expect(await robotsOf(own, '/own')).toBe('nofollow')
  })

  test('a preview hostname without a deployment is kept out of search', async () => {
    expect(await visit(platform, preview)).toMatchObject({
      status: 404,
      headers: { 'x-platform-error': 'nothing_deployed', 'x-robots-tag': 'noindex' },
    })
  })
})
