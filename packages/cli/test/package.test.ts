import { createHash } from 'node:crypto'
import { execFile } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { tmpdir } from 'node:os'
import { promisify } from 'node:util'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newOwner, type Owner } from '../../../services/api/test/scenario.ts'
import { type Built, buildCommandLine, builtCommandLine, PATH } from './built.ts'
import { startProgram } from './cli-process.ts'
import { signedInTerminal, type Terminal } from './terminal.ts'

const PACKED_BYTES_MAX = 250_000

const require = createRequire(import.meta.url)
const nodes = ['node', 'node-20', 'node-22'].map((name) => {
  const manifest = require.resolve(`${name}/package.json`)
  return { version: (require(manifest) as { version: string }).version, program: join(manifest, '../bin/node') }
})

let built: Built
/** What the platform serves: another release replaces it. */
let clients: string
let server: TestPlatform
let owner: Owner
let terminal: Terminal
beforeAll(async () => {
  built = await builtCommandLine()
  clients = await mkdtemp(join(tmpdir(), 'cli-clients-'))
  await cp(built.folder, clients, { recursive: true })
  server = await startPlatform({ env: { CLIENTS_FOLDER: clients } })
  owner = await newOwner(server)
  terminal = await signedInTerminal(server, owner.person)
})
afterAll(async () => {
  await server.close()
  await rm(clients, { recursive: true })
})

const version = async (): Promise<string> => (await server.call(null, 'GET /docs/json')).body.info.version as string

/** Runs a package by npx, as one who has never seen it. */
const npx = (address: string, ...args: string[]) =>
  startProgram(terminal, ['npx', '--yes', address, ...args], {
    env: {
      PATH,
      npm_config_cache: join(terminal.home, '.npm'),
      npm_config_update_notifier: 'false',
      npm_config_audit: 'false',
    },
  }).end()

test('the package is named after the version of the API and the hash of its bytes, is small, and installs nothing', async () => {
  const bytes = await readFile(join(built.folder, built.name))
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  expect(built.name).toBe(`cli-${await version()}-${sha256.slice(0, 8)}.tgz`)
  expect(bytes.length).toBeLessThanOrEqual(PACKED_BYTES_MAX)
  const names = await readdir(built.folder)
  expect(names.toSorted()).toEqual(['agents.md', 'checksums.txt', built.name, 'llms.txt', 'platform.mjs'])
  const checksums = await readFile(join(built.folder, 'checksums.txt'), 'utf8')
  for (const name of names.filter((each) => each !== 'checksums.txt')) {
    const hash = createHash('sha256').update(await readFile(join(built.folder, name)))
    expect(checksums).toContain(`${hash.digest('hex')}  ${name}\n`)
  }
})

test('two builds of the same sources are equal to the byte', async () => {
  const again = await buildCommandLine()
  for (const name of await readdir(built.folder))
    expect([name, (await readFile(join(again.folder, name))).equals(await readFile(join(built.folder, name)))]).toEqual(
      [name, true],
    )
})

