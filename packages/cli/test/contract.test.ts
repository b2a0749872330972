import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newOwner, type Owner } from '../../../services/api/test/scenario.ts'
import { exitCodes, reasons } from '../src/exit-codes.ts'
import { manifestOf } from '../src/manifest.ts'
import { createProgram } from '../src/program.ts'
import { openSchemas } from './schemas.ts'
import { type Ended, newTerminal, signedInTerminal, type Terminal, wordsOf } from './terminal.ts'

const { commands: known, exitCodes: listed } = manifestOf(createProgram(() => Promise.resolve()))

let server: TestPlatform
let schemas: Awaited<ReturnType<typeof openSchemas>>
let owner: Owner
let terminal: Terminal
let site: string
beforeAll(async () => {
  ;[server, schemas] = await Promise.all([startPlatform({ hasWorker: true }), openSchemas()])
  owner = await newOwner(server)
  terminal = await signedInTerminal(server, owner.person)
  site = await terminal.folder('site', { 'index.html': 'hello', '.env.local': 'ADDED=1\n' })
})
afterAll(() => server.close())

const refused = expect.objectContaining({ status: 'error' })

describe('--json', () => {
  const deployed: string[] = []
  /** Command lines in the order in which a person would type them. */
  const lines: [command: string, line: () => string, stdin?: string][] = [
    ['whoami', () => 'whoami'],
    ['use', () => 'use default'],
    ['help', () => 'help'],
    ['orgs create', () => 'orgs create Contract'],
    ['orgs ls', () => 'orgs ls'],
    ['apps create', () => `apps create shop --org ${owner.organizationId}`],
    ['apps ls', () => 'apps ls'],
    ['link', () => `link --app ${owner.applicationId}`],
    ['env set', () => 'env set LOG_LEVEL debug'],
    ['env ls', () => 'env ls'],
    ['env push', () => 'env push'],
    ['env pull', () => 'env pull .env.pulled'],
    ['env rm', () => 'env rm LOG_LEVEL --yes'],
    ['deploy', () => 'deploy --dry-run'],
    ['deploy', () => 'deploy'],
    ['deploy', () => 'deploy'],
    ['deployments', () => 'deployments'],
    ['inspect', () => `inspect ${deployed[1]}`],
    ['rollback', () => 'rollback'],
    ['promote', () => `promote ${deployed[1]}`],
    ['open', () => 'open'],
    ['logs', () => 'logs'],
    ['logs', () => 'logs --build'],
    ['logs', () => 'logs --requests'],
    ['hostname set', () => `hostname set contract-${deployed[0]?.slice(-6)}`],
    ['hostname get', () => 'hostname get'],
    ['api', () => 'api GET /organizations --paginate'],
    ['unlink', () => 'unlink'],
    ['logout', () => 'logout'],
  ]
  const made: Ended[] = []
  test('each command that succeeds prints one document that its schema describes', async () => {
    for (const [command, line, stdin] of lines) {
      const ended = await terminal.json(line(), { cwd: site, ...(stdin !== undefined && { stdin }) })
      made.push(ended)
      expect([line(), ended.code, schemas.check(command, ended.document)]).toEqual([line(), 0, []])
      if (!['logs'].includes(command)) expect([line(), ended.events]).toEqual([line(), []])
      if (line() === 'deploy') deployed.push((ended.document.data as { id: string }).id)
    }
  })

  test('each command that fails prints one document that its schema describes', async () => {
    const nobody = await newTerminal(server)
    await nobody.folder('site', { 'index.html': '', '.env.local': '' })
    const id = '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'
    const without: [command: string, line: string, code: number][] = [
      ['whoami', 'whoami', 3],
      ['use', 'use default', 4],
      ['help', 'help nothing', 2],
      ['login', 'login --resume', 3],
      ['link', 'link', 3],
      ['deploy', 'deploy', 3],
      ['deployments', 'deployments', 3],
      ['inspect', `inspect ${id}`, 3],
      ['promote', `promote ${id}`, 3],
      ['rollback', 'rollback', 3],
      ['cancel', `cancel ${id}`, 3],
      ['open', 'open', 3],
      ['logs', 'logs', 3],
      ['env ls', 'env ls', 3],
      ['env set', 'env set A b', 3],
      ['env rm', 'env rm A', 3],
      ['env pull', 'env pull', 3],
      ['env push', 'env push', 3],
      ['env run', 'env run -- true', 3],
      ['apps ls', 'apps ls', 3],
      ['apps create', 'apps create shop', 3],
      ['orgs ls', 'orgs ls', 3],
      ['orgs create', 'orgs create Acme', 3],
      ['hostname get', 'hostname get', 3],
      ['hostname set', 'hostname set shop', 3],
      ['api', 'api GET /organizations', 3],
      ['unlink', 'unlink nowhere', 2],
      ['logout', 'logout --profile ..//', 2],
    ]
    for (const [command, line, code] of without) {
      const words = wordsOf(line)
      const at = words.indexOf('--')
      const ended = await nobody.run(words.toSpliced(at === -1 ? words.length : at, 0, '--json'), {
        cwd: `${nobody.home}/site`,
      })
      expect([line, ended.code, schemas.check(command, ended.document), ended.document, ended.events]).toEqual([
        line,
        code,
        [],
        refused,
        [],
      ])
      expect([line, ended.stdout.split('\n').length]).toEqual([line, 2])
    }
    const covered = new Set([...lines, ...without].map(([command]) => command))
    expect(known.map(({ command }) => command).filter((command) => !covered.has(command))).toEqual([])
  })

  test('there is a schema for each command, and for no other', () => {
    expect(schemas.commands.toSorted()).toEqual(known.map(({ command }) => command).toSorted())
  })
})

