import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chown, mkdir, mkdtemp, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { chooseAccount } from './account.ts'
import type { Account } from './account.ts'
import { type Binaries, findBinaries, removeCopy, removeLeftCopy } from './binaries.ts'
import { endServer, stopLeftoverServer } from './leftover-server.ts'
import { PostgresRefused } from './postgres-refused.ts'
import { fillStatusFiles, reserveFiles, WAL_FILES } from './reserved-files.ts'

export type PostgresOptions = {
  /** Absolute. Holds `cluster/` and the superuser's password; created if missing. */
  dataFolder: string
  /** 1–65535; any free port if omitted. */
  port?: number | undefined
  /** false trades durability for speed: for disposable data. */
  isDurable?: boolean
  /** Server settings that override ours, such as `{ max_connections: '200' }`. */
  settings?: Record<string, string>
  /** Receives the server's log and ours, line by line. */
  log?: (line: string) => void
}

export type Postgres = {
  port: number
  pid: number
  /** The connection string of a database, as the superuser or as a role with its password. */
  url(database: string, role?: { name: string; password: string }): string
  /** Resolves when the server ends, whether or not it was stopped. */
  ended: Promise<void>
  /**
   * Lays out the files that Postgres cannot go on without, some 130 MB the first time: of the write-ahead log, which are used again and
   * again, and of what became of transactions, now and every ten minutes. Statements that need space for rows are merely refused
   * (53100). Safe to repeat. Rejects if there is no space now.
   */
  reserve(): Promise<void>
  /**
   * Ends open transactions, writes a checkpoint, ends; if that takes longer than patienceMs (10 s), without the checkpoint: nothing
   * is lost, but the next start takes longer. Safe to repeat.
   */
  stop(patienceMs?: number): Promise<void>
}

const startTimeoutMs = 60_000
const majorVersion = '18'
const RESERVE_EVERY_MS = 600_000

// For one machine and one platform: little memory, no unused helper processes.
const settingsDefault = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '60',
  shared_buffers: '32MB',
  wal_buffers: '1MB',
  work_mem: '4MB',
  maintenance_work_mem: '32MB',
  // Equal, so that the files that `reserve` lays out stay; and a checkpoint is over before the last of them is written.
  max_wal_size: `${WAL_FILES * 16}MB`,
  min_wal_size: `${WAL_FILES * 16}MB`,
  checkpoint_completion_target: '0.65',
  checkpoint_warning: '0',
  // With any, each checkpoint writes a file, and a full disk would end the server.
  max_active_replication_origins: '0',
  huge_pages: 'off',
  jit: 'off',
  io_method: 'sync',
  max_parallel_workers: '0',
  max_parallel_workers_per_gather: '0',
  max_logical_replication_workers: '0',
  max_wal_senders: '0',
  wal_level: 'minimal',
  timezone: 'UTC',
  log_timezone: 'UTC',
  lc_messages: 'C',
  log_checkpoints: 'off',
}
const settingsForgetful = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
}

/**
 * Starts our own Postgres 18 on 127.0.0.1, in a data folder that it creates if missing, and waits until it answers. A server
 * left in the folder by a killed owner is shut down first; its committed data stays. If this process is killed, the server
 * notices and shuts down by itself.
 *
 * The caller ensures that nobody else uses the folder. Root may start it even in a folder that others cannot enter. Throws
 * PostgresRefused, with a sentence for a person, if it cannot run here or the port is taken.
 */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const { dataFolder, isDurable = true, log = () => {} } = options
  const clusterFolder = join(dataFolder, 'cluster')
  await mkdir(dataFolder, { recursive: true, mode: 0o700 })
  const account = await chooseAccount(clusterFolder)
  await stopLeftoverServer(clusterFolder, log)
  if (options.port !== undefined) await refuseTakenPort(options.port)
  await removeLeftCopy(dataFolder)
  const binaries = await findBinaries(account, dataFolder)
  try {
    const password = await readPassword(dataFolder, account)
    await createCluster({ clusterFolder, dataFolder, binaries, account, isDurable, log })
    if (isDurable) await fillStatusFiles(clusterFolder)
    const settings = { ...settingsDefault, ...(isDurable ? {} : settingsForgetful), ...options.settings }
    const { server, port } = await startServer({ clusterFolder, binaries, account, settings, port: options.port, log })
    return supervise({ server, port, password, dataFolder, account, binaries })
  } catch (error) {
    await removeCopy(dataFolder, binaries)
    throw error
  }
}

