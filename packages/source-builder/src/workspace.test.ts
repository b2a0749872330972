import { describe, expect, test } from 'vitest'
import { type BuildPlan, planBuild } from './plan-build.ts'
import { type Files, treeOf } from './test-projects.ts'

const json = (value: object): string => JSON.stringify(value)
const pkg = (name: string, more: object = {}): string =>
  json({ name, version: '1.0.0', scripts: { build: 'x' }, ...more })
const LOCKS = {
  npm: { 'package-lock.json': '{"lockfileVersion":3}' },
  pnpm: { 'pnpm-lock.yaml': "lockfileVersion: '9.0'\n" },
  'Yarn 1': { 'yarn.lock': '# yarn lockfile v1\n' },
  'Yarn 4': { 'yarn.lock': '__metadata:\n  version: 10\n' },
}
/** The members of the workspace, as its manager reads them. */
const listed = (manager: keyof typeof LOCKS, patterns: string[], more: object = {}): Files =>
  manager === 'pnpm'
    ? {
        ...LOCKS.pnpm,
        'package.json': json({ private: true, ...more }),
        'pnpm-workspace.yaml': json({ packages: patterns }),
      }
    : { ...LOCKS[manager], 'package.json': json({ private: true, workspaces: patterns, ...more }) }

const plan = (files: Files, root = 'apps/web') => planBuild(treeOf(files), root, { canFetch: true })
const warningsOf = ({ notes }: BuildPlan): string[] =>
  notes.flatMap(({ type, text }) => (type === 'WARN' ? [text] : []))
const buildsOf = ({ builds }: BuildPlan): string[] => builds.map(({ argv, folder }) => `${folder}: ${argv.join(' ')}`)

/** The site needs ui, which needs base; tools is nobody's. */
const members = {
  'apps/web/package.json': pkg('web', { dependencies: { '@a/ui': 'workspace:*' } }),
  'packages/ui/package.json': pkg('@a/ui', {
    dependencies: { '@a/base': 'workspace:^' },
    devDependencies: { '@a/config': 'workspace:*' },
  }),
  'packages/base/package.json': pkg('@a/base'),
  'packages/config/package.json': json({ name: '@a/config' }),
  'packages/tools/package.json': pkg('@a/tools'),
}

describe('what a site needs of its workspace', () => {
  test.each(['npm', 'pnpm', 'Yarn 1', 'Yarn 4'] as const)(
    'is built first with %s, each behind what it needs itself',
    async (manager) => {
      const buildPlan = await plan({ ...listed(manager, ['apps/*', 'packages/*']), ...members })
      const command = { npm: 'npm', pnpm: 'pnpm', 'Yarn 1': 'yarn', 'Yarn 4': 'yarn' }[manager]
      expect(buildsOf(buildPlan)).toEqual(
        ['packages/base', 'packages/ui', 'apps/web'].map((folder) => `${folder}: ${command} run build`),
      )
      expect(buildPlan.needed).toEqual(['packages/base', 'packages/config', 'packages/ui'])
      expect(warningsOf(buildPlan)).toEqual([])
    },
  )

  test('is what npm and Yarn link by its version, and pnpm by its word alone', async () => {
    const by = (range: string): Files => ({
      'apps/web/package.json': pkg('web', { dependencies: { '@a/base': range } }),
      'packages/base/package.json': pkg('@a/base'),
    })
    const neededBy = async (manager: keyof typeof LOCKS, range: string) =>
      (await plan({ ...listed(manager, ['apps/*', 'packages/*']), ...by(range) })).needed
    expect(await neededBy('npm', '^1.0.0')).toEqual(['packages/base'])
    expect(await neededBy('npm', '*')).toEqual(['packages/base'])
    expect(await neededBy('npm', '^2.0.0')).toEqual([])
    expect(await neededBy('pnpm', '^1.0.0')).toEqual([])
    expect(await neededBy('pnpm', 'link:../../packages/base')).toEqual(['packages/base'])
    expect(await neededBy('npm', 'file:../../packages/base')).toEqual(['packages/base'])
    expect(await neededBy('npm', 'file:../../packages/base.tgz')).toEqual([])
  })

  test('is built for a site without a build script too', async () => {
    const api = {
      'apps/api/package.json': json({
        name: 'api',
        scripts: { start: 'node index.js' },
        dependencies: { '@a/ui': 'workspace:*' },
      }),
    }
    const buildPlan = await plan({ ...listed('pnpm', ['apps/*', 'packages/*']), ...members, ...api }, 'apps/api')
    expect(buildsOf(buildPlan)).toEqual(['packages/base: pnpm run build', 'packages/ui: pnpm run build'])
  })

  test('is no matter of a buildCommand, which builds what it says', async () => {
    const vercel = { 'apps/web/vercel.json': json({ buildCommand: 'make' }) }
    const buildPlan = await plan({ ...listed('npm', ['apps/*', 'packages/*']), ...members, ...vercel })
    expect(buildsOf(buildPlan)).toEqual(['apps/web: /bin/sh -c make'])
  })
})

