import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createHash } from 'node:crypto'
import { readOutput, UnusableOutput } from '@platform/build-output/read-output'
import { afterAll, describe, expect, test } from 'vitest'
import { type BuiltProject, type BuiltProjectOptions, readBuiltProject } from './built-project.ts'
import { type Files, writeFiles } from './test-projects.ts'

const all = mkdtempSync(join(tmpdir(), 'built-project-'))
afterAll(() => rmSync(all, { recursive: true, force: true }))
const MiB = 2 ** 20
const BUILT_SINCE = Date.UTC(2030, 0, 1)
let made = 0

interface Project {
  folder: string
  read(more?: Partial<BuiltProjectOptions>): Promise<BuiltProject>
}

/** A project after its build. The files in `source` belong to the source and are older than the build. links: targets by path. */
function project(files: Files, source: readonly string[] = [], links: Record<string, string> = {}): Project {
  const folder = join(all, String((made += 1)), 'project')
  writeFiles(folder, files)
  for (const path of source) utimesSync(join(folder, path), new Date(0), new Date(0))
  for (const [path, target] of Object.entries(links)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    symlinkSync(target, join(folder, path))
  }
  return {
    folder,
    read: (more = {}) =>
      readBuiltProject({
        folder,
        root: '',
        outputDirectory: undefined,
        isSource: (path) => source.includes(path),
        builtSince: BUILT_SINCE,
        bytesMax: 1024 * MiB,
        ...more,
      }),
  }
}

const pathsOf = ({ files }: BuiltProject): string[] => [...files.keys()].toSorted()
const start = (script: string): string => JSON.stringify({ scripts: { build: 'x', start: script } })
const built = JSON.stringify({ scripts: { build: 'x' } })

test('names of a build that an archive could not hold together are warned of once each, and all are served', async () => {
  const composed = 'café/a.html'.normalize('NFC')
  const decomposed = 'café/b.html'.normalize('NFD')
  const { read } = project({
    'package.json': built,
    'dist/index.html': 'x',
    'dist/INDEX.HTML': 'y',
    'dist/Blog/a.html': '',
    'dist/blog/a.html': '',
    'dist/blog/b.html': '',
    [`dist/${composed}`]: '',
    [`dist/${decomposed}`]: '',
    'dist/node_modules/a/README.md': '',
    'dist/node_modules/a/readme.md': '',
  })
  const taken = await read()
  const differs = (path: string, from: string): string =>
    `"dist/${path}" differs from "dist/${from}" in upper and lower case or in the spelling of accents alone; an archive with both is refused`
  expect(taken.warnings.toSorted()).toEqual(
    [
      differs('blog', 'Blog'),
      differs('index.html', 'INDEX.HTML'),
      differs('café'.normalize('NFC'), 'café'.normalize('NFD')),
    ].toSorted(),
  )
  expect(pathsOf(taken)).toEqual(
    expect.arrayContaining(['dist/INDEX.HTML', 'dist/index.html', `dist/${composed}`, `dist/${decomposed}`]),
  )
})

