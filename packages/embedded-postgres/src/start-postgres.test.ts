import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import postgres from 'postgres'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startPostgres } from './start-postgres.ts'
import type { Postgres } from './start-postgres.ts'

let dataFolder: string
const running: Postgres[] = []

// mkdtemp creates folders that only their owner can enter, so runs as root below already test the hard case.
beforeEach(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'platform-postgres-test-'))
})

afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.stop()))
  await rm(dataFolder, { recursive: true, force: true })
})

async function start(): Promise<Postgres> {
  const server = await startPostgres({ dataFolder })
  running.push(server)
  return server
}

async function query(server: Pick<Postgres, 'url'>, statement: string): Promise<postgres.Row[]> {
  const sql = postgres(server.url('postgres'), { max: 1, onnotice: () => {} })
  try {
    return await sql.unsafe(statement)
  } finally {
    await sql.end()
  }
}

async function writeRow(server: Postgres): Promise<void> {
  await query(server, 'create table kept (n int); insert into kept values (42)')
}

test('a new data folder becomes a durable UTF-8 server that asks for its password', async () => {
  const server = await start()
  const [row] = await query(
    server,
    `select current_setting('fsync') as fsync, pg_encoding_to_char(encoding) as encoding, inet_server_addr()::text as address
     from pg_database where datname = 'postgres'`,
  )
  expect(row).toEqual({ fsync: 'on', encoding: 'UTF8', address: '127.0.0.1/32' })

  const stranger = postgres(server.url('postgres', { name: 'postgres', password: 'guess' }), { max: 1 })
  await expect(stranger`select 1`).rejects.toThrow('password authentication failed')
  await stranger.end()
  expect((await stat(join(dataFolder, 'password'))).mode & 0o777).toBe(0o600)
})

test('data outlives a stop, and a second start uses it', async () => {
  const first = await start()
  await writeRow(first)
  await first.stop()
  await first.stop()
  expect(await query(await start(), 'select n from kept')).toEqual([{ n: 42 }])
})

test('committed data outlives kill -9 of the server', async () => {
  const first = await start()
  await writeRow(first)
  process.kill(first.pid, 'SIGKILL')
  await first.ended
  expect(await query(await start(), 'select n from kept')).toEqual([{ n: 42 }])
})

test('a lock file whose process id went to another program does not block the start', async () => {
  const first = await start()
  await writeRow(first)
  process.kill(first.pid, 'SIGKILL')
  await first.ended
  // A live process of the very account that Postgres runs as: the case that Postgres itself refuses.
  const owner = await stat(join(dataFolder, 'cluster'))
  const stranger = spawn('sleep', ['60'], {
    cwd: '/',
    ...(process.getuid?.() === 0 ? { uid: owner.uid, gid: owner.gid } : {}),
  })
  const lockFile = join(dataFolder, 'cluster', 'postmaster.pid')
  await writeFile(lockFile, (await readFile(lockFile, 'utf8')).replace(/^\d+/, String(stranger.pid)))
  try {
    expect(await query(await start(), 'select n from kept')).toEqual([{ n: 42 }])
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull()
  } finally {
    stranger.kill('SIGKILL')
  }
})

const ownerScript = `
  import { startPostgres } from ${JSON.stringify(new URL('start-postgres.ts', import.meta.url).href)}
  const server = await startPostgres({ dataFolder: process.argv[1] })
  console.log(JSON.stringify({ pid: server.pid, url: server.url('postgres') }))
`

test('a server whose owner is killed shuts down by itself', async () => {
  const { owner, server } = await startOwner()
  owner.kill('SIGKILL')
  await expect.poll(() => isAlive(server.pid)).toBe(false)
})

test('a server that outlived its owner is shut down by the next start, with nothing lost', async () => {
  const { owner, server } = await startOwner()
  await query({ url: () => server.url }, 'create table kept (n int); insert into kept values (42)')
  // While stopped, the guard cannot act before the next start finds the server.
  const guard = await findGuard(server.pid)
  process.kill(guard, 'SIGSTOP')
  owner.kill('SIGKILL')
  await once(owner, 'exit')
  try {
    expect(isAlive(server.pid)).toBe(true)
    expect(await query(await start(), 'select n from kept')).toEqual([{ n: 42 }])
    expect(isAlive(server.pid)).toBe(false)
  } finally {
    process.kill(guard, 'SIGKILL')
  }
})

test('a start killed while it makes the data folder leaves nothing in the way', async () => {
  const owner = spawn(process.execPath, ['--input-type=module', '-e', ownerScript, dataFolder], { stdio: 'ignore' })
  await expect.poll(() => readdir(dataFolder), { interval: 5 }).toContainEqual(expect.stringContaining('cluster.new-'))
  owner.kill('SIGKILL')
  await once(owner, 'exit')
  expect(await query(await start(), 'select 1 as n')).toEqual([{ n: 1 }])
  // Where the programs are a copy, a note of it is there too.
  expect((await readdir(dataFolder)).filter((name) => name !== 'copy').toSorted()).toEqual(['cluster', 'password'])
})

test('a taken port is refused by name', async () => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  await expect(startPostgres({ dataFolder, port })).rejects.toThrow(`Port ${port} for Postgres is taken`)
  other.close()
})

test('a folder of another Postgres version is left alone', async () => {
  const first = await start()
  await first.stop()
  await writeFile(join(dataFolder, 'cluster', 'PG_VERSION'), '15\n')
  await expect(startPostgres({ dataFolder })).rejects.toThrow('was written by Postgres 15 and this is 18')
})

async function startOwner() {
  const owner = spawn(process.execPath, ['--input-type=module', '-e', ownerScript, dataFolder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(createInterface({ input: owner.stdout }), 'line')) as [string]
  return { owner, server: JSON.parse(line) as { pid: number; url: string } }
}

async function findGuard(serverPid: number): Promise<number> {
  const ps = spawn('ps', ['-eo', 'pid=,args='], { stdio: ['ignore', 'pipe', 'ignore'] })
  const lines = (await ps.stdout.toArray()).join('').split('\n')
  return Number.parseInt(
    lines.find((line) => line.includes(`kill -INT ${serverPid}`))!,
    10,
  )
}

/** A zombie that nobody reaps, as in most containers, counts as ended. */
function isAlive(pid: number): boolean {
  const state = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' }).stdout.trim()
  return state !== '' && !state.startsWith('Z')
}