test('pnpm links by version where it is old, or told to', async () => {
  const site = {
    'apps/web/package.json': pkg('web', { dependencies: { '@a/base': '^1.0.0' } }),
    'packages/base/package.json': pkg('@a/base'),
  }
  const files = { ...listed('pnpm', ['apps/*', 'packages/*']), ...site }
  expect((await plan({ ...files, 'pnpm-lock.yaml': "lockfileVersion: '6.0'\n" })).needed).toEqual(['packages/base'])
  expect((await plan({ ...files, '.npmrc': 'link-workspace-packages=true\n' })).needed).toEqual(['packages/base'])
  const told = json({ packages: ['apps/*', 'packages/*'], linkWorkspacePackages: true })
  expect((await plan({ ...files, 'pnpm-workspace.yaml': told })).needed).toEqual(['packages/base'])
})

test('a package of the workspace is found by another name, and by its folder', async () => {
  const needing = (wanted: string): Files => ({
    ...listed('pnpm', ['apps/*', 'packages/*']),
    'apps/web/package.json': pkg('web', { dependencies: { base: wanted } }),
    'packages/base/package.json': pkg('@a/base'),
  })
  for (const wanted of ['workspace:@a/base@*', 'workspace:../../packages/base'])
    expect(await plan(needing(wanted))).toMatchObject({ needed: ['packages/base'] })
})

test('a workspace of pnpm without a lockfile is installed by pnpm', async () => {
  const { 'pnpm-lock.yaml': _, ...files } = {
    'pnpm-lock.yaml': '',
    ...listed('pnpm', ['apps/*', 'packages/*']),
    ...members,
  }
  expect((await plan(files)).manager.kind).toBe('pnpm')
})

test('a template of a package that is no JSON is left out, with a sentence', async () => {
  const files = { ...listed('npm', ['apps/*', 'packages/*']), ...members, 'packages/template/package.json': '{{name}}' }
  expect(warningsOf(await plan(files))).toEqual(['packages/template/package.json is no JSON, and is left out.'])
})

