import { UnusableOutput } from '@platform/build-output/read-output'
import { describe, expect, test } from 'vitest'
import { pinnedManager } from './package-managers.ts'
import { type BuildPlan, isSource, planBuild } from './plan-build.ts'
import { type Files, treeOf } from './test-projects.ts'

const NODE = '24.5.0'
const plan = (files: Files, root = '', canFetch = true) =>
  planBuild(treeOf(files), root, { nodeVersion: NODE, canFetch })
/** What its author has to know of a plan. */
const warningsOf = ({ notes }: BuildPlan): string[] =>
  notes.flatMap(({ type, text }) => (type === 'WARN' ? [text] : []))
const json = (value: object): string => JSON.stringify(value)
const built = (more: object = {}): string => json({ scripts: { build: 'x' }, ...more })
const YARN_1 = '# yarn lockfile v1\n\n\n'
const yarnOf = (version: number): string => `# This file is generated\n\n__metadata:\n  version: ${version}\n`
const server = (scripts: object): string => json({ scripts, dependencies: { a: '1' } })
const NPM_LOCK = '{"lockfileVersion":3}'
const PNPM_LOCK = "lockfileVersion: '9.0'\n"
/** A lockfile that the named package manager reads. */
const lockOf = (named = 'npm'): Files =>
  named.startsWith('pnpm')
    ? { 'pnpm-lock.yaml': PNPM_LOCK }
    : named.startsWith('yarn')
      ? { 'yarn.lock': YARN_1 }
      : { 'package-lock.json': NPM_LOCK }
const pinned = { kind: expect.any(String), isFetched: false }
const versionOf = (kind: Parameters<typeof pinnedManager>[0]) => pinnedManager(kind).version
const NO_LOCKFILE =
  'There is no lockfile of npm, pnpm or yarn, so the newest versions that package.json allows are installed.'

describe('what has to be installed or built', () => {
  test.each<[string, Files, boolean]>([
    ['a build script', { 'package.json': built() }, true],
    ['no package.json', { 'index.html': '' }, false],
    ['a package.json without scripts', { 'package.json': '{}' }, false],
    ['a build script that is no text', { 'package.json': json({ scripts: { build: 1 } }) }, false],
    ['scripts that are no object', { 'package.json': json({ scripts: 'build' }) }, false],
    ['a command of vercel.json', { 'package.json': '{}', 'vercel.json': json({ buildCommand: 'make' }) }, true],
    ['an empty command of vercel.json', { 'package.json': '{}', 'vercel.json': json({ buildCommand: '' }) }, false],
    [
      'an empty command of vercel.json beside a script',
      { 'package.json': built(), 'vercel.json': json({ buildCommand: '' }) },
      false,
    ],
    ['vercel.json alone', { 'vercel.json': json({ buildCommand: 'make' }) }, false],
    ['Build Output', { 'package.json': built(), '.vercel/output/config.json': '{}' }, false],
    ['a worker', { 'package.json': built(), '_worker.js': '' }, false],
    ['a worker of several modules', { 'package.json': built(), '_worker.js/index.js': '' }, false],
    [
      'Next’s standalone output',
      { 'package.json': built(), 'server.js': '', 'node_modules/next/package.json': '{}' },
      false,
    ],
    ['a server without what it needs', { 'package.json': built(), 'server.js': '' }, true],
    ['a server whose packages are not there', { 'package.json': server({ start: 'node index.js' }) }, true],
    [
      'a server that is started by another script',
      { 'package.json': server({ 'start:prod': 'node index.js' }), 'index.js': '' },
      true,
    ],
    ['another script whose program is not there', { 'package.json': server({ 'start:prod': 'node index.js' }) }, false],
    [
      'a server with development dependencies alone',
      { 'package.json': json({ scripts: { start: 'node index.js' }, devDependencies: { a: '1' } }) },
      false,
    ],
    [
      'a server that installs nothing',
      { 'package.json': server({ start: 'node index.js' }), 'vercel.json': json({ installCommand: '' }) },
      false,
    ],
    [
      'a server with the cache of a tool',
      { 'package.json': server({ start: 'node index.js' }), 'node_modules/.cache/x': '' },
      true,
    ],
    ['a server without a script', { 'package.json': server({}), 'server.js': '' }, true],
    [
      'a server with its packages',
      { 'package.json': server({ start: 'node index.js' }), 'node_modules/a/package.json': '{}' },
      false,
    ],
    ['a server without dependencies', { 'package.json': json({ scripts: { start: 'node index.js' } }) }, false],
    ['dependencies and nothing that starts', { 'package.json': server({}) }, false],
    ['a script of the prototype', { 'package.json': '{"scripts":{"__proto__":{"build":"x"}}}' }, false],
    ['a member of the prototype', { 'package.json': '{"__proto__":{"scripts":{"build":"x"}}}' }, false],
  ])('%s', async (_, files, expected) => {
    expect(await isSource(treeOf(files), '')).toBe(expected)
    const below = Object.fromEntries(Object.entries(files).map(([path, text]) => [`apps/web/${path}`, text]))
    expect(await isSource(treeOf(below), 'apps/web')).toBe(expected)
    expect(await isSource(treeOf(below), '')).toBe(false)
  })
})

