import { fork } from 'node:child_process'
import { once } from 'node:events'
import { chown, lstat, mkdir, readdir, readFile, readlink, rename, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type Person, type TestPlatform } from '@platform/testing/platform'
import { inheritedEnvironment } from '@platform/testkit/test-environment'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { startSignInProcess } from '../../sdk/test/sign-in-program.ts'
import { ProfileFile } from '../src/profiles.ts'
import { endStoredToken, generationOf, startPlatformForSignIns, terminalWithSignIn } from './sign-ins.ts'
import { newTerminal, signedInTerminal, type Terminal } from './terminal.ts'

let server: TestPlatform
let person: Person
beforeAll(async () => {
  server = await startPlatformForSignIns()
  person = await server.person()
})
afterAll(() => server.close())

const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8)

/** Commands that read sign-ins, and those that write them. */
const EVERY_USE = ['whoami', 'api GET /organizations', 'use default', 'login', 'login --resume', 'logout']

/** Runs every command that touches the sign-ins. Each has to be refused with the same sentence, before a request. */
async function expectRefused(terminal: Terminal, sentence: string): Promise<void> {
  for (const line of EVERY_USE) {
    const { code, document } = await terminal.json(line, {
      fetch: () => Promise.reject(new Error('A request was made')),
    })
    expect([line, code, document.message]).toEqual([line, 2, sentence])
  }
}

test('sign-ins are their owner’s alone in a folder of theirs alone, whatever the umask, and still are when one is renewed', async () => {
  const before = process.umask(0)
  try {
    const terminal = await terminalWithSignIn(server, person)
    const modes = () => Promise.all([terminal.credentials, dirname(terminal.credentials)].map(modeOf))
    expect(await modes()).toEqual(['600', '700'])
    const { ino } = await stat(terminal.credentials)
    await endStoredToken(terminal)
    expect((await terminal.json('api GET /organizations')).code).toBe(0)
    expect(await modes()).toEqual(['600', '700'])
    expect((await stat(terminal.credentials)).ino).not.toBe(ino)
    expect(await readdir(dirname(terminal.credentials))).toEqual(['credentials.json'])
  } finally {
    process.umask(before)
  }
})

test('whoever reads the sign-ins while they are written 200 times finds all of them', async () => {
  const { home } = await newTerminal(server)
  const file = new ProfileFile({ HOME: home }, new AbortController().signal)
  await file.change(() => {})
  const write = { isOver: false }
  const writing = (async () => {
    for (let n = 1; n <= 200; n++)
      await file.change(({ profiles }) => (profiles[`of-${n}`] = { baseUrl: server.apiUrl, user: null }))
    write.isOver = true
  })()
  let seen = 0
  while (!write.isOver) {
    const { profiles } = JSON.parse(await readFile(file.path, 'utf8')) as { profiles: object }
    expect(Object.keys(profiles).length).toBeGreaterThanOrEqual(seen)
    seen = Object.keys(profiles).length
  }
  await writing
  expect(Object.keys((await file.read()).profiles)).toHaveLength(200)
})

test('XDG_CONFIG_HOME says where sign-ins are kept', async () => {
  const terminal = await newTerminal(server)
  const env = { XDG_CONFIG_HOME: join(terminal.home, 'elsewhere') }
  await terminal.json('login', { env })
  expect(await readdir(terminal.home)).toEqual(['elsewhere'])
  expect(await readdir(join(env.XDG_CONFIG_HOME, 'platform'))).toEqual(['credentials.json'])
  expect((await terminal.json('login --resume', { env })).code).toBe(8)
  expect((await terminal.json('login --resume')).code).toBe(3)
})

test('a link in the place of the sign-ins is not followed: what it leads to is neither read nor changed', async () => {
  const terminal = await signedInTerminal(server, person)
  const { credentials } = terminal
  const target = join(terminal.home, 'target.json')
  await rename(credentials, target)
  await symlink(target, credentials)
  const content = await readFile(target, 'utf8')
  await expectRefused(terminal, `The sign-ins cannot be read: ${credentials} is a link, which is not followed`)
  expect([await readFile(target, 'utf8'), await readlink(credentials)]).toEqual([content, target])
})

test.skipIf(process.geteuid?.() !== 0)('sign-ins that belong to somebody else are not read', async () => {
  const terminal = await signedInTerminal(server, person)
  const { credentials } = terminal
  await chown(credentials, 65_534, 65_534)
  const content = await readFile(credentials, 'utf8')
  await expectRefused(terminal, `The sign-ins cannot be read: ${credentials} belongs to somebody else (user 65534)`)
  expect([await readFile(credentials, 'utf8'), (await lstat(credentials)).uid]).toEqual([content, 65_534])
})

test('a file that holds no sign-ins is named, and stays as it is', async () => {
  const terminal = await newTerminal(server)
  const { credentials } = terminal
  await mkdir(dirname(credentials), { recursive: true })
  for (const content of ['{"current":', 'null', '{}', '{"current":null,"profiles":null}', '']) {
    await writeFile(credentials, content)
    await expectRefused(terminal, `${credentials} holds no sign-ins that can be read: expected what \`login\` writes`)
    expect(await readFile(credentials, 'utf8')).toBe(content)
  }
})

const program = join(import.meta.dirname, 'command-process.ts')

/** A process of its own on a machine, which runs one command line after the other. It ends with the test. */
function startProcess(terminal: Terminal) {
  const child = fork(program, { env: { ...terminal.env, ...inheritedEnvironment }, execArgv: [] })
  onTestFinished(async () => {
    child.kill()
    await once(child, 'exit')
  })
  const next = async () => (await once(child, 'message'))[0] as { code: number; stderr: string }
  return {
    ready: next(),
    run(...argv: string[]) {
      child.send(argv)
      return next()
    },
  }
}

test('two processes at the end of a token are both signed in by one renewal, ten times', async () => {
  const terminal = await terminalWithSignIn(server, person)
  const processes = [0, 1].map(() => startProcess(terminal))
  await Promise.all(processes.map(({ ready }) => ready))
  const called = { code: 0, stderr: '' }
  for (let round = 1; round <= 10; round++) {
    const before = await generationOf(terminal)
    await endStoredToken(terminal)
    const calls = processes.map((each) => each.run('api', 'GET', '/organizations'))
    expect(await Promise.all(calls)).toEqual([called, called])
    expect(await generationOf(terminal)).toBe(before + 1)
  }
})

test('a command waits for a process that holds the sign-ins, and goes on at once when it is killed', async () => {
  const terminal = await signedInTerminal(server, person)
  const content = await readFile(terminal.credentials, 'utf8')
  const holder = startSignInProcess({ path: terminal.credentials })
  expect(await holder.next()).toBe('holds')
  const connections = () => process.getActiveResourcesInfo().filter((name) => name === 'PipeWrap').length
  const others = connections()
  let isOver = false
  const login = terminal.json('login').finally(() => (isOver = true))
  // It is told of the end of the holder, and looks for nothing meanwhile.
  await vi.waitFor(() => expect(connections()).toBe(others + 1), 60_000)
  expect([isOver, await readFile(terminal.credentials, 'utf8')]).toEqual([false, content])
  await holder.kill()
  expect((await login).code).toBe(8)
  expect((await terminal.json('login --resume')).code).toBe(8)
  expect(await readdir(dirname(terminal.credentials))).toEqual(['credentials.json'])
})
