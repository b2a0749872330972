import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Core, onCore } from './cores.ts'

export interface ServerProcess {
  pid: number
  /** Ends it in order, and after 10 s by force. Safe to repeat. */
  stop(): Promise<void>
}

const START_TIMEOUT_MS = 30_000
const STOP_TIMEOUT_MS = 10_000

/**
 * Starts a Node program and waits until `readyUrl` answers anything. The pipe on its stdin closes with us, which tells it
 * to end. Throws with its last words when it ends first.
 */
export async function startServer(options: {
  name: string
  core: Core
  script: string
  arguments?: readonly string[]
  cwd: string
  env: Record<string, string>
  readyUrl: string
}): Promise<ServerProcess> {
  const { name, core, script, cwd, env, readyUrl } = options
  const [command, args] = onCore(core, [script, ...(options.arguments ?? [])])
  const child = spawn(command, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] })
  child.stdin.on('error', () => {}) // it ended, and says so by itself
  let lastWords = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (lastWords = (lastWords + text).slice(-4_000)))
  let hasEnded = false
  const ended = once(child, 'exit').finally(() => (hasEnded = true))
  ended.catch(() => {}) // could not be spawned: seen below

  async function stop(): Promise<void> {
    if (hasEnded) return
    child.kill('SIGTERM')
    const force = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
    await ended
    clearTimeout(force)
  }

  for (const deadline = Date.now() + START_TIMEOUT_MS; Date.now() < deadline; await sleep(50)) {
    if (hasEnded) throw new Error(`${name} ended while it started:\n${lastWords}`)
    const answer = await fetch(readyUrl).catch(() => undefined)
    // It may be a stream without an end.
    await answer?.body?.cancel()
    if (answer && child.pid !== undefined) return { pid: child.pid, stop }
  }
  await stop()
  throw new Error(`${name} did not answer at ${readyUrl} within ${START_TIMEOUT_MS / 1_000} s:\n${lastWords}`)
}