describe('the package manager', () => {
  test.each<[string, Files, string, { kind: string; version?: string; isFetched?: boolean }]>([
    ['npm by its lockfile', { 'package-lock.json': NPM_LOCK }, '', { kind: 'npm' }],
    ['npm by its other lockfile', { 'npm-shrinkwrap.json': NPM_LOCK }, '', { kind: 'npm' }],
    ['pnpm by its lockfile', { 'pnpm-lock.yaml': PNPM_LOCK }, '', { kind: 'pnpm' }],
    ['Yarn 1 by its lockfile', { 'yarn.lock': YARN_1 }, '', { kind: 'yarn' }],
    ['Yarn 4 by its lockfile', { 'yarn.lock': yarnOf(10) }, '', { kind: 'berry' }],
    ['npm without a lockfile', {}, '', { kind: 'npm' }],
    [
      'the first of several lockfiles in one folder',
      { 'package-lock.json': NPM_LOCK, 'yarn.lock': YARN_1, 'pnpm-lock.yaml': PNPM_LOCK },
      '',
      { kind: 'pnpm' },
    ],
    [
      'the nearest lockfile',
      { 'pnpm-lock.yaml': PNPM_LOCK, 'apps/yarn.lock': YARN_1, 'apps/web/package.json': built() },
      'apps/web',
      { kind: 'yarn' },
    ],
    [
      'packageManager before lockfiles',
      { 'package.json': built({ packageManager: `npm@${versionOf('npm')}` }), 'pnpm-lock.yaml': PNPM_LOCK },
      '',
      { kind: 'npm' },
    ],
    [
      'packageManager of a folder above',
      {
        'package.json': json({ packageManager: `pnpm@${versionOf('pnpm')}+sha512.abc` }),
        'apps/web/package.json': built(),
      },
      'apps/web',
      { kind: 'pnpm' },
    ],
    [
      'a packageManager that cannot be followed: its lockfile',
      { 'package.json': built({ packageManager: 'bun@1.2.3' }), 'yarn.lock': YARN_1 },
      '',
      { kind: 'yarn' },
    ],
  ])('%s', async (_, files, root, expected) => {
    const { manager } = await plan({ 'package.json': built(), ...files }, root)
    expect(manager).toEqual({ ...pinned, version: versionOf(manager.kind), ...expected })
  })

  test.each<[string, Files, string, string, string?]>([
    ['the same major version is the pinned one', { manager: 'npm@11.0.0' }, versionOf('npm'), 'npm'],
    ['another major version is fetched', { manager: 'npm@9.8.1' }, '9.8.1', 'npm', 'npm@9.8.1'],
    ['so is another of pnpm', { manager: 'pnpm@8.15.0+sha256.0' }, '8.15.0', 'pnpm', 'pnpm@8.15.0'],
    ['Yarn 1 is always the pinned one', { manager: 'yarn@1.0.2' }, versionOf('yarn'), 'yarn'],
    ['Yarn 4 is the very one that is named', { manager: 'yarn@4.0.1' }, '4.0.1', 'yarn', '@yarnpkg/cli-dist@4.0.1'],
    ['or the pinned one', { manager: `yarn@${versionOf('berry')}` }, versionOf('berry'), 'yarn'],
    ['pnpm of a lockfile of format 5.4', { 'pnpm-lock.yaml': 'lockfileVersion: 5.4\n' }, '7', 'pnpm', 'pnpm@7'],
    ['pnpm of a lockfile of format 6.0', { 'pnpm-lock.yaml': "lockfileVersion: '6.0'\n" }, '8', 'pnpm', 'pnpm@8'],
    [
      'a named version before that of the lockfile',
      { manager: 'pnpm@7.1.0', 'pnpm-lock.yaml': "lockfileVersion: '6.0'\n" },
      '7.1.0',
      'pnpm',
      'pnpm@7.1.0',
    ],
    ['a version is written as registries know it', { manager: 'npm@ v9.8.1 ' }, '9.8.1', 'npm', 'npm@9.8.1'],
  ])('%s', async (_, { manager: named, ...files }, version, command, fetched) => {
    const buildPlan = await plan({
      ...('pnpm-lock.yaml' in files ? {} : lockOf(named)),
      ...files,
      'package.json': built(named === undefined ? {} : { packageManager: named }),
    })
    const { manager, fetch, builds } = buildPlan
    expect(manager.version).toBe(version)
    expect(manager.isFetched).toBe(fetched !== undefined)
    expect(fetch?.shown).toBe(fetched && `npm install ${command}@${version}`)
    expect(fetch?.argv.at(-1)).toBe(fetched)
    expect(builds.map(({ argv }) => argv)).toEqual([[command, 'run', 'build']])
    expect(warningsOf(buildPlan)).toEqual([])
  })

  test('a version that cannot be fetched is said, and the pinned one used', async () => {
    const buildPlan = await plan(
      { 'package.json': built({ packageManager: 'pnpm@8.15.0' }), 'pnpm-lock.yaml': PNPM_LOCK },
      '',
      false,
    )
    expect(buildPlan.manager).toEqual({ kind: 'pnpm', version: versionOf('pnpm'), isFetched: false })
    expect(warningsOf(buildPlan)).toEqual([
      `The project wants pnpm 8.15.0, which cannot be fetched here: ${versionOf('pnpm')} is used.`,
    ])
  })

  test.each([
    'bun@1.2.3',
    'npm',
    'npm@latest',
    'npm@^9.0.0',
    'yarn@https://example.com/yarn.js',
    'pnpm@9.1.0/../../evil',
    'npm@9.0.0; touch /tmp/x',
    '',
  ])('packageManager %j is said to be left out', async (packageManager) => {
    const buildPlan = await plan({ 'package.json': built({ packageManager }), 'yarn.lock': YARN_1 })
    expect(buildPlan.manager.kind).toBe('yarn')
    expect(warningsOf(buildPlan)).toEqual([
      `package.json names the package manager ${JSON.stringify(packageManager)}, which is not npm, pnpm or yarn with a version: its lockfile decides.`,
    ])
  })

  test('Yarn leaves node_modules unless the project chose another linker, keeps its cache in the project, and pnpm stays what it is', async () => {
    const berry = { 'package.json': built(), 'yarn.lock': yarnOf(10) }
    const cache = { YARN_ENABLE_GLOBAL_CACHE: '0', YARN_ENABLE_MIRROR: '0' }
    expect((await plan(berry)).environment).toEqual({ ...cache, YARN_NODE_LINKER: 'node-modules' })
    expect((await plan({ ...berry, '.yarnrc.yml': 'a: b\nnodeLinker: pnp\n' })).environment).toEqual(cache)
    const pnpm = await plan({ 'package.json': built(), 'pnpm-lock.yaml': PNPM_LOCK })
    expect(pnpm.environment).toMatchObject({ pnpm_config_pm_on_fail: 'ignore' })
  })
})

