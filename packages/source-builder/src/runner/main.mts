import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, createWriteStream, existsSync, writeSync } from 'node:fs'
import { readdir, readFile, rm, statfs } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join, relative } from 'node:path'
import { text } from 'node:stream/consumers'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'
import type { Job, RunnerMessage, Step } from './messages.ts'
import { trace } from './trace.mts'

// Runs inside the sandbox, as the same user as what it runs: nothing it says is believed beyond the build's own fate.

type Outcome =
  | { ok: true; ignored?: string[] }
  | { ok: false; code: number | null; signal: string | null; isTmpFull?: boolean; message?: string }

const OUTPUT = 1
const CONTROL = 3
const RETRY_MS = 10
/** A file system with less room than that is full. */
const FULL_BYTES = 65_536
const MESSAGE_MAX = 1_000
/** Workspaces nest their packages a few folders deep. */
const WORKSPACE_DEPTH = 6
/** Fewer connections than the proxy takes. */
const PROXIED_MAX = 200
const IGNORED_MAX = 50

const report = (message: RunnerMessage): void => void writeSync(CONTROL, `${JSON.stringify(message)}\n`)

/**
 * Offers the proxy behind a Unix socket on a port of this network, which has nothing else. Connections beyond what the proxy takes wait
 * for their turn: pnpm asks about every package of a lockfile at once.
 */
async function offerProxy({ socket, port }: NonNullable<Job['proxy']>): Promise<void> {
  let open = 0
  const waiting: Socket[] = []
  const begin = (incoming: Socket): void => {
    open++
    const outgoing = connect(socket)
    incoming.on('error', () => outgoing.destroy()).pipe(outgoing)
    outgoing.on('error', () => incoming.destroy()).pipe(incoming)
    outgoing.once('close', () => {
      open--
      // Some have given up meanwhile.
      const next = waiting.splice(0, waiting.findIndex(({ destroyed }) => !destroyed) + 1).at(-1)
      if (next) begin(next)
    })
  }
  const server = createServer((incoming) => {
    if (open < PROXIED_MAX) begin(incoming)
    else waiting.push(incoming)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, '127.0.0.1', resolve)
  })
  server.unref()
}

/** Whether a program could not write there any more. */
async function isFull(folder: string): Promise<boolean> {
  const { bavail, bsize, ffree } = await statfs(folder)
  return bavail * bsize < FULL_BYTES || ffree === 0
}

/** Prints a text to its end, also where programs that share this output made it one that never waits. */
function print(output: string): void {
  for (let rest = Buffer.from(output); rest.length > 0;)
    try {
      rest = rest.subarray(writeSync(OUTPUT, rest))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS)
    }
}

/** The packages whose install scripts pnpm did not run, as it notes them: in JSON, and in YAML before pnpm 10. */
async function listIgnored(modules: string): Promise<string[]> {
  const written = await readFile(modules, 'utf8').catch(() => '')
  const [, listed = ''] =
    /^\s*"?ignoredBuilds"?:\s*(?:\[([^\]]*)\]|\n((?:\s+- .*\n)+))/m
      .exec(written)
      ?.filter((part) => part !== undefined) ?? []
  const names = listed.match(/[\w@./+-]+@[\w.+-]+/g) ?? []
  return names.slice(0, IGNORED_MAX)
}

async function run(
  { argv, shown, folder, unset, modules }: Extract<Step, { kind: 'run' }>,
  environment: Job['environment'],
): Promise<Outcome> {
  const [program = '', ...args] = argv
  const env = Object.fromEntries(Object.entries(environment).filter(([name]) => !unset.includes(name)))
  // Here and not by a message, so that it stands before what the program prints.
  print(`Running ${shown}\n`)
  try {
    // What it starts has nothing to say on descriptor 3, where this program reports.
    const child = spawn(program, args, { cwd: folder, env, stdio: ['ignore', 'inherit', 'inherit', 'ignore'] })
    const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
    if (code === 0 && modules !== undefined) return { ok: true, ignored: await listIgnored(modules) }
    return code === 0 ? { ok: true } : { ok: false, code, signal, isTmpFull: await isFull('/tmp') }
  } catch (error) {
    return failed(error)
  }
}

