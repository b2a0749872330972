import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { mkdtemp, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import process, { env } from 'node:process'
import { promisify } from 'node:util'

const home = resolve(import.meta.dirname, '..')

/** Programs of the workspace come first. */
export const PATH = [join(home, '../../node_modules/.bin'), env['PATH']].join(delimiter)

/** The command line as it is served. */
export interface Built {
  /** What CLIENTS_FOLDER names. */
  folder: string
  /** Name of the package. */
  name: string
  /** Path of the one file. */
  program: string
}

let built: Promise<Built> | undefined

/** The command line as it is served, built once for all files of a worker. It is there until the worker ends. */
export const builtCommandLine = (): Promise<Built> => (built ??= buildCommandLine())

/** Builds the command line into a folder of its own: others may be served from dist/ meanwhile. */
export async function buildCommandLine(): Promise<Built> {
  const folder = await mkdtemp(join(tmpdir(), 'cli-built-'))
  process.once('exit', () => rmSync(folder, { recursive: true }))
  await promisify(execFile)(process.execPath, ['build.ts', folder], { cwd: home, env: { PATH, HOME: folder } })
  const name = (await readdir(folder)).find((each) => /^cli-.*\.tgz$/.test(each)) ?? ''
  return { folder, name, program: join(folder, 'platform.mjs') }
}
