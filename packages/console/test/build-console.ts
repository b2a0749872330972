import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process, { env } from 'node:process'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  interface ProvidedContext {
    consoleFolder: string
  }
}

/** A vitest globalSetup: builds the console as users get it, once for the run. */
export default async function buildConsole(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'console-'))
  const home = join(import.meta.dirname, '..')
  // With vitest's own `NODE_ENV` libraries would bring what helps their users to develop.
  const { NODE_ENV: _, ...own } = env
  await promisify(execFile)(process.execPath, [join(home, 'build.ts'), join(folder, 'dist')], { cwd: home, env: own })
  project.provide('consoleFolder', join(folder, 'dist'))
  return () => rm(folder, { recursive: true, force: true })
}