describe('a tool above the site', () => {
  test('turbo builds the site and what it needs', async () => {
    const root = listed('pnpm', ['apps/*', 'packages/*'], { devDependencies: { turbo: '^2' } })
    const buildPlan = await plan({ ...root, ...members, 'turbo.json': '{}' })
    expect(buildsOf(buildPlan)).toEqual([': turbo run build --filter=web... --env-mode=loose --output-logs=full'])
    expect(buildPlan.environment).toMatchObject({ TURBO_DANGEROUSLY_DISABLE_PACKAGE_MANAGER_CHECK: 'true' })
    expect(buildPlan.notes[0]?.text).toBe('Found source in a workspace, built by turbo for turbo.json')
  })

  test('nx builds the site by the name of its project', async () => {
    const root = listed('npm', ['apps/*', 'packages/*'], { devDependencies: { nx: '22' } })
    const buildPlan = await plan({ ...root, ...members, 'nx.json': '{}', 'apps/web/project.json': '{"name":"shop"}' })
    expect(buildsOf(buildPlan)).toEqual([': nx run shop:build'])
    expect(buildsOf(await plan({ ...root, ...members, 'nx.json': '{}' }))).toEqual([': nx run web:build'])
  })

  test('that nobody installs is left out, with a sentence', async () => {
    const buildPlan = await plan({ ...listed('npm', ['apps/*', 'packages/*']), ...members, 'turbo.json': '{}' })
    expect(buildsOf(buildPlan)).toHaveLength(3)
    expect(warningsOf(buildPlan)).toEqual([
      'turbo.json is there, and package.json does not have turbo among its dependencies: the packages that the site needs are built in order.',
    ])
  })

  test.each(['--help', 'a b', 'a\nb', '$(x)', '-x'])('is not asked for a site of the name %j', async (name) => {
    const root = listed('npm', ['apps/*', 'packages/*'], { devDependencies: { turbo: '^2' } })
    const buildPlan = await plan({ ...root, 'apps/web/package.json': pkg(name), 'turbo.json': '{}' })
    expect(buildsOf(buildPlan)).toEqual(['apps/web: npm run build'])
  })

  test('in the folder of the site is no tool above it', async () => {
    const buildPlan = await plan({
      ...listed('npm', ['apps/*', 'packages/*']),
      ...members,
      'apps/web/turbo.json': '{}',
    })
    expect(buildsOf(buildPlan)).toHaveLength(3)
  })
})

describe('what is wrong with a workspace is said, with its file and member', () => {
  test.each<[string, string[], string]>([
    [
      'a pattern to nothing',
      ['apps/*', 'libs/*'],
      'package.json: workspaces: "libs/*" names no folder with a package.json.',
    ],
    [
      'a pattern out of the archive',
      ['apps/*', '../other'],
      'package.json: workspaces: "../other" leads out of the archive, and is left out.',
    ],
    [
      'an absolute pattern',
      ['apps/*', '/etc/*'],
      'package.json: workspaces: "/etc/*" leads out of the archive, and is left out.',
    ],
    [
      'a pattern that nobody writes',
      ['apps/*', '+(a|aa)+'],
      'package.json: workspaces: "+(a|aa)+" is a pattern that is not read here: write folders, * and **.',
    ],
    [
      'many stars',
      ['apps/*', 'a*a*a*a*a*a'],
      'package.json: workspaces: "a*a*a*a*a*a" is a pattern that is not read here: write folders, * and **.',
    ],
    [
      'a list without the site',
      ['packages/*'],
      'package.json: workspaces does not list "apps/web", so its packages are not installed with the others.',
    ],
  ])('%s', async (_, patterns, sentence) => {
    const files = { 'apps/web/package.json': pkg('web'), 'packages/ui/package.json': pkg('@a/ui') }
    expect(warningsOf(await plan({ ...listed('npm', patterns), ...files }))).toEqual([sentence])
  })

  test.each<[string, Files, string]>([
    [
      'a member that is no list',
      { 'package.json': json({ workspaces: 7 }) },
      'package.json: workspaces is not a list of at most 100 patterns.',
    ],
    [
      'an entry that is no text',
      { 'package.json': json({ workspaces: ['apps/*', 7] }) },
      'package.json: workspaces: "7" is no text.',
    ],
  ])('%s', async (_, files, sentence) => {
    const buildPlan = await plan({ ...LOCKS.npm, 'apps/web/package.json': pkg('web'), ...files })
    expect(warningsOf(buildPlan)).toContain(sentence)
  })

  test('packages that need each other in a circle', async () => {
    const files = {
      'apps/web/package.json': pkg('web', { dependencies: { '@a/x': '*' } }),
      'packages/x/package.json': pkg('@a/x', { dependencies: { '@a/y': '*' } }),
      'packages/y/package.json': pkg('@a/y', { dependencies: { '@a/x': '*' } }),
    }
    const buildPlan = await plan({ ...listed('npm', ['apps/*', 'packages/*']), ...files })
    expect(buildsOf(buildPlan).map((each) => each.split(':')[0])).toEqual(['packages/y', 'packages/x', 'apps/web'])
    expect(warningsOf(buildPlan)).toEqual([
      'packages/y/package.json: dependencies: "packages/x" needs "packages/y" needs "packages/x", in a circle: the last of them is built first, without the first.',
    ])
  })

  test.each<[string, Files, string]>([
    [
      'a package that the workspace lacks',
      listed('pnpm', ['apps/*']),
      'apps/web/package.json: dependencies: "@a/ui" is wanted from the workspace, which has no such package. Upload the whole workspace, and set rootDirectory to the folder of the site.',
    ],
    [
      'a package of a workspace that is not there',
      LOCKS.pnpm,
      'apps/web/package.json: dependencies: "@a/ui" is wanted from the workspace, and the archive has no workspace. Upload the whole workspace, and set rootDirectory to the folder of the site.',
    ],
  ])('%s', async (_, files, sentence) => {
    const site = { 'apps/web/package.json': pkg('web', { dependencies: { '@a/ui': 'workspace:*' } }) }
    expect(warningsOf(await plan({ ...files, ...site }))).toContain(sentence)
  })

  test('a folder out of the archive', async () => {
    const site = { 'apps/web/package.json': pkg('web', { dependencies: { ui: 'file:../../../ui' } }) }
    expect(warningsOf(await plan({ ...listed('npm', ['apps/*']), ...site }))).toEqual([
      'apps/web/package.json: dependencies: "ui" leads out of the archive.',
    ])
  })

  test('a pnpm-workspace.yaml that is none', async () => {
    const files = { ...LOCKS.pnpm, 'apps/web/package.json': pkg('web'), 'pnpm-workspace.yaml': 'packages: [' }
    await expect(plan(files)).rejects.toThrow('pnpm-workspace.yaml is no YAML.')
  })
})

