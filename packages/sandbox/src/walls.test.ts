import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ATTEMPT_PRELUDE, ATTEMPTS, type AttemptWorld } from './attempts.ts'
import { openSandbox } from './open-sandbox.ts'
import type { Sandbox, SandboxedCommand, SandboxedProcess } from './sandbox.ts'
import { listDeniedCalls } from './seccomp-filter.ts'
import { findTestObstacle } from './test-obstacle.ts'

const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit', 'perl', 'unshare'])
const MARKER = `secret-of-the-machine-${process.pid}`
const limits = { memoryBytes: 256 * 2 ** 20, processes: 100, openFiles: 1024, tmpBytes: 2 ** 20, cpuShare: 100 }

describe('the walls of bubblewrap', unless(obstacle), () => {
  const folder = mkdtempSync(join(tmpdir(), 'walls-'))
  const servers: Server[] = []
  let sandbox: Sandbox
  let neighbour: SandboxedProcess
  let world: AttemptWorld
  const host = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)', MARKER], {
    stdio: 'ignore',
    env: { MARKER },
  })

  const commandOf = (name: string, code: string): SandboxedCommand => ({
    name,
    networkId: name,
    argv: [process.execPath, '-e', code],
    env: { WORLD: JSON.stringify(world) },
    mounts: [
      { source: join(folder, 'code'), target: '/code' },
      { source: join(folder, `work-${name}`), target: '/own', isWritable: true },
    ],
    workingDirectory: '/own',
    limits,
  })

  const listen = async (where: string | number): Promise<Server> => {
    const server = createServer((socket) => socket.on('error', () => socket.destroy()).end())
    if (typeof where === 'number') server.listen(where, '127.0.0.1')
    else server.listen(where)
    await once(server, 'listening')
    servers.push(server)
    return server
  }

  beforeAll(async () => {
    sandbox = await openSandbox({ folder: join(folder, 'sandbox'), mode: 'required', egress: 'none' })
    for (const name of ['work-neighbour', 'work-attempt']) await sandbox.makeWritable(join(folder, name))
    // World-writable, except for the mount.
    mkdirSync(join(folder, 'code'))
    writeFileSync(join(folder, 'code/index.js'), '')
    chmodSync(join(folder, 'code'), 0o777)
    chmodSync(join(folder, 'code/index.js'), 0o666)
    writeFileSync(join(folder, 'secret'), MARKER, { mode: 0o644 })
    const address = (await listen(0)).address()
    const hostSocket = join(folder, 'host.sock')
    await listen(hostSocket)
    await listen(`\0${MARKER}`)
    world = {
      hostFile: join(folder, 'secret'),
      hostPid: host.pid ?? 0,
      marker: MARKER,
      hostSocket,
      hostAbstractSocket: MARKER,
      hostPort: typeof address === 'object' ? (address?.port ?? 0) : 0,
      neighbourAbstractSocket: `neighbour-${process.pid}`,
      neighbourPort: 8080,
      denied: listDeniedCalls(process.arch),
      socketCall: process.arch === 'arm64' ? 198 : 41,
      socketPairCall: process.arch === 'arm64' ? 199 : 53,
    }
    neighbour = await sandbox.start(
      commandOf(
        'neighbour',
        `const net = require('node:net'); const { neighbourAbstractSocket, neighbourPort } = JSON.parse(process.env.WORLD)
         net.createServer().listen(neighbourPort, '0.0.0.0', () => net.createServer().listen('\\0' + neighbourAbstractSocket, () => console.log('listening')))`,
      ),
    )
    await once(neighbour.stdout, 'data')
  }, 60_000)

  afterAll(async () => {
    await sandbox?.close()
    for (const server of servers) server.close()
    host.kill('SIGKILL')
    rmSync(folder, { recursive: true })
  }, 60_000)

  test('the machine, its own processes and sockets are there to be found', async () => {
    const { hostFile, hostSocket, hostAbstractSocket, hostPort, marker } = world
    const code = `${ATTEMPT_PRELUDE}; Promise.all([connect(world.hostSocket), connect('\\0' + world.hostAbstractSocket), connect(world.hostPort)])
      .then((answers) => { console.log(...answers, fs.readFileSync(world.hostFile, 'utf8'), fs.readFileSync('/proc/' + world.hostPid + '/environ', 'utf8').includes(world.marker)); process.exit() })`
    const outside = spawn(process.execPath, ['-e', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { WORLD: JSON.stringify(world) },
    })
    expect(await text(outside.stdout)).toBe(`connected connected connected ${marker} true\n`)
    expect([hostFile, hostSocket, hostAbstractSocket, hostPort].every(Boolean)).toBe(true)
  })

  test.each(ATTEMPTS)('it cannot $name', { timeout: 60_000 }, async ({ code, answer }) => {
    const body = `${ATTEMPT_PRELUDE}; (async () => { ${code} })().then((answer) => answer, (error) => error.code ?? error.message)
      .then((answer) => process.stdout.write(String(answer), () => process.exit()))`
    const attempt = await sandbox.start(commandOf('attempt', body))
    const [said, complained] = await Promise.all([text(attempt.stdout), text(attempt.stderr)])
    expect(await attempt.exited, complained).toEqual({ code: 0, signal: null, cause: 'exit' })
    expect(said).toMatch(answer)
  })
})
