import { execFile } from 'node:child_process'
import { copyFile, cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** Packages whose build leaves files to download, and a list of them. */
const CLIENTS = ['sdk', 'cli']

/**
 * Builds the clients that people download and the web console, unless turbo has kept them, and puts them into a folder for the API,
 * which reads it when it is asked for one: the clients side by side, the console in `console`. Takes some 200 ms where nothing has
 * changed.
 *
 * env: finds Node and turbo's cache. Returns a sentence that says where to read why if there are none, and an empty folder.
 */
export async function provideClientFiles(
  repository: string,
  { folder, logFile }: { folder: string; logFile: string },
  env: Record<string, string | undefined>,
): Promise<string | undefined> {
  const programs = join(repository, 'node_modules')
  try {
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder)
    await promisify(execFile)(
      process.execPath,
      [join(programs, 'turbo/bin/turbo'), 'run', 'build', '--output-logs=errors-only'],
      {
        cwd: repository,
        env: {
          PATH: `${join(programs, '.bin')}:${env['PATH'] ?? ''}`,
          HOME: env['HOME'],
          TURBO_CACHE_DIR: env['TURBO_CACHE_DIR'],
          TURBO_TELEMETRY_DISABLED: '1',
          DO_NOT_TRACK: '1',
          NO_COLOR: '1',
        },
      },
    )
    const lists: string[] = []
    for (const client of CLIENTS) {
      const dist = join(repository, 'packages', client, 'dist')
      const checksums = await readFile(join(dist, 'checksums.txt'), 'utf8')
      lists.push(checksums)
      // What turbo restores lies beside what another branch left.
      for (const [, name = ''] of checksums.matchAll(/^[0-9a-f]{64} {2}(\S+)$/gm))
        await copyFile(join(dist, name), join(folder, name))
    }
    await writeFile(join(folder, 'checksums.txt'), lists.join(''))
    const console = join(folder, 'console')
    await cp(join(repository, 'packages/console/dist'), console, { recursive: true, preserveTimestamps: true })
  } catch (error) {
    // The message of a program that failed has what it wrote to stderr.
    const { message, stdout = '' } = error as Error & { stdout?: string }
    await writeFile(logFile, `${stdout}${message}\n`)
    return `The clients and the console could not be built, so /docs/clients and the console have no files; ${logFile} says why.`
  }
}

/** The package of the command line among the files of a folder; undefined where it could not be built. */
export const findCommandLine = async (folder: string): Promise<string | undefined> =>
  (await readdir(folder).catch(() => [])).find((name) => /^cli-.*\.tgz$/.test(name))