describe('the output', () => {
  const everything: Files = {
    'package.json': start('node run.js'),
    'run.js': '',
    'index.html': '',
    'dist/index.html': '',
    'site/page.html': '',
    '.vercel/output/config.json': '{"version":3}',
    '.vercel/output/static/a.txt': '',
  }
  const without = (...paths: string[]): Files =>
    Object.fromEntries(Object.entries(everything).filter(([path]) => !paths.some((each) => path.startsWith(each))))
  const source = ['package.json', 'run.js', 'index.html']

  test.each<[string, Files, string[], Partial<BuiltProjectOptions>, string, string[]]>([
    [
      'is Build Output before all else',
      everything,
      source,
      { outputDirectory: 'site' },
      '',
      ['.vercel/output/config.json', '.vercel/output/static/a.txt'],
    ],
    [
      'is the folder that vercel.json names before a server',
      without('.vercel'),
      source,
      { outputDirectory: 'site' },
      'site',
      ['site/page.html'],
    ],
    [
      'is that folder however it is written',
      without('.vercel'),
      source,
      { outputDirectory: './x/../site//' },
      'site',
      ['site/page.html'],
    ],
    [
      'is a server by its start script before pages',
      without('.vercel'),
      source,
      {},
      '',
      ['dist/index.html', 'index.html', 'package.json', 'run.js', 'site/page.html'],
    ],
    [
      'is Next’s server',
      { 'package.json': built, 'server.js': '', 'dist/index.html': '' },
      ['package.json'],
      {},
      '',
      ['dist/index.html', 'package.json', 'server.js'],
    ],
    [
      'is Nitro’s server',
      { 'package.json': start('nuxt start'), '.output/server/index.mjs': '', 'dist/index.html': '' },
      ['package.json'],
      {},
      '',
      ['.output/server/index.mjs', 'dist/index.html', 'package.json'],
    ],
    [
      'is a folder of pages before another start script',
      { 'package.json': start('vite preview'), 'dist/index.html': '' },
      ['package.json'],
      {},
      'dist',
      ['dist/index.html'],
    ],
    [
      'is the shallowest folder of pages',
      { 'package.json': built, 'b/x/index.html': '', 'z/index.html': '', 'z/a/index.html': '' },
      [],
      {},
      'z',
      ['z/a/index.html', 'z/index.html'],
    ],
    [
      'is of several the first by name',
      { 'package.json': built, 'out/index.html': '', 'dist/index.html': '' },
      [],
      {},
      'dist',
      ['dist/index.html'],
    ],
    [
      'is a folder with a worker',
      { 'package.json': built, 'dist/_worker.js': '' },
      [],
      {},
      'dist',
      ['dist/_worker.js'],
    ],
    [
      'is a folder with a worker of several modules',
      { 'package.json': built, 'dist/_worker.js/index.js': '' },
      [],
      {},
      'dist',
      ['dist/_worker.js/index.js'],
    ],
    [
      'is no folder of the source',
      { 'package.json': built, 'public/index.html': '', 'build/out/index.html': '' },
      ['public/index.html'],
      {},
      'build/out',
      ['build/out/index.html'],
    ],
    [
      'is a start script where pages are source',
      { 'package.json': start('vite preview'), 'public/index.html': '' },
      ['package.json', 'public/index.html'],
      {},
      '',
      ['package.json', 'public/index.html'],
    ],
    [
      'is no page that a framework keeps for itself',
      { 'package.json': start('next start'), '.next/server/app/index.html': '' },
      ['package.json'],
      {},
      '',
      ['.next/server/app/index.html', 'package.json'],
    ],
    [
      'is what lies beside package.json',
      { 'package.json': built, 'index.html': '', 'a.js': '', 'node_modules/x/index.js': '' },
      ['package.json', 'index.html'],
      {},
      '',
      ['a.js', 'index.html', 'package.json'],
    ],
    [
      'is a worker beside package.json',
      { 'package.json': built, '_worker.js': '' },
      ['package.json'],
      {},
      '',
      ['_worker.js', 'package.json'],
    ],
    [
      'is the whole project if vercel.json says so',
      { 'package.json': built, 'page.html': '' },
      ['package.json'],
      { outputDirectory: '.' },
      '',
      ['package.json', 'page.html'],
    ],
  ])('%s', async (_, files, own, more, root, paths) => {
    const builtProject = await project(files, own).read(more)
    expect([builtProject.root, pathsOf(builtProject)]).toEqual([root, paths])
    // The same below a folder of the archive.
    const below = Object.fromEntries(Object.entries(files).map(([path, text]) => [`apps/web/${path}`, text]))
    const nested = await project(
      below,
      own.map((path) => `apps/web/${path}`),
    ).read({ ...more, root: 'apps/web' })
    const pathOf = (path: string): string => `apps/web/${path}`.replace(/\/$/, '')
    expect([nested.root, pathsOf(nested)]).toEqual([pathOf(root), paths.map(pathOf)])
  })

  test('is a page of the source that the build has changed', async () => {
    const { folder, read } = project({ 'package.json': built, 'web/index.html': '' }, [
      'package.json',
      'web/index.html',
    ])
    const later = new Date(BUILT_SINCE)
    utimesSync(join(folder, 'web/index.html'), later, later)
    expect(await read()).toMatchObject({ root: 'web' })
  })

  test('can be named above the folder that is built', async () => {
    const builtProject = await project({ 'web/package.json': built, 'dist/a.txt': '' }).read({
      root: 'web',
      outputDirectory: '../dist',
    })
    expect([builtProject.root, pathsOf(builtProject)]).toEqual(['dist', ['dist/a.txt']])
  })

  test.each(['none', '..', '../..', '../project', '/etc', 'empty', 'package.json', 'out', '../project/dist'])(
    'is not to be found at %s',
    async (outputDirectory) => {
      const { folder, read } = project({ 'package.json': built, 'dist/index.html': '' }, [], { out: '/etc' })
      mkdirSync(join(folder, 'empty'))
      await expect(read({ outputDirectory })).rejects.toThrow(
        new UnusableOutput(
          `vercel.json names the output directory "${outputDirectory}", and the build left nothing there`,
        ),
      )
    },
  )

  test('is missing, and a sentence says what could be there', async () => {
    await expect(project({ 'package.json': built, 'a.js': '' }).read()).rejects.toThrow(
      /^The build succeeded, and left nothing to deploy: neither \.vercel\/output, nor a folder with an index\.html, nor a server/,
    )
  })

  test('leaves out what is kept for builds alone', async () => {
    const kept = ['.git/HEAD', '.next/cache/x', 'a/.turbo/x', 'node_modules/.cache/x', '.yarn/cache/x.zip']
    const own = Object.fromEntries(kept.map((path) => [path, '']))
    const builtProject = await project({
      ...own,
      'package.json': start('node s.js'),
      's.js': '',
      'node_modules/a/.git': '',
    }).read()
    expect(pathsOf(builtProject)).toEqual(['package.json', 's.js'])
  })
})

