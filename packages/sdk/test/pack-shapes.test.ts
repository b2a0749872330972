import { expect, test } from 'vitest'
import { readOutput } from '../../build-output/src/read-output.ts'
import { treeOf } from '../../build-output/src/tree-of.ts'
import { isSource } from '../../source-builder/src/plan-build.ts'
import { type Content, pathsOf, planFolder } from './pack-folder.ts'

const json = (value: object): string => JSON.stringify(value)
const needs = { dependencies: { own: '1' } }
const MODULE = 'node_modules/own/index.js'
const OUTPUT = '.vercel/output'
const NITRO = '.output/server/index.mjs'
const NESTED = 'lib/node_modules/own/index.js'
const STARTED = { 'package.json': json({ scripts: { start: 'node main' }, ...needs }), 'main.js': '' }
const vcConfig = json({ runtime: 'nodejs24.x', handler: 'index.mjs', launcherType: 'Nodejs' })

/** Which files of an upload the platform would use as they are; undefined if it would install and build it. */
async function filesThatRun(files: Record<string, string>): Promise<Set<string> | undefined> {
  const tree = treeOf(files)
  if (await isSource(tree, '')) return undefined
  const { assets, functions } = await readOutput(tree, '')
  return new Set([...assets.map(({ source }) => source), ...functions.flatMap((each) => [...each.files.values()])])
}

/** Folders by what they are. Each has `node_modules` at its top besides, unless it has some already. */
const FOLDERS: Record<string, Record<string, string>> = {
  'source with a build script': { 'package.json': json({ scripts: { build: 'vite build' } }), 'index.html': '' },
  'source with a buildCommand': { ...STARTED, 'vercel.json': json({ buildCommand: 'make' }) },
  'a server that is installed already, by its installCommand': {
    ...STARTED,
    'vercel.json': json({ installCommand: '' }),
    [NESTED]: '',
  },
  'a server that needs nothing': {
    ...STARTED,
    'package.json': json({ scripts: { start: 'node main' } }),
    [NESTED]: '',
  },
  'a server without its packages': { ...STARTED, [NESTED]: '' },
  'a server by serve:ssr': { 'package.json': json({ scripts: { 'serve:ssr:app': 'node main' } }), 'main.js': '' },
  'pages whose start script is empty': { 'package.json': json({ scripts: { start: '' } }), 'index.html': '' },
  'a project whose buildCommand is empty': {
    'package.json': json({ scripts: { build: 'vite build' } }),
    'vercel.json': json({ buildCommand: '' }),
    'a.html': '',
  },
  'source with a build script and a start script': {
    'package.json': json({ scripts: { build: 'tsc', start: 'node dist' }, ...needs }),
    'dist/index.js': '',
  },
  'a server that brings its packages': STARTED,
  'a server by start:prod': { 'package.json': json({ scripts: { 'start:prod': 'node main' } }), 'main.js': '' },
  'the server of an adapter': {
    'package.json': json({ devDependencies: { '@sveltejs/adapter-node': '5' } }),
    'build/index.js': '',
  },
  "Next's standalone output": {
    'package.json': json({ scripts: { build: 'next build', start: 'next start' }, ...needs }),
    'server.js': '',
  },
  'a project with the output of Nitro': { [NITRO]: '', '.output/server/node_modules/own/index.js': '', [MODULE]: '' },
  'source with the output of Nitro': {
    'package.json': json({ scripts: { build: 'nuxt build' } }),
    [NITRO]: '',
    '.output/server/node_modules/own/a.js': '',
    [MODULE]: '',
  },
  'Build Output': {
    'package.json': json({ scripts: { build: 'vercel build' } }),
    [`${OUTPUT}/config.json`]: json({ version: 3 }),
    [`${OUTPUT}/functions/a.func/.vc-config.json`]: vcConfig,
    [`${OUTPUT}/functions/a.func/index.mjs`]: '',
    [`${OUTPUT}/functions/a.func/node_modules/own/index.js`]: '',
    [MODULE]: '',
  },
  'a worker of several modules': {
    'index.html': '',
    '_worker.js/index.js': '',
    '_worker.js/node_modules/own/index.js': '',
    [MODULE]: '',
  },
  'a worker in front of source': { 'package.json': json({ scripts: { build: 'make' } }), '_worker.js': '' },
  pages: { 'index.html': '', 'vendor/node_modules/own/index.js': '', [MODULE]: '' },
  'pages beside a package.json': { 'index.html': '', 'package.json': json(needs) },
}