describe('commands', () => {
  const INSTALLS: [string, Files, string, string][] = [
    [
      'npm',
      { 'package-lock.json': NPM_LOCK },
      'npm ci --include=dev --no-audit --no-fund',
      'npm install --include=dev --no-audit --no-fund --no-save --prefer-offline',
    ],
    [
      'npm without a lockfile',
      {},
      'npm install --include=dev --no-audit --no-fund',
      'npm install --include=dev --no-audit --no-fund',
    ],
    ['pnpm', { 'pnpm-lock.yaml': PNPM_LOCK }, 'pnpm install --frozen-lockfile', 'pnpm install --frozen-lockfile'],
    [
      'Yarn 1',
      { 'yarn.lock': YARN_1 },
      'yarn install --frozen-lockfile --non-interactive',
      'yarn install --frozen-lockfile --non-interactive',
    ],
    ['Yarn 4', { 'yarn.lock': yarnOf(10) }, 'yarn install --immutable', 'yarn install --immutable'],
    [
      'Yarn 4 with a lockfile of an older one',
      { 'yarn.lock': yarnOf(6) },
      'yarn install --no-immutable',
      'yarn install --no-immutable',
    ],
    [
      'Yarn 3 with its lockfile',
      { 'yarn.lock': yarnOf(6), 'package.json': built({ packageManager: 'yarn@3.8.0' }) },
      'yarn install --immutable',
      'yarn install --immutable',
    ],
    [
      'pnpm with another’s lockfile',
      { 'package-lock.json': NPM_LOCK, 'package.json': built({ packageManager: `pnpm@${versionOf('pnpm')}` }) },
      'pnpm install --no-frozen-lockfile',
      'pnpm install --no-frozen-lockfile',
    ],
  ]
  test.each(INSTALLS)('%s installs what its lockfile says', async (_, files, install, reinstall) => {
    const buildPlan = await plan({ 'package.json': built(), ...files })
    expect([buildPlan.install?.shown, buildPlan.reinstall?.shown]).toEqual([install, reinstall])
    expect(buildPlan.install?.argv.slice(-1 - install.split(' ').length + 1).join(' ')).toBe(install)
  })

  test('a workspace is installed where its lockfile is, and built where its package is', async () => {
    const buildPlan = await plan({ 'pnpm-lock.yaml': PNPM_LOCK, 'apps/web/package.json': built() }, 'apps/web')
    expect([buildPlan.root, buildPlan.install?.folder, buildPlan.builds[0]?.folder]).toEqual([
      'apps/web',
      '',
      'apps/web',
    ])
  })

  test('vercel.json names commands and the output directory', async () => {
    const buildPlan = await plan({
      'package.json': built(),
      'package-lock.json': NPM_LOCK,
      'vercel.json': json({
        installCommand: 'a && b',
        buildCommand: "c 'd'",
        outputDirectory: 'site',
        framework: null,
      }),
    })
    const shell = (script: string) => ({ argv: ['/bin/sh', '-c', script], folder: '', shown: script })
    expect([buildPlan.install, buildPlan.reinstall, ...buildPlan.builds]).toEqual([
      shell('a && b'),
      shell('a && b'),
      shell("c 'd'"),
    ])
    expect([buildPlan.outputDirectory, warningsOf(buildPlan)]).toEqual(['site', []])
  })

  test('an empty installCommand installs nothing; other empty or missing members say nothing', async () => {
    const files = { 'package.json': built(), 'package-lock.json': NPM_LOCK }
    const none = await plan({ ...files, 'vercel.json': json({ installCommand: '' }) })
    expect([none.install, none.reinstall]).toEqual([undefined, undefined])
    const vercel = json({ installCommand: null, buildCommand: null, outputDirectory: '' })
    const plain = await plan({ ...files, 'vercel.json': vercel })
    expect({ ...plain }).toEqual(await plan(files))
  })
})