describe('platform.mjs', () => {
  test.each(nodes)('platform.mjs runs in an empty folder on Node $version', async ({ version: of, program: node }) => {
    const cwd = await terminal.folder(`empty-${of}`)
    const program = join(cwd, 'platform.mjs')
    const { body, status } = await server.call(null, 'GET /docs/clients/platform.mjs')
    expect(status).toBe(200)
    await writeFile(program, typeof body === 'string' ? body : await readFile(built.program))
    const run = (...args: string[]) => startProgram(terminal, [node, 'platform.mjs', ...args], { cwd }).end()
    expect(await run('--version')).toEqual({
      code: 0,
      signal: null,
      stdout: `platform ${await version()}\n`,
      stderr: '',
    })
    const listed = await run('orgs', 'ls', '--json')
    expect([listed.code, JSON.parse(listed.stdout)]).toMatchObject([
      0,
      { status: 'ok', data: [{ id: owner.organizationId }] },
    ])
  })

  test('platform.mjs names itself in what it says to type next, so that it can be typed', async () => {
    const cwd = await terminal.folder('next')
    await cp(built.program, join(cwd, 'platform.mjs'))
    const run = (...args: string[]) =>
      startProgram(terminal, [process.execPath, 'platform.mjs', ...args], { cwd, env: { PATH } }).end()
    const { code, stdout } = await run('deploy', '--json')
    expect(code).toBe(8)
    const [next] = (JSON.parse(stdout) as { next: { command: string }[] }).next.slice(-1)
    expect(next?.command).toBe('node platform.mjs link --create next --json')
    const typed = await startProgram(terminal, ['sh', '-c', next?.command ?? ''], { cwd, env: { PATH } }).end()
    expect([typed.code, JSON.parse(typed.stdout)]).toMatchObject([0, { status: 'ok' }])
  })

  test('platform.mjs tells an older Node which one it needs', async () => {
    const older =
      'data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"18.20.0"}});Object.defineProperty(process,"version",{value:"v18.20.0"})'
    const ended = await startProgram(terminal, [process.execPath, '--import', older, built.program, 'whoami']).end()
    expect(ended).toEqual({
      code: 2,
      signal: null,
      stdout: '',
      stderr: 'platform needs Node 20.19 or newer, and this is v18.20.0\n',
    })
  })

  test('platform.mjs is an executable of its own', async () => {
    expect((await stat(built.program)).mode & 0o111).toBe(0o111)
    const ended = await startProgram(terminal, [built.program, '--version'], { env: { PATH } }).end()
    expect(ended.code).toBe(0)
  })
})

test('npx runs the version whose address is printed, also after an upgrade, and the old address names the new one', async () => {
  const address = (name: string) => `${server.apiUrl}/docs/clients/${name}`
  const first = await npx(address(built.name), 'orgs', 'ls', '--json')
  expect([first.code, first.stderr, JSON.parse(first.stdout)]).toMatchObject([
    0,
    '',
    { data: [{ id: owner.organizationId }] },
  ])

  // A later release: the same program under another version.
  const work = await terminal.folder('release')
  const run = promisify(execFile)
  await run('tar', ['-xzf', join(built.folder, built.name), '-C', work])
  const text = await readFile(join(work, 'package/platform.mjs'), 'utf8')
  await writeFile(join(work, 'package/platform.mjs'), text.replaceAll(await version(), '99.0.0'))
  const manifest = JSON.parse(await readFile(join(work, 'package/package.json'), 'utf8')) as object
  await writeFile(join(work, 'package/package.json'), JSON.stringify({ ...manifest, version: '99.0.0' }))
  await run('tar', ['-czf', join(work, 'new.tgz'), '-C', work, 'package'])
  const sha256 = createHash('sha256')
    .update(await readFile(join(work, 'new.tgz')))
    .digest('hex')
  const name = `cli-99.0.0-${sha256.slice(0, 8)}.tgz`
  await cp(join(work, 'new.tgz'), join(clients, name))
  await rm(join(clients, built.name))

  const second = await npx(address(name), '--version')
  expect([second.code, second.stdout]).toEqual([0, 'platform 99.0.0\n'])
  const old = await server.call(null, `GET /docs/clients/${built.name}`)
  expect([old.status, old.body.error]).toEqual([404, expect.stringContaining(address(name))])
})

test('npm run platform works in the folder of whoever types it', async () => {
  const repository = resolve(import.meta.dirname, '../../..')
  const cwd = await terminal.folder('callers', { 'index.html': 'hello' })
  const ended = await startProgram(
    terminal,
    ['npm', 'run', '--silent', '--prefix', repository, 'platform', '--', 'deploy', '.', '--dry-run', '--json'],
    { cwd, env: { PATH } },
  ).end()
  expect([ended.code, JSON.parse(ended.stdout)]).toMatchObject([0, { data: { paths: ['index.html'] } }])
})