for (const [name, given] of Object.entries(FOLDERS))
  test(`the node_modules of ${name} are packed if the platform runs them, and left out otherwise`, async () => {
    const isModule = (path: string): boolean => path.includes('node_modules/')
    const files: Record<string, string> = Object.keys(given).some(isModule) ? given : { ...given, [MODULE]: '' }
    const plan = await planFolder(files)
    const ran = await filesThatRun(files)
    const packed = pathsOf(plan)
    expect(packed.filter(isModule)).toEqual([...(ran ?? [])].filter(isModule).toSorted())
    expect(packed.filter((path) => !isModule(path))).toEqual(
      Object.keys(given)
        .filter((path) => !isModule(path))
        .toSorted(),
    )
    // The platform takes what is packed for the same.
    const sent = Object.fromEntries(packed.map((path) => [path, files[path] ?? '']))
    expect(await filesThatRun(sent)).toEqual(ran)
    // Each that is left out is one entry, whatever is in it.
    expect(plan.left.map(({ path }) => path)).toEqual(
      Object.keys(files)
        .filter((path) => isModule(path) && !packed.includes(path))
        .map((path) => path.slice(0, path.indexOf('node_modules') + 'node_modules'.length))
        .toSorted(),
    )
  })

test('packages above the site of a workspace are packed with its server, which would be source without', async () => {
  const site = { 'package.json': json({ scripts: { build: 'next build' } }), 'server.js': '' }
  const given = Object.fromEntries(Object.entries(site).map(([path, content]) => [`apps/web/${path}`, content]))
  const plan = await planFolder({ ...given, [MODULE]: '' }, { rootDirectory: 'apps/web' })
  expect(pathsOf(plan)).toEqual([...Object.keys(given), MODULE])
  expect(await isSource(treeOf({ ...given, [MODULE]: '' }), 'apps/web')).toBe(false)
  expect(await isSource(treeOf(given), 'apps/web')).toBe(true)
})

test('packages behind a link are packages too, and are packed with the link', async () => {
  const files = {
    'package.json': json({ scripts: { build: 'next build' } }),
    'server.js': '',
    'modules/own/index.js': '',
    node_modules: { link: 'modules' },
  }
  expect(pathsOf(await planFolder(files))).toEqual([
    'modules/own/index.js',
    'node_modules',
    'package.json',
    'server.js',
  ])
})

test('packages that include brings back make a server of what is source with caches of tools alone', async () => {
  const files = {
    '.gitignore': '/node_modules\n',
    [NESTED]: '',
    'node_modules/.cache/a.js': '',
    [MODULE]: '',
    'package.json': json({ scripts: { build: 'make' } }),
    'server.js': '',
  }
  const packed = async (include: string[]) => pathsOf(await planFolder(files, { include }))
  const rest = ['package.json', 'server.js']
  expect(await packed(['node_modules/.cache'])).toEqual(['.gitignore', 'node_modules/.cache/a.js', ...rest])
  expect(await packed(['node_modules/own'])).toEqual(['.gitignore', NESTED, MODULE, ...rest])
})

test('source whose node_modules hold caches of tools alone is still source', async () => {
  const files = {
    'package.json': json({ scripts: { build: 'make' } }),
    'server.js': '',
    'node_modules/.cache/a.js': '',
  }
  expect(pathsOf(await planFolder(files))).toEqual(['package.json', 'server.js'])
})

const mapped = (filePathMap: Record<string, unknown>): Record<string, Content> => ({
  [`${OUTPUT}/config.json`]: json({ version: 3 }),
  [`${OUTPUT}/functions/a.func/.vc-config.json`]: json({ ...JSON.parse(vcConfig), filePathMap }),
  [`${OUTPUT}/functions/a.func/index.mjs`]: '',
})
const OWN = [
  `${OUTPUT}/config.json`,
  `${OUTPUT}/functions/a.func/.vc-config.json`,
  `${OUTPUT}/functions/a.func/index.mjs`,
]