test('a schema refuses a document that lacks a member, has one of another type, or none of its reason', () => {
  const next: never[] = []
  const document = { status: 'ok', data: { url: 'http://x', isOpened: true }, next, schemaVersion: 1 }
  expect(schemas.check('open', document)).toEqual([])
  expect(schemas.check('open', { ...document, data: { url: 'http://x' } })).not.toEqual([])
  expect(schemas.check('open', { ...document, data: { url: 1, isOpened: true } })).not.toEqual([])
  expect(schemas.check('open', { status: 'error' })).not.toEqual([])
})

describe('a mistake', () => {
  test.each([
    ['delpoy', 'deploy'],
    ['env sett A b', 'set'],
    ['deploy --jsn', '--json'],
    ['deploy --previw', '--preview'],
    ['deployments --env prod', 'production'],
    ['deployments --status ACTVE', 'ACTIVE'],
    ['logs --level warning', 'WARN'],
    ['env ls --layer app', 'application'],
    ['api GET /organisations', '/organizations'],
    ['api GET /applications?organisationId=x', 'organizationId'],
    ['help deplyo', 'deploy'],
  ])('%s is 2 and names what was meant', async (line, meant) => {
    const ended = await terminal.json(line)
    expect([ended.code, ended.document.reason]).toEqual([2, 'usage'])
    expect(ended.document.message).toMatch(new RegExp(`Did you mean ${meant.replaceAll('/', '\\/')}\\?`))
  })

  test.each([
    'deploy a b',
    'logs --limit 0',
    'logs --limit many',
    'logs --since yesterday',
    'env set',
    'env',
    'env run',
    'inspect',
    'inspect 12',
    'promote not-a-uuid',
    'logs not-a-uuid',
    'api FETCH /organizations',
    'api GET organizations',
    'api GET //example.com/organizations',
    'api POST /organizations --body {',
    'api GET /docs/json --paginate',
    'deploy --prod --preview',
    'logs --build --requests',
    'env set A b --layer environment',
    'env set A b --env preview --layer organization',
    'env set 1A b',
    'env set PLATFORM_API_URL b',
    'env set A b --sensitive',
    'whoami --url ftp://example.com',
    'whoami --url http://user:password@example.com',
    'whoami --profile ../other',
  ])('%s is 2', async (line) => {
    const { code, document } = await terminal.json(line, { cwd: site })
    expect([code, document.reason, document.status]).toEqual([2, 'usage', 'error'])
  })
})

describe('help', () => {
  test('--help of each command goes to stdout, with the exit codes', async () => {
    for (const { command } of known) {
      const { code, stdout, stderr } = await terminal.run([...command.split(' '), '--help'])
      expect([command, code, stderr]).toEqual([command, 0, ''])
      expect(stdout).toContain(`Usage: platform ${command}`)
      for (const [exit, meaning] of Object.entries(exitCodes))
        expect(stdout.replace(/\s+/g, ' ')).toContain(`${exit} ${meaning}`)
    }
  })

  test('platform without a command shows the help of all', async () => {
    const { code, stdout } = await terminal.run('')
    expect([code, stdout]).toEqual([0, (await terminal.run('--help')).stdout])
  })

  test('help --json has every exit code with its reasons', () => {
    expect(listed.map(({ code, meaning }) => [String(code), meaning])).toEqual(Object.entries(exitCodes))
    expect(listed.flatMap(({ reasons: named }) => named).toSorted()).toEqual(Object.keys(reasons).toSorted())
  })
})

test('stdout is the result and stderr all else, colours are for terminals that want them, and a pipe sees no line drawn twice', async () => {
  const shopper = await signedInTerminal(server, owner.person)
  const folder = await shopper.folder('colours', { 'index.html': 'hello' })
  const escape = '\u001b['
  const plain = await shopper.run(`deploy --app ${owner.applicationId}`, { cwd: folder })
  const lines = plain.stdout.trim().split('\n')
  expect(lines).toEqual([expect.stringMatching(/^http:\/\/[\w-]+\.localhost:\d+$/)])
  // oxlint-disable-next-line no-control-regex -- what no pipe wants to see
  expect(plain.stdout + plain.stderr).not.toMatch(/[\u001b\r]/)
  const shown = await shopper.run('whoami --url http://localhost:1', { isTerminal: true })
  expect(shown.stderr).toContain(escape)
  for (const env of [{ NO_COLOR: '1' }, { TERM: 'dumb' }])
    expect((await shopper.run('whoami --url http://localhost:1', { isTerminal: true, env })).stderr).not.toContain(
      escape,
    )
  expect((await shopper.run('whoami --url http://localhost:1 --no-color', { isTerminal: true })).stderr).not.toContain(
    escape,
  )
  expect((await shopper.run('whoami --url http://localhost:1', { env: { FORCE_COLOR: '1' } })).stderr).toContain(escape)
  expect((await shopper.run('whoami --quiet')).stderr).toBe('')
})
