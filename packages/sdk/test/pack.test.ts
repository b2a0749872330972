import { execFile } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { appendFile, open, readFile, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { unless } from '@platform/test-runner/task-meta'
import { expect, test } from 'vitest'
import * as refuseEntry from '../../../services/api/src/areas/deploy/builds/refuse-entry.ts'
import { unpackArchive } from '../../../services/api/src/areas/deploy/builds/unpack-archive.ts'
import { folder } from '../src/node/folder.ts'
import { filesSource, type PackFile, type PackLimits, type PackSource, planPack, zip } from '../src/pack/index.ts'
import * as limits from '../src/pack/limits.ts'
import { archiveOf, type Content, makeFolder, pathsOf, planFolder, unpack } from './pack-folder.ts'

const CANARY = 'c4n4ry-0f-4-s3cr3t'
const pem = (kind: string): string => `-----BEGIN ${kind}-----\n${CANARY}\n-----END ${kind}-----\n`
const der = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const BY_NAME = 'may hold secrets, by its name'
const KEY = 'holds a private key'
const TOKEN = 'holds a token'

/** Secrets by their paths, and why they are left out. */
const SECRETS: Record<string, readonly [content: Content, why: string, left?: string]> = {
  '.git/config': [CANARY, BY_NAME, '.git'],
  '.env': [CANARY, BY_NAME],
  '.env.local': [CANARY, BY_NAME],
  '.env.production': [CANARY, BY_NAME],
  '.envrc': [CANARY, BY_NAME],
  '.dev.vars': [CANARY, BY_NAME],
  '.dev.vars.staging': [CANARY, BY_NAME],
  'apps/web/.env': [CANARY, BY_NAME],
  '.netrc': [CANARY, BY_NAME],
  '.git-credentials': [CANARY, BY_NAME],
  '.ssh/config': [CANARY, BY_NAME, '.ssh'],
  '.aws/credentials': [CANARY, BY_NAME, '.aws'],
  '.kube/config': [CANARY, BY_NAME, '.kube'],
  '.docker/config.json': [CANARY, BY_NAME, '.docker'],
  '.platform/token.json': [CANARY, BY_NAME, '.platform'],
  id_rsa: [CANARY, BY_NAME],
  'id_rsa.old': [CANARY, BY_NAME],
  id_ed25519: [CANARY, BY_NAME],
  'client.p12': [CANARY, BY_NAME],
  'CLIENT.PFX': [CANARY, BY_NAME],
  'store.jks': [CANARY, BY_NAME],
  'terraform.tfstate': [CANARY, BY_NAME],
  'terraform.tfstate.backup': [CANARY, BY_NAME],
  'server.pem': [pem('PRIVATE KEY'), KEY],
  'encrypted.pem': [pem('ENCRYPTED PRIVATE KEY'), KEY],
  'rsa.key': [pem('RSA PRIVATE KEY'), KEY],
  'openssh.key': [pem('OPENSSH PRIVATE KEY'), KEY],
  'pkcs8.key': [der.privateKey.export({ format: 'der', type: 'pkcs8' }), KEY],
  'sec1.key': [der.privateKey.export({ format: 'der', type: 'sec1' }), KEY],
  'utf16.pem': [Buffer.from(pem('PRIVATE KEY'), 'utf16le'), KEY],
  // Its first line lies in two pieces of what is read.
  'chain.pem': [`${'#'.repeat(65_520)}${pem('EC PRIVATE KEY')}`, KEY],
  '.npmrc': [`registry=https://npm.example.com/\n//npm.example.com/:_authToken=${CANARY}\n`, TOKEN],
  'a/.npmrc': [`_auth = ${CANARY}\n`, TOKEN],
  'b/.npmrc': [`//npm.example.com/:_password="${CANARY}"\n`, TOKEN],
  'c/.npmrc': [`https-proxy=http://me:${CANARY}@proxy.example.com\n`, TOKEN],
  '.yarnrc.yml': [`npmScopes:\n  own:\n    npmAuthToken: ${CANARY}\n`, TOKEN],
  'a/.yarnrc.yml': [`npmAuthIdent: "me:${CANARY}"\n`, TOKEN],
}

/** What looks like a secret and is none. */
const HARMLESS: Record<string, Content> = {
  '.env.example': 'TOKEN=',
  '.github/workflows/ci.yml': 'on: push',
  'ca.pem': pem('CERTIFICATE').replace(CANARY, 'public'),
  'empty.pem': '',
  'environment.ts': 'export {}',
  'id_card.png': 'x',
  // As an RSA public key begins: with a sequence of two long numbers.
  'public.pkcs1.key': Buffer.from('3082010a0282010100c0ffee', 'hex'),
  'public.der.key': der.publicKey.export({ format: 'der', type: 'spki' }),
  'public.key': pem('PUBLIC KEY').replace(CANARY, 'public'),
  'web/.npmrc': 'save-exact=true\n//npm.example.com/:_authToken=${NPM_TOKEN}\n_auth=\n',
  'web/.yarnrc.yml': 'nodeLinker: node-modules\nnpmAuthToken: "${NPM_TOKEN:-}"\n',
}

test(`${Object.keys(SECRETS).length} kinds of secret files are left out of a folder without .gitignore, and the plan says why for each`, async () => {
  const secrets = Object.entries(SECRETS).map(([path, [content]]) => [path, content] as const)
  const plan = await planFolder({ ...Object.fromEntries(secrets), ...HARMLESS })
  expect(Object.fromEntries(plan.left.map(({ path, why }) => [path, why]))).toEqual(
    Object.fromEntries(Object.entries(SECRETS).map(([path, [, why, left = path]]) => [left, why])),
  )
  const entries = await unpack(await archiveOf(plan))
  expect(entries.map(({ name }) => name)).toEqual(Object.keys(HARMLESS).toSorted())
  for (const { content } of entries) expect(content.includes(CANARY)).toBe(false)
})

test('include brings back what it names, from a folder that is left out too, and is refused if it names nothing', async () => {
  const files = {
    '.gitignore': 'build\n',
    '.env': CANARY,
    '.env.production': 'A=1',
    '.ssh/known_hosts': 'x',
    '.ssh/id_rsa': CANARY,
    'build/a/one.js': '1',
    'build/two.js': '2',
    'certificates/.env': CANARY,
    'certificates/own.key': pem('PRIVATE KEY'),
    'node_modules/own/index.js': '3',
    'package.json': '{"scripts":{"build":"make"}}',
  }
  const include = ['.env.production', '.ssh', './build/a/', 'certificates/own.key', 'node_modules/own']
  const plan = await planFolder(files, { include })
  expect(pathsOf(plan)).toEqual([
    '.env.production',
    '.gitignore',
    '.ssh/known_hosts',
    'build/a/one.js',
    'certificates/own.key',
    'node_modules/own/index.js',
    'package.json',
  ])
  expect(plan.left.map(({ path }) => path)).toEqual([
    '.env',
    '.ssh/id_rsa',
    'build',
    'certificates/.env',
    'node_modules',
  ])
  for (const missing of ['.env.prodution', 'build/three.js', '../outside'])
    await expect(planFolder(files, { include: ['.env', missing] })).rejects.toThrow(
      `include names ${JSON.stringify(missing)}, which is not there`,
    )
})

test('.gitignore and .platformignore leave out what they name below their own folder, as git does', async () => {
  const top = await makeFolder({
    '.gitignore': '# comment\nout/\n*.log\n!keep.log\n/only-top\ndocs/*.md\n\\#odd\nspace\\ \n\nbuild\n',
    '.platformignore': '!build\ndesign\n',
    '#odd': '',
    'a/.gitignore': '!debug.log\n/own\nx/deep\n*.tmp\n# comment\n/\n',
    'a/b/c.tmp': '',
    'a/b/own': '',
    'a/b/x/deep': '',
    'a/debug.log': '',
    'a/only-top': '',
    'a/own/f': '',
    'a/x/deep/f': '',
    'b/c.tmp': '',
    'build/f': '',
    'design/f': '',
    'docs/a.md': '',
    'docs/deep/a.md': '',
    'keep.log': '',
    'OTHER.LOG': '',
    'only-top': '',
    'out/.gitignore': '!*\n',
    'out/f': '',
    'space ': '',
    'sp[1]/.gitignore': '*.x\n',
    'sp[1]/f.x': '',
    'sp1/f.x': '',
    'z.log': '',
  })
  const listed: string[] = []
  const { list } = folder(top)
  const plan = await planPack({ list: (path) => (listed.push(path), list(path)) })
  expect(Object.fromEntries(plan.left.map(({ path, why }) => [path, why]))).toEqual({
    '#odd': 'matches `\\#odd` in .gitignore',
    'a/b/c.tmp': 'matches `*.tmp` in a/.gitignore',
    'a/own': 'matches `/own` in a/.gitignore',
    'a/x/deep': 'matches `x/deep` in a/.gitignore',
    design: 'matches `design` in .platformignore',
    'docs/a.md': 'matches `docs/*.md` in .gitignore',
    'only-top': 'matches `/only-top` in .gitignore',
    out: 'matches `out/` in .gitignore',
    'space ': 'matches `space\\` in .gitignore',
    'sp[1]/f.x': 'matches `*.x` in sp[1]/.gitignore',
    'z.log': 'matches `*.log` in .gitignore',
  })
  expect(pathsOf(plan)).toEqual([
    '.gitignore',
    '.platformignore',
    'OTHER.LOG',
    'a/.gitignore',
    'a/b/own',
    'a/b/x/deep',
    'a/debug.log',
    'a/only-top',
    'b/c.tmp',
    'build/f',
    'docs/deep/a.md',
    'keep.log',
    'sp1/f.x',
    'sp[1]/.gitignore',
  ])
  // What is left out is not looked into.
  expect(listed).not.toContain('out')
})

test('the output of a project is packed though the .gitignore of the project names it', async () => {
  const top = await makeFolder({ '.gitignore': 'dist\n*.html\n', 'dist/index.html': '<h1>Hi</h1>' })
  expect(pathsOf(await planPack(folder(join(top, 'dist'))))).toEqual(['index.html'])
})

test('links inside of a folder are packed as links, and those that lead out are left out', async () => {
  const plan = await planFolder({
    'a/file': 'x',
    'a/inside': { link: '../a/./file' },
    'a/outside': { link: '../../etc/passwd' },
    absolute: { link: '/etc/passwd' },
    folder: { link: 'a' },
  })
  expect(plan.left).toEqual([
    { path: 'a/outside', why: 'leads out of the folder' },
    { path: 'absolute', why: 'leads out of the folder' },
  ])
  const links = (await unpack(await archiveOf(plan))).filter(({ mode }) => mode === 0o120777)
  expect(links.map(({ name, content }) => [name, content.toString()])).toEqual([
    ['a/inside', '../a/./file'],
    ['folder', 'a'],
  ])
})

test('equal folders make equal bytes, in whatever order and whenever their files were made', async () => {
  const files: Record<string, Content> = {
    'tool.sh': { content: '#!/bin/sh\n', mode: 0o755 },
    'ä/\u{1F600}.txt': 'four bytes a letter',
    'ä/\uFF5E.txt': 'three bytes, and above four in UTF-16',
    'a-b': 'before the slash',
    'a/b': 'after the minus',
    'large.bin': Buffer.alloc(200_000, 'so on '),
    empty: '',
  }
  const [one, other] = [
    await makeFolder(files),
    await makeFolder(Object.fromEntries(Object.entries(files).toReversed())),
  ]
  await utimes(join(other, 'a/b'), 1_000_000_000, 1_000_000_000)
  const archive = await archiveOf(await planPack(folder(one)))
  expect((await archiveOf(await planPack(folder(other)))).equals(archive)).toBe(true)
  const entries = await unpack(archive)
  const names = entries.map(({ name }) => name)
  expect(entries.filter(({ mode }) => mode !== 0o100644).map(({ name, mode }) => [name, mode])).toEqual([
    ['tool.sh', 0o100755],
  ])
  expect(names).toEqual(['a-b', 'a/b', 'empty', 'large.bin', 'tool.sh', 'ä/\uFF5E.txt', 'ä/\u{1F600}.txt'])

  const dropped = filesSource(
    names.map((path) => ({ path, file: new Blob([readFileSync(join(one, path))]), isExecutable: path === 'tool.sh' })),
  )
  expect((await archiveOf(await planPack(dropped))).equals(archive)).toBe(true)
})

test('dropped files whose paths are not relative, or are there twice, are refused', () => {
  const source = (...paths: string[]) => filesSource(paths.map((path) => ({ path, file: new Blob([]) })))
  for (const path of ['/a', '../a', 'a//b', './a', 'a/', ''])
    expect(() => source(path)).toThrow(`${JSON.stringify(path)} is not a relative path`)
  expect(() => source('a/b', 'a/b')).toThrow('"a/b" is there twice')
  expect(() => source('a', 'a/b')).toThrow('"a" is there twice')
})

test('a file that grew, shrank or is gone since the plan ends the zip with its name', async () => {
  for (const change of [
    (path: string) => appendFile(path, 'more'),
    (path: string) => truncate(path, 2),
    (path: string) => rm(path),
  ]) {
    const top = await makeFolder({ 'a.txt': 'text', 'b/c.txt': 'text' })
    const plan = await planPack(folder(top))
    await change(join(top, 'b/c.txt'))
    await expect(archiveOf(plan)).rejects.toThrow('b/c.txt was changed or removed after it was looked at')
  }
})

test('a file that became a link after it was looked at is not followed', async () => {
  const top = await makeFolder({ 'page.html': '12345678', secret: CANARY.slice(0, 8) })
  const plan = await planPack(folder(top), { include: ['page.html'] })
  await rm(join(top, 'page.html'))
  await symlink('secret', join(top, 'page.html'))
  await expect(archiveOf(plan)).rejects.toThrow('page.html was changed or removed')
})

test('a zip reads its files no further than it is read itself, and lets go of them when it is given up', async () => {
  let read = 0
  let closed = 0
  const file: PackFile = {
    kind: 'file',
    path: 'large.bin',
    bytes: 10_000_000,
    isExecutable: false,
    async *open() {
      try {
        while (read < 10_000_000) {
          read += 100_000
          yield randomBytes(100_000)
        }
      } finally {
        closed++
      }
    },
  }
  const reader = zip({ files: [file], prefix: '', refusals: [] }).getReader()
  await new Promise(setImmediate)
  expect(read).toBe(0)
  await reader.read()
  expect(read).toBeLessThan(1_000_000)
  expect(closed).toBe(0)
  await reader.cancel()
  expect(closed).toBe(1)
})

test(
  'a folder of 48 MiB that cannot be packed smaller is zipped while memory grows by at most 32 MB',
  unless(process.platform === 'linux' ? undefined : 'it reads /proc of Linux'),
  async () => {
    const top = await makeFolder({})
    const file = await open(join(top, 'video.mp4'), 'w')
    const block = randomBytes(1_048_576)
    for (let n = 0; n < 48; n++) await file.write(block)
    await file.close()
    const { stdout } = await promisify(execFile)(process.execPath, [join(import.meta.dirname, 'pack-process.ts'), top])
    const { bytes, growth } = JSON.parse(stdout) as { bytes: number; growth: number }
    expect(bytes).toBeGreaterThan(50_000_000)
    expect(growth).toBeLessThan(32_000_000)
  },
)

/** A source of files that have sizes and no content. */
const sizes = (files: Record<string, number>): PackSource => ({
  list: () =>
    Promise.resolve(
      Object.entries(files).map(([path, bytes]) => ({
        kind: 'file',
        path,
        bytes,
        isExecutable: false,
        open: () => {
          throw new Error('It was read')
        },
      })),
    ),
})

test('the limits of an archive are those of the service', async () => {
  const source = await readFile(
    new URL('../../../services/api/src/areas/deploy/builds/unpack-archive.ts', import.meta.url),
    'utf8',
  )
  const MIB = 1_048_576
  const of = (name: string): number => {
    const [, factor = '', unit] = new RegExp(`^const ${name} = ([\\d_]*)(?: \\* )?(MIB)?$`, 'm').exec(source) ?? []
    return Number(factor.replaceAll('_', '') || 1) * (unit === undefined ? 1 : MIB)
  }
  const names = [
    'FILE_BYTES_MAX',
    'NAME_BYTES_MAX',
    'PATH_BYTES_MAX',
    'LINK_BYTES_MAX',
    'LIST_BYTES_MAX',
    'RATIO_MAX',
    'RATIO_FREE_BYTES',
  ]
  expect(Object.fromEntries(names.map((name) => [name, of(name)]))).toEqual(
    Object.fromEntries(Object.entries(limits).filter(([name]) => names.includes(name))),
  )
  const { ENTRIES_MAX, DEPTH_MAX } = limits
  expect({ ENTRIES_MAX, DEPTH_MAX }).toEqual({ ENTRIES_MAX: refuseEntry.ENTRIES_MAX, DEPTH_MAX: refuseEntry.DEPTH_MAX })
})

test('what is over a limit is named by the plan, and none of it is packed', async () => {
  const MIB = 1_048_576
  const plan = await planPack(sizes({ 'film.mp4': 100 * MIB + 1, 'fits.mp4': 100 * MIB }))
  expect(plan.tooLarge).toEqual([{ path: 'film.mp4', bytes: 100 * MIB + 1, limit: 100 * MIB }])
  expect(plan.refusals).toEqual(['film.mp4 has 100.1 MiB; 100 MiB are allowed'])
  expect(() => zip(plan)).toThrow('This cannot be deployed. film.mp4 has 100.1 MiB; 100 MiB are allowed')

  const refusalsOf = async (files: Record<string, number>, given?: PackLimits) =>
    (await planPack(sizes(files), { limits: given })).refusals
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`${n}`, 0]))
  expect(await refusalsOf(many(50_001))).toEqual(['There are 50001 files and links; 50000 are allowed'])
  expect(await refusalsOf({ a: 3 * MIB, b: 3 * MIB }, { unpackedBytes: 5 * MIB })).toEqual([
    'All files together have 6 MiB; 5 MiB are allowed',
  ])
  const inLong = (n: number) => `${`${'x'.repeat(200)}/`.repeat(9)}${n}`.padEnd(2_000, 'y')
  const long = Object.fromEntries(Array.from({ length: 17_000 }, (_, n) => [inLong(n), 0]))
  expect(await refusalsOf(long)).toEqual(['All paths together have more than 32 MiB'])
  const link = planPack({ list: () => Promise.resolve([{ kind: 'link', path: 'l', target: 'x/'.repeat(2_049) }]) })
  expect((await link).refusals).toEqual(['l is a link with too long a target'])
})

