import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { ATTEMPT_PRELUDE, type Attempt, type AttemptWorld } from './attempts.ts'
import { openSandbox, type SandboxOptions } from './open-sandbox.ts'
import type { SandboxedCommand, SandboxExit } from './sandbox.ts'
import { listDeniedCalls } from './seccomp-filter.ts'

const limits = { memoryBytes: 256 * 2 ** 20, processes: 100, openFiles: 1024, tmpBytes: 2 ** 20, cpuShare: 100 }

interface Tried {
  exit: SandboxExit
  /** Of each attempt, in their order. */
  answers: string[]
  stderr: string
}

export interface AttemptSandbox {
  world: AttemptWorld
  /** Has one command of the sandbox make the attempts in turn. */
  attempt(attempts: readonly Attempt[]): Promise<Tried>
  close(): Promise<void>
}

/**
 * Opens a sandbox on this machine with everything that attempts aim at: a file, a process, sockets, and a command of somebody else.
 * folder: absolute and there; what it holds stays.
 */
export async function openAttemptSandbox(
  folder: string,
  options: Pick<SandboxOptions, 'egress' | 'network'>,
): Promise<AttemptSandbox> {
  const marker = `secret-of-the-machine-${process.pid}`
  const servers: Server[] = []
  const host = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)', marker], {
    stdio: 'ignore',
    env: { MARKER: marker },
  })
  const listen = async (where: string | number): Promise<Server> => {
    const server = createServer((socket) => socket.on('error', () => socket.destroy()).end())
    if (typeof where === 'number') server.listen(where, '127.0.0.1')
    else server.listen(where)
    await once(server, 'listening')
    servers.push(server)
    return server
  }
  const sandbox = await openSandbox({ folder: join(folder, 'sandbox'), mode: 'required', ...options })
  for (const name of ['work-neighbour', 'work-attempt']) await sandbox.makeWritable(join(folder, name))
  // World-writable, except for the mount.
  mkdirSync(join(folder, 'code'))
  writeFileSync(join(folder, 'code/index.js'), '')
  chmodSync(join(folder, 'code'), 0o777)
  chmodSync(join(folder, 'code/index.js'), 0o666)
  writeFileSync(join(folder, 'secret'), marker, { mode: 0o644 })
  const address = (await listen(0)).address()
  const hostSocket = join(folder, 'host.sock')
  await listen(hostSocket)
  await listen(`\0${marker}`)
  const world: AttemptWorld = {
    hostFile: join(folder, 'secret'),
    hostPid: host.pid ?? 0,
    marker,
    hostSocket,
    hostAbstractSocket: marker,
    hostPort: typeof address === 'object' ? (address?.port ?? 0) : 0,
    neighbourAbstractSocket: `neighbour-${process.pid}`,
    neighbourPort: 8080,
    denied: listDeniedCalls(process.arch),
    socketCall: process.arch === 'arm64' ? 198 : 41,
    socketPairCall: process.arch === 'arm64' ? 199 : 53,
  }
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
  const neighbour = await sandbox.start(
    commandOf(
      'neighbour',
      `const net = require('node:net'); const { neighbourAbstractSocket, neighbourPort } = JSON.parse(process.env.WORLD)
       net.createServer().listen(neighbourPort, '0.0.0.0', () => net.createServer().listen('\\0' + neighbourAbstractSocket, () => console.log('listening')))`,
    ),
  )
  await once(neighbour.stdout, 'data')
  return {
    world,
    async attempt(attempts) {
      const bodies = attempts.map(({ code }) => `async () => { ${code} }`)
      const body = `${ATTEMPT_PRELUDE}; (async () => {
        const answers = []
        for (const attempt of [${bodies.join(', ')}]) answers.push(String(await attempt().catch((error) => error.code ?? error.message)))
        process.stdout.write(JSON.stringify(answers), () => process.exit())
      })()`
      const started = await sandbox.start(commandOf('attempt', body))
      const [said, stderr] = await Promise.all([text(started.stdout), text(started.stderr)])
      return { exit: await started.exited, answers: said === '' ? [] : (JSON.parse(said) as string[]), stderr }
    },
    async close() {
      await sandbox.close()
      for (const server of servers) server.close()
      host.kill('SIGKILL')
    },
  }
}
