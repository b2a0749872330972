import { spawnSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const pollMs = 25

/**
 * Makes a cluster startable again after its last owner was killed. Shuts down cleanly a server that outlived its owner, and
 * neutralises a lock file whose process id now belongs to another program.
 *
 * The caller must hold the data folder: a server under somebody else's supervision would be stopped just the same. Safe to
 * repeat.
 */
export async function stopLeftoverServer(clusterFolder: string, log: (line: string) => void): Promise<void> {
  const lockFile = join(clusterFolder, 'postmaster.pid')
  const content = await readFile(lockFile, 'utf8').catch(() => undefined)
  if (content === undefined) return
  const pid = Number.parseInt(content, 10)
  if (!(pid > 1) || !isAlive(pid)) return

  if (isServerOf(clusterFolder, pid)) {
    log(`Stopping the Postgres that an earlier start left behind (process ${pid})`)
    // Without a process that reaps orphans (most containers), an ended server stays a zombie: its pid exists, but it is no
    // server.
    await endServer(pid, () => !isServerOf(clusterFolder, pid))
    return
  }
  // Postgres refuses to start while any process of its account has that number. But it considers a lock that names its own
  // parent stale, and then still looks for orphaned backends by the shared memory key further down in the file, which removing
  // the file would lose.
  log(`The process id in postmaster.pid (${pid}) belongs to another program now`)
  await writeFile(lockFile, content.replace(/^\d+/, String(process.pid)))
}

/** Ends a server: a fast shutdown, after patienceMs an immediate one (it recovers at the next start), after 5 s more SIGKILL. */
export async function endServer(pid: number, hasEnded: () => boolean, patienceMs = 10_000): Promise<void> {
  const steps = [
    ['SIGINT', patienceMs],
    ['SIGQUIT', 5_000],
    ['SIGKILL', 5_000],
  ] as const
  for (const [signal, patienceMs] of steps) {
    if (hasEnded()) return
    try {
      process.kill(pid, signal)
    } catch {
      return // ended between the question and the signal
    }
    for (let waitedMs = 0; waitedMs < patienceMs && !hasEnded(); waitedMs += pollMs) await sleep(pollMs)
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** True if the process is the cluster's postmaster: its working folder is the cluster. Without /proc, checks its arguments. */
function isServerOf(clusterFolder: string, pid: number): boolean {
  if (process.platform !== 'linux') {
    const { stdout } = spawnSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' })
    return /\bpostgres\b/.test(stdout) && stdout.includes(clusterFolder)
  }
  try {
    const folder = statSync(`/proc/${pid}/cwd`)
    const cluster = statSync(clusterFolder)
    const name = readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
    return name === 'postgres' && folder.dev === cluster.dev && folder.ino === cluster.ino
  } catch {
    return false // gone meanwhile, or a process of another account, which our server never is
  }
}