/** Every node_modules that is not inside another, and what Yarn and Next keep between builds. */
async function listKept(project: string, root: string): Promise<string[]> {
  const kept: string[] = []
  const visit = async (folder: string, depth: number): Promise<void> => {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (!entry.isDirectory()) continue
      const path = join(folder, entry.name)
      if (entry.name === 'node_modules') kept.push(path)
      // Without it Yarn fetches each package again, though it is installed.
      else if (entry.name === '.yarn' && existsSync(join(path, 'cache'))) kept.push(join(path, 'cache'))
      else if (depth < WORKSPACE_DEPTH && !entry.name.startsWith('.')) await visit(path, depth + 1)
    }
  }
  await visit(project, 0)
  const ofNext = join(root, '.next/cache')
  if (existsSync(ofNext)) kept.push(ofNext)
  return kept
}

const failed = (error: unknown): Outcome => ({
  ok: false,
  code: null,
  signal: null,
  message: (error instanceof Error ? error.message : String(error)).slice(0, MESSAGE_MAX),
})

function ended(child: ReturnType<typeof spawn>): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`tar ended with ${code}`))))
  })
}

async function restore({ file, into }: Extract<Step, { kind: 'restore' }>): Promise<Outcome> {
  // It ends with its input, and not before: what is not written to it any more would look like a failure.
  const tar = spawn('tar', ['-x', '-p', '--ignore-zeros', '--no-same-owner', '-C', into], {
    stdio: ['pipe', 'inherit', 'inherit'],
  })
  try {
    await Promise.all([pipeline(createReadStream(file), createZstdDecompress(), tar.stdin), ended(tar)])
    return { ok: true }
  } catch (error) {
    tar.kill('SIGKILL')
    for (const path of await listKept(into, into)) await rm(path, { recursive: true, force: true })
    return failed(error)
  }
}

async function pack({ project, root, file, bytesMax }: Extract<Step, { kind: 'pack' }>): Promise<Outcome> {
  const paths = (await listKept(project, root)).map((path) => `./${relative(project, path)}`)
  if (paths.length === 0) return failed(new Error('there is nothing to keep'))
  const tar = spawn('tar', ['-c', '-C', project, '--', ...paths], { stdio: ['ignore', 'pipe', 'inherit'] })
  let bytes = 0
  const counting = new Transform({
    transform(chunk: Buffer, _, next) {
      bytes += chunk.length
      if (bytes > bytesMax) next(new Error(`it is larger than ${Math.floor(bytesMax / 1_048_576)} MiB`))
      else next(null, chunk)
    },
  })
  try {
    const compress = createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: 1 } })
    await Promise.all([pipeline(tar.stdout, counting, compress, createWriteStream(file)), ended(tar)])
    return { ok: true }
  } catch (error) {
    tar.kill('SIGKILL')
    await rm(file, { force: true })
    return failed(error)
  }
}

async function printTrace(step: Extract<Step, { kind: 'trace' }>): Promise<Outcome> {
  try {
    print((await trace(step)).map((path) => `${path}\0`).join(''))
    return { ok: true }
  } catch (error) {
    return failed(error)
  }
}

function perform(step: Step, environment: Job['environment']): Promise<Outcome> {
  switch (step.kind) {
    case 'run':
      return run(step, environment)
    case 'restore':
      return restore(step)
    case 'pack':
      return pack(step)
    case 'trace':
      return printTrace(step)
  }
}

const job = JSON.parse(await text(process.stdin)) as Job
if (job.proxy) await offerProxy(job.proxy)
for (const [n, step] of job.steps.entries()) {
  const outcome = await perform(step, job.environment)
  report({ step: n, ...outcome })
  // A cache that cannot be restored is none.
  if (!outcome.ok && step.kind !== 'restore') process.exit(1)
}
process.exit(0)
