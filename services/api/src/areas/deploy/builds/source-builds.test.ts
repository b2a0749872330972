import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { unless } from '@platform/test-runner/task-meta'
import { installedPackages, type PackageRegistry, startPackageRegistry } from '@platform/testkit/package-registry'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { visit } from '../../../../test/deploy.ts'
import {
  buildSource,
  deploymentOf,
  logOf,
  newDeployment,
  sourceFile as file,
  until,
  untilEnded,
} from '../../../../test/deployments.ts'
import { newOwner, type Owner, unique } from '../../../../test/scenario.ts'
import { LINK, type ZipEntry } from '../../../../test/zip.ts'
import type { EnvironmentSlug } from '../../tenancy/applications/table.ts'
import { openArtifactCollector } from '../artifacts/collect-artifacts.ts'
import { artifacts, buildCaches } from '../artifacts/table.ts'
import { blobs } from '../../storage/objects/table.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'
import { deployments } from '../deployments/table.ts'
import type { Deployment } from '../deployments/transitions.ts'
import { discardBuildCaches } from './build-cache.ts'
import { sweepDeployments } from './sweep-deployments.ts'

const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit'])
const GREETER = {
  name: 'greeter',
  version: '1.0.0',
  files: {
    'package.json': JSON.stringify({ name: 'greeter', version: '1.0.0', main: 'index.js' }),
    'index.js': 'module.exports = (name) => `Hello, ${name}`\n',
  },
}

let platform: TestPlatform
let registry: PackageRegistry
let ana: Owner
/** The command lines of all processes on this machine. */
const listArguments = (): string[] =>
  readdirSync('/proc').flatMap((name) => {
    try {
      return /^\d+$/.test(name) ? [readFileSync(`/proc/${name}/cmdline`, 'utf8')] : []
    } catch {
      // The process has ended meanwhile.
      return []
    }
  })

type Place = Pick<Owner, 'organizationId' | 'applicationId'>

/** Deploys source and returns the ended deployment. */
const build = (
  archive: readonly ZipEntry[],
  { place = ana, environment = 'production' }: { place?: Place; environment?: EnvironmentSlug } = {},
) => buildSource(platform, place, { archive, environment })

async function deploy(...options: Parameters<typeof build>) {
  const built = await build(...options)
  if (built.status !== 'ACTIVE') throw new Error(`${built.failureReason}\n${built.log}`)
  return built
}

/** A project that depends on greeter, with npm's lockfile. */
function npmProject(script: string, more: readonly ZipEntry[] = [], scripts: Record<string, string> = {}): ZipEntry[] {
  const dependencies = { greeter: '1.0.0' }
  return [
    file('.npmrc', `registry=${registry.url}\n`),
    file('package.json', {
      name: 'site',
      version: '1.0.0',
      scripts: { build: 'node build.cjs', ...scripts },
      dependencies,
    }),
    file('package-lock.json', {
      name: 'site',
      version: '1.0.0',
      lockfileVersion: 3,
      requires: true,
      packages: {
        '': { name: 'site', version: '1.0.0', dependencies },
        'node_modules/greeter': {
          version: '1.0.0',
          resolved: registry.tarballOf('greeter'),
          integrity: registry.integrityOf('greeter'),
        },
      },
    }),
    file('build.cjs', script),
    ...more,
  ]
}

const WRITE = `const fs = require('node:fs'); fs.mkdirSync('dist', { recursive: true });`
/** A program that writes the value of an expression into the page, then runs `then`. */
const page = (expression: string, then = ''): string =>
  `${WRITE} fs.writeFileSync('dist/index.html', String(${expression})); ${then}`
const greeting = (then = ''): string => page(`require('greeter')('site')`, then)
const fetched = (): number => registry.requests.filter((path) => path === '/greeter/-/greeter-1.0.0.tgz').length
/** The cache of the last build is stored only after its deployment is ACTIVE. */
const untilKept = (environmentId: string) =>
  vi.waitFor(async () => expect(await cachesOf(environmentId)).not.toEqual([]), { timeout: 60_000, interval: 20 })
