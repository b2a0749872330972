import { cp, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { runTool } from './run-tool.ts'
import type { Starter } from './starters.ts'

const FIXTURES = join(import.meta.dirname, 'starters')

/** Writes the lockfile that the project's maker would commit. */
async function lock(project: string, { lockedBy, lockedOn }: Starter): Promise<void> {
  switch (lockedBy) {
    case undefined:
      return
    case 'npm': {
      const before = lockedOn === undefined ? [] : [`--before=${lockedOn}`]
      // Without scripts: the project's own ones need packages that are not there.
      const args = ['install', '--package-lock-only', '--omit-lockfile-registry-resolved', '--ignore-scripts']
      return runTool(project, 'npm', [...args, '--no-audit', '--no-fund', ...before])
    }
    case 'pnpm@10.34.9':
      return runTool(project, 'npx', ['--yes', lockedBy, 'install', '--lockfile-only'])
  }
}

/**
 * Makes a project as its generator and its maker leave it: sources and lockfile, no packages. Needs npm and its registry, but for a
 * fixture that has its lockfile.
 *
 * folder: absolute; emptied. Outside of any project, whose package manager tools would look up.
 * Returns the project's folder.
 */
export async function makeStarter(row: Starter, folder: string): Promise<string> {
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  const project = join(folder, 'app')
  const { source } = row
  if ('fixture' in source) await cp(join(FIXTURES, source.fixture), project, { recursive: true })
  else await runTool(folder, 'npx', ['--yes', source.generator, ...source.args.split(' ')])
  if (row.lockfile) await cp(join(FIXTURES, 'locks', row.lockfile[0]), join(project, row.lockfile[1]))
  await lock(project, row)
  return project
}
