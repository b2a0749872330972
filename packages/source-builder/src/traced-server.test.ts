import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { readOutput, UnusableOutput } from '@platform/build-output/read-output'
import { afterAll, describe, expect, test } from 'vitest'
import { type BuiltProject, type BuiltProjectOptions, readBuiltProject } from './built-project.ts'
import { type Files, writeFiles } from './test-projects.ts'
import { readTrace } from './traced-files.ts'

const all = mkdtempSync(join(tmpdir(), 'traced-server-'))
afterAll(() => rmSync(all, { recursive: true, force: true }))
let made = 0

/** A built project, of which up to eight files and links are deployed unless `more` says otherwise. traced: what its trace lists. */
function project(files: Files, links: Record<string, string> = {}) {
  const folder = join(all, String((made += 1)), 'project')
  writeFiles(folder, files)
  for (const [path, target] of Object.entries(links)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    symlinkSync(target, join(folder, path))
  }
  const entries: string[] = []
  return {
    folder,
    /** What was traced. */
    entries,
    read: (traced: readonly string[] | undefined, more: Partial<BuiltProjectOptions> = {}) =>
      readBuiltProject({
        folder,
        root: '',
        outputDirectory: undefined,
        isSource: () => false,
        builtSince: 0,
        bytesMax: 2 ** 30,
        entriesMax: 8,
        trace: async (entry) => {
          entries.push(entry)
          return traced
        },
        ...more,
      }),
  }
}

const start = (script: string): string => JSON.stringify({ scripts: { start: script } })
const many = (folder: string, count = 10): Files =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`${folder}/${n}.js`, '']))
const pathsOf = ({ files }: BuiltProject): string[] => [...files.keys()].toSorted()
const REFUSAL = new UnusableOutput('The build left more than 8 files to deploy')

const STORE = 'node_modules/.pnpm/a@1.0.0/node_modules'
/** A server as pnpm installs it: its package is a link, and what that one needs is a link beside it. */
const FILES: Files = {
  'package.json': start('node dist/main.js'),
  'dist/main.js': '',
  'dist/page.html': 'what nobody imports',
  [`${STORE}/a/index.js`]: 'a',
  [`${STORE}/a/package.json`]: '{}',
  'node_modules/.pnpm/b@1.0.0/node_modules/b/index.js': 'b',
  ...many('node_modules/.pnpm/large@1.0.0/node_modules/large'),
}
const LINKS = {
  'node_modules/a': '.pnpm/a@1.0.0/node_modules/a',
  [`${STORE}/b`]: '../../b@1.0.0/node_modules/b',
  'node_modules/large': '.pnpm/large@1.0.0/node_modules/large',
}
const OWN = ['dist/main.js', 'dist/page.html', 'package.json']
const REACHED = [`${STORE}/a/index.js`, `${STORE}/a/package.json`, 'node_modules/.pnpm/b@1.0.0/node_modules/b/index.js']
const TRACED = ['dist/main.js', 'node_modules/a', `${STORE}/b`, ...REACHED]