describe('links', () => {
  const site = { 'package.json': built, 'dist/index.html': 'page', 'shared/logo.svg': 'logo', 'shared/deep/a.txt': 'a' }

  test('of a site are what they lead to within the project', async () => {
    const builtProject = await project(site, [], {
      'dist/logo.svg': '../shared/logo.svg',
      'dist/shared': '../shared',
      'dist/again': 'shared/deep',
      'dist/page.html': 'index.html',
    }).read()
    expect(pathsOf(builtProject)).toEqual(
      ['again/a.txt', 'index.html', 'logo.svg', 'page.html', 'shared/deep/a.txt', 'shared/logo.svg'].map(
        (path) => `dist/${path}`,
      ),
    )
    expect((await builtProject.read('dist/again/a.txt')).toString()).toBe('a')
    const [one, two] = await Promise.all(
      ['dist/logo.svg', 'dist/shared/logo.svg'].map((path) => builtProject.content(path)),
    )
    expect(one).toEqual(two)
    expect(one?.sha256).toEqual(createHash('sha256').update('logo').digest())
    expect([builtProject.links.size, builtProject.warnings]).toEqual([0, []])
  })

  test('of a site that lead elsewhere are left out, and named', async () => {
    writeFileSync(join(all, 'secret'), 'secret')
    mkdirSync(join(all, 'secrets'), { recursive: true })
    writeFileSync(join(all, 'secrets/a.txt'), 'secret')
    const builtProject = await project(site, [], {
      'dist/absolute': '/etc/hostname',
      'dist/above': '../../../secret',
      'dist/folder': '../../../secrets',
      'dist/by-another': 'folder/a.txt',
      'dist/nothing': 'missing',
      'dist/itself': 'itself',
      'dist/a': 'b',
      'dist/b': 'a',
      'dist/up': '.',
      'dist/root': '..',
      'dist/device': '/dev/zero',
      'dist/process': '/proc/self/root',
    }).read()
    expect(pathsOf(builtProject)).toEqual(['dist/index.html'])
    const out = ['above', 'absolute', 'by-another', 'device', 'folder', 'process', 'root'].map(
      (name) => `The link "dist/${name}" leads out of the project and was left out`,
    )
    const nothing = ['a', 'b', 'itself', 'nothing'].map(
      (name) => `The link "dist/${name}" leads to nothing and was left out`,
    )
    expect([...builtProject.warnings].toSorted()).toEqual(
      [...out, ...nothing, 'The link "dist/up" leads to a folder that holds it and was left out'].toSorted(),
    )
  })

  test('that are absolute and lead into the project count as any other', async () => {
    const { folder, read } = project(site)
    symlinkSync(join(folder, 'shared/logo.svg'), join(folder, 'dist/logo.svg'))
    expect(pathsOf(await read())).toEqual(['dist/index.html', 'dist/logo.svg'])
  })

  test('of folders that lead to each other twice end, with a sentence', async () => {
    const links: Record<string, string> = {}
    for (let n = 0; n < 30; n++) for (const name of ['x', 'y']) links[`dist/f${n}/${name}`] = `../f${n + 1}`
    const builtProject = project({ ...site, 'dist/f30/a.txt': '' }, [], links).read()
    await expect(builtProject).rejects.toThrow(UnusableOutput)
    await expect(builtProject).rejects.toThrow(/^The build left (too much to look through|more than 50000 files)/)
  })

  test('of folders that lead to each other in a circle end', async () => {
    const builtProject = await project({ ...site, 'dist/a/1': '', 'dist/b/2': '' }, [], {
      'dist/a/b': '../b',
      'dist/b/a': '../a',
    }).read()
    expect(pathsOf(builtProject).filter((path) => path !== 'dist/index.html')).toEqual([
      'dist/a/1',
      'dist/a/b/2',
      'dist/b/2',
      'dist/b/a/1',
    ])
    expect(builtProject.warnings).toHaveLength(2)
  })

  test('of a server stay links where they lead into its folder', async () => {
    const builtProject = await project(
      {
        'web/package.json': start('node s.js'),
        'web/s.js': '',
        'web/node_modules/.pnpm/a/i.js': '',
        'shared/b.js': '',
      },
      [],
      {
        'web/node_modules/a': '.pnpm/a',
        'web/node_modules/.bin/a': '../.pnpm/a/i.js',
        'web/node_modules/.bin/gone': '../gone',
        'web/out': '../shared',
        'web/etc': '/etc',
        'web/gone': 'nothing',
      },
    ).read({ root: 'web' })
    expect([...builtProject.links].toSorted(([a], [b]) => (a < b ? -1 : 1))).toEqual([
      ['web/node_modules/.bin/a', '../.pnpm/a/i.js'],
      ['web/node_modules/a', '.pnpm/a'],
    ])
    expect(pathsOf(builtProject)).toEqual(['web/node_modules/.pnpm/a/i.js', 'web/package.json', 'web/s.js'])
    expect([...builtProject.warnings].toSorted()).toEqual(
      ['etc', 'gone', 'out'].map(
        (name) => `The link "web/${name}" leads out of the project or to nothing and was left out`,
      ),
    )
  })

  const elsewhere = (name: string): string => {
    const folder = join(all, name)
    writeFiles(folder, {
      'package.json': start('node s.js'),
      's.js': 'secret',
      'index.html': 'secret',
      '.vercel/output/config.json': '{}',
    })
    return folder
  }

  test('in place of the project itself are refused: they could lead anywhere', async () => {
    const { folder, read } = project(site)
    renameSync(folder, `${folder}-moved`)
    symlinkSync(elsewhere('machine-1'), folder)
    await expect(read()).rejects.toThrow(new UnusableOutput('The build removed the folder of its project'))
    rmSync(folder)
    await expect(read()).rejects.toThrow(new UnusableOutput('The build removed the folder of its project'))
  })

  test.each(['web', 'web/.vercel', 'web/.vercel/output', 'web/dist'])('in place of %s never lead out', async (path) => {
    const { read } = project({ 'package.json': built }, [], { [path]: elsewhere('machine-2') })
    for (const outputDirectory of [undefined, 'dist'])
      await expect(read({ root: 'web', outputDirectory })).rejects.toThrow(UnusableOutput)
  })

  test('in place of Build Output are followed within the project', async () => {
    const builtProject = await project(
      { 'package.json': built, 'made/config.json': '{}', 'made/static/a.txt': 'a' },
      [],
      {
        '.vercel/output': '../made',
      },
    ).read()
    expect(pathsOf(builtProject)).toEqual(['.vercel/output/config.json', '.vercel/output/static/a.txt'])
    expect((await builtProject.read('.vercel/output/static/a.txt')).toString()).toBe('a')
  })
})

