import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '@platform/testkit/free-port'
import { describeMemory, measurePlatform } from './platform-memory.ts'

// `npm run drill -- memory`: what `npm start` holds while nobody uses it, after a first start and after a second one.

const MIB = 1024 ** 2
const bounds = [
  { start: 'first', minutes: 5, anonymous: 200, proportional: 330 },
  { start: 'second', minutes: 2, anonymous: 170, proportional: 300 },
]
const repository = resolve(import.meta.dirname, '../..')
/** The same for both starts, or the second would have addresses to move. */
const ports: Record<string, string> = {}
for (const name of ['API_PORT', 'IDP_PORT', 'EDGE_PORT', 'CONSOLE_PORT', 'S3_PORT'])
  ports[name] = String(await freePort())

const say = (line: string): void => void process.stdout.write(`${line}\n`)

/** Starts the platform as people do, and waits until it says that it runs. */
async function start(dataFolder: string): Promise<ChildProcess> {
  const npm = spawn('npm', ['start'], {
    cwd: repository,
    // oxlint-disable-next-line node/no-process-env -- the command's own environment
    env: { ...process.env, ...ports, DATA_DIR: dataFolder },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exit = once(npm, 'exit').then(() => Promise.reject(new Error('The platform did not start')))
  exit.catch(() => {})
  let out = ''
  const running = Promise.withResolvers<void>()
  npm.stdout.on('data', (chunk) => {
    out += chunk
    if (out.includes('Ctrl-C stops everything')) running.resolve()
  })
  await Promise.race([running.promise, exit])
  return npm
}

const dataFolder = mkdtempSync(join(tmpdir(), 'platform-memory-'))
try {
  for (const { start: name, minutes, ...bound } of bounds) {
    const npm = await start(dataFolder)
    try {
      await sleep(minutes * 60_000)
      const memory = measurePlatform(npm.pid!)
      say(`\n${minutes} minutes after the ${name} start:\n${describeMemory(memory)}`)
      for (const kind of ['anonymous', 'proportional'] as const) {
        if (memory[kind] <= bound[kind] * MIB) continue
        say(`The bound of ${kind} memory is ${bound[kind]} MiB.`)
        process.exitCode = 1
      }
    } finally {
      npm.kill('SIGTERM')
      await once(npm, 'exit')
    }
  }
} finally {
  rmSync(dataFolder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
}
