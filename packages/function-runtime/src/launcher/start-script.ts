import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { listenAt, otherPortSentence } from './listen-redirect.ts'
import { portsOf } from './listening-ports.ts'
import { relay } from './relay.ts'

/**
 * Runs a start script with its own PORT, and relays the socket to it once it accepts connections. onOtherPort: called if it listens
 * elsewhere instead, with a sentence.
 */
export async function runStartScript(
  command: string,
  folder: string,
  socketPath: string,
  onOtherPort: (sentence: string) => void,
): Promise<{ server: Server; child: ChildProcess }> {
  const port = await findFreePort()
  // oxlint-disable-next-line node/no-process-env -- the script's own environment
  const env = { ...process.env, PORT: String(port) }
  const child = spawn('/bin/sh', ['-c', command], { cwd: folder, env, stdio: ['ignore', 1, 2] })
  child.once('exit', (code, signal) => process.exit(code ?? (signal === 'SIGKILL' ? 137 : 1)))
  const looking = setTimeout(() => {
    const others = portsOf(child.pid ?? 0).filter((other) => other !== port)
    if (others.length > 0) onOtherPort(otherPortSentence(others, port))
  }, otherPortOfScriptMs)
  const host = await untilAccepted(port)
  clearTimeout(looking)
  const server = createServer({ allowHalfOpen: true }, (socket) =>
    relay(socket, connect({ port, host, allowHalfOpen: true })),
  )
  await listenAt(server, socketPath)
  return { server, child }
}

/** Shortly before the runtime gives up. A script may listen elsewhere, for metrics, long before it does on PORT. */
const otherPortOfScriptMs = 9_000

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** The loopback address that accepts connections. Waits indefinitely: the runtime has the deadline. */
async function untilAccepted(port: number): Promise<string> {
  for (;;) {
    for (const host of ['127.0.0.1', '::1']) if (await accepts(port, host)) return host
    await sleep(20)
  }
}

function accepts(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host })
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}
