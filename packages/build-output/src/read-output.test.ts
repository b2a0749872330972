import { describe, expect, test } from 'vitest'
import { type Output, readOutput, UnusableOutput } from './read-output.ts'
import { compileFiles, compileOutput, type Router } from './router.ts'
import { treeOf } from './tree-of.ts'

const CONFIG = '.vercel/output/config.json'
const config = (value: object): string => JSON.stringify({ version: 3, ...value })

describe('plain files', () => {
  test('are assets by their path below the root directory, with their types', async () => {
    const { manifest, assets, warnings } = await readOutput(
      treeOf({ 'dist/index.html': '', 'dist/a/app.js': '', 'dist/x.bin': '', 'dist/logo.svg': '', 'README.md': '' }),
      'dist',
    )
    expect(manifest).toEqual({
      version: 1,
      kind: 'static',
      routes: [],
      wildcard: [],
      site: { redirects: [], headers: [], isSinglePage: true },
      functions: {},
    })
    expect(assets).toEqual([
      { path: 'index.html', source: 'dist/index.html', contentType: 'text/html; charset=utf-8' },
      { path: 'a/app.js', source: 'dist/a/app.js', contentType: 'text/javascript; charset=utf-8' },
      { path: 'x.bin', source: 'dist/x.bin', contentType: 'application/octet-stream' },
      { path: 'logo.svg', source: 'dist/logo.svg', contentType: 'image/svg+xml; charset=utf-8' },
    ])
    expect(warnings).toEqual([])
  })

  test('of hidden names and node_modules are no assets, .well-known apart', async () => {
    const { assets, warnings } = await readOutput(
      treeOf({
        'index.html': '',
        '.env': '',
        'a/.git/config': '',
        '.well-known/x': '',
        'node_modules/a/b.js': '',
        'x/node_modules/c.js': '',
        _redirects: '/a /b',
        _headers: '/a\n  x-a: b',
      }),
      '',
    )
    expect(assets.map(({ path }) => path)).toEqual(['index.html', '.well-known/x'])
    expect(warnings).toEqual([
      'node_modules is left out, with its 2 files.',
      'Files of names that begin with a dot are left out: 2.',
    ])
  })

  test.each<[string, Record<string, string>, string[]]>([
    ['a page at the top', { 'index.html': '', 'a/index.html': '' }, []],
    ['a page for all paths', { '200.html': '' }, []],
    ['a rule for the root', { 'app.js': '', _redirects: '/ /app.js' }, []],
    ['no page', { 'about.html': '' }, ['There is no index.html, so / answers 404.']],
    [
      'a page one folder down',
      { 'site/docs/index.html': '', 'site/index.html': '' },
      [
        'There is no index.html at the top, so / answers 404. It is in site: zip what is in that folder, or set rootDirectory to it.',
      ],
    ],
  ])('with %s say so where the root would answer nothing', async (_, files, expected) => {
    expect((await readOutput(treeOf(files), '')).warnings).toEqual(expected)
  })

  test('hold lines that mean nothing by the million, and a thousand warnings', async () => {
    const { manifest, warnings } = await readOutput(
      treeOf({ 'index.html': '', _redirects: '/a /b\n/\0 /c\n'.padEnd(2_000_000, 'a\n'), _headers: '/\0\n x-a: b' }),
      '',
    )
    expect(manifest.site).toEqual({
      redirects: [{ from: '/a', to: '/b', status: 302 }],
      headers: [],
      isSinglePage: true,
    })
    expect(warnings).toHaveLength(1_002)
    expect(warnings[0]).toBe('_redirects line 2 is left out: it holds a NUL.')
    expect(warnings[1_000]).toMatch(/^And \d+ more warnings\.$/)
  })

  test('bring the rules of _redirects and _headers, and a warning for each line that means nothing', async () => {
    const { manifest, warnings } = await readOutput(
      treeOf({
        'index.html': '',
        _redirects: '/a /b 301\nnonsense',
        _headers: '/*\n  X-A: b\n  ! Cache-Control\n broken',
      }),
      '',
    )
    expect(manifest.site).toEqual({
      redirects: [{ from: '/a', to: '/b', status: 301 }],
      headers: [{ path: '/*', set: [['x-a', 'b']], unset: ['cache-control'] }],
      isSinglePage: true,
    })
    expect(warnings).toEqual([
      '_redirects line 2 is left out: it takes a path, a destination and at most a status.',
      '_headers line 4 is left out: a header is a name, a colon and a value.',
    ])
  })
})