function supervise({
  server,
  port,
  password,
  dataFolder,
  account,
  binaries,
}: {
  server: ChildProcess
  port: number
  password: string
  dataFolder: string
  account: Account
  binaries: Binaries
}): Postgres {
  const pid = server.pid!
  const ended = (async () => {
    // Not for its log: after a kill its backends hold that open until they notice.
    await waitForExit(server)
    await removeCopy(dataFolder, binaries)
  })()
  const url: Postgres['url'] = (database, role = { name: 'postgres', password }) =>
    `postgres://${encodeURIComponent(role.name)}:${encodeURIComponent(role.password)}@127.0.0.1:${port}/${encodeURIComponent(database)}`
  const reserve = () => reserveFiles(url('postgres'), join(dataFolder, 'cluster'), account)
  let reserving: NodeJS.Timeout | undefined
  return {
    port,
    pid,
    url,
    ended,
    reserve() {
      if (!reserving) {
        // Where the disk is full already, what was laid out before lasts for a while.
        reserving = setInterval(() => void reserve().catch(() => {}), RESERVE_EVERY_MS).unref()
        void ended.then(() => clearInterval(reserving))
      }
      return reserve()
    },
    async stop(patienceMs) {
      await endServer(pid, () => hasEnded(server), patienceMs)
      await ended
    },
  }
}

/**
 * Starts a shell that waits for our end of a pipe to close, which the kernel does however we die, and then shuts the server
 * down. It costs a few hundred kilobytes and leaves no server behind after `kill -9`.
 */
