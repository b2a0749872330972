import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { appendFile, copyFile, cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { env } from 'node:process'
import { promisify } from 'node:util'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { installedPackages, type PackageRegistry, startPackageRegistry } from '@platform/testkit/package-registry'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newKey, newOwner } from '../../../services/api/test/scenario.ts'

const home = resolve(import.meta.dirname, '..')
const repository = resolve(home, '../..')

interface Manifest {
  name: string
  version: string
  exports: Record<string, unknown>
  dependencies: Record<string, string>
}
const readManifest = async (folder: string) =>
  JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Manifest

/** Runs a program and returns its output. Throws with all that it printed. */
async function run(cwd: string, command: string, args: readonly string[], more: Record<string, string> = {}) {
  const PATH = `${join(repository, 'node_modules/.bin')}:${env['PATH']}`
  try {
    return (await promisify(execFile)(command, args, { cwd, env: { PATH, HOME: work, ...more } })).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${command} ${args.join(' ')}\n${stdout}\n${stderr}`, { cause: error })
  }
}

interface Built {
  name: string
  bytes: Buffer
  checksums: string
}

/** Builds what lies in a package's folder. */
async function build(folder: string): Promise<Built> {
  await run(folder, process.execPath, ['build.ts'])
  const names = await readdir(join(folder, 'dist'))
  const [name = 'none', ...others] = names.filter((each) => each !== 'checksums.txt')
  expect(others).toEqual([])
  return {
    name,
    bytes: await readFile(join(folder, 'dist', name)),
    checksums: await readFile(join(folder, 'dist/checksums.txt'), 'utf8'),
  }
}

/** A copy of the package, with the workspace around it that its build needs. */
async function copyPackage(): Promise<string> {
  const workspace = await mkdtemp(join(work, 'workspace-'))
  const folder = join(workspace, 'packages/sdk')
  const own = new Set(['build.ts', 'package.json', 'README.md', 'src', 'tsconfig.json', 'tsconfig.build.json'])
  await mkdir(folder, { recursive: true })
  for (const name of own) await cp(join(home, name), join(folder, name), { recursive: true })
  await copyFile(join(repository, 'tsconfig.json'), join(workspace, 'tsconfig.json'))
  await symlink(join(repository, 'node_modules'), join(workspace, 'node_modules'))
  await symlink(join(home, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

let work: string
let copy: string
let built: Built
let registry: PackageRegistry
let platform: TestPlatform
beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), 'sdk-package-'))
  copy = await copyPackage()
  built = await build(copy)
  const { dependencies } = await readManifest(home)
  registry = await startPackageRegistry(installedPackages(Object.keys(dependencies), join(home, 'package.json')))
  platform = await startPlatform()
})
afterAll(async () => {
  await Promise.all([platform.close(), registry.close()])
  await rm(work, { recursive: true })
})

test('the package has the version of the document that the API answers, and a name with the hash of its bytes', async () => {
  const { body } = await platform.call(null, 'GET /docs/json')
  const sha256 = createHash('sha256').update(built.bytes).digest('hex')
  expect(built.name).toBe(`sdk-${body.info.version}-${sha256.slice(0, 8)}.tgz`)
  expect(built.checksums).toBe(`${sha256}  ${built.name}\n`)
})

test('two builds of the same sources are equal to the byte, and a changed source gives another name under the same version', async () => {
  const other = await copyPackage()
  const again = await build(other)
  expect([again.name, again.bytes.equals(built.bytes)]).toEqual([built.name, true])
  await appendFile(join(other, 'src/index.ts'), 'export const added = 1\n')
  const changed = await build(other)
  expect(changed.name).not.toBe(built.name)
  expect(changed.name.replace(/[0-9a-f]{8}\.tgz$/, '')).toBe(built.name.replace(/[0-9a-f]{8}\.tgz$/, ''))
})

test('publint and arethetypeswrong find nothing in the package', async () => {
  const { buffer } = new Uint8Array(built.bytes)
  const { messages, pkg } = await publint({ pack: { tarball: buffer }, strict: true })
  expect(messages.map((message) => formatMessage(message, pkg))).toEqual([])
  const analysis = await checkPackage(createPackageFromTarballData(new Uint8Array(built.bytes)))
  if (analysis.types === false) throw new Error('The package has no types')
  // A package of ESM alone leaves out CommonJS, and resolution that knows no exports.
  const left = new Set(['node10', 'node16-cjs'])
  expect(
    analysis.problems.filter((problem) => !('resolutionKind' in problem && left.has(problem.resolutionKind))),
  ).toEqual([])
  const { exports } = await readManifest(home)
  expect(Object.keys(analysis.entrypoints)).toEqual(Object.keys(exports))
})

/** What a program of somebody else does with the package. */
const program = (entries: readonly string[]) => `
${entries.map((entry, n) => `import * as entry${n} from '${entry}'`).join('\n')}
import { all, apiKey, createBucket, listObjects, Platform, type StorageObject } from '@platform/sdk'
import { filesSource, planPack, zip } from '@platform/sdk/pack'
import { uploadObject } from '@platform/sdk/uploads'

const isEach = [${entries.map((_, n) => `Object.keys(entry${n}).length > 0`).join(', ')}]

// @ts-expect-error -- a limit is a number
export const wrong = (platform: Platform) => listObjects(platform, { applicationId: '', environment: '', bucket: '', limit: 'ten' })

export async function visit(baseUrl: string, applicationId: string, id: string, secret: string, name: string) {
  const platform = new Platform({ baseUrl, credential: apiKey({ id, secret }) })
  const bucket = await createBucket(platform, { applicationId, environment: 'production', body: { name } })
  const place = { applicationId, environment: 'production', bucket: bucket.name }
  const data = new Blob(['hello'])
  const stored: StorageObject = await uploadObject(platform, { ...place, key: 'a.txt', data })
  const keys: string[] = []
  for await (const { key } of all(listObjects, platform, place)) keys.push(key)
  const archive = await new Response(zip(await planPack(filesSource([{ path: 'index.html', file: data }])))).arrayBuffer()
  return { entries: isEach, bytes: stored.contentLength, keys, begins: String.fromCharCode(...new Uint8Array(archive, 0, 2)) }
}
`

const strict = { strict: true, target: 'es2023', skipLibCheck: false, exactOptionalPropertyTypes: true }
/** In which a program may be compiled: for Node without the names of browsers, and for bundlers without those of Node. */
const settings = {
  node: { ...strict, module: 'nodenext', lib: ['es2023'], types: ['node'] },
  bundlers: {
    ...strict,
    module: 'esnext',
    moduleResolution: 'bundler',
    lib: ['es2023', 'dom', 'dom.iterable', 'dom.asynciterable'],
    types: [],
  },
}

const installing = {
  npm: () => [
    'install',
    `./${built.name}`,
    '--no-audit',
    '--no-fund',
    '--no-update-notifier',
    `--registry=${registry.url}`,
  ],
  pnpm: () => ['add', `./${built.name}`, `--registry=${registry.url}`, `--store-dir=${join(work, 'store')}`],
}

test.each([
  ['npm', 'Node', settings.node],
  ['pnpm', 'bundlers', settings.bundlers],
] as const)(
  'what %s installs in an empty folder compiles in strict mode for %s, and runs on Node 20.19, 22 and 24',
  async (manager, _, compilerOptions) => {
    const folder = await mkdtemp(join(work, `${manager}-`))
    await writeFile(join(folder, built.name), built.bytes)
    await run(folder, manager, installing[manager]())

    const names = Object.keys((await readManifest(home)).exports).map((name) => `@platform/sdk${name.slice(1)}`)
    await writeFile(join(folder, 'program.mts'), program(names))
    await mkdir(join(folder, 'node_modules/@types'))
    await symlink(join(repository, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'))
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['program.mts'] }))
    await run(folder, 'tsc', ['-p', '.'])

    const owner = await newOwner(platform)
    const { id, secret } = await newKey(platform, owner, ['network:storage:read', 'network:storage:write'])
    const call = `import { visit } from './program.mjs'
      console.log(process.version, JSON.stringify(await visit(...process.argv.slice(1))))`
    const seen = []
    for (const alias of ['node-20', 'node-22', 'node']) {
      const node = join(home, 'node_modules', alias, 'bin/node')
      const words = [platform.apiUrl, owner.applicationId, id, secret, `by-${alias}`]
      seen.push(await run(folder, node, ['--input-type=module', '-e', call, ...words]))
    }
    const result = JSON.stringify({ entries: names.map(() => true), bytes: 5, keys: ['a.txt'], begins: 'PK' })
    expect(seen).toEqual(['v20.19', 'v22', 'v24'].map((version) => expect.stringMatching(new RegExp(`^${version}\\.`))))
    expect(seen.map((line) => line.slice(line.indexOf(' ') + 1))).toEqual(Array(3).fill(`${result}\n`))
  },
)

test('no text of the package installs anything of a registry or for the whole machine, and its dependencies are named to the last digit', async () => {
  const folder = await mkdtemp(join(work, 'files-'))
  await writeFile(join(folder, built.name), built.bytes)
  await run(folder, 'tar', ['-xzf', built.name])
  const texts = await Promise.all(
    (await readdir(folder, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile() && entry.name !== built.name)
      .map((entry) => readFile(join(entry.parentPath, entry.name), 'utf8')),
  )
  const commands = texts.flatMap(
    (text) => text.match(/\b(?:npx|bunx|(?:npm|pnpm|yarn|bun) (?:i|install|add|exec|dlx))\b.*/g) ?? [],
  )
  expect(commands).toEqual(['npm i ./sdk-{version}-{hash}.tgz'])
  const { dependencies, ...manifest } = await readManifest(join(folder, 'package'))
  expect(manifest).toMatchObject({
    name: '@platform/sdk',
    type: 'module',
    sideEffects: false,
    engines: { node: '>=20.19' },
  })
  expect(Object.keys(dependencies)).toEqual(Object.keys((await readManifest(home)).dependencies))
  expect(Object.values(dependencies).filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([])
})