test('rules of plain files whose paths take too long to match are left out', async () => {
  const slow = `/${Array.from({ length: 5 }, (_, n) => `:n${n}`).join('-')}`
  const { manifest, warnings } = await readOutput(
    treeOf({
      'index.html': '',
      _redirects: `${slow} /x\n/:a/:b/:c/:d /y`,
      _headers: `${slow}\n  x-a: b\n/*\n  x-a: b`,
    }),
    '',
  )
  expect(manifest.site?.redirects.map(({ from }) => from)).toEqual(['/:a/:b/:c/:d'])
  expect(manifest.site?.headers.map(({ path }) => path)).toEqual(['/*'])
  expect(warnings).toEqual([`The rules for ${slow} are left out: it takes too long to match some paths.`])
})

describe('what is refused', () => {
  const refused: [what: string, files: Record<string, string>, rootDirectory: string, message: RegExp][] = [
    ['an empty archive', {}, '', /The archive holds no file/],
    ['an empty directory', { 'a/index.html': '' }, 'b', /The directory b holds no file/],
    ['a root directory outside', { 'index.html': '' }, '../x', /root directory "..\/x" leads outside/],
    ['a package.json that is no JSON', { 'package.json': '{' }, '', /package\.json is no JSON/],
    ['a config that is no JSON', { [CONFIG]: '{' }, '', /config\.json is no JSON/],
    ['another version', { [CONFIG]: '{"version":2}' }, '', /config\.json: version: /],
    ['services', { [CONFIG]: config({ services: {} }) }, '', /has `services`/],
    [
      'a route to a service',
      { [CONFIG]: config({ routes: [{ src: '/', destination: { service: 'a' } }] }) },
      '',
      /routes\[0\] leads to a service/,
    ],
    ['a route without src', { [CONFIG]: config({ routes: [{ dest: '/' }] }) }, '', /routes\[0\]: src/],
    ['an unknown phase', { [CONFIG]: config({ routes: [{ handle: 'later' }] }) }, '', /routes\[0\]: handle/],
    ['a wrong status', { [CONFIG]: config({ routes: [{ src: '/', status: 9 }] }) }, '', /routes\[0\]: status/],
    ['a broken pattern', { [CONFIG]: config({ routes: [{ src: '/(' }] }) }, '', /routes\[0\], "\/\(", is no pattern/],
    [
      'a broken pattern of a condition',
      { [CONFIG]: config({ routes: [{ src: '/', has: [{ type: 'header', key: 'a', value: '(' }] }] }) },
      '',
      /routes\[0\], "\(", is no pattern/,
    ],
    [
      'an exponential pattern',
      { [CONFIG]: config({ routes: [{ src: '/x' }, { src: '/(a+)+b' }] }) },
      '',
      /routes\[1\], "\/\(a\+\)\+b", takes too long/,
    ],
    [
      'an exponential pattern of a condition',
      {
        [CONFIG]: config({ routes: [{ src: '/', missing: [{ type: 'cookie', key: 'a', value: { re: '(a|a)*b' } }] }] }),
      },
      '',
      /"\(a\|a\)\*b", takes too long/,
    ],
    [
      'a NUL, which no database holds',
      { [CONFIG]: config({ routes: [{ src: '/a', headers: { 'x-a': 'b\0' } }] }) },
      '',
      /"b\\u0000" holds a NUL or half of a character/,
    ],
    [
      'half of a character in the path of an override',
      { [CONFIG]: config({ overrides: { 'a.html': { path: '\ud800' } } }), '.vercel/output/static/a.html': '' },
      '',
      /"\\ud800" holds a NUL or half of a character/,
    ],
    [
      'a status that ends no answer',
      { [CONFIG]: config({ routes: [{ src: '/a', status: 101 }] }) },
      '',
      /routes\[0\]: status: /,
    ],
    [
      '_redirects without an end',
      { 'index.html': '', _redirects: 'a\n'.repeat(3_000_000) },
      '',
      /^UnusableOutput: _redirects is larger than 4 MB/,
    ],
    [
      'a Content-Type that no header can hold',
      { [CONFIG]: config({ overrides: { 'a.html': { contentType: 'text/html\r\nx-a: b' } } }) },
      '',
      /a Content-Type is plain text/,
    ],
    [
      'an override outside',
      { [CONFIG]: config({ overrides: { '../../secret': {} } }) },
      '',
      /override "..\/..\/secret" leads outside/,
    ],
    [
      'a path of an override outside',
      { [CONFIG]: config({ overrides: { 'a.html': { path: '../a' } } }), '.vercel/output/static/a.html': '' },
      '',
      /path of an override "..\/a" leads outside/,
    ],
    [
      'a middleware that is none',
      { [CONFIG]: config({ routes: [{ src: '/', middlewarePath: '_m' }] }) },
      '',
      /names the middleware _m/,
    ],
    [
      'a Function in another language',
      {
        [CONFIG]: config({}),
        '.vercel/output/functions/hi.func/.vc-config.json': '{"runtime":"python3.12","handler":"index.py"}',
        '.vercel/output/functions/hi.func/index.py': '',
      },
      '',
      /hi\.func\/\.vc-config\.json asks for the runtime "python3\.12"; Functions run on Node\.js/,
    ],
    [
      'a handler of Lambda',
      {
        [CONFIG]: config({}),
        '.vercel/output/functions/hi.func/.vc-config.json':
          '{"runtime":"nodejs24.x","handler":"i.js","awsLambdaHandler":"i.handler"}',
        '.vercel/output/functions/hi.func/i.js': '',
      },
      '',
      /describes a Lambda handler/,
    ],
    [
      'a filePathMap that leads to nothing',
      {
        [CONFIG]: config({}),
        '.vercel/output/functions/hi.func/.vc-config.json':
          '{"runtime":"nodejs24.x","handler":"i.js","filePathMap":{"i.js":"i.js"}}',
      },
      '',
      /filePathMap names "i\.js", which is not there/,
    ],
    [
      'a filePathMap in which a file is a folder',
      {
        [CONFIG]: config({}),
        'a.js': '',
        '.vercel/output/functions/hi.func/.vc-config.json':
          '{"runtime":"nodejs24.x","handler":"i","filePathMap":{"i":"a.js","i/b":"a.js"}}',
      },
      '',
      /filePathMap has "i" as a file and a folder/,
    ],
    [
      'rules of a worker for no path',
      { '_worker.js': '', '_routes.json': '{"version":1,"include":[],"exclude":[]}' },
      '',
      /_routes\.json: has to include a rule/,
    ],
    [
      'a Function without its handler',
      {
        [CONFIG]: config({}),
        '.vercel/output/functions/hi.func/.vc-config.json': '{"runtime":"nodejs24.x","handler":"gone.js"}',
      },
      '',
      /handler "gone\.js" is not there/,
    ],
    [
      'a handler outside',
      {
        [CONFIG]: config({}),
        '.vercel/output/functions/hi.func/.vc-config.json': '{"runtime":"nodejs24.x","handler":"../../../../etc/x"}',
      },
      '',
      /handler ".*etc\/x" leads outside/,
    ],
    [
      'a filePathMap outside',
      {
        [CONFIG]: config({}),
        '.vercel/output/functions/hi.func/.vc-config.json':
          '{"runtime":"nodejs24.x","handler":"i.js","filePathMap":{"i.js":"../i.js"}}',
      },
      '',
      /filePathMap entry "..\/i\.js" leads outside/,
    ],
    [
      'a fallback outside',
      {
        [CONFIG]: config({}),
        '.vercel/output/functions/a/p.prerender-config.json': '{"fallback":{"fsPath":"../../../../x.html"}}',
      },
      '',
      /fallback ".*x\.html" leads outside/,
    ],
    [
      'a fallback that is not there',
      { [CONFIG]: config({}), '.vercel/output/functions/p.prerender-config.json': '{"fallback":"x.html"}' },
      '',
      /fallback "x\.html" is not there/,
    ],
  ]
  test.each(refused)('%s', async (_, files, rootDirectory, message) => {
    const failure = await readOutput(treeOf(files), rootDirectory).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(UnusableOutput)
    expect(String(failure)).toMatch(message)
  })
})

