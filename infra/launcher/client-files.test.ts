import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { env } from 'node:process'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { provideClientFiles } from './client-files.ts'

const CHECKSUM = 'a'.repeat(64)
const OTHER = 'b'.repeat(64)

let work: string
let repository: string
beforeEach(async () => {
  work = await mkdtemp(join(tmpdir(), 'platform-clients-test-'))
  onTestFinished(() => rm(work, { recursive: true }))
  repository = join(work, 'repository')
  await mkdir(join(repository, 'packages/sdk'), { recursive: true })
  await mkdir(join(repository, 'packages/cli'), { recursive: true })
  await mkdir(join(repository, 'packages/console'), { recursive: true })
  await mkdir(join(work, 'clients'))
  // Folders of its own, in which a program that tidies up finds nothing of ours.
  const programs = join(resolve(import.meta.dirname, '../..'), 'node_modules')
  await mkdir(join(repository, 'node_modules/.bin'), { recursive: true })
  await symlink(join(programs, 'turbo'), join(repository, 'node_modules/turbo'))
  await symlink(join(programs, 'pnpm/pnpm'), join(repository, 'node_modules/.bin/pnpm'))
  const root = { name: 'root', packageManager: 'pnpm@12.21.0' }
  await writeFile(join(repository, 'package.json'), JSON.stringify(root))
  await writeFile(
    join(repository, 'pnpm-workspace.yaml'),
    'packages: [packages/*]\npmOnFail: ignore\nverifyDepsBeforeRun: false\n',
  )
  await writeFile(
    join(repository, 'turbo.json'),
    '{"tasks":{"build":{"inputs":["package.json"],"outputs":["dist/**"]}}}',
  )
})

/** Builds the SDK by this script in a small workspace, and fills a folder that holds a client and a console of before. */
async function provide(build: string) {
  const builds = {
    sdk: build,
    cli: `mkdir -p dist && cd dist && echo run > platform.mjs && echo '${OTHER}  platform.mjs' > checksums.txt`,
    console: 'mkdir -p dist/_ && echo page > dist/index.html && echo code > dist/_/index-1a2b.js',
  }
  for (const [name, script] of Object.entries(builds)) {
    const manifest = { name, version: '0.0.0', scripts: { build: script } }
    await writeFile(join(repository, 'packages', name, 'package.json'), JSON.stringify(manifest))
  }
  const paths = { folder: join(work, 'clients'), logFile: join(work, 'clients.log') }
  await writeFile(join(paths.folder, 'sdk-0.0.1-11111111.tgz'), 'of before')
  await mkdir(join(paths.folder, 'console/_'), { recursive: true })
  await writeFile(join(paths.folder, 'console/_/index-0000.js'), 'of before')
  const sentence = await provideClientFiles(repository, paths, env)
  const entries = await readdir(paths.folder, { recursive: true, withFileTypes: true })
  const names = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(paths.folder, join(entry.parentPath, entry.name)))
  return { sentence, names: names.toSorted(), ...paths }
}

const builtSdk = `mkdir -p dist && cd dist && echo new > sdk-1.0.0-22222222.tgz && echo old > sdk-1.0.0-33333333.tgz && echo '${CHECKSUM}  sdk-1.0.0-22222222.tgz' > checksums.txt`

test('the folder of clients gets what the build lists and the whole console, and nothing of an earlier one', async () => {
  const { sentence, names, folder } = await provide(builtSdk)
  expect({ sentence, names }).toEqual({
    sentence: undefined,
    names: ['checksums.txt', 'console/_/index-1a2b.js', 'console/index.html', 'platform.mjs', 'sdk-1.0.0-22222222.tgz'],
  })
  expect(await readFile(join(folder, 'checksums.txt'), 'utf8')).toBe(
    `${CHECKSUM}  sdk-1.0.0-22222222.tgz\n${OTHER}  platform.mjs\n`,
  )
  expect(await readFile(join(folder, 'sdk-1.0.0-22222222.tgz'), 'utf8')).toBe('new\n')
})

test('a second start builds nothing, and serves the console with the times of the first', async () => {
  const { folder } = await provide(builtSdk)
  const timesOf = async () => {
    const [built, served] = [join(repository, 'packages/console/dist/index.html'), join(folder, 'console/index.html')]
    return [(await stat(built)).mtimeMs, (await stat(served)).mtimeMs]
  }
  const first = await timesOf()
  expect((await provide(builtSdk)).sentence).toBeUndefined()
  expect(await timesOf()).toEqual(first)
})

test('a build of the clients that fails leaves their folder empty, and a sentence that names the file which says why', async () => {
  const { sentence, names, logFile } = await provide('echo the compiler complains; exit 3')
  expect(sentence).toBe(
    `The clients and the console could not be built, so /docs/clients and the console have no files; ${logFile} says why.`,
  )
  expect(names).toEqual([])
  expect(await readFile(logFile, 'utf8')).toContain('the compiler complains')
})