describe('sentences', () => {
  test('a missing lockfile is said, and one that nobody reads', async () => {
    expect(warningsOf(await plan({ 'package.json': built() }))).toEqual([NO_LOCKFILE])
    expect(warningsOf(await plan({ 'package.json': built(), 'bun.lock': '' }))).toEqual([
      NO_LOCKFILE.replace('yarn,', 'yarn (bun.lock is not read),'),
    ])
  })
})

describe('a project that is only installed', () => {
  test('has its packages installed, and no build', async () => {
    const buildPlan = await plan({ 'package.json': server({ start: 'node index.js' }), 'package-lock.json': NPM_LOCK })
    expect([buildPlan.install?.shown, buildPlan.builds]).toEqual(['npm ci --include=dev --no-audit --no-fund', []])
    expect(buildPlan.notes[0]?.text).toBe(
      'Found a server whose packages are installed: package.json has dependencies and no build script',
    )
  })

  test('with packages above its folder, in the archive, is left alone', async () => {
    const files = { 'node_modules/a/package.json': '{}', 'apps/api/package.json': server({ start: 'node index.js' }) }
    expect(await isSource(treeOf(files), 'apps/api')).toBe(false)
  })
})

describe('pnpm 9 and 10', () => {
  const strictness = { pnpm_config_strict_dep_builds: 'false' }

  test('wrote lockfiles whose install scripts may be left out, where no package manager is named', async () => {
    const files = { 'package.json': built(), 'pnpm-lock.yaml': PNPM_LOCK }
    expect((await plan(files)).environment).toMatchObject(strictness)
    const named = { ...files, 'package.json': built({ packageManager: `pnpm@${versionOf('pnpm')}` }) }
    expect((await plan(named)).environment).not.toMatchObject(strictness)
  })

  test.each<[string, Files]>([
    ['package.json', { 'package.json': built({ pnpm: { overrides: { a: '1' } } }) }],
    ['pnpm-workspace.yaml', { 'package.json': built(), 'pnpm-workspace.yaml': 'onlyBuiltDependencies: [esbuild]\n' }],
  ])('read settings of %s that later ones do not: pnpm 10 is fetched', async (_, files) => {
    const { manager, fetch } = await plan({ ...files, 'pnpm-lock.yaml': PNPM_LOCK })
    expect([manager.version, fetch?.shown]).toEqual(['10', 'npm install pnpm@10'])
  })
})