describe('what is no plain file', () => {
  const site = { 'package.json': built, 'dist/index.html': '' }

  test('is left out, and read by nobody', async () => {
    const { folder, read } = project(site, [], { 'dist/pipe-link': 'pipe' })
    expect(spawnSync('mkfifo', [join(folder, 'dist/pipe'), join(folder, 'pipe')]).status).toBe(0)
    expect(pathsOf(await read())).toEqual(['dist/index.html'])
  })

  test('keeps no more of its mode than whether it is a program', async () => {
    const { folder, read } = project({ ...site, 'dist/run': '', 'dist/closed': 'text' })
    chmodSync(join(folder, 'dist/run'), 0o6755)
    chmodSync(join(folder, 'dist/closed'), 0o444)
    const { files } = await read()
    const flags = ['run', 'closed', 'index.html'].map((name) => files.get(`dist/${name}`)?.isExecutable)
    expect(flags).toEqual([true, false, false])
  })

  test.each<[string, Buffer | string, string]>([
    ['a line feed', 'a\nb', 'The build made "dist/a\\nb", a name with a backslash or a character that is not printed'],
    ['a backslash', 'a\\b', 'The build made "dist/a\\\\b", a name with a backslash or a character that is not printed'],
    ['bytes that are not UTF-8', Buffer.from([0x61, 0xff]), 'The build made "dist/a\ufffd", a name that is not UTF-8'],
  ])('a name with %s is refused', async (_, name, sentence) => {
    const { folder, read } = project(site)
    writeFileSync(Buffer.concat([Buffer.from(join(folder, 'dist/')), Buffer.from(name)]), '')
    await expect(read()).rejects.toThrow(new UnusableOutput(sentence))
  })

  /** So deep that only programs which walk by open folder descriptors can reach it. */
  const dig = (folder: string, name: string, depth: number): void => {
    const code = 'for (1..$ARGV[1]) { mkdir $ARGV[0]; chdir $ARGV[0] or die $! }'
    expect(spawnSync('perl', ['-e', code, name, String(depth)], { cwd: folder }).status).toBe(0)
  }

  test('folders nested 5,000 deep are refused, and can be removed', async () => {
    const { folder, read } = project(site)
    dig(join(folder, 'dist'), 'd'.repeat(60), 5_000)
    await expect(read()).rejects.toThrow(/^The build made "dist\/[d/]+…", a path of more than 2048 bytes$/)
    rmSync(join(folder, 'dist'), { recursive: true, force: true })
    writeFiles(folder, site)
    dig(join(folder, 'dist'), 'd', 80)
    await expect(read()).rejects.toThrow(/^The build made "dist\/d.*", more than 64 folders deep$/)
  })
})

