import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Release } from '@platform/testing/earlier-schemas'
import { releasesFolder } from '@platform/testkit/test-environment'
import { runTool } from './run-tool.ts'

const repository = fileURLToPath(new URL('../../../', import.meta.url))

/** Why the programs of a release cannot be made here; undefined if they can. */
export function whyNotMade({ version, commit }: Release): string | undefined {
  try {
    execFileSync('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: repository, stdio: 'ignore' })
  } catch {
    return `git does not have the commit of release ${version} here`
  }
}

/** The commit's files with the production dependencies of the services, as its own pnpm installs them by its own lockfile. */
async function make(commit: string, folder: string): Promise<void> {
  const archive = `${folder}.tar`
  try {
    await runTool(repository, 'git', ['archive', `--output=${archive}`, commit])
    await runTool(folder, 'tar', ['xf', archive])
  } finally {
    await rm(archive, { force: true })
  }
  const { packageManager } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as {
    packageManager: string
  }
  const pnpm = packageManager.split('+')[0] ?? packageManager
  const services = ['--filter-prod', '@platform/api...', '--filter-prod', '@platform/idp...']
  const options = ['--frozen-lockfile', '--prefer-offline', '--pm-on-fail=ignore', '--prod']
  // What pnpm leaves in the temporary folder goes with this one.
  const temporary = join(folder, 'node_modules/.tmp')
  await mkdir(temporary, { recursive: true })
  await runTool(folder, 'npx', ['--yes', pnpm, 'install', ...options, ...services], { TMPDIR: temporary })
}

/**
 * Makes the programs of a release, or takes them from the folder of TEST_RELEASES, where they are kept. Returns the root of its
 * repository, and what removes it unless it is kept.
 */
export async function makeRelease({ commit }: Release): Promise<{ folder: string; remove(): Promise<void> }> {
  if (releasesFolder === undefined) {
    const folder = await mkdtemp(join(tmpdir(), 'platform-release-'))
    const remove = () => rm(folder, { recursive: true, force: true })
    await make(commit, folder).catch(async (error: unknown) => {
      await remove()
      throw error
    })
    return { folder, remove }
  }
  const folder = join(releasesFolder, commit)
  if (!existsSync(folder)) {
    await mkdir(dirname(folder), { recursive: true })
    const unfinished = await mkdtemp(`${folder}.`)
    try {
      await make(commit, unfinished)
      // What has this name is complete; another run may have been faster.
      await rename(unfinished, folder).catch((error: unknown) => {
        if (!existsSync(folder)) throw error
      })
    } finally {
      await rm(unfinished, { recursive: true, force: true })
    }
  }
  return { folder, remove: async () => {} }
}