test('a script that is no text is said', async () => {
  const scripts = { build: 'x', 'start:prod': ['node', 'dist/main.js'] }
  expect(warningsOf(await plan({ 'package.json': json({ scripts }), 'package-lock.json': NPM_LOCK }))).toEqual([
    'package.json: scripts: "start:prod" is no text, and is left out.',
  ])
})

test('a lockfile that the named package manager does not read is said', async () => {
  const files = {
    'package.json': built({ packageManager: `pnpm@${versionOf('pnpm')}` }),
    'package-lock.json': NPM_LOCK,
  }
  expect(warningsOf(await plan(files))).toEqual([
    'package-lock.json is not read by pnpm, which packageManager in package.json names: the newest versions that package.json allows are installed.',
  ])
})

test('a lockfile above a site that no workspace lists is not the site’s, whose packages are installed in its folder', async () => {
  const files = {
    'package-lock.json': NPM_LOCK,
    'package.json': '{}',
    'web/package.json': built({ devDependencies: { vite: '8' } }),
  }
  const buildPlan = await plan(files, 'web')
  expect([buildPlan.install?.folder, buildPlan.install?.shown]).toEqual([
    'web',
    'npm install --include=dev --no-audit --no-fund',
  ])
  expect(warningsOf(buildPlan)).toEqual([
    "package-lock.json is not the site's, since no workspace lists web: the newest versions that web/package.json allows are installed.",
  ])
  const unlisted = await plan(
    { ...files, 'package.json': json({ workspaces: ['apps/*'] }), 'apps/a/package.json': '{}' },
    'web',
  )
  expect(unlisted.install?.folder).toBe('web')
})