describe('a server with too many files', () => {
  test('gets its own folder, and of node_modules what its program reaches, links as links', async () => {
    const { read, entries } = project(FILES, LINKS)
    const builtProject = await read(TRACED)
    expect(entries).toEqual(['dist/main.js'])
    expect(pathsOf(builtProject)).toEqual([...OWN, ...REACHED].toSorted())
    expect(Object.fromEntries(builtProject.links)).toEqual({
      'node_modules/a': LINKS['node_modules/a'],
      [`${STORE}/b`]: LINKS[`${STORE}/b`],
    })
    expect(builtProject.warnings).toEqual([
      'The build left more than 8 files to deploy, so node_modules was traced from dist/main.js: the server gets 3 files of it, and may lack what it loads by names that it computes',
    ])
    const [server] = (await readOutput(builtProject, '')).functions
    expect([server?.handler, server?.files.size, server?.links?.size]).toEqual(['dist/main.js', 6, 2])
  })

  test('gets a file that is named through a link where it lies', async () => {
    const { read } = project(FILES, LINKS)
    const builtProject = await read([
      'node_modules/a/index.js',
      `${STORE}/a/index.js`,
      'dist/../node_modules/./a/index.js',
    ])
    expect(pathsOf(builtProject)).toEqual([...OWN, `${STORE}/a/index.js`].toSorted())
    expect(builtProject.links.size).toBe(0)
  })

  test('shares packages with others of its workspace', async () => {
    const { read, entries } = project(
      {
        'apps/api/package.json': start('node main.js'),
        'apps/api/main.js': '',
        'apps/api/node_modules/own/index.js': '',
        'apps/other/main.js': '',
        'apps/other/node_modules/secret/index.js': '',
        'packages/words/index.js': '',
        'packages/words/node_modules/deep/index.js': '',
        'node_modules/hoisted/index.js': '',
        'node_modules/hoisted/other.js': '',
        ...many('node_modules/large'),
      },
      { 'node_modules/words': '../packages/words', 'node_modules/other': '../apps/other' },
    )
    const reached = [
      'apps/api/node_modules/own/index.js',
      'node_modules/hoisted/index.js',
      'packages/words/node_modules/deep/index.js',
    ]
    const builtProject = await read(
      [
        ...reached,
        'node_modules/words',
        'node_modules/other',
        'packages/words/index.js',
        'apps/other/main.js',
        'apps/other/node_modules/secret/index.js',
      ],
      { root: 'apps/api', needed: ['packages/words'] },
    )
    expect(entries).toEqual(['apps/api/main.js'])
    expect(pathsOf(builtProject)).toEqual(
      [...reached, 'apps/api/main.js', 'apps/api/package.json', 'packages/words/index.js'].toSorted(),
    )
    expect([...builtProject.links]).toEqual([['node_modules/words', '../packages/words']])
    expect(builtProject.serverFolder).toBe('')
  })

  test('is traced for its size too', async () => {
    const { read } = project({ ...FILES, 'node_modules/large.bin': 'x'.repeat(2 ** 21) }, LINKS)
    const builtProject = await read(TRACED, { entriesMax: 1_000, bytesMax: 2 ** 20 })
    expect(pathsOf(builtProject)).not.toContain('node_modules/large.bin')
    expect(builtProject.warnings[0]).toMatch(/^The build left more than 1 MiB to deploy, so node_modules was traced /)
  })

  test('is not traced within the limits', async () => {
    const { read, entries } = project(FILES, LINKS)
    const builtProject = await read(TRACED, { entriesMax: 19 })
    expect([builtProject.files.size, builtProject.links.size, entries, builtProject.warnings]).toEqual([16, 3, [], []])
    await expect(read(TRACED, { entriesMax: 18 })).resolves.toMatchObject({ warnings: [expect.any(String)] })
  })

  test.each<[string, Files, Record<string, string>, readonly string[] | undefined]>([
    ['a failed trace', FILES, LINKS, undefined],
    ['as many files in its own folder', { ...FILES, ...many('own') }, LINKS, TRACED],
    ['as many files that it reaches', FILES, LINKS, Object.keys({ ...FILES, ...LINKS })],
  ])('is refused after %s', async (_, files, links, traced) => {
    const { read, entries } = project(files, links)
    await expect(read(traced)).rejects.toThrow(REFUSAL)
    expect(entries).toEqual(['dist/main.js'])
  })

  test('of several folders is refused if these are too many files without any package', async () => {
    const { read, entries } = project({
      ...many('apps/api', 5),
      'apps/api/package.json': start('node 0.js'),
      ...many('packages/words', 5),
    })
    await expect(read([], { root: 'apps/api', needed: ['packages/words'] })).rejects.toThrow(REFUSAL)
    expect(entries).toEqual(['apps/api/0.js'])
  })

  test('is refused untraced for another reason', async () => {
    const { folder, read, entries } = project(FILES, LINKS)
    writeFileSync(join(folder, 'node_modules/hole'), '')
    truncateSync(join(folder, 'node_modules/hole'), 2 ** 28 + 1)
    await expect(read(TRACED, { entriesMax: 100 })).rejects.toThrow(
      'The build left "node_modules/hole", which is larger than 256 MiB',
    )
    expect(entries).toEqual([])
  })

  test.each([
    ['a command that is no program', 'serve dist'],
    ['modules that are loaded before it', 'node --import=./before.js dist/main.js'],
    ['such modules in a variable', 'NODE_OPTIONS=--require=./before.js node dist/main.js'],
  ])('is refused untraced with %s', async (_, script) => {
    const { read, entries } = project({ ...FILES, 'package.json': start(script), 'before.js': '' }, LINKS)
    await expect(read(TRACED)).rejects.toThrow(REFUSAL)
    expect(entries).toEqual([])
  })

  test('is refused where nothing can be traced', async () => {
    const { folder } = project(FILES, LINKS)
    const options = { root: '', outputDirectory: undefined, isSource: () => false, builtSince: 0, bytesMax: 2 ** 30 }
    await expect(readBuiltProject({ folder, ...options, entriesMax: 8 })).rejects.toThrow(REFUSAL)
  })
})

describe('a list by a stranger', () => {
  test('names nothing but files and links of the server', async () => {
    const { folder, read } = project(
      { ...FILES, 'node_modules/.cache/kept': '', 'node_modules/a.git/x/.git/HEAD': '' },
      {
        ...LINKS,
        'node_modules/out': '../../node_modules',
        'node_modules/etc': '/etc',
        'node_modules/null': '/dev/null',
        'node_modules/loop': 'loop',
      },
    )
    writeFiles(join(folder, '../node_modules'), { secret: 'secret' })
    expect(spawnSync('mkfifo', [join(folder, 'node_modules/pipe')]).status).toBe(0)
    const builtProject = await read([
      '',
      '.',
      '..',
      '/',
      'node_modules',
      'node_modules/',
      'node_modules/..',
      'node_modules/missing',
      'node_modules/a/index.js/x',
      'x'.repeat(100_000),
      '../node_modules/secret',
      'node_modules/../../node_modules/secret',
      join(folder, '../node_modules/secret'),
      'node_modules/out/secret',
      'node_modules/etc/hostname',
      'node_modules/etc',
      '/dev/null',
      'node_modules/null',
      'node_modules/pipe',
      'node_modules/loop',
      'node_modules/loop/x',
      'node_modules/.cache/kept',
      'node_modules/a.git/x/.git/HEAD',
    ])
    expect(pathsOf(builtProject)).toEqual(OWN)
    expect([...builtProject.links]).toEqual([])
  })

  test('names no name that is refused elsewhere', async () => {
    const { folder, read } = project(FILES, LINKS)
    const trace = async (): Promise<string[]> => {
      // Only now: a name that is looked at before is refused then.
      writeFileSync(join(folder, 'node_modules/a\nb'), '')
      return ['node_modules/a\nb']
    }
    await expect(read(undefined, { trace })).rejects.toThrow(
      new UnusableOutput(
        'The build made "node_modules/a\\nb", a name with a backslash or a character that is not printed',
      ),
    )
  })

  test('has an end', () => {
    expect(readTrace(Buffer.from('a\0b/c\0'))).toEqual(['a', 'b/c'])
    expect(readTrace(Buffer.from(''))).toEqual([])
    expect(readTrace(Buffer.alloc(1_000_000))).toBeUndefined()
  })
})