function guardAgainstOrphan(server: ChildProcess): void {
  if (server.pid === undefined) return
  const guard = spawn('/bin/sh', ['-c', `read -r _; kill -INT ${server.pid}`], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  guard.on('error', () => {}) // no shell, no guard: the next start finds the orphan
  server.once('exit', () => guard.kill())
}

async function createCluster({
  clusterFolder,
  dataFolder,
  binaries,
  account,
  isDurable,
  log,
}: {
  clusterFolder: string
  dataFolder: string
  binaries: Binaries
  account: Account
  isDurable: boolean
  log: (line: string) => void
}): Promise<void> {
  const version = await readFile(join(clusterFolder, 'PG_VERSION'), 'utf8').catch(() => undefined)
  if (version?.trim() === majorVersion) return
  if (version) {
    throw new PostgresRefused(
      `${clusterFolder} was written by Postgres ${version.trim()} and this is ${majorVersion}: move the folder away, or bring the data over with pg_dump`,
    )
  }
  if (await stat(clusterFolder).catch(() => undefined)) {
    await requireReadable(clusterFolder)
    throw new PostgresRefused(`${clusterFolder} is not a Postgres data folder: move it away`)
  }

  // Made aside and renamed, so that a start killed half-way leaves nothing that looks complete. Its initdb may run a little
  // longer and still be writing, hence a unique name, and retries.
  for (const name of await readdir(dataFolder)) {
    if (!name.startsWith('cluster.new-')) continue
    await rm(join(dataFolder, name), { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
  }
  const fresh = await mkdtemp(join(dataFolder, 'cluster.new-'))
  if (account) await chown(fresh, account.uid >>> 0, account.gid >>> 0)
  const passwordFile = await open(join(dataFolder, 'password'))
  try {
    const initdb = spawnThere(binaries.initdb, fresh, account, {
      arguments: [
        '--username=postgres',
        '--auth=scram-sha-256',
        '--pwfile=/dev/fd/3',
        '--encoding=UTF8',
        '--locale=C',
        '--locale-provider=builtin',
        '--builtin-locale=C.UTF-8',
        ...(isDurable ? [] : ['--no-sync']),
      ],
      passwordFd: passwordFile.fd,
    })
    const lines = readLines(initdb, () => {})
    await waitForEnd(initdb)
    if (initdb.exitCode !== 0) {
      for (const line of lines) log(line)
      throw new PostgresRefused(`Postgres could not create its data folder ${clusterFolder}: ${essence(lines)}`)
    }
  } finally {
    await passwordFile.close()
  }
  await rename(fresh, clusterFolder)
}

async function startServer({
  clusterFolder,
  binaries,
  account,
  settings,
  port: portWanted,
  log,
}: {
  clusterFolder: string
  binaries: Binaries
  account: Account
  settings: Record<string, string>
  port: number | undefined
  log: (line: string) => void
}): Promise<{ server: ChildProcess; port: number }> {
  const deadline = Date.now() + startTimeoutMs
  for (;;) {
    const port = portWanted ?? (await findFreePort())
    const server = spawnThere(binaries.postgres, clusterFolder, account, {
      arguments: [
        '-p',
        String(port),
        ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
      ],
    })
    guardAgainstOrphan(server)
    const isReady = Promise.withResolvers<void>()
    const lines = readLines(server, (line) => {
      log(line)
      if (line.includes('database system is ready to accept connections')) isReady.resolve()
    })
    const timeout = setTimeout(() => server.kill('SIGQUIT'), Math.max(1, deadline - Date.now()))
    await Promise.race([isReady.promise, waitForEnd(server)])
    clearTimeout(timeout)
    if (!hasEnded(server)) {
      lines.length = 0
      return { server, port }
    }

    const text = lines.join('\n')
    // Another program took the free port first, or backends of a killed server are still shutting down.
    const isPassing =
      /shared memory block/.test(text) || (portWanted === undefined && /could not (bind|create any TCP)/.test(text))
    if (!isPassing || Date.now() > deadline)
      throw new PostgresRefused(`Postgres did not start in ${clusterFolder}: ${essence(lines)}`)
    await sleep(200)
  }
}

/**
 * Spawns a Postgres program on a data folder. On Linux we enter the folder as ourselves and name it /proc/self/cwd, so that
 * root's chosen account can work in it without access to the folders above.
 */
function spawnThere(
  program: string,
  folder: string,
  account: Account,
  how: { arguments: string[]; passwordFd?: number },
): ChildProcess {
  const dataFolder = process.platform === 'linux' && account ? '/proc/self/cwd' : folder
  return spawn(program, ['-D', dataFolder, ...how.arguments], {
    cwd: folder,
    // A separate process group: Ctrl-C should reach only us, and Postgres is stopped last.
    detached: true,
    env: { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' },
    stdio: ['ignore', 'pipe', 'pipe', how.passwordFd ?? 'ignore'],
    ...account,
  })
}

/** Reads the superuser's password from the data folder; creates it the first time, readable only by the owner. */
async function readPassword(dataFolder: string, account: Account): Promise<string> {
  const file = join(dataFolder, 'password')
  const known = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw new PostgresRefused(`${file} cannot be read (${error.code}): does the folder belong to another account?`)
  })
  if (known?.trim()) return known.trim()
  const password = randomBytes(24).toString('hex')
  await writeFile(`${file}.new`, `${password}\n`, { mode: 0o600 })
  // initdb reopens it through its descriptor, as the account.
  if (account) await chown(`${file}.new`, account.uid >>> 0, account.gid >>> 0)
  await rename(`${file}.new`, file)
  return password
}

async function requireReadable(folder: string): Promise<void> {
  const handle = await open(folder).catch((error: NodeJS.ErrnoException) => {
    throw new PostgresRefused(`${folder} cannot be read (${error.code}): it belongs to another account`)
  })
  await handle.close()
}

async function refuseTakenPort(port: number): Promise<void> {
  const probe = createServer()
  probe.listen(port, '127.0.0.1')
  try {
    await once(probe, 'listening')
  } catch (cause) {
    throw new PostgresRefused(
      `Port ${port} for Postgres is taken on 127.0.0.1: choose another, or leave it out to get a free one`,
      { cause },
    )
  }
  probe.close()
  await once(probe, 'close')
}

async function findFreePort(): Promise<number> {
  const probe = createServer()
  probe.listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

function readLines(child: ChildProcess, onLine: (line: string) => void): string[] {
  const lines: string[] = []
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream! }).on('line', (line) => {
      if (lines.length < 200) lines.push(line)
      onLine(line)
    })
  }
  return lines
}

/** The relevant line of a failed start: the last fatal one, without its prefix. */
function essence(lines: string[]): string {
  const telling = lines.findLast((line) => /\b(FATAL|PANIC|error):/i.test(line)) ?? lines.at(-1) ?? 'it said nothing'
  return telling.replace(/^.*?\b(FATAL|PANIC|error):\s*/i, '')
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null || child.pid === undefined
}

/** Resolves once the child has ended; also if it could not be spawned. */
function waitForExit(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
}

/** Resolves once the child has ended and its output is read; also if it could not be spawned. */
function waitForEnd(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('close', () => resolve())
    child.once('error', () => resolve())
  })
}