test('an empty buildCommand builds nothing, the packages of the workspace neither', async () => {
  const files = {
    'package.json': json({ workspaces: ['*'] }),
    'package-lock.json': NPM_LOCK,
    'ui/package.json': json({ name: 'ui', version: '1.0.0', scripts: { build: 'x' } }),
    'api/package.json': json({ scripts: { build: 'x', start: 'node index.js' }, dependencies: { ui: '*' } }),
    'api/vercel.json': json({ buildCommand: '' }),
  }
  expect((await plan(files, 'api')).builds).toEqual([])
})

test('of many warnings the first fifty are said, on a line each', async () => {
  const scripts = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`a\n${n}`, n]))
  const said = warningsOf(await plan({ 'package.json': json({ scripts }), 'package-lock.json': NPM_LOCK }))
  expect([said.length, said[0], said.at(-1)]).toEqual([
    51,
    'package.json: scripts: "a\\n0" is no text, and is left out.',
    'And 50 more warnings.',
  ])
})

test('a manifest that is nested too deep is refused', async () => {
  const overrides = `${'{"a":'.repeat(60_000)}1${'}'.repeat(60_000)}`
  await expect(plan({ 'package.json': `{"overrides":${overrides}}` })).rejects.toThrow(
    new UnusableOutput('package.json is nested more than 200 levels deep.'),
  )
})

test('lockfiles of two managers are said, with the one that is used', async () => {
  const lockfiles = { 'package.json': built(), 'package-lock.json': NPM_LOCK, 'yarn.lock': YARN_1 }
  expect(warningsOf(await plan(lockfiles))).toEqual([
    'There are lockfiles of several package managers: yarn.lock is used, package-lock.json not. Remove what is out of use, or name the manager in "packageManager" of package.json.',
  ])
})

test('the log says what was found, then the package manager and who names it, then Node, then what is wrong', async () => {
  const { notes } = await plan({
    'package.json': built({ engines: { node: '20.x' }, scripts: { build: 'make', odd: 1 } }),
    'package-lock.json': NPM_LOCK,
  })
  expect(notes).toEqual([
    { type: 'INFO', text: 'Found source, built by the build script in package.json' },
    { type: 'INFO', text: `Package manager: npm ${versionOf('npm')}, by package-lock.json` },
    { type: 'WARN', text: `package.json (engines.node) asks for Node 20.x; builds and Functions run on Node ${NODE}.` },
    { type: 'WARN', text: 'package.json: scripts: "odd" is no text, and is left out.' },
  ])
})

