import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { unless } from '@platform/test-runner/task-meta'
import { type PackageRegistry, startPackageRegistry } from '@platform/testkit/package-registry'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { visit } from '../../../../test/deploy.ts'
import { buildSource, sourceFile as file } from '../../../../test/deployments.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import type { ZipEntry } from '../../../../test/zip.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'

const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit'])
const packageOf = (name: string, code: string) => ({
  name,
  version: '1.0.0',
  files: { 'package.json': JSON.stringify({ name, version: '1.0.0', main: 'index.js' }), 'index.js': code },
})
/** A package that a server needs, and one that has an install script. */
const GREETER = packageOf('greeter', 'module.exports = (name) => `Hello, ${name}`\n')
const SCRIPTED = packageOf('scripted', '')
SCRIPTED.files['package.json'] = JSON.stringify({
  name: 'scripted',
  version: '1.0.0',
  main: 'index.js',
  scripts: { postinstall: 'node index.js' },
})
/** A server in CommonJS that answers with an expression of its request. */
const serving = (expression: string): string =>
  `require('node:http').createServer((req, res) => res.end(String(${expression}))).listen(process.env.PORT)`
/** A program that writes files. */
const writing = (files: Record<string, string>): string =>
  Object.entries(files)
    .map(
      ([path, text]) =>
        `fs.mkdirSync(require('node:path').dirname('${path}'), { recursive: true }); fs.writeFileSync('${path}', ${JSON.stringify(text)})`,
    )
    .join(';')
const program = (files: Record<string, string>): string => `const fs = require('node:fs'); ${writing(files)}`

let platform: TestPlatform
let registry: PackageRegistry
let ana: Owner

const npmrc = (): ZipEntry => file('.npmrc', `registry=${registry.url}\n`)
const build = (archive: readonly ZipEntry[], rootDirectory?: string) =>
  buildSource(platform, ana, { archive: [npmrc(), ...archive], ...(rootDirectory !== undefined && { rootDirectory }) })
async function deploy(...options: Parameters<typeof build>) {
  const built = await build(...options)
  if (built.status !== 'ACTIVE') throw new Error(`${built.failureReason}\n${built.log}`)
  return built
}
const answerOf = async (host: string, path = '/'): Promise<string> => (await visit(platform, host, path)).text