const cachesOf = (environmentId: string) =>
  platform.api.db.select().from(buildCaches).where(eq(buildCaches.environmentId, environmentId))

describe('source', unless(obstacle), () => {
  beforeAll(async () => {
    const { resolve } = createRequire(import.meta.url)
    registry = await startPackageRegistry([
      GREETER,
      ...installedPackages(['nitro', 'vite'], resolve('vitest/package.json')),
      ...installedPackages(['nitro'], import.meta.filename),
    ])
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

  test('is built with its variables, and what the build made is served', async () => {
    const owner = await newOwner(platform)
    const secret = `s3cret-${unique()}`
    for (const [key, value, sensitive] of [
      ['API_TOKEN', secret, true],
      ['MOTTO', 'two\nlines', false],
      ['NODE_ENV', 'production', false],
    ] as const)
      expect(
        (
          await platform.call(owner.token, `POST /applications/${owner.applicationId}/env-vars`, {
            key,
            value,
            sensitive,
          })
        ).status,
      ).toBe(201)
    const { host, log, output } = await deploy(
      npmProject(
        page(
          `JSON.stringify({ greeting: require('greeter')('site'), ...process.env })`,
          `console.log('the token is', process.env.API_TOKEN); console.error('careful')
          require('node:fs').writeFileSync('dist/INDEX.HTML', 'another')`,
        ),
      ),
      { place: owner },
    )
    const seen = JSON.parse((await visit(platform, host, '/')).text) as Record<string, string>
    expect(seen).toMatchObject({
      greeting: 'Hello, site',
      API_TOKEN: secret,
      MOTTO: 'two\nlines',
      NODE_ENV: 'production',
      VERCEL: '1',
      VERCEL_ENV: 'production',
      VERCEL_URL: host,
      CI: '1',
    })
    expect(seen).not.toHaveProperty('PLATFORM_CLIENT_SECRET')
    expect(output).toMatchObject({ kind: 'static' })
    expect(log).not.toContain(secret)
    expect(log).toMatch(/^INFO the token is \[redacted\]$/m)
    expect(log).toMatch(/^WARN careful$/m)
    expect(log).toMatch(
      /INFO Found source.*\nINFO Package manager: npm 11\.[\d.]+, by package-lock\.json\nINFO Node is 24\.[\d.]+.*\nINFO .* nothing kept of an earlier build\nINFO Running npm ci[^]*\nINFO Took dist: /,
    )
    expect(log).toMatch(/^INFO Found plain files: 2 assets$/m)
    expect(log.split('\n').filter((line) => line.includes('INDEX.HTML'))).toEqual([
      'WARN "dist/index.html" differs from "dist/INDEX.HTML" in upper and lower case or in the spelling of accents alone; an archive with both is refused',
    ])
    // The source itself is not served.
    expect((await visit(platform, host, '/build.cjs')).status).toBe(404)
  })

  test('has the variables whose values its log hides, also where one is replaced meanwhile', async () => {
    const owner = await newOwner(platform)
    const { db, builds } = platform.api
    const [before, after] = [`before-${unique()}`, `after-${unique()}`]
    const path = `/applications/${owner.applicationId}/env-vars`
    const variable = { key: 'API_TOKEN', value: before, sensitive: true }
    const made = await platform.call(owner.token, `POST ${path}`, variable)
    expect(made.status).toBe(201)
    const archive = npmProject(page('process.env.API_TOKEN', `console.log('the token is', process.env.API_TOKEN)`))
    const { id } = await newDeployment(platform, owner, { archive, status: 'PENDING' })
    const isWaiting = sql`select from pg_locks where relation = 'upload_blobs'::regclass and not granted`
    await db.transaction(async (tx) => {
      // The archive is read after this, when the log already knows what to redact.
      await tx.execute(sql`lock table upload_blobs in access exclusive mode`)
      await db.update(deployments).set({ status: 'QUEUED' }).where(eq(deployments.id, id))
      await builds.enqueue(db, id)
      await expect.poll(() => db.execute(isWaiting)).not.toEqual([])
      const replaced = await platform.call(owner.token, `PATCH ${path}/${made.body.id}`, { value: after })
      expect(replaced.status).toBe(200)
    })
    await until(platform, id, ({ status }) => status === 'ACTIVE')
    const log = await logOf(platform, id)
    expect(log).toContain('INFO the token is [redacted]')
    expect(log).not.toContain(after)
  })

  test('begins with what the last build of its environment kept, and no other application gets it', async () => {
    const [owner, other] = [await newOwner(platform), await newOwner(platform)]
    const poison = `fs.writeFileSync('node_modules/greeter/index.js', 'module.exports = () => "poisoned"')`
    const before = fetched()
    const first = await deploy(npmProject(greeting(poison)), { place: owner })
    expect((await visit(platform, first.host, '/')).text).toBe('Hello, site')
    expect(fetched()).toBe(before + 1)
    await untilKept(first.environmentId)

    const second = await deploy(npmProject(greeting()), { place: owner })
    expect(second.log).toMatch(/ kept of an earlier build\nINFO Running npm install /)
    expect((await visit(platform, second.host, '/')).text).toBe('poisoned')
    expect(fetched()).toBe(before + 1)

    for (const where of [{ place: other }, { place: owner, environment: 'preview' }] as const) {
      const clean = await deploy(npmProject(greeting()), where)
      expect(clean.log).toContain('nothing kept of an earlier build')
      expect((await visit(platform, clean.host, '/')).text).toBe('Hello, site')
    }
    expect(fetched()).toBe(before + 3)
  })

  test('is built without links that no disk takes', async () => {
    const links = ['', 'a\0b', 'x/'.repeat(2_048)].map((content, n) => ({ name: `link${n}`, content, mode: LINK }))
    const script = page(`fs.readdirSync('.').filter((name) => name.startsWith('link'))`)
    const { host } = await deploy(npmProject(script, [...links, { name: 'link9', content: '/nowhere', mode: LINK }]))
    expect((await visit(platform, host, '/')).text).toBe('link9')
  })

  test('goes on without what an earlier build kept where that cannot be read any more', async () => {
    const owner = await newOwner(platform)
    const { environmentId } = await deploy(npmProject(greeting()), { place: owner })
    await untilKept(environmentId)
    const [kept] = await cachesOf(environmentId)
    const [artifact] = await platform.api.db.select().from(artifacts).where(eq(artifacts.sha256, kept!.sha256))
    await platform.api.db.update(blobs).set({ content: null }).where(eq(blobs.id, artifact!.blobId))
    const { log } = await deploy(npmProject(greeting()), { place: owner })
    expect(log).toContain('WARN What an earlier build kept cannot be read, and is left out')
    expect(log).toContain('nothing kept of an earlier build')
  })

  test('that fails keeps nothing, and its log names the command', async () => {
    const owner = await newOwner(platform)
    const failed = await build(
      npmProject(`require('node:fs').writeFileSync('node_modules/greeter/index.js', ''); process.exit(3)`),
      { place: owner },
    )
    expect(failed).toMatchObject({ status: 'FAILED', failureReason: '`npm run build` ended with exit code 3' })
    expect(failed.log).toMatch(/ERROR `npm run build` ended with exit code 3$/)
    const next = await deploy(npmProject(greeting()), { place: owner })
    expect(next.log).toContain('nothing kept of an earlier build')
  })

  test('that is built and cannot be started keeps nothing either', async () => {
    const owner = await newOwner(platform)
    const server = `require('node:fs').writeFileSync('server.cjs', 'process.exit(1)')`
    const failed = await build(npmProject(server, [], { start: 'node server.cjs' }), { place: owner })
    expect(failed).toMatchObject({ status: 'FAILED', failureReason: expect.stringContaining('cannot be started') })
    expect(failed.log).toContain('INFO Built in ')
    expect(await cachesOf(failed.environmentId)).toEqual([])
  })

  test('of an environment keeps what its newest two lockfiles installed', async () => {
    const owner = await newOwner(platform)
    const deployWith = (n: number) =>
      deploy(
        [
          file('package.json', { resolutions: { any: `${n}.0.0` } }),
          file('vercel.json', {
            installCommand: '',
            buildCommand: `mkdir -p node_modules/a dist && echo ${n} > node_modules/a/n && echo ${n} > dist/index.html`,
          }),
        ],
        { place: owner },
      )
    const seen = new Set<string>()
    for (const n of [1, 2, 3]) {
      const { environmentId } = await deployWith(n)
      await vi.waitFor(
        async () => {
          for (const { key } of await cachesOf(environmentId)) seen.add(key)
          expect(seen.size).toBe(n)
        },
        { timeout: 60_000, interval: 20 },
      )
      platform.clock.advance(1)
    }
    const { environmentId } = await deployWith(3)
    const [first] = seen
    const left = (await cachesOf(environmentId)).map(({ key }) => key)
    expect([left.length, left.includes(first!)]).toEqual([2, false])
  })

  test('has the minutes of its plan, and leaves no more than the plan allows', async () => {
    const [slow, large] = [await newOwner(platform), await newOwner(platform)]
    await setQuota(platform.api, slow.organizationId, 'minutes_per_build', 0)
    await setQuota(platform.api, large.organizationId, 'unpacked_bytes', 1_048_576)
    const [late, much] = await Promise.all([
      build(npmProject('setTimeout(() => {}, 1e6)'), { place: slow }),
      build(npmProject(page(`'x'.repeat(2e6)`)), { place: large }),
    ])
    expect(late.failureReason).toBe('The build took longer than 0 seconds')
    expect(much.failureReason).toBe('The build left more than 1 MiB to deploy')
  })

  test('of a Node server runs with the packages that pnpm linked for it', async () => {
    const lock = [
      `lockfileVersion: '9.0'\n\nsettings:\n  autoInstallPeers: true\n  excludeLinksFromLockfile: false`,
      `importers:\n\n  .:\n    dependencies:\n      greeter:\n        specifier: 1.0.0\n        version: 1.0.0`,
      `packages:\n\n  greeter@1.0.0:\n    resolution: {integrity: ${registry.integrityOf('greeter')}}`,
      `snapshots:\n\n  greeter@1.0.0: {}\n`,
    ]
    const { host, log, output } = await deploy([
      file('.npmrc', `registry=${registry.url}\n`),
      file('package.json', {
        name: 'server',
        scripts: { build: 'node build.mjs', start: 'node dist/server.mjs' },
        dependencies: { greeter: '1.0.0' },
      }),
      file('pnpm-lock.yaml', lock.join('\n\n')),
      file(
        'build.mjs',
        `import fs from 'node:fs'; fs.mkdirSync('dist'); fs.writeFileSync('dist/server.mjs', \`
          import { createServer } from 'node:http'; import { lstatSync } from 'node:fs'; import greet from 'greeter'
          const isLink = lstatSync(new URL('../node_modules/greeter', import.meta.url)).isSymbolicLink()
          createServer((req, res) => res.end(greet(req.url) + ' ' + isLink)).listen(process.env.PORT)\`)`,
      ),
    ])
    expect(output).toMatchObject({ kind: 'server' })
    expect(log).toContain('INFO Package manager: pnpm 12.')
    expect((await visit(platform, host, '/you')).text).toBe('Hello, /you true')
  })

  test('of Nitro becomes Build Output, and its Function answers', async () => {
    const { host, log, output } = await deploy([
      file('.npmrc', `registry=${registry.url}\nlegacy-peer-deps=true\n`),
      file('package.json', {
        name: 'nitro-app',
        type: 'module',
        scripts: { build: 'nitro build' },
        devDependencies: { nitro: '*', rolldown: '*' },
      }),
      file('nitro.config.ts', `export default { compatibilityDate: '2026-01-01', serverDir: './' }`),
      file('api/hello.ts', `export default () => ({ hello: 'nitro' as string })`),
    ])
    expect(output).toMatchObject({ kind: 'build-output' })
    expect(log).toContain('There is no lockfile')
    expect(JSON.parse((await visit(platform, host, '/api/hello')).text)).toEqual({ hello: 'nitro' })
  })

  test('of a static generator in a folder of a workspace is served from the folder it writes', async () => {
    const archive = [
      file('.npmrc', `registry=${registry.url}\n`),
      file('package.json', { name: 'all', private: true, workspaces: ['apps/*', 'packages/*'] }),
      file('packages/words/package.json', { name: 'words', version: '1.0.0', type: 'module', exports: './index.js' }),
      file('packages/words/index.js', `export const words = 'from the workspace'`),
      { name: 'apps/site/shared', content: '../../packages/words', mode: LINK },
      file('apps/site/package.json', {
        name: 'site',
        type: 'module',
        scripts: { build: 'vite build' },
        dependencies: { words: '1.0.0' },
        devDependencies: { vite: '*' },
      }),
      file('apps/site/index.html', '<!doctype html><title>site</title><script type="module" src="/main.js"></script>'),
      file(
        'apps/site/main.js',
        `import { words } from 'words'; import * as again from './shared/index.js'; document.title = words + again.words`,
      ),
      file('apps/site/vercel.json', {}),
      file('apps/site/api/hello.js', 'export default () => {}'),
      file('apps/site/middleware.js', 'export default () => {}'),
    ]
    const { id } = await newDeployment(platform, ana, { archive, rootDirectory: 'apps/site' })
    const ended = await untilEnded(platform, id)
    const log = await logOf(platform, id)
    expect(ended, log).toMatchObject({ status: 'ACTIVE' })
    const host = `${ended.label}.${platform.api.appsUrl.host}`
    const html = (await visit(platform, host, '/')).text
    const [, script = ''] = /src="(\/assets\/[^"]+\.js)"/.exec(html) ?? []
    expect((await visit(platform, host, script)).text).toContain('from the workspace')
    // Nothing of the build reads the code that Vercel would run.
    expect(log).toMatch(/^WARN Code in api\/ is no Function here, .*\(api\/hello\.js\)/m)
    expect(log).toMatch(/^WARN Middleware of Vercel does not run here, .*\(middleware\.js\)/m)
    expect(log).toMatch(/^INFO A single-page application: /m)
  })

  test('is stopped by the limits of its plan, and a deployment beside it is not held up', async () => {
    const owner = await newOwner(platform)
    await setQuota(platform.api, owner.organizationId, 'build_memory_mb', 128)
    await setQuota(platform.api, owner.organizationId, 'build_disk_mb', 200)
    await setQuota(platform.api, owner.organizationId, 'concurrent_builds', 3)
    const [hungry, large, beside] = await Promise.all([
      build(npmProject(`const all = []; for (;;) all.push(Buffer.alloc(2e7, 1))`), { place: owner }),
      build(
        npmProject(
          `const fs = require('node:fs'); for (let n = 0; ; n++) fs.writeFileSync('f' + n, Buffer.alloc(1e6, 1))`,
        ),
        { place: owner },
      ),
      deploy([file('index.html', 'beside')]),
    ])
    expect(hungry.failureReason).toBe('The build needed more than 128 MB of memory')
    expect(large.failureReason).toBe('The build wrote more than 200 MB')
    expect((await visit(platform, beside.host, '/')).text).toBe('beside')
  })

  test('holds up nobody while it waits, is not billed for that, and ends with all it started when it is cancelled', async () => {
    const marker = `marker-${unique()}`
    const owners = await Promise.all(Array.from({ length: 6 }, () => newOwner(platform)))
    const archive = npmProject(`require('node:child_process').spawnSync('sh', ['-c', 'sleep 1000; true', '${marker}'])`)
    const builds = await Promise.all(owners.map((owner) => newDeployment(platform, owner, { archive })))
    const running = () => listArguments().filter((each) => each.includes(marker) && each.includes('sleep')).length
    await vi.waitFor(() => expect(running()).toBeGreaterThanOrEqual(2), { timeout: 60_000 })
    const { host } = await deploy([file('index.html', 'built already')])
    expect((await visit(platform, host, '/')).text).toBe('built already')

    // Two run; the others wait.
    const isWaiting = ({ status, buildStartedAt }: Deployment) => status === 'BUILDING' && buildStartedAt === null
    const now = () => Promise.all(builds.map(({ id }) => deploymentOf(platform, id)))
    await expect.poll(async () => (await now()).filter(isWaiting).length).toBe(4)
    const [cancelled, late] = (await now()).filter(isWaiting).map(({ id }) => id)
    const cancel = (id: string | undefined) =>
      platform.call(owners[builds.findIndex((each) => each.id === id)]!.token, `POST /deployments/${id}/cancel`)
    expect((await cancel(cancelled)).status).toBe(200)
    await platform.api.db
      .update(deployments)
      .set({ deadlineAt: new Date(platform.api.now().getTime() - 1) })
      .where(eq(deployments.id, late!))
    await sweepDeployments(platform.api)
    const ended = (await now()).filter(({ status }) => status === 'FAILED')
    expect(new Set(ended.map(({ failureReason }) => failureReason))).toEqual(
      new Set(['Cancelled', 'The build waited too long for its turn: deploy again']),
    )
    expect(ended).toHaveLength(2)
    for (const each of ended) expect(each).toMatchObject({ buildStartedAt: null, buildEndedAt: null })

    for (const { id } of (await now()).filter(({ status }) => status === 'BUILDING')) {
      expect((await cancel(id)).status).toBe(200)
      expect(await untilEnded(platform, id)).toMatchObject({ status: 'FAILED', failureReason: 'Cancelled' })
    }
    // Their worker learns of it at the next heartbeat.
    await vi.waitFor(() => expect(running()).toBe(0), { timeout: 60_000, interval: 100 })
  })

  // Must be last, since it moves the clock.
  test('that nobody builds for 30 days loses what its builds kept', async () => {
    const { environmentId } = await deploy(npmProject(greeting()), { place: await newOwner(platform) })
    await untilKept(environmentId)
    const [kept] = await cachesOf(environmentId)
    const isStored = async () => (await platform.api.db.$count(artifacts, eq(artifacts.sha256, kept!.sha256))) === 1
    platform.clock.advance(29 * 86_400_000)
    await discardBuildCaches(platform.api)
    await openArtifactCollector()(platform.api)
    expect(await isStored()).toBe(true)
    platform.clock.advance(2 * 86_400_000)
    await discardBuildCaches(platform.api)
    await openArtifactCollector()(platform.api)
    expect(await isStored()).toBe(false)
  })
})

test('without what builds need, source is refused with what to install, and what is built already is served', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'no-builds-'))
  await symlink(folder, join(folder, 'link'))
  const without = await startPlatform({ hasWorker: true, env: { FUNCTIONS_FOLDER: join(folder, 'link') } })
  try {
    const owner = await newOwner(without)
    const source = await newDeployment(without, owner, {
      archive: [file('package.json', { scripts: { build: 'true' } })],
    })
    const { status, failureReason } = await untilEnded(without, source.id)
    expect(status).toBe('FAILED')
    expect(failureReason).toMatch(
      /^This is source that has to be built, and builds cannot run here\. .+ is a link: remove it/,
    )
    const site = await newDeployment(without, owner, { archive: [file('index.html', 'built')] })
    expect(await untilEnded(without, site.id)).toMatchObject({ status: 'ACTIVE' })
  } finally {
    await without.close()
    await rm(folder, { recursive: true, force: true })
  }
})
