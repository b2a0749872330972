import { cp, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { Sandbox } from '@platform/sandbox/sandbox'
import type { FunctionLogLine, FunctionRuntime, FunctionSource, Lease, Pin } from '../src/function-runtime.ts'
import { type FunctionRuntimeOptions, openFunctionRuntime, type RuntimeTimings } from '../src/open-function-runtime.ts'

/** A runtime over a sandbox, with what tests need around it. */
export interface Fixture {
  runtime: FunctionRuntime
  sandbox: Sandbox
  folder: string
  lines: FunctionLogLine[]
  /** Writes a Function's files. packages: installed into its node_modules. */
  deploy(files: Record<string, string>, more?: Partial<FunctionSource>, packages?: string[]): Promise<FunctionSource>
  acquire(source: FunctionSource, pin?: Pin): Promise<Lease>
  request(source: FunctionSource, path?: string, init?: RequestOptions): Promise<Answer>
  messages(): string[]
  close(): Promise<void>
}

interface RequestOptions {
  method?: string
  headers?: Record<string, string>
  body?: string
}

interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  body: string
}

/** Sockets are made in here, so it is short. */
const base = '/tmp'
/** A busy machine may start a slot slowly. What tests the limit sets its own. */
const timingsDefault: Partial<RuntimeTimings> = { startMs: 120_000 }

/** open: the sandbox over a folder. existing: a folder that an earlier one used. */
export async function openFixture(
  open: (folder: string) => Promise<Sandbox>,
  timings: Partial<RuntimeTimings> = {},
  existing?: string,
  options: Pick<FunctionRuntimeOptions, 'extraCertificates'> = {},
): Promise<Fixture> {
  const folder = existing ?? (await mkdtemp(join(base, 'fr-')))
  const sandbox = await open(join(folder, 'x'))
  const lines: FunctionLogLine[] = []
  const runtime = await openFunctionRuntime({
    sandbox,
    folder: join(folder, 'r'),
    logger: { error: (fields, message) => console.error(message, fields) },
    onLog: (line) => lines.push(line),
    timings: { ...timingsDefault, ...timings },
    ...options,
  })
  let count = existing === undefined ? 0 : 100
  const acquire = (source: FunctionSource, pin?: Pin) => runtime.acquire(source.functionId, async () => source, pin)
  return {
    runtime,
    sandbox,
    folder,
    lines,
    acquire,
    async deploy(files, more = {}, packages = []) {
      count += 1
      const functionFolder = join(folder, 'f', String(count))
      const platformFolder = join(folder, 'p', String(count))
      await mkdir(platformFolder, { recursive: true })
      for (const [name, text] of Object.entries(files)) {
        await mkdir(dirname(join(functionFolder, name)), { recursive: true })
        await writeFile(join(functionFolder, name), text)
      }
      for (const name of packages) await install(name, functionFolder)
      return {
        functionId: `function-${count}`,
        deploymentId: `deployment-${count}`,
        name: 'index',
        kind: 'handler',
        folder: functionFolder,
        handler: Object.keys(files)[0],
        command: undefined,
        isWeb: false,
        hasHelpers: false,
        variables: {},
        platformFolder,
        builtAt: 0,
        memoryMb: 256,
        slotsMax: 1,
        ...more,
      }
    },
    async request(source, path = '/', init = {}) {
      const lease = await acquire(source)
      try {
        const { headers, ...rest } = init
        const answer = await lease.dispatcher.request({
          origin: 'http://slot',
          path,
          method: 'GET',
          ...rest,
          headers: { host: 'site.example', ...headers },
        })
        return { status: answer.statusCode, headers: answer.headers, body: await answer.body.text() }
      } finally {
        lease.release()
      }
    },
    messages: () => lines.map(({ message }) => message),
    async close() {
      await runtime.close(0)
      await sandbox.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Copies a package and what it depends on, flat: a sandbox does not see where links lead to. */
async function install(name: string, folder: string, from = import.meta.filename): Promise<void> {
  const target = join(folder, 'node_modules', name)
  const source = await packageFolder(name, from)
  if (source === undefined) return
  await cp(source, target, {
    recursive: true,
    dereference: true,
    filter: (path) => !path.slice(source.length).includes('node_modules'),
  })
  const { dependencies = {} } = JSON.parse(await readFile(join(source, 'package.json'), 'utf8')) as {
    dependencies?: Record<string, string>
  }
  for (const dependency of Object.keys(dependencies)) {
    if (await exists(join(folder, 'node_modules', dependency))) continue
    await install(dependency, folder, join(source, 'package.json'))
  }
}

async function packageFolder(name: string, from: string): Promise<string | undefined> {
  for (const path of createRequire(from).resolve.paths(name) ?? []) {
    if (await exists(join(path, name))) return realpath(join(path, name))
  }
  return undefined
}

const exists = (path: string): Promise<boolean> =>
  realpath(path).then(
    () => true,
    () => false,
  )