describe('limits', () => {
  const site = { 'package.json': built, 'dist/index.html': '12345' }
  const grow = (folder: string, path: string, bytes: number): void => {
    writeFileSync(join(folder, path), '')
    truncateSync(join(folder, path), bytes)
  }

  test('a file larger than 256 MiB is refused, and one outside of the output is not', async () => {
    const { folder, read } = project(site)
    grow(folder, 'cache.bin', 300 * MiB)
    grow(folder, 'dist/large.bin', 256 * MiB)
    expect(pathsOf(await read())).toEqual(['dist/index.html', 'dist/large.bin'])
    grow(folder, 'dist/large.bin', 256 * MiB + 1)
    await expect(read()).rejects.toThrow(
      new UnusableOutput('The build left "dist/large.bin", which is larger than 256 MiB'),
    )
  })

  test('more than the plan allows is refused', async () => {
    const { folder, read } = project(site)
    grow(folder, 'dist/a.bin', 2 * MiB - 5)
    expect((await read({ bytesMax: 2 * MiB })).files.size).toBe(2)
    grow(folder, 'dist/a.bin', 2 * MiB - 4)
    await expect(read({ bytesMax: 2 * MiB })).rejects.toThrow(
      new UnusableOutput('The build left more than 2 MiB to deploy'),
    )
  })

  test('files that a manifest names outside of the output count too, each once', async () => {
    const paths = Object.fromEntries(Array.from({ length: 5 }, (_, n) => [`f/${n}.bin`, `big/${n}.bin`]))
    const { folder, read } = project(
      {
        'package.json': built,
        '.vercel/output/config.json': '{"version":3}',
        '.vercel/output/functions/f.func/index.js': '',
        '.vercel/output/functions/f.func/.vc-config.json': JSON.stringify({
          runtime: 'nodejs24.x',
          handler: 'index.js',
          launcherType: 'Nodejs',
          filePathMap: { ...paths, again: 'big/0.bin' },
        }),
      },
      [],
      { 'big/link.bin': '0.bin' },
    )
    for (let n = 0; n < 5; n++) grow(folder, `big/${n}.bin`, MiB)
    const builtProject = await read({ bytesMax: 6 * MiB })
    for (let again = 0; again < 3; again++) expect((await readOutput(builtProject, '')).functions).toHaveLength(1)
    expect(builtProject.files.get('big/link.bin')?.bytes).toBe(MiB)
    const tight = await read({ bytesMax: 5 * MiB })
    await expect(readOutput(tight, '')).rejects.toThrow(new UnusableOutput('The build left more than 5 MiB to deploy'))
    // A sparse file costs the build nothing and the store its full length.
    grow(folder, 'big/0.bin', 257 * MiB)
    await expect(readOutput(await read(), '')).rejects.toThrow(
      /^The build left "big\/0\.bin", which is larger than 256 MiB$/,
    )
  })

  test('a manifest cannot name what lies outside of the project', async () => {
    const { folder, read } = project(site, [], { 'dist/out': '../..' })
    writeFileSync(join(folder, '../secret'), 'secret')
    const { files } = await read()
    const paths = ['../secret', 'dist/out/secret', '/etc/hostname', '../project/../secret', 'a\0b', '', '.', 'dist']
    expect(paths.filter((path) => files.has(path))).toEqual([])
    expect(files.has('package.json')).toBe(true)
  })

  test('paths that are long and many are refused before they fill the memory', async () => {
    const { folder, read } = project(site)
    const deep = Array.from({ length: 7 }, () => 'd'.repeat(250)).join('/')
    mkdirSync(join(folder, deep), { recursive: true })
    const code = 'for (1..20000) { open(my $f, ">", "x" x 200 . $_) or die $! }'
    expect(spawnSync('perl', ['-e', code], { cwd: join(folder, deep) }).status).toBe(0)
    await expect(read()).rejects.toThrow(/^The build left too much to look through: 200000 files, folders and links /)
  })
})

