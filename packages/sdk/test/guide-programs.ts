import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

const home = resolve(import.meta.dirname, '..')
const repository = resolve(home, '../..')
export const guidePath = resolve(import.meta.dirname, '../../../docs/sdk.md')

/** A program that runs. */
interface Running {
  process: ChildProcess
  /** Resolves to the first match of what it prints. Throws with all that it printed if it ends without. */
  print(pattern: RegExp): Promise<RegExpExecArray>
  /** Resolves once it has ended. */
  end(): Promise<{ code: number | null; stdout: string; stderr: string }>
}

export interface RunOptions {
  args?: readonly string[]
  env?: Record<string, string>
  /** Options of Node, before the program. */
  nodeArgs?: readonly string[]
}

/** The programs of the guide, in a folder with the packages that they import. */
export interface GuidePrograms {
  folder: string
  /** By the names of their files. */
  programs: ReadonlyMap<string, string>
  /** Compiles all of them. Throws with what the compiler says. */
  compile(): Promise<void>
  /** Runs one with Node, with nothing of this process's environment. */
  start(name: string, options?: RunOptions): Running
  /** Ends what still runs, and removes the folder. */
  close(): Promise<void>
}

/** The blocks of TypeScript of a text, by the comments that they begin with. Throws for a block without, and for a name that is there twice. */
function readPrograms(text: string): Map<string, string> {
  const programs = new Map<string, string>()
  for (const [, program = ''] of text.matchAll(/^```ts\n(.*?)^```$/gms)) {
    const name = /^\/\/ ([\w-]+\.ts)\n/.exec(program)?.[1]
    if (name === undefined || programs.has(name)) throw new Error(`This has no name of its own:\n${program}`)
    programs.set(name, program)
  }
  return programs
}

/** Takes the programs out of the guide. */
export async function writePrograms(): Promise<GuidePrograms> {
  const programs = readPrograms(await readFile(guidePath, 'utf8'))
  const folder = await mkdtemp(join(tmpdir(), 'guide-'))
  for (const [name, program] of programs) await writeFile(join(folder, name), program)
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  const packages = {
    // Its sources run, since Node strips types by a file's real path.
    '@platform/sdk': home,
    openai: join(home, 'node_modules/openai'),
    '@aws-sdk/client-s3': join(home, 'node_modules/@aws-sdk/client-s3'),
    '@types/node': join(repository, 'node_modules/@types/node'),
  }
  for (const [name, target] of Object.entries(packages)) {
    const link = join(folder, 'node_modules', name)
    await mkdir(dirname(link), { recursive: true })
    await symlink(target, link)
  }
  const compilerOptions = {
    strict: true,
    noUncheckedIndexedAccess: true,
    noUnusedLocals: true,
    erasableSyntaxOnly: true,
    verbatimModuleSyntax: true,
    allowImportingTsExtensions: true,
    noEmit: true,
    skipLibCheck: true,
    target: 'esnext',
    module: 'nodenext',
    lib: ['esnext', 'dom', 'dom.iterable', 'dom.asynciterable'],
    types: ['node'],
  }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [...programs.keys()] }))

  const running = new Set<ChildProcess>()
  return {
    folder,
    programs,
    async compile() {
      try {
        await promisify(execFile)(join(repository, 'node_modules/.bin/tsc'), ['-p', folder])
      } catch (error) {
        throw new Error((error as { stdout: string }).stdout, { cause: error })
      }
    },
    start(name, { args = [], env = {}, nodeArgs = [] } = {}) {
      const child = spawn(process.execPath, [...nodeArgs, join(folder, name), ...args], {
        cwd: folder,
        // The SDK's types are stripped once for all.
        env: { NODE_COMPILE_CACHE: join(folder, 'cache'), ...env },
      })
      running.add(child)
      const printed = { stdout: '', stderr: '' }
      for (const stream of ['stdout', 'stderr'] as const)
        child[stream].setEncoding('utf8').on('data', (text: string) => void (printed[stream] += text))
      const ended = once(child, 'close').then(() => running.delete(child))
      return {
        process: child,
        async print(pattern) {
          for (;;) {
            const match = pattern.exec(printed.stdout)
            if (match) return match
            if (!running.has(child)) throw new Error(`${name} ended.\n${printed.stdout}\n${printed.stderr}`)
            await Promise.race([once(child.stdout, 'data'), ended])
          }
        },
        async end() {
          await ended
          return { code: child.exitCode, ...printed }
        },
      }
    },
    async close() {
      for (const child of running) child.kill('SIGKILL')
      await rm(folder, { recursive: true, force: true })
    },
  }
}