describe('a project of Node', unless(obstacle), () => {
  beforeAll(async () => {
    registry = await startPackageRegistry([GREETER, SCRIPTED])
    platform = await startPlatform({
      hasWorker: true,
      env: { BUILD_EGRESS: 'registry', BUILD_REGISTRIES: registry.url, DEFAULT_PLAN: 'pro' },
    })
    ana = await newOwner(platform)
  })
  afterAll(async () => {
    await platform.close()
    await registry.close()
  })

  test('without a build script has its packages installed, and its server starts', async () => {
    const { host, log } = await deploy([
      file('package.json', { scripts: { start: 'node index.js' }, dependencies: { greeter: '1.0.0' } }),
      file('index.js', serving(`require('greeter')(req.url)`)),
    ])
    expect(await answerOf(host, '/you')).toBe('Hello, /you')
    expect(log).toContain(
      'INFO Found a server whose packages are installed: package.json has dependencies and no build script',
    )
    expect(log).not.toContain('npm run build')
  })

  test('that brings its packages is left alone', async () => {
    const { host, log } = await deploy([
      file('package.json', { scripts: { start: 'node index.js' }, dependencies: { greeter: '1.0.0' } }),
      file('index.js', serving(`require('greeter')`)),
      file('node_modules/greeter/index.js', `module.exports = 'its own'`),
    ])
    expect(await answerOf(host)).toBe('its own')
    expect(log).not.toContain('Running')
  })

  test('whose start script compiles is started by start:prod, and the log says so', async () => {
    const { host, log } = await deploy([
      file('package.json', {
        scripts: { build: 'node make.js', start: 'node make.js && node dist/main.js', 'start:prod': 'node dist/main' },
      }),
      file('make.js', program({ 'dist/main.js': serving(`'made'`) })),
    ])
    expect(await answerOf(host)).toBe('made')
    expect(log).toContain(
      'INFO Started by the script start:prod: node dist/main; passed over, as no program that is there: start (node make.js && node dist/main.js)',
    )
  })

  test('whose only start script compiles is refused with the script to write', async () => {
    const { status, failureReason } = await build([
      file('package.json', { scripts: { build: 'node make.js', start: 'node make.js && node dist/main.js' } }),
      file('make.js', program({ 'dist/main.js': serving(`'made'`) })),
    ])
    expect(status).toBe('FAILED')
    expect(failureReason).toContain(
      '`npm start` ran `node make.js && node dist/main.js`, which writes files below its own folder.',
    )
    expect(failureReason).toContain('add a script that only starts what it made, "start:prod": "node dist/main.js".')
  })

  test('of a pnpm 10 lockfile is built without install scripts, and told which, and how to allow them', async () => {
    const lock = [
      `lockfileVersion: '9.0'\n\nsettings:\n  autoInstallPeers: true\n  excludeLinksFromLockfile: false`,
      `importers:\n\n  .:\n    dependencies:\n      scripted:\n        specifier: 1.0.0\n        version: 1.0.0`,
      `packages:\n\n  scripted@1.0.0:\n    resolution: {integrity: ${registry.integrityOf('scripted')}}\n    requiresBuild: true`,
      `snapshots:\n\n  scripted@1.0.0: {}\n`,
    ]
    const { log } = await deploy([
      file('package.json', { scripts: { build: 'node make.js' }, dependencies: { scripted: '1.0.0' } }),
      file('pnpm-lock.yaml', lock.join('\n\n')),
      file('make.js', program({ 'dist/index.html': 'made' })),
    ])
    expect(log).toContain(
      'WARN pnpm did not run the install scripts of scripted@1.0.0. If they are needed: allowBuilds: { "scripted": true } in pnpm-workspace.yaml.',
    )
  })

  test('whose lockfile is older than package.json is told so', async () => {
    const { failureReason } = await build([
      file('package.json', { name: 'a', scripts: { build: 'true' }, dependencies: { greeter: '1.0.0' } }),
      file('package-lock.json', { name: 'a', lockfileVersion: 3, requires: true, packages: { '': { name: 'a' } } }),
    ])
    expect(failureReason).toBe(
      'package-lock.json and package.json do not fit each other: run `npm install`, and upload both. `npm ci --include=dev --no-audit --no-fund` ended with exit code 1',
    )
  })

  test('that names a package manager that does not exist is told so', async () => {
    const { failureReason } = await build([
      file('package.json', { scripts: { build: 'true' }, packageManager: 'pnpm@99.0.0' }),
    ])
    expect(failureReason).toBe(
      "The project's package manager, pnpm 99.0.0, cannot be installed (packageManager in package.json). `npm install pnpm@99.0.0` ended with exit code 1",
    )
  })

  test('whose packages are more than can be deployed gets those that it reaches, and the log says so', async () => {
    const owner = await newOwner(platform)
    await setQuota(platform.api, owner.organizationId, 'unpacked_bytes', 1_048_576)
    const archive = [
      npmrc(),
      file('package.json', {
        scripts: { build: 'node make.js', start: 'node index.js' },
        dependencies: { greeter: '1.0.0' },
      }),
      file('make.js', `require('node:fs').writeFileSync('node_modules/large.bin', Buffer.alloc(2 ** 21))`),
      file('index.js', serving(`require('greeter')(require('node:fs').readdirSync('node_modules'))`)),
    ]
    const { host, log } = await buildSource(platform, owner, { archive })
    expect(log).toContain(
      'WARN The build left more than 1 MiB to deploy, so node_modules was traced from index.js: the server gets 2 files of it, and may lack what it loads by names that it computes',
    )
    expect(await answerOf(host)).toBe('Hello, greeter')
  })

  describe('in a workspace', () => {
    /** A server that needs a package of the workspace, which has to be built, and one that npm hoists to the root. */
    const workspace = (): ZipEntry[] => [
      file('package.json', { name: 'all', private: true, workspaces: ['apps/*', 'packages/*'] }),
      file('packages/words/package.json', {
        name: 'words',
        version: '1.0.0',
        main: 'dist/index.js',
        scripts: { build: 'node make.js' },
        dependencies: { greeter: '1.0.0' },
      }),
      file('packages/words/make.js', program({ 'dist/index.js': `exports.words = require('greeter')('words')` })),
      file('apps/other/package.json', { name: 'other', version: '1.0.0', scripts: { build: 'exit 1' } }),
      file('apps/other/secret.txt', 'of another application'),
      file('apps/api/package.json', {
        name: 'api',
        version: '1.0.0',
        scripts: { build: 'node make.js', start: 'node index.js' },
        dependencies: { words: '*', greeter: '1.0.0' },
      }),
      file('apps/api/make.js', program({ 'made.txt': 'made by the site' })),
      file(
        'apps/api/index.js',
        serving(
          `JSON.stringify([require('words').words, require('greeter')('api'), require('node:fs').readFileSync('made.txt', 'utf8'), require('node:fs').readdirSync('..')])`,
        ),
      ),
    ]

    test('what a server needs is built first, and it gets what lies above its folder', async () => {
      const { host, log } = await deploy(workspace(), 'apps/api')
      expect(JSON.parse(await answerOf(host))).toEqual(['Hello, words', 'Hello, api', 'made by the site', ['api']])
      expect(log).toMatch(/Running npm run build \(packages\/words\)\n[^]*Running npm run build\n/)
    })

    test('a script runs in the folder of the site, and finds the programs of packages above it', async () => {
      const started = file('apps/api/package.json', {
        name: 'api',
        version: '1.0.0',
        scripts: { build: 'node make.js', start: 'SAYING=hi exec node index.js && true' },
        dependencies: { words: '*', greeter: '1.0.0' },
      })
      const { host } = await deploy(
        workspace().map((entry) => (entry.name === started.name ? started : entry)),
        'apps/api',
      )
      expect(JSON.parse(await answerOf(host))).toContain('made by the site')
    })
  })

  test('that leaves a server beside its pages is told what was left out, and how to take it', async () => {
    const { log, host } = await deploy([
      file('package.json', { scripts: { build: 'node make.js', start: 'ng serve' } }),
      file(
        'make.js',
        program({
          'dist/app/browser/index.html': 'pages',
          'dist/app/server/server.mjs': `import http from 'node:http'; http.createServer(() => {}).listen(process.env.PORT)`,
          'docs/site/manual/index.html': 'a manual',
        }),
      ),
    ])
    expect(await answerOf(host)).toBe('pages')
    expect(log).toContain(
      'WARN The build also made dist/app/server/server.mjs, which looks like a server, and is not started: "start:prod": "node dist/app/server/server.mjs" in package.json takes it.',
    )
    expect(log).toContain(
      'WARN The build also made docs/site/manual, with an index.html, and dist/app/browser is taken: { "outputDirectory": "docs/site/manual" } in vercel.json takes it instead.',
    )
  })

  test('that leaves pages beside a start script of its own is told that it is not run', async () => {
    const { log, host } = await deploy([
      file('package.json', { scripts: { build: 'node make.js', start: 'tsx server.ts' } }),
      file('make.js', program({ 'dist/index.html': 'pages' })),
    ])
    expect(await answerOf(host)).toBe('pages')
    expect(log).toContain(
      'WARN package.json: scripts: start (tsx server.ts) is not run, since the build made pages in dist. If it is a server, let it be started by Node and its file: "start:prod": "node …".',
    )
  })

  test('whose start script names the folder is started by its main module', async () => {
    const { host } = await deploy([
      file('package.json', { main: 'dist/main', scripts: { build: 'node make.js', start: 'node .' } }),
      file('index.js', `throw new Error('It is not the main module')`),
      file('make.js', program({ 'dist/main.js': serving(`'main'`) })),
    ])
    expect(await answerOf(host)).toBe('main')
  })

  test('that leaves nothing is told what the build made', async () => {
    const { failureReason } = await build([
      file('package.json', { scripts: { build: 'node make.js' }, devDependencies: {} }),
      file(
        'make.js',
        program({
          'dist/client/a.js': '',
          'dist/client/b.js': '',
          'dist/server/server.js': 'export default { fetch() {} }',
        }),
      ),
    ])
    expect(failureReason).toBe(
      'The build succeeded, and left nothing to deploy: neither .vercel/output, nor a folder with an index.html, nor a server that package.json has a start script for. It made dist/client (2 files), dist/server (1 file). dist/server/server.js looks like a server: it exports what another program has to serve: see the adapters of its framework. vercel.json can name a folder of pages: { "outputDirectory": "…" }',
    )
  })

  test('that needs a newer Node fails before anything is installed', async () => {
    const before = registry.requests.length
    const { failureReason, archiveBytes, log } = await build([
      file('package.json', {
        scripts: { build: 'true' },
        engines: { node: '>=99' },
        dependencies: { greeter: '1.0.0' },
      }),
    ])
    expect(failureReason).toMatch(/^package\.json \(engines\.node\) asks for Node >=99, and this platform has 24\./)
    // It is stored as the deployment leaves STARTING.
    expect(archiveBytes).toBeNull()
    expect([registry.requests.length, log]).toEqual([before, expect.not.stringContaining('Running')])
  })

  test('that asks for an older Node is warned first, and told again when it fails', async () => {
    const { failureReason, log } = await build([
      file('package.json', { scripts: { build: 'exit 3' }, dependencies: { greeter: '1.0.0' } }),
      file('.nvmrc', 'lts/iron\n'),
    ])
    expect(failureReason).toBe(
      '`npm run build` ended with exit code 3. The project asks for Node lts/iron and ran on 24.x.',
    )
    expect(log.split('\n').find((line) => line.startsWith('WARN'))).toMatch(
      /^WARN \.nvmrc asks for Node lts\/iron; builds and Functions run on Node 24\./,
    )
  })
})
