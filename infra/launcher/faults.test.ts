import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { unless } from '@platform/test-runner/task-meta'
import { isDrill } from '@platform/testkit/test-environment'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Outcome, openWrites } from './acknowledged-writes.ts'
import { spawnLauncher, type Started, stopLauncher, untilStarted } from './launch-for-tests.ts'

const PATIENCE_MS = 240_000
/** How long a launcher may take to end once a part of it was killed, in drills. */
const END_MS_MAX = 5_000
const isLinux = process.platform === 'linux'
const hasMounts = isLinux && process.getuid?.() === 0

// One platform for all tests of this file, since a first start is dear.
let dataFolder: string
/** Its path is short, since sockets of Functions are made below it. */
let temporary: string
/** Holds the mount of the small disk. */
let holder: ChildProcess | undefined
let launcher: ReturnType<typeof spawnLauncher>
let platform: Started
let writes: Awaited<ReturnType<typeof openWrites>>

beforeAll(async () => {
  dataFolder = mkdtempSync(join(tmpdir(), 'platform-faults-'))
  temporary = mkdtempSync(join(tmpdir(), 'p'))
  if (hasMounts) holder = await mountDisk()
  await start()
  writes = await openWrites(platform)
}, PATIENCE_MS)
afterAll(async () => {
  writes.close()
  for (const child of [launcher, holder]) {
    if (!child || child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
  for (const folder of [dataFolder, temporary]) rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
})

async function start(env: Record<string, string> = {}): Promise<void> {
  const wrapper = holder ? ['nsenter', ...inMount(holder)] : []
  launcher = spawnLauncher(dataFolder, { TMPDIR: temporary, ...env }, ['--json'], wrapper)
  platform = await untilStarted(launcher)
}

const inMount = (process: ChildProcess): string[] => [`--mount=/proc/${process.pid}/ns/mnt`]

/** A disk of 220 MB in the data folder, for the launcher alone: it goes with the process that holds it, which is returned. */
async function mountDisk(): Promise<ChildProcess> {
  const script = 'mount -t tmpfs -o size=220m,mode=700 tmpfs "$1" && echo mounted && exec sleep infinity'
  const child = spawn('unshare', ['--mount', 'sh', '-c', script, 'sh', dataFolder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return child
}

/** Where this process finds a file of the data folder. */
const stored = (path: string): string =>
  holder ? join('/proc', String(holder.pid), 'root', dataFolder, path) : join(dataFolder, path)
const linesOf = (path: string): string[] => readFileSync(stored(path), 'utf8').split('\n')
const postgresPid = (): number => Number(linesOf('postgres/cluster/postmaster.pid')[0])
const servicePid = (script: string): number =>
  Number(
    linesOf('services.pid')
      .find((line) => line.includes(script))
      ?.split(' ')[0],
  )

/** All processes below one, each with its start time, since numbers are used again. */
function processesOf(root: number): string[] {
  const parents = new Map<number, { parent: number; id: string }>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      // Behind the name, which may hold spaces: state, parent, … and as the 20th the start time.
      const fields = readFileSync(`/proc/${name}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')
      if (fields[0] !== 'Z') parents.set(Number(name), { parent: Number(fields[1]), id: `${name} ${fields[19]}` })
    } catch {
      // ended meanwhile
    }
  }
  const isBelow = (pid: number): boolean => pid === root || (parents.has(pid) && isBelow(parents.get(pid)!.parent))
  return [...parents].filter(([pid]) => isBelow(pid)).map(([, { id }]) => id)
}

/** id: of processesOf. */
const isRunning = (id: string): boolean => processesOf(Number(id.split(' ')[0])).includes(id)

test(
  'a disk that is full to the last byte costs the failed writes alone: no process ends, what was acknowledged is there, and once there is space everything goes on',
  { ...unless(hasMounts ? undefined : 'only root on Linux can mount a small disk'), timeout: PATIENCE_MS },
  async () => {
    const admin = postgres({
      host: '127.0.0.1',
      port: Number(linesOf('postgres/cluster/postmaster.pid')[3]),
      username: 'postgres',
      password: linesOf('postgres/password')[0]!,
      max: 1,
    })
    onTestFinished(() => admin.end())
    await admin`select 1`
    expect(refusedOf(await writes.writeEach())).toEqual([])
    const parts = [launcher.pid!, postgresPid(), servicePid('services/api'), servicePid('services/idp')]
    const before = parts.flatMap((pid) => processesOf(pid).slice(0, 1))

    const filling = openSync(stored('fill'), 'w', 0o600)
    fill(filling)
    // More transactions than one page tells of what became of them. Each refused write is one, too.
    await admin.unsafe(`do $$ begin
      for n in 1..${isDrill ? 80_000 : 5_000} loop perform pg_current_xact_id(); commit; end loop;
    end $$`)
    const outcomes: Outcome[] = []
    for (let round = 0; round < 12; round++) {
      fill(filling)
      outcomes.push(...(await writes.writeEach()))
      // By and by, more of the write-ahead log than the disk could take.
      for (let n = 0; n < 2; n++) {
        await admin`select pg_logical_emit_message(false, 'test', '')`
        await admin`select pg_switch_wal()`
      }
      await admin`checkpoint`
    }
    const refused = refusedOf(outcomes)
    expect(new Set(refused.map(({ kind }) => kind))).toContain('a large object')
    expect(refused.filter(({ status }) => status !== 502 && status !== 503)).toEqual([])
    // Reading goes on.
    await writes.verify()

    closeSync(filling)
    rmSync(stored('fill'))
    for (const kind of writes.kinds)
      await expect.poll(async () => (await writes.write(kind)).isAcknowledged, { timeout: 60_000 }).toBe(true)
    await writes.verify()
    expect(before.filter((id) => !isRunning(id))).toEqual([])
    await expect(admin`select 1 / 0`).rejects.toThrow('division by zero')
    await expect
      .poll(() => linesOf('logs/postgres.log').join('\n'))
      .toMatch(/^\d+ bytes of this log could not be written\.\n.*division by zero$/m)
  },
)

const refusedOf = (outcomes: readonly Outcome[]) => outcomes.filter((outcome) => !outcome.isAcknowledged)

/** Fills the disk of an open file to its last byte. */
function fill(descriptor: number): void {
  for (let size = 2 ** 20; size >= 1; size /= 2)
    try {
      for (;;) writeSync(descriptor, Buffer.alloc(size))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    }
}

test(
  'a part that is killed under load ends the platform and is named, leaves no process, and the next start has all that was acknowledged; after an orderly stop nothing is left in the temporary folder',
  {
    ...unless(isLinux ? undefined : 'processes are counted in /proc'),
    timeout: PATIENCE_MS * (isDrill ? 5 : 1),
  },
  async () => {
    // Near its end everything would be blamed on the disk.
    if (holder) {
      const remount = ['mount', '-o', 'remount,size=1g', dataFolder]
      expect(spawnSync('nsenter', [...inMount(holder), ...remount], { encoding: 'utf8' })).toMatchObject({ stderr: '' })
    }
    const kills: [pid: () => number, sentence: string][] = [
      [() => servicePid('services/api'), 'The API ended (SIGKILL)'],
      [() => servicePid('services/idp'), 'The identity provider ended (SIGKILL)'],
      [postgresPid, 'Postgres ended.'],
    ]
    const { baseUrl, idpUrl, edgeUrl, consoleUrl, s3Url } = platform
    const urls = { API_PORT: baseUrl, IDP_PORT: idpUrl, EDGE_PORT: edgeUrl, CONSOLE_PORT: consoleUrl, S3_PORT: s3Url }
    const ports = Object.fromEntries(Object.entries(urls).map(([name, url]) => [name, new URL(url).port]))
    for (const [pid, sentence] of Array.from({ length: isDrill ? 5 : 1 }, () => kills).flat()) {
      const load = putLoad()
      await load.isFlowing
      const processes = processesOf(launcher.pid!)
      let err = ''
      launcher.stderr.on('data', (chunk) => (err += chunk))
      const exit = once(launcher, 'exit')
      const killedAt = performance.now()
      process.kill(pid(), 'SIGKILL')
      const codes = await exit
      const endedAfterMs = performance.now() - killedAt
      await load.stop()
      expect(codes).toEqual([1, null])
      expect(err).toContain(sentence)
      if (isDrill && endedAfterMs > END_MS_MAX) throw new Error(`It took ${endedAfterMs} ms to end: ${sentence}`)
      await expect.poll(() => processes.filter(isRunning)).toEqual([])
      await start(ports)
      await writes.verify()
    }
    expect(await stopLauncher(launcher)).toBe(0)
    expect(readdirSync(temporary)).toEqual([])
  },
)

/** Writes of all kinds, each one after the other, until it is stopped. */
function putLoad() {
  const end = new AbortController()
  const flowing = writes.kinds.map(() => Promise.withResolvers<void>())
  const writing = writes.kinds.map(async (kind, way) => {
    for (let n = 1; !end.signal.aborted; n++) {
      const { isAcknowledged } = await writes.write(kind)
      if (!isAcknowledged) await sleep(50)
      if (n === 5) flowing[way]?.resolve()
    }
  })
  return {
    isFlowing: Promise.all(flowing.map(({ promise }) => promise)),
    async stop(): Promise<void> {
      end.abort()
      await Promise.all(writing)
    },
  }
}
