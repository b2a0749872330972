import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { inheritedEnvironment } from '@platform/testkit/test-environment'

export const repository = resolve(import.meta.dirname, '../..')
export const anyPorts = { API_PORT: '0', IDP_PORT: '0', EDGE_PORT: '0', CONSOLE_PORT: '0', S3_PORT: '0' }

/** What the launcher prints for programs. */
export interface Started {
  consoleUrl: string
  baseUrl: string
  idpUrl: string
  edgeUrl: string
  s3Url: string
  helloUrl: string
  demo: { email: string; password: string }
}

/**
 * Starts a launcher as a process, on any free ports, with an environment of its own.
 *
 * wrapper: a program with its arguments that becomes the launcher in the end, such as nsenter.
 */
export function spawnLauncher(
  dataFolder: string,
  env: Record<string, string>,
  options: readonly string[],
  wrapper: readonly string[] = [],
): ChildProcessByStdio<null, Readable, Readable> {
  const [program, ...words] = [...wrapper, process.execPath, join(import.meta.dirname, 'main.ts'), ...options]
  return spawn(program!, words, {
    env: {
      ...inheritedEnvironment,
      PATH: '/usr/bin:/bin:/usr/sbin:/sbin',
      HOME: dataFolder,
      DATA_DIR: dataFolder,
      ...anyPorts,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Waits until a launcher with the option --json has started everything. Rejects with its stderr if it ends instead. */
export async function untilStarted(launcher: ChildProcessByStdio<null, Readable, Readable>): Promise<Started> {
  let err = ''
  launcher.stderr.on('data', (chunk) => (err += chunk))
  const lines = createInterface({ input: launcher.stdout })
  const [line] = await Promise.race([
    once(lines, 'line') as Promise<[string]>,
    once(launcher, 'exit').then(() => Promise.reject(new Error(`The launcher ended: ${err}`))),
  ])
  return JSON.parse(line) as Started
}

/** Stops a launcher in order and returns its exit code. */
export async function stopLauncher(launcher: ChildProcess): Promise<number> {
  launcher.kill('SIGTERM')
  const [code] = (await once(launcher, 'exit')) as [number]
  return code
}