describe('what an earlier build kept', () => {
  const base = { 'package.json': built({ dependencies: { a: '1' } }), 'package-lock.json': NPM_LOCK, 'index.ts': '1' }
  const keyOf = async (files: Files, nodeVersion = NODE, root = '') =>
    (await planBuild(treeOf(files), root, { nodeVersion, canFetch: true })).cacheKey

  test.each<[string, Files, string]>([
    ['another source file', { ...base, 'index.ts': '2' }, NODE],
    ['other scripts', { ...base, 'package.json': json({ scripts: { build: 'y' }, dependencies: { a: '1' } }) }, NODE],
    ['a later Node of the same major version', base, '24.9.9'],
  ])('is used again for %s', async (_, files, node) => {
    expect(await keyOf(files, node)).toBe(await keyOf(base))
  })

  test.each<[string, Files, string]>([
    ['another lockfile', { ...base, 'package-lock.json': '{"lockfileVersion":2}' }, NODE],
    ['other dependencies', { ...base, 'package.json': built({ dependencies: { a: '2' } }) }, NODE],
    [
      'other devDependencies',
      { ...base, 'package.json': built({ dependencies: { a: '1' }, devDependencies: { b: '1' } }) },
      NODE,
    ],
    ['other overrides', { ...base, 'package.json': built({ dependencies: { a: '1' }, overrides: { b: '1' } }) }, NODE],
    [
      'another manager',
      { ...base, 'package.json': built({ dependencies: { a: '1' }, packageManager: 'pnpm@12.0.0' }) },
      NODE,
    ],
    [
      'another major version of the manager',
      { ...base, 'package.json': built({ dependencies: { a: '1' }, packageManager: 'npm@9.0.0' }) },
      NODE,
    ],
    ['another Node', base, '26.0.0'],
  ])('is not used for %s', async (_, files, node) => {
    expect(await keyOf(files, node)).not.toBe(await keyOf(base))
  })

  test('of a workspace it hangs on the packages of the lockfile’s folder and of the build', async () => {
    const own = { 'package.json': '{}', 'yarn.lock': YARN_1, 'web/package.json': built() }
    const key = await keyOf(own, NODE, 'web')
    const changed = [
      { ...own, 'package.json': json({ resolutions: { a: '1' } }) },
      { ...own, 'web/package.json': built({ dependencies: { a: '1' } }) },
      { ...own, 'web/yarn.lock': YARN_1 },
    ]
    for (const files of changed) expect(await keyOf(files, NODE, 'web')).not.toBe(key)
  })
})

test.each<[string, Files, string]>([
  ['package.json', { 'package.json': '{' }, 'package.json is no JSON.'],
  ['package.json', { 'package.json': '[]' }, 'package.json: Invalid input: expected object, received array.'],
  [
    'vercel.json',
    { 'package.json': built(), 'vercel.json': 'null' },
    'vercel.json: Invalid input: expected object, received null.',
  ],
  [
    'a command of vercel.json',
    { 'package.json': built(), 'vercel.json': json({ buildCommand: 1 }) },
    'vercel.json: buildCommand: Invalid input: expected string, received number.',
  ],
  [
    'a command of vercel.json that is too long',
    { 'package.json': built(), 'vercel.json': json({ buildCommand: 'x'.repeat(5_000) }) },
    'vercel.json: buildCommand: Too big: expected string to have <=4096 characters.',
  ],
  ['package.json above', { 'package.json': '"', 'web/package.json': built() }, 'package.json is no JSON.'],
])('a malformed %s is refused', async (_, files, sentence) => {
  const root = 'web/package.json' in files ? 'web' : ''
  await expect(plan(files, root)).rejects.toThrow(new UnusableOutput(sentence))
})

test('a lockfile larger than 32 MiB is refused before it is read', async () => {
  const files = new Map([
    ['package.json', { bytes: 30 }],
    ['yarn.lock', { bytes: 33 * 2 ** 20 }],
  ])
  const read = async (path: string) => {
    if (path !== 'package.json') throw new Error('It is read')
    return Buffer.from(built())
  }
  await expect(planBuild({ files, read }, '', { canFetch: true })).rejects.toThrow(
    new UnusableOutput('yarn.lock is larger than 32 MiB'),
  )
})

test.each([
  ['a dependency', { dependencies: { next: '^16' } }, true],
  ['a development dependency', { devDependencies: { next: '^16' } }, true],
  ['no dependency', { dependencies: { nextra: '1' } }, false],
])('Next.js as %s is known', async (_, more, usesNext) => {
  expect(await plan({ 'package.json': built(more) })).toMatchObject({ usesNext })
})