test('a prebuilt folder is packed with what its Functions name, whatever .gitignore says, and with nothing else', async () => {
  const files = {
    '.gitignore': '.vercel\nnode_modules\nlib\n',
    'package.json': json({ scripts: { build: 'next build' } }),
    'lib/used.js': '',
    'lib/unused.js': '',
    'node_modules/.pnpm/own@1/node_modules/own/index.js': '',
    'node_modules/.pnpm/own@1/node_modules/own/package.json': '',
    'node_modules/.pnpm/own@1/node_modules/own/README.md': '',
    'node_modules/own': { link: '.pnpm/own@1/node_modules/own' },
    'node_modules/whole/a/b.js': '',
    'node_modules/linked': { link: '../packages/linked' },
    'packages/linked/index.js': '',
    'node_modules/other/index.js': '',
    ...mapped({
      'lib/used.js': 'lib/used.js',
      'node_modules/own/index.js': './node_modules/own/index.js',
      'node_modules/own/package.json': 'node_modules/.pnpm/own@1/node_modules/own/package.json',
      'node_modules/own': 'node_modules/own',
      'node_modules/whole': 'node_modules/whole',
      'node_modules/linked': 'node_modules/linked',
    }),
  }
  const plan = await planFolder(files, { prebuilt: true })
  expect(pathsOf(plan)).toEqual([
    ...OWN,
    'lib/used.js',
    'node_modules/.pnpm/own@1/node_modules/own/index.js',
    'node_modules/.pnpm/own@1/node_modules/own/package.json',
    'node_modules/linked',
    'node_modules/own',
    'node_modules/whole/a/b.js',
    'packages/linked/index.js',
  ])
  expect(plan.refusals).toEqual([])
  await expect(planFolder({ 'index.html': '' }, { prebuilt: true })).rejects.toThrow(
    'There is no .vercel/output/config.json: build the project first',
  )
})

test('what a filePathMap names in vain, outside, or as a secret is named before anything is sent', async () => {
  const refusalOf = async (path: unknown, more: Record<string, Content> = {}, include: string[] = []) => {
    const plan = await planFolder({ ...mapped({ x: path }), ...more }, { prebuilt: true, include })
    const by = `The filePathMap of ${OUTPUT}/functions/a.func/.vc-config.json names `
    return plan.refusals.map((sentence) => sentence.replace(by, ''))
  }
  const outside = 'which is outside of the folder that is packed'
  expect(await refusalOf('lib/a.js')).toEqual(['"lib/a.js", which is not there'])
  expect(await refusalOf('../a.js')).toEqual([`"../a.js", ${outside}`])
  expect(await refusalOf(7)).toEqual([`7, ${outside}`])
  expect(await refusalOf('a', { a: { link: 'b' }, b: { link: 'a' } })).toEqual(['"a", which is not there'])
  expect(await refusalOf('a', { a: { link: '../a' } })).toEqual([
    'a, and a leads out of the folder: name it in include to pack it',
  ])
  const secret = { '.env': 'A=1' }
  expect(await refusalOf('.env', secret)).toEqual([
    '.env, and .env may hold secrets, by its name: name it in include to pack it',
  ])
  expect(await refusalOf('.env', secret, ['.env'])).toEqual([])
})

test('what a framework left is packed under the name by which the platform knows it', async () => {
  const nitro = await planFolder({
    'nitro.json': '',
    'public/a.css': '',
    'server/index.mjs': '',
    'server/node_modules/own/a.js': '',
  })
  expect([nitro.prefix, pathsOf(nitro)]).toEqual([
    '.output/',
    ['nitro.json', 'public/a.css', 'server/index.mjs', 'server/node_modules/own/a.js'],
  ])
  const output = { 'config.json': json({ version: 3 }), 'functions/a.func/node_modules/own/a.js': '' }
  const prebuilt = await planFolder({ '.gitignore': 'functions\n', ...output }, { prebuilt: true })
  expect([prebuilt.prefix, pathsOf(prebuilt)]).toEqual([`${OUTPUT}/`, ['.gitignore', ...Object.keys(output)]])
  const pages = { ...output, 'config.json': json({ version: 2 }) }
  expect((await planFolder(pages)).prefix).toBe('')
})

test('a root directory that leads out of the folder is refused', async () => {
  await expect(planFolder({}, { rootDirectory: '../a' })).rejects.toThrow(
    'The root directory ../a is outside of the folder',
  )
})