test.each<[string, string]>([
  [
    'aliases that grow',
    Array.from(
      { length: 12 },
      (_, n) =>
        `a${n}: &a${n} [${
          n === 0
            ? 'x'
            : Array(9)
                .fill(`*a${n - 1}`)
                .join()
        }]`,
    ).join('\n'),
  ],
  ['lists for keys', '? '.repeat(300)],
  ['lists within lists', `packages: ${'['.repeat(30_000)}`],
])('a pnpm-workspace.yaml of %s is refused', async (_, yaml) => {
  const files = { ...LOCKS.pnpm, 'apps/web/package.json': pkg('web'), 'pnpm-workspace.yaml': yaml }
  await expect(plan(files)).rejects.toThrow('pnpm-workspace.yaml is no YAML.')
})

test('a pnpm-workspace.yaml that would take long to parse is refused by its length', async () => {
  const files = { ...LOCKS.pnpm, 'apps/web/package.json': pkg('web'), 'pnpm-workspace.yaml': '#'.repeat(65_537) }
  await expect(plan(files)).rejects.toThrow('pnpm-workspace.yaml is larger than 64 KiB')
})

test('patterns of workspaces are read as package managers read them', async () => {
  const files: Files = {}
  for (const folder of ['apps/web', 'libs/a/one', 'libs/b/two', 'libs/b/test/three', 'tools', 'other/x'])
    files[`${folder}/package.json`] = pkg(folder.replaceAll('/', '-'))
  const needing = (names: string[]) =>
    pkg('web', { dependencies: Object.fromEntries(names.map((name) => [name, '*'])) })
  const names = ['libs-a-one', 'libs-b-two', 'libs-b-test-three', 'tools', 'other-x']
  const neededBy = async (patterns: string[]) =>
    (await plan({ ...files, ...listed('npm', ['apps/*', ...patterns]), 'apps/web/package.json': needing(names) }))
      .needed
  expect(await neededBy(['libs/*/one'])).toEqual(['libs/a/one'])
  expect(await neededBy(['libs/**', '!**/test/**'])).toEqual(['libs/a/one', 'libs/b/two'])
  expect(await neededBy(['./tools', '{libs,other}/*'])).toEqual(['other/x', 'tools'])
})
