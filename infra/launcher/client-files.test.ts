import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
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
  await writeFile(join(repository, 'turbo.json'), '{"tasks":{"build":{"outputs":["dist/**"]}}}')
})

/** Builds by this script in a small workspace, and fills a folder that holds a client of before. */
async function provide(build: string) {
  const builds = {
    sdk: build,
    cli: `mkdir -p dist && cd dist && echo run > platform.mjs && echo '${OTHER}  platform.mjs' > checksums.txt`,
  }
  for (const [name, script] of Object.entries(builds)) {
    const manifest = { name, version: '0.0.0', scripts: { build: script } }
    await writeFile(join(repository, 'packages', name, 'package.json'), JSON.stringify(manifest))
  }
  const paths = { folder: join(work, 'clients'), logFile: join(work, 'clients.log') }
  await writeFile(join(paths.folder, 'sdk-0.0.1-11111111.tgz'), 'of before')
  const sentence = await provideClientFiles(repository, paths, env)
  return { sentence, names: (await readdir(paths.folder)).toSorted(), ...paths }
}

test('the folder of clients gets what the build lists, and nothing of an earlier one', async () => {
  const { sentence, names, folder } = await provide(
    `mkdir -p dist && cd dist && echo new > sdk-1.0.0-22222222.tgz && echo old > sdk-1.0.0-33333333.tgz && echo '${CHECKSUM}  sdk-1.0.0-22222222.tgz' > checksums.txt`,
  )
  expect({ sentence, names }).toEqual({
    sentence: undefined,
    names: ['checksums.txt', 'platform.mjs', 'sdk-1.0.0-22222222.tgz'],
  })
  expect(await readFile(join(folder, 'checksums.txt'), 'utf8')).toBe(
    `${CHECKSUM}  sdk-1.0.0-22222222.tgz\n${OTHER}  platform.mjs\n`,
  )
  expect(await readFile(join(folder, 'sdk-1.0.0-22222222.tgz'), 'utf8')).toBe('new\n')
})

test('a build of the clients that fails leaves their folder empty, and a sentence that names the file which says why', async () => {
  const { sentence, names, logFile } = await provide('echo the compiler complains; exit 3')
  expect(sentence).toBe(`The clients could not be built, so /docs/clients has no files; ${logFile} says why.`)
  expect(names).toEqual([])
  expect(await readFile(logFile, 'utf8')).toContain('the compiler complains')
})
