import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FunctionSource } from '@platform/function-runtime/function-runtime'
import { openFunctionRuntime } from '@platform/function-runtime/open-function-runtime'
import { openSandbox } from '@platform/sandbox/open-sandbox'
import { assembleFunction, type BuiltFunction } from './assemble-function.ts'
import { processTree, proportionalMemoryOf } from './process-costs.ts'

// A program of its own, in a network of its own that leads nowhere. Starts a Function, or bubblewrap by hand, whenever it reads a
// StartOrder from stdin, a line each, and writes a StartResult to stdout.

/**
 * `kept`: its deployment has a network. `new`: that is made first. `bare`: bubblewrap and Node, answering by itself. `printed`: they print.
 * `of` and a path: the Function that answers there in the Build Output of a project, which lies in the folder before the path.
 */
export type StartOrder = 'kept' | 'new' | 'bare' | 'printed' | `of ${string} ${string}`
/** From the order to the first byte; memory of all its processes after it. */
export interface StartResult {
  tookMs: number
  memoryMb: number
}

const [folder = ''] = process.argv.slice(2)
const code = 'export default (req, res) => res.end("hello")'
// Slots run as users of their own, and pass through it as they do through a folder of the platform's.
chmodSync(folder, 0o711)
const files = join(folder, 'files')
const platformFolder = join(folder, 'p')
for (const each of [files, platformFolder]) mkdirSync(each)
writeFileSync(join(files, 'index.mjs'), code)
writeFileSync(
  join(files, 'serve.mjs'),
  `import { createServer } from 'node:http'
  createServer((req, res) => res.end('hello')).listen('/run/slot/s', () => console.log('ready'))`,
)
writeFileSync(join(files, 'print.mjs'), 'console.log("hello")')

const sandbox = await openSandbox({ folder: join(folder, 's'), mode: 'required' })
const runtime = await openFunctionRuntime({
  sandbox,
  folder: join(folder, 'r'),
  logger: { error: (fields, message) => console.error(message, fields) },
  onLog: ({ message }) => console.error(message),
})
const source = {
  functionId: 'hello',
  deploymentId: 'kept',
  name: 'index',
  kind: 'handler' as const,
  folder: files,
  handler: 'index.mjs',
  command: undefined,
  isWeb: false,
  hasHelpers: false,
  variables: { NODE_ENV: 'production' },
  platformFolder,
  builtAt: 0,
  memoryMb: 512,
  slotsMax: 2,
}
// The hub stays for as long as one network is used.
await runtime.start({ ...source, functionId: 'other', deploymentId: 'other' })
const others = new Set(processTree(process.pid))
const memoryOf = (): number => proportionalMemoryOf(processTree(process.pid).filter((pid) => !others.has(pid)))

let count = 0
async function startFunction(
  deploymentId: string,
  more: Partial<FunctionSource> = {},
  options: { path: string; headers?: Record<string, string> } = { path: '/' },
): Promise<StartResult> {
  const startedAt = performance.now()
  const lease = await runtime.acquire(source.functionId, async () => ({ ...source, ...more, deploymentId }))
  const answer = await lease.dispatcher.request({ origin: 'http://slot', method: 'GET', ...options })
  const tookMs = performance.now() - startedAt
  const body = await answer.body.text()
  if (answer.statusCode !== 200)
    throw new Error(`${options.path} was answered ${answer.statusCode}: ${body.slice(0, 500)}`)
  lease.release()
  await sleep(300)
  const memoryMb = memoryOf()
  runtime.reconcile((id) => id === 'other')
  await lease.failure()
  for (;;) {
    const usages = await runtime.takeUsage()
    if (usages.every(({ functionId, slots }) => functionId !== source.functionId || slots === 0)) break
    await sleep(5)
  }
  return { tookMs, memoryMb }
}

async function startBare(script: string): Promise<StartResult> {
  const own = join(folder, 'own')
  mkdirSync(own)
  // prettier-ignore
  const args = [
    '--unshare-all', '--die-with-parent', '--ro-bind', '/', '/', '--tmpfs', '/run', '--proc', '/proc', '--dev', '/dev',
    '--ro-bind', files, '/run/files', '--bind', own, '/run/slot', process.execPath, join('/run/files', script),
  ]
  const startedAt = performance.now()
  const child = spawn('bwrap', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [first] = (await Promise.race([once(child.stdout, 'data'), once(child, 'exit')])) as [unknown]
  if (!Buffer.isBuffer(first)) throw new Error('bubblewrap ended before it answered')
  if (script === 'serve.mjs') {
    const sent = request({ socketPath: join(own, 's') }).end()
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    await text(answer)
  }
  const tookMs = performance.now() - startedAt
  if (script === 'serve.mjs') await sleep(300)
  const memoryMb = memoryOf()
  const ended = once(child, 'close')
  child.kill('SIGKILL')
  await ended
  rmSync(own, { recursive: true })
  return { tookMs, memoryMb }
}

const outputs = new Map<string, BuiltFunction>()
async function startBuilt(project: string, path: string): Promise<StartResult> {
  const name = `${project} ${path}`
  let built = outputs.get(name)
  if (!built) outputs.set(name, (built = await assembleFunction(project, path, join(folder, `o${outputs.size}`))))
  return startFunction('kept', built.source, built.request)
}

const act: Record<Exclude<StartOrder, `of ${string}`>, () => Promise<StartResult>> = {
  kept: () => startFunction('kept'),
  new: () => startFunction(`new-${count++}`),
  bare: () => startBare('serve.mjs'),
  printed: () => startBare('print.mjs'),
}
for await (const order of createInterface({ input: process.stdin })) {
  const [, project, path] = /^of (.+) (\/.*)$/.exec(order) ?? []
  const result = await (project === undefined || path === undefined
    ? act[order as keyof typeof act]()
    : startBuilt(project, path))
  process.stdout.write(`${JSON.stringify(result)}\n`)
}
await runtime.close(0)
await sandbox.close()