describe('Build Output', () => {
  test('comes before all else that is there, below the root directory', async () => {
    const { manifest, assets } = await readOutput(
      treeOf({
        [`web/${CONFIG}`]: config({
          routes: [{ handle: 'filesystem' }],
          wildcard: [{ domain: 'a.example', value: 'en' }],
        }),
        'web/.vercel/output/static/index.html': '',
        'web/package.json': '{"scripts":{"build":"x","start":"y"}}',
        'web/_worker.js': '',
      }),
      '/web/',
    )
    expect(manifest).toMatchObject({
      kind: 'build-output',
      routes: [{ handle: 'filesystem' }],
      wildcard: [{ domain: 'a.example', value: 'en' }],
      site: null,
    })
    expect(assets).toEqual([
      { path: 'index.html', source: 'web/.vercel/output/static/index.html', contentType: 'text/html; charset=utf-8' },
    ])
  })

  test('renames and types files by overrides, and serves no hidden one', async () => {
    const { assets, warnings } = await readOutput(
      treeOf({
        [CONFIG]: config({
          overrides: {
            'about.html': { path: 'about' },
            'feed.bin': { contentType: 'application/rss+xml' },
            'gone.html': { path: 'gone' },
          },
        }),
        '.vercel/output/static/about.html': '',
        '.vercel/output/static/feed.bin': '',
        '.vercel/output/static/.secret': '',
        '.vercel/output/static/.well-known/a': '',
      }),
      '',
    )
    expect(Object.fromEntries(assets.map(({ path, contentType }) => [path, contentType]))).toEqual({
      '.well-known/a': 'application/octet-stream',
      about: 'text/html; charset=utf-8',
      'feed.bin': 'application/rss+xml',
    })
    expect(warnings).toEqual([
      `${CONFIG}: the override "gone.html" names no file of static and is ignored.`,
      'Files of names that begin with a dot are left out: 1.',
    ])
  })

  test('takes the names that vercel.json has for members of routes', async () => {
    const { manifest, warnings } = await readOutput(
      treeOf({ [CONFIG]: config({ routes: [{ source: '/a', destination: '/b', statusCode: 404 }] }) }),
      '',
    )
    expect(manifest.routes).toEqual([{ src: '/a', dest: '/b', status: 404 }])
    expect(warnings).toEqual([])
  })

  test('says which members it ignores, and keeps those of routes that it knows', async () => {
    const route = {
      src: '^/(?<a>.*)$',
      dest: '/$a',
      headers: { 'X-A': '1' },
      methods: ['GET'],
      continue: true,
      has: [{ type: 'host', value: { suf: '.example' } }],
      transforms: [{ type: 'request.query', op: 'delete', target: { key: 'x' } }],
    }
    const { manifest, warnings } = await readOutput(
      treeOf({
        [CONFIG]: config({
          routes: [{ ...route, mitigate: { action: 'deny' } }],
          crons: [],
          images: { sizes: [640] },
          novelty: 1,
        }),
      }),
      '',
    )
    expect(manifest.routes).toEqual([route])
    expect(warnings).toEqual([`${CONFIG}: \`novelty\` is ignored.`, `${CONFIG}: \`mitigate\` of routes is ignored.`])
  })
})

