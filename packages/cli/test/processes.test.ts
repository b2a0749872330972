import { readFile } from 'node:fs/promises'
import type { TestPlatform } from '@platform/testing/platform'
import { approveDevice } from '@platform/testkit/approve-device'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newOwner, type Owner } from '../../../services/api/test/scenario.ts'
import { builtCommandLine, PATH } from './built.ts'
import { startInTerminal, startProcess, startProgram } from './cli-process.ts'
import { openSchemas } from './schemas.ts'
import { startPlatformForSignIns } from './sign-ins.ts'
import { type Document, newTerminal, signedInTerminal, type Terminal } from './terminal.ts'

let server: TestPlatform
let owner: Owner
let terminal: Terminal
let site: string
/** As it is served. */
let program: string
let schemas: Awaited<ReturnType<typeof openSchemas>>
beforeAll(async () => {
  let built: Awaited<ReturnType<typeof builtCommandLine>>
  ;[server, schemas, built] = await Promise.all([
    startPlatformForSignIns({ hasWorker: true }),
    openSchemas(),
    builtCommandLine(),
  ])
  program = built.program
  owner = await newOwner(server)
  terminal = await signedInTerminal(server, owner.person)
  const project = JSON.stringify({ organizationId: owner.organizationId, applicationId: owner.applicationId })
  site = await terminal.folder('site', { 'index.html': 'hello', '.platform/project.json': project })
})
afterAll(() => server.close())

// oxlint-disable-next-line no-control-regex -- colours and cursor movements
const plain = (text: string): string => text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '').replaceAll('\r\n', '\n')

test('each of ten commands says in a process what its schema describes, and to a person in a terminal the same', async () => {
  const lines: [command: string, argv: string[], shown: RegExp][] = [
    ['deploy', ['deploy'], /^http:\/\/[\w-]+\.localhost:\d+$/m],
    ['whoami', ['whoami'], /profile default/],
    ['help', ['help', 'env', 'set'], /Usage: platform env set/],
    ['apps ls', ['apps', 'ls'], /^ID +SLUG +NAME$/m],
    ['orgs ls', ['orgs', 'ls'], /^ID +SLUG +NAME$/m],
    ['deployments', ['deployments'], /ACTIVE \(current\)/],
    ['env set', ['env', 'set', 'LOG_LEVEL', 'debug'], /Set LOG_LEVEL in the application/],
    ['env ls', ['env', 'ls'], /LOG_LEVEL +application +debug/],
    ['api', ['api', 'GET', '/organizations'], /"total": 1/],
    ['rollback', ['rollback'], /Back to [0-9a-f-]{36}/],
  ]
  for (const [command, argv, shown] of lines) {
    const inTerminal = await startInTerminal(terminal, argv, { cwd: site, program }).end()
    expect([command, inTerminal.code, plain(inTerminal.stdout)]).toEqual([command, 0, expect.stringMatching(shown)])
    const piped = await startProcess(terminal, [...argv, '--json'], { cwd: site, program }).end()
    const document = JSON.parse(piped.stdout) as Document
    // There is nothing before the deployment that the person went back to.
    const isLast = command === 'rollback'
    expect([command, piped.code, schemas.check(command, document)]).toEqual([command, isLast ? 4 : 0, []])
    // oxlint-disable-next-line no-control-regex -- what no pipe wants to see
    expect([command, piped.stdout + piped.stderr]).toEqual([command, expect.not.stringMatching(/[\u001b\r]/)])
  }
})

test('in a terminal, deploy of an unlinked folder asks which application it is of, and links it', async () => {
  const folder = await terminal.folder('unlinked', { 'index.html': 'hello' })
  const started = startInTerminal(terminal, ['deploy'], { cwd: folder, program })
  await started.print(/Which application is this folder of\?/)
  started.process.stdin?.write('\r')
  const ended = await started.end()
  expect([ended.code, plain(ended.stdout).trim().split('\n').at(-2) ?? '']).toEqual([
    0,
    expect.stringMatching(/^(?:go back|http)/),
  ])
  const linked = JSON.parse(await readFile(`${folder}/.platform/project.json`, 'utf8')) as object
  expect(linked).toEqual({ organizationId: owner.organizationId, applicationId: owner.applicationId })
})

test('in a terminal, login shows an address and a code, and signs in whoever approves it', async () => {
  const newcomer = await newTerminal(server)
  const started = startInTerminal(newcomer, ['login', '--no-open'], { program })
  const [, completeUrl = ''] = await started.print(/Open \S*?(http[\w:/.?=-]+)/)
  const [, userCode = ''] = await started.print(/approve the code \S*?([A-Z0-9]{4}-[A-Z0-9]{4})/)
  await started.print(/Waiting for the approval/)
  await approveDevice({ completeUrl, userCode }, owner.person)
  const ended = await started.end()
  expect([ended.code, plain(ended.stdout)]).toEqual([0, expect.stringContaining(`as ${owner.person.email}`)])
})

test('Ctrl-C at a question and while waiting is 130', async () => {
  const folder = await terminal.folder('asked', { 'index.html': 'hello' })
  const asked = startInTerminal(terminal, ['deploy'], { cwd: folder, program })
  await asked.print(/Which application is this folder of\?/)
  asked.process.stdin?.write('\u0003')
  expect((await asked.end()).code).toBe(130)
  const newcomer = await newTerminal(server)
  const waiting = startInTerminal(newcomer, ['login', '--no-open'], { program })
  await waiting.print(/Waiting for the approval/)
  waiting.process.stdin?.write('\u0003')
  const ended = await waiting.end()
  expect([ended.code, plain(ended.stdout)]).toEqual([130, expect.stringContaining('nobody was signed in')])
})

test('a reader that has read enough ends the command without an error', async () => {
  const line = `node ${program} help | head -1`
  const ended = await startProgram(terminal, ['bash', '-c', `set -o pipefail; ${line}`], { env: { PATH } }).end()
  expect(ended).toMatchObject({ code: 0, stdout: 'Usage: platform [options] [command]\n', stderr: '' })
})