describe('Next.js', () => {
  const NEXT_SERVER = 'process.env.__NEXT_PRIVATE_STANDALONE_CONFIG = "{}"'
  const settings = JSON.stringify({ config: {} })
  /** The result of `next build` with standalone output, whose site is `below` the traced folder. */
  const nextBuild = (root: string, distDir = '.next'): Files => {
    const own = root === '' ? '' : `${root}/`
    const standalone = `${own}${distDir}/standalone/`
    return {
      [`${own}package.json`]: start('next start'),
      [`${own}public/a.txt`]: 'public',
      [`${own}app/page.js`]: '',
      [`${own}${distDir}/static/chunks/a.js`]: 'chunk',
      [`${own}${distDir}/required-server-files.json`]: settings,
      [`${own}${distDir}/cache/x`]: '',
      [`${standalone}${own}server.js`]: NEXT_SERVER,
      [`${standalone}${own}package.json`]: start('next start'),
      [`${standalone}${own}${distDir}/required-server-files.json`]: settings,
      [`${standalone}node_modules/.pnpm/next/index.js`]: 'next',
      'node_modules/next/index.js': 'all of next',
    }
  }

  test.each([
    ['', '.next'],
    ['apps/web', '.next'],
    ['', 'build/out'],
  ])('of a site in %j that is built into %s becomes one server with its files', async (root, distDir) => {
    const link = `${root === '' ? '' : `${root}/`}${distDir}/standalone/node_modules/next`
    const builtProject = await project(nextBuild(root, distDir), [], { [link]: '.pnpm/next' }).read({ root })
    const own = root === '' ? '' : `${root}/`
    expect(pathsOf(builtProject)).toEqual(
      [
        `${own}${distDir}/required-server-files.json`,
        `${own}${distDir}/static/chunks/a.js`,
        `${own}package.json`,
        `${own}public/a.txt`,
        `${own}server.js`,
        'node_modules/.pnpm/next/index.js',
      ].toSorted(),
    )
    expect([...builtProject.links]).toEqual([['node_modules/next', '.pnpm/next']])
    expect((await builtProject.read(`${own}public/a.txt`)).toString()).toBe('public')
    const { functions, assets, manifest } = await readOutput(builtProject, builtProject.root)
    expect(functions).toMatchObject([{ kind: 'server', handler: `${own}server.js` }])
    expect(functions[0]?.links?.get('node_modules/next')).toBe('.pnpm/next')
    expect(assets.map(({ path }) => path)).toEqual(['_next/static/chunks/a.js'])
    expect(manifest.staticFolder).toBe('_next/static/')
  })

  test('keeps what its build put into the server itself', async () => {
    const builtProject = await project({ ...nextBuild(''), '.next/standalone/public/a.txt': 'own' }).read()
    expect((await builtProject.read('public/a.txt')).toString()).toBe('own')
  })

  test('is what vercel.json means by its folder', async () => {
    for (const outputDirectory of ['.next', './.next/']) {
      const builtProject = await project(nextBuild('')).read({ outputDirectory })
      expect(builtProject.nextServer, outputDirectory).toEqual({ below: '', distDir: '.next' })
    }
  })

  test.each([
    [
      'starts by a module of its own is that server',
      { 'package.json': start('node main.js'), 'main.js': '' },
      'main.js',
    ],
    [
      'starts its standalone server is that one',
      { 'package.json': start('node .next/standalone/server.js') },
      'server.js',
    ],
  ])('that %s', async (_, more, handler) => {
    const builtProject = await project({ ...nextBuild(''), ...more }).read()
    expect((await readOutput(builtProject, builtProject.root)).functions).toMatchObject([{ handler }])
  })

  test('with a static export is its files', async () => {
    const files: Files = {
      'package.json': start('next start'),
      'out/index.html': '',
      '.next/server/app/index.html': '',
    }
    expect(pathsOf(await project(files, ['package.json']).read())).toEqual(['out/index.html'])
  })

  test('brings nothing that a link of its public folder leads to outside', async () => {
    const builtProject = await project(nextBuild(''), [], { 'public/passwd': '/etc/passwd' }).read()
    expect(builtProject.files.has('public/passwd')).toBe(false)
    expect(builtProject.warnings).toEqual(['The link "public/passwd" leads out of the project and was left out'])
  })
})
