import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Tree } from '@platform/build-output/read-output'
import { isSource, planBuild } from '@platform/source-builder/plan-build'
import { expect, test } from 'vitest'
import { starters } from './starters.ts'

const NPM = 'npm ci --include=dev --no-audit --no-fund'
const PNPM = 'pnpm install --frozen-lockfile'
const built = (install: string, manager = 'npm'): string[] => [install, `${manager} run build`]

/** What is run for each project, in its order. */
const commands: Record<string, string[]> = {
  'vite-react': built(NPM),
  'vite-vue': built('yarn install --frozen-lockfile --non-interactive', 'yarn'),
  'vue-router': built(NPM),
  next: built(NPM),
  sveltekit: built(NPM),
  nuxt: built(NPM),
  'nitro-2': built(NPM),
  'solid-start': built(NPM),
  waku: built(NPM),
  'react-router': built(NPM),
  'astro-node': built(PNPM, 'pnpm'),
  hono: built(NPM),
  'hard-coded-port': built(NPM),
  eleventy: built('npm install --include=dev --no-audit --no-fund'),
  'express-generator': [NPM],
  'angular-ssr': built(NPM),
  'tanstack-start': built(NPM),
  'turbo-workspace': [
    'npm install pnpm@9.15.9',
    PNPM,
    'turbo run build --filter=web... --env-mode=loose --output-logs=full',
  ],
  docusaurus: built(NPM),
  'hoisted-server': [NPM, 'npm run build (packages/greeting)', 'npm run build'],
  'start-compiles': built(NPM),
  'pnpm-ignored-builds': built(PNPM, 'pnpm'),
}

/** What is known of a project before anything is installed: its files, the manifests whole and the lockfiles by their beginning. */
function recordedTree(id: string): Tree {
  const path = join(import.meta.dirname, 'starters/recorded', `${id}.json`)
  const recorded = JSON.parse(readFileSync(path, 'utf8')) as { files: string[]; contents: Record<string, string> }
  const { files, contents } = recorded
  return {
    files: new Map(files.map((file) => [file, { bytes: contents[file]?.length ?? 0 }])),
    read: (file) => Promise.resolve(Buffer.from(contents[file] ?? '')),
  }
}

test.each(starters)('$name is planned from its manifests alone', async ({ id, rootDirectory = '', warnings }) => {
  const tree = recordedTree(id)
  expect(await isSource(tree, rootDirectory)).toBe(true)
  const { fetch, install, builds, notes } = await planBuild(tree, rootDirectory, { canFetch: true })
  const run = [fetch, install, ...builds].flatMap((command) => (command === undefined ? [] : [command.shown]))
  expect(run).toEqual(commands[id])
  const said = notes.flatMap(({ type, text }) => (type === 'WARN' ? [text] : []))
  expect(said.filter((text) => !warnings.some((expected) => expected.test(text)))).toEqual([])
})

test('the recipe of docs/builds.md for a monorepo is the workspace with turbo that is deployed here', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/builds.md'), 'utf8')
  const [, recipe = ''] = /\n## A monorepo\n(.*?)\n## /s.exec(page) ?? []
  const row = starters.find(({ id }) => id === 'turbo-workspace')
  expect(recipe).toContain(`\\"rootDirectory\\":\\"${row?.rootDirectory}\\"`)
  const blocks = [...recipe.matchAll(/```\w+\n(?:#|\/\/) (\S+)\n(.*?)```/gs)].map(([, path = '', text = '']) => [
    path,
    text,
  ])
  expect(blocks.map(([path]) => path)).toEqual([
    'pnpm-workspace.yaml',
    'package.json',
    'turbo.json',
    'apps/web/package.json',
  ])
  for (const [path = '', text] of blocks)
    expect(readFileSync(join(import.meta.dirname, 'starters/turbo-workspace', path), 'utf8').trim(), path).toBe(
      text?.trim(),
    )
})
