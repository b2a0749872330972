import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Tree } from '@platform/build-output/read-output'
import { openBuilder } from '@platform/source-builder/open-builder'
import { pinnedManager } from '@platform/source-builder/package-managers'
import { planBuild } from '@platform/source-builder/plan-build'
import { installedPackages, startPackageRegistry } from '@platform/testkit/package-registry'
import type { Suite, Trial } from '../suite.ts'

const run = promisify(execFile)
const MIB = 1_048_576
const LIMITS = { memoryMb: 2_048, diskMb: 4_096, timeoutMs: 600_000 }
const FILES = {
  'package.json': JSON.stringify({
    name: 'site',
    version: '1.0.0',
    type: 'module',
    scripts: { build: 'vite build' },
    devDependencies: { vite: '*' },
  }),
  'index.html': '<!doctype html><title>site</title><script type="module" src="/main.js"></script>',
  'main.js': `document.title = 'built'`,
}

/** Does a piece of work again and again. prepare: what each time needs and does not count. */
function trial(name: string, prepare: () => Promise<() => Promise<void>>): Trial {
  return {
    name,
    async measure(seconds) {
      const times: number[] = []
      const startedAt = performance.now()
      while (performance.now() - startedAt < seconds * 1_000 || times.length === 0) {
        const work = await prepare()
        const begunAt = performance.now()
        await work()
        times.push(performance.now() - begunAt)
      }
      const sorted = times.toSorted((a, b) => a - b)
      const percentile = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
      const took = times.reduce((sum, each) => sum + each, 0) / 1_000
      return { perSecond: times.length / took, seconds: took, p50Ms: percentile(0.5), p99Ms: percentile(0.99) }
    },
  }
}

/** A Vite site of 14 packages, from a registry on this machine: what the walls and the cache make of `npm ci && npm run build`. */
export const build: Suite = {
  name: 'build',
  work: 'install and build a Vite site by npm: in the sandbox with nothing kept, with node_modules kept, and without a sandbox',
  async prepare() {
    const folder = await mkdtemp(join(tmpdir(), 'bench-build-'))
    const { resolve } = createRequire(import.meta.url)
    const vitest = createRequire(resolve('@platform/testkit/package-registry')).resolve('vitest/package.json')
    const registry = await startPackageRegistry(installedPackages(['vite'], vitest))
    const source = join(folder, 'source')
    await mkdir(source)
    for (const [path, text] of Object.entries({
      ...FILES,
      '.npmrc': `registry=${registry.url}\nlegacy-peer-deps=true\n`,
    }))
      await writeFile(join(source, path), text)
    const { folder: npm, entry } = pinnedManager('npm')
    const bare = (home: string, cwd: string, ...args: string[]) =>
      run(process.execPath, [join(npm, entry), ...args, '--no-audit', '--no-fund'], {
        cwd,
        env: { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, HOME: home },
      })
    await bare(join(folder, 'home'), source, 'install', '--package-lock-only')

    const names = await readdir(source)
    const sizes = await Promise.all(
      names.map(async (name) => [name, { bytes: (await stat(join(source, name))).size }] as const),
    )
    const tree: Tree = { files: new Map(sizes), read: (path) => readFile(join(source, path)) }
    const plan = await planBuild(tree, '', { canFetch: true })
    const builder = openBuilder({
      folder: join(folder, 'builder'),
      egress: 'registry',
      registries: [new URL(registry.url)],
      onWarning: (message) => process.stderr.write(`${message}\n`),
    })
    const obstacle = await builder.findObstacle()
    if (obstacle !== undefined) throw new Error(obstacle)
    let made = 0
    let last = ''
    /** A fresh copy of the source; the one before goes. */
    const layOut = async (): Promise<string> => {
      if (last !== '') await rm(last, { recursive: true, force: true })
      last = join(folder, `work-${++made}`, 'build')
      await cp(source, join(last, 'project'), { recursive: true })
      return last
    }
    const inSandbox = (cache: string | undefined) => async () => {
      const own = await layOut()
      const signal = new AbortController().signal
      const log = { line: () => {}, output: () => {} }
      return () =>
        builder.build({ name: `bench-${made}`, folder: own, plan, variables: {}, limits: LIMITS, cache, log, signal })
    }
    await (
      await inSandbox(undefined)()
    )()
    const cache = await builder.pack({
      name: 'bench',
      folder: last,
      plan,
      bytesMax: 1_024 * MIB,
      signal: new AbortController().signal,
    })
    if (cache === undefined) throw new Error('Nothing was kept')
    const kept = join(folder, 'kept.tar.zst')
    await cp(cache, kept)
    return {
      ours: trial('sandbox, nothing kept', inSandbox(undefined)),
      peers: [
        { ...trial('sandbox, node_modules kept', inSandbox(kept)), aim: {} },
        {
          ...trial('no sandbox, npm ci', async () => {
            const own = await layOut()
            return async () => {
              await bare(join(own, 'home'), join(own, 'project'), 'ci')
              await bare(join(own, 'home'), join(own, 'project'), 'run', 'build')
            }
          }),
          aim: {},
        },
        {
          ...trial('packing what is kept', async () => {
            await (
              await inSandbox(undefined)()
            )()
            const own = last
            return async () => {
              await builder.pack({
                name: `bench-${made}`,
                folder: own,
                plan,
                bytesMax: 1_024 * MIB,
                signal: new AbortController().signal,
              })
            }
          }),
          aim: {},
        },
      ],
    }
  },
}