describe('code', () => {
  const fn = (name: string, more: object = {}, handler = 'index.js') => ({
    [`.vercel/output/functions/${name}.func/.vc-config.json`]: JSON.stringify({
      runtime: 'nodejs24.x',
      handler,
      launcherType: 'Nodejs',
      ...more,
    }),
  })
  const shown = ({ functions }: Output) =>
    functions.map(({ files, ...rest }) => ({ ...rest, files: Object.fromEntries(files) }))

  test('a Function has the files of its folder and of its map, below one root', async () => {
    const output = await readOutput(
      treeOf({
        'web/.vercel/output/config.json': config({}),
        ...Object.fromEntries(
          Object.entries(
            fn(
              'api/hi',
              { filePathMap: { 'node_modules/x/i.js': 'node_modules/x/i.js' }, memory: 256, environment: { A: 'b' } },
              'app/run.js',
            ),
          ).map(([path, text]) => [`web/${path}`, text]),
        ),
        'web/.vercel/output/functions/api/hi.func/app/run.js': '',
        'web/node_modules/x/i.js': '',
      }),
      'web',
    )
    expect(shown(output)).toEqual([
      {
        path: 'api/hi',
        kind: 'handler',
        handler: 'app/run.js',
        isWeb: false,
        hasHelpers: false,
        memoryMb: 256,
        environment: { A: 'b' },
        files: {
          'app/run.js': 'web/.vercel/output/functions/api/hi.func/app/run.js',
          'node_modules/x/i.js': 'web/node_modules/x/i.js',
        },
      },
    ])
    expect(output.manifest.functions).toEqual({ 'api/hi': { function: 'api/hi' } })
  })

  test('a folder that links to a Function is that Function at one more path', async () => {
    const tree = treeOf({
      [CONFIG]: config({}),
      ...fn('a'),
      '.vercel/output/functions/a.func/index.js': '',
      ...fn('b'),
      '.vercel/output/functions/b.func/index.js': '',
      ...fn('c'),
      '.vercel/output/functions/c.func/index.js': '',
    })
    const files = new Map(tree.files)
    const linked = '.vercel/output/functions/b.func/.vc-config.json'
    files.set(linked, { bytes: 1, source: '.vercel/output/functions/a.func/.vc-config.json' })
    const output = await readOutput({ ...tree, files }, '')
    expect(output.functions.map(({ path }) => path)).toEqual(['a', 'c'])
    expect(output.manifest.functions).toEqual({ a: { function: 'a' }, b: { function: 'a' }, c: { function: 'c' } })
  })

  test('an edge Function, and a nested one', async () => {
    const output = await readOutput(
      treeOf({
        [CONFIG]: config({}),
        ...fn('edge', { runtime: 'edge', handler: undefined, entrypoint: 'index.mjs' }),
        '.vercel/output/functions/edge.func/index.mjs': '',
        ...fn('edge.func/x'),
        '.vercel/output/functions/edge.func/x.func/index.js': '',
        '.vercel/output/functions/edge.func/y.func/index.js': '',
      }),
      '',
    )
    expect(output.functions.map(({ path, kind, files }) => [path, kind, [...files.keys()]])).toEqual([
      ['edge', 'edge', ['index.mjs', 'y.func/index.js']],
      ['edge.func/x', 'handler', ['index.js']],
    ])
  })

  test('a worker stands in front of the files that _routes.json leaves it', async () => {
    const output = await readOutput(
      treeOf({
        '_worker.js': '',
        '_routes.json': '{"version":1,"include":["/*"],"exclude":["/assets/*","/*.ico"]}',
        'index.html': '',
        'assets/a.css': '',
        'x.ico': '',
      }),
      '',
    )
    expect(shown(output)).toMatchObject([
      { path: '_worker.js', kind: 'worker', handler: '_worker.js', files: { '_worker.js': '_worker.js' } },
    ])
    expect(output.assets.map(({ path }) => path)).toEqual(['index.html', 'assets/a.css', 'x.ico'])
    const paths = new Set(output.assets.map(({ path }) => path))
    const ask = (router: Router, path: string) =>
      router.route({ method: 'GET', path, query: 'q=1', host: 'a', headers: {}, protocol: 'http' }, (name) =>
        paths.has(name),
      )
    const router = compileOutput(output.manifest)
    expect(ask(router, '/')).toMatchObject({ kind: 'function', path: '_worker.js', url: '/?q=1' })
    expect(ask(router, '/assets')).toMatchObject({ kind: 'not-found' })
    expect(ask(router, '/assets/a.css')).toMatchObject({ kind: 'asset' })
    expect(ask(router, '/deep/x.ico')).toMatchObject({ kind: 'not-found' })
    expect(ask(router, '/x.ico')).toMatchObject({ kind: 'asset' })
    expect(ask(compileFiles(output.manifest), '/')).toMatchObject({ kind: 'asset', path: 'index.html' })
  })

  test.each([
    ['/a*c', '/abc', true],
    ['/a*c', '/ac', true],
    ['/a*c', '/a', false],
    ['/a*b*c', '/axbxc', true],
    ['/a*bc*c', '/abc', false],
    ['/api/*', '/api', true],
    ['/api/*', '/apis', false],
    ['/api', '/api/x', false],
    ['/*/x', '//x', false],
  ])('the rule %s of a worker has %s: %s', (rule, path, isIncluded) => {
    const router = compileOutput({
      version: 1,
      kind: 'worker',
      routes: [],
      wildcard: [],
      site: null,
      worker: { include: [rule], exclude: [] },
      functions: { w: { function: 'w' } },
    })
    const { kind } = router.route(
      { method: 'GET', path, query: '', host: 'a', headers: {}, protocol: 'http' },
      () => false,
    )
    expect(kind === 'function').toBe(isIncluded)
  })

  test('a worker of several modules', async () => {
    const output = await readOutput(
      treeOf({ '_worker.js/index.js': '', '_worker.js/chunks/a.js': '', 'a.html': '' }),
      '',
    )
    expect(shown(output)).toMatchObject([
      { handler: 'index.js', files: { 'index.js': '_worker.js/index.js', 'chunks/a.js': '_worker.js/chunks/a.js' } },
    ])
    expect(output.assets.map(({ path }) => path)).toEqual(['a.html'])
  })

  test.each([
    [
      'a start script of Node',
      { 'package.json': '{"scripts":{"start":"node ./src/main.mjs"}}', 'src/main.mjs': '' },
      { handler: 'src/main.mjs' },
    ],
    [
      'any other start script',
      { 'package.json': '{"scripts":{"start":"tsx main.ts"}}', 'main.ts': '' },
      { command: 'tsx main.ts' },
    ],
    [
      'a start script of a missing file',
      { 'package.json': '{"scripts":{"start":"node gone.js"}}' },
      { command: 'node gone.js' },
    ],
    [
      'a start script of a folder',
      { 'build/index.js': '', 'package.json': '{"scripts":{"start":"node build"}}' },
      { handler: 'build/index.js' },
    ],
    [
      'a start script without an ending',
      { 'main.js': '', 'main/index.js': '', 'package.json': '{"scripts":{"start":"node ./main"}}' },
      { handler: 'main.js' },
    ],
    ['server.js', { 'server.js': '', 'package.json': '{}' }, { handler: 'server.js' }],
    ['the server of Nitro', { '.output/server/index.mjs': '' }, { handler: '.output/server/index.mjs' }],
  ])('a server: %s', async (_, files, entry) => {
    const output = await readOutput(treeOf(files), '')
    expect(output.manifest.kind).toBe('server')
    expect(shown(output)).toMatchObject([{ kind: 'server', ...entry }])
    expect(output.functions[0]?.files.size).toBe(Object.keys(files).length)
    const answer = compileOutput(output.manifest).route(
      { method: 'POST', path: '/a/../b', query: 'c', host: 'a', headers: {}, protocol: 'http' },
      () => false,
    )
    expect(answer).toMatchObject({ kind: 'function', url: '/a/../b?c' })
  })
})