test('an archive is measured to the byte where it may be larger than allowed', async () => {
  const files = { 'random.bin': randomBytes(200_000), 'text.txt': 'so on '.repeat(1_000) }
  const { length } = await archiveOf(await planFolder(files))
  expect((await planFolder(files, { limits: { archiveBytes: length } })).refusals).toEqual([])
  expect((await planFolder(files, { limits: { archiveBytes: length - 1 } })).refusals).toEqual([
    'The archive has more than 0.2 MiB, which are allowed',
  ])
})

test('the plan refuses the paths that the platform refuses, and takes those at the limit', async () => {
  const top = await makeFolder({})
  const deep = (folders: number) => `${'d/'.repeat(folders)}f`
  const long = (bytes: number) => `${'x'.repeat(251)}/`.repeat(8) + 'y'.repeat(bytes - 8 * 252)
  const MIB = 1_048_576
  const cases: [files: Record<string, Content>, refusal?: RegExp][] = [
    [{ [deep(63)]: '' }],
    [{ [deep(64)]: '' }, /lies more than 64 folders deep$/],
    [{ ['ä'.repeat(127)]: '' }],
    [{ ['ä'.repeat(128)]: '' }, /has a name of more than 255 bytes$/],
    [{ [long(2_048)]: '' }],
    [{ [long(2_049)]: '' }, /has a path of more than 2048 bytes$/],
    [{ 'ä\nb': '' }, /^"ä\\nb" has a control character in its name$/],
    [{ 'a\\b': '' }, /has a backslash in its name$/],
    [{ 'c:/b': '' }, /begins like a drive of Windows$/],
    [{ 'a/Read': '', 'A/me': '' }, /^A and a differ in upper and lower case or in the spelling of accents alone$/],
    [{ 'caf\u00e9': '', 'cafe\u0301': '' }, /differ in upper and lower case/],
    [{ zeros: Buffer.alloc(MIB) }],
    [{ zeros: Buffer.alloc(MIB + 1) }, /^zeros packs to less than 1\/200 of the size, which the platform refuses$/],
    [{ 'zeros.1': Buffer.alloc(MIB), 'zeros.2': Buffer.alloc(1) }, /^All files together pack to less than 1\/200/],
    [{ zeros: Buffer.concat([randomBytes(12_000), Buffer.alloc(2 * MIB)]) }],
  ]
  for (const [n, [files, refusal]] of cases.entries()) {
    // Not every name is one that this file system takes.
    const entries = Object.entries(files).map(([path, content]) => ({ path, file: new Blob([content as string]) }))
    const plan = await planPack(filesSource(entries))
    expect(plan.refusals).toEqual(refusal ? [expect.stringMatching(refusal)] : [])
    const archive = join(top, `${n}.zip`)
    await writeFile(archive, await archiveOf({ ...plan, refusals: [] }))
    const unpacked = unpackArchive(archive, join(top, `${n}`), {
      unpackedBytesMax: 100 * MIB,
      signal: new AbortController().signal,
    })
    if (refusal) await expect(unpacked).rejects.toThrow(/^The archive/)
    else expect([...(await unpacked).files.keys()].toSorted()).toEqual(pathsOf(plan).toSorted())
  }
})
