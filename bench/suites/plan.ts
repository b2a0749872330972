import type { Tree } from '@platform/build-output/read-output'
import { planBuild } from '@platform/source-builder/plan-build'
import type { Suite, Trial } from '../suite.ts'

const FEW = 20
const MANY = 200
const FILES_A_PACKAGE = 50

/** A workspace of npm in which each package needs the twenty before it, and forty of the registry. */
function workspaceOf(count: number): Tree {
  const files = new Map<string, string>()
  const registry = Array.from({ length: 40 }, (_, n) => [`dependency-${n}`, '^1.0.0'])
  const add = (folder: string, name: string, needed: readonly number[]): void => {
    const own = needed.filter((n) => n >= 0).map((n) => [`@bench/package-${n}`, '*'])
    const dependencies = Object.fromEntries([...own, ...registry]) as Record<string, string>
    const manifest = { name, version: '1.0.0', scripts: { build: 'tsc' }, dependencies }
    files.set(`${folder}/package.json`, JSON.stringify(manifest))
    for (let n = 0; n < FILES_A_PACKAGE; n++) files.set(`${folder}/src/file-${n}.ts`, '')
  }
  for (let n = 0; n < count; n++)
    add(
      `packages/package-${n}`,
      `@bench/package-${n}`,
      Array.from({ length: 20 }, (_, k) => n - 1 - k),
    )
  add('apps/web', 'web', [count - 1])
  files.set('package.json', JSON.stringify({ private: true, workspaces: ['apps/*', 'packages/**'] }))
  files.set('package-lock.json', '{"lockfileVersion":3}')
  return {
    files: new Map([...files].map(([path, text]) => [path, { bytes: text.length }])),
    read: (path) => Promise.resolve(Buffer.from(files.get(path) ?? '')),
  }
}

function ours(count: number): Trial {
  const tree = workspaceOf(count)
  return {
    name: `a workspace of ${count} packages`,
    pid: process.pid,
    async measure(seconds) {
      const startedAt = performance.now()
      let plans = 0
      while (performance.now() - startedAt < seconds * 1_000) {
        const { builds } = await planBuild(tree, 'apps/web', { canFetch: true })
        if (builds.length !== count + 1) throw new Error(`${builds.length} packages were to be built`)
        plans++
        await new Promise(setImmediate)
      }
      return { perSecond: (plans * 1_000) / (performance.now() - startedAt) }
    },
  }
}

export const plan: Suite = {
  name: 'plan',
  work: 'plan the build of a site that needs every package of its workspace, in their order',
  prepare: () => Promise.resolve({ ours: ours(FEW), peers: [{ ...ours(MANY), aim: {} }] }),
}
