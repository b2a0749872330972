import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { findMisspelled } from '@platform/runtime/config'
import { hasMachineUsers, isInMachineNetwork } from '@platform/sandbox/machine-namespaces'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { releases } from '@platform/testing/earlier-schemas'
import { ordinaryVariables } from '@platform/testing/ordinary-variables'
import { createServiceDatabase, createStrangersDatabase } from '@platform/testing/service-databases'
import { callProgram } from '@platform/testkit/call-program'
import { startCable } from '@platform/testkit/cable'
import { createDatabase } from '@platform/testkit/databases'
import { dumpDatabase } from '@platform/testkit/dump-database'
import { freePort } from '@platform/testkit/free-port'
import { serviceEnvironment, startServiceProcess, statusOf, untilStatus } from '@platform/testing/service-process'
import postgres from 'postgres'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig, retired, variables } from '../src/config.ts'
import { openBlobs, requireWritableFolder } from '../src/areas/storage/drivers/open-blobs.ts'
import { run } from '../src/run.ts'

const main = new URL('../src/main.ts', import.meta.url)
const cli = new URL('../src/cli.ts', import.meta.url).pathname
const start = (env: Record<string, string>, role?: string) => startServiceProcess(main, env, role)
const required = {
  PUBLIC_URL: 'http://localhost:4000',
  IDP_URL: 'http://localhost:4001',
  DATABASE_URL: 'postgres://localhost/api',
  MASTER_KEYS: `k1:${Buffer.alloc(32).toString('base64')}`,
  OBJECTS_URL: 'file:///tmp/platform-no-objects',
}
/** What makes a process serve the console; nothing is built in the folder. */
const withConsole = {
  CONSOLE_URL: 'http://localhost:3000',
  CLIENTS_FOLDER: '/nonexistent/clients',
  CONSOLE_CLIENT_IDS: '0198c0de-0000-7000-8000-0000000000c2',
}
const environment = async (more: Record<string, string> = {}) =>
  serviceEnvironment('api', {
    IDP_URL: 'http://localhost:1',
    EDGE_PORT: String(await freePort()),
    S3_PORT: String(await freePort()),
    CONSOLE_PORT: String(await freePort()),
    OBJECTS_URL: 'file:///tmp/platform-no-objects',
    ...more,
  })

test.each([
  [{ PUBLIC_URL: '' }, 'PUBLIC_URL is missing: expected the origin that clients reach this service by'],
  [{ IDP_URL: 'https://id.example.com/path' }, 'IDP_URL is not valid'],
  [{ PORT: '70000' }, 'PORT is not valid'],
  [{ DATABASE_PREPARE: 'yes' }, 'DATABASE_PREPARE is not valid'],
  [{ MASTER_KEYS: 'hunter2' }, 'MASTER_KEYS is not valid'],
  [{ OBJECTS_URL: 'ftp://objects' }, 'OBJECTS_URL is not valid'],
  [{ OBJECTS_URL: 's3://objects?endpoint=nowhere' }, 'OBJECTS_URL is not valid'],
  [{ S3_DOMAIN: 'https://s3.example.com' }, 'S3_DOMAIN is not valid'],
  [{ APPS_URL: 'apps.example.net' }, 'APPS_URL is not valid'],
  [{ APPS_URL: 'https://apps.example.net/path' }, 'APPS_URL is not valid'],
  [{ EDGE_INTERNAL_URL: 'https://10.0.3.7:4005', EDGE_INTERNAL_PORT: '4005' }, 'EDGE_INTERNAL_URL is not valid'],
  [{ EDGE_INTERNAL_URL: 'http://10.0.3.7:4005' }, 'EDGE_INTERNAL_URL names a port: set EDGE_INTERNAL_PORT'],
  [{ BUILD_EGRESS: 'host' }, 'BUILD_EGRESS is not valid'],
  [{ FUNCTION_NETWORK: 'bridge' }, 'FUNCTION_NETWORK is not valid'],
  [{ MACHINE_ADDRESSES: '10.0.0.4,node-1' }, 'MACHINE_ADDRESSES is not valid'],
  [{ BUILD_REGISTRIES: 'npm.example.net' }, 'BUILD_REGISTRIES is not valid'],
  [{ BUILD_REGISTRIES: 'https://npm.example.net/path' }, 'BUILD_REGISTRIES is not valid'],
  [{ COUNTRY_HEADER: 'a b' }, 'COUNTRY_HEADER is not valid'],
  [{ CORS_ORIGINS: 'https://a.example.com,nonsense' }, 'CORS_ORIGINS is not valid'],
  [{ TRUSTED_PROXIES: '10.0.0.0/33' }, 'TRUSTED_PROXIES is not valid (an entry is neither an address nor a range)'],
  [{ APPS_DOMAIN: 'apps.example.net' }, 'APPS_DOMAIN is not read any more: set APPS_URL in its place'],
  [{ OBJECTS_URL: 'file://var/objects' }, 'OBJECTS_URL is not valid (file: takes three slashes and a folder)'],
  [{ OBJECTS_URL: import.meta.url }, 'OBJECTS_URL names a file, not a folder'],
  [{ OBJECTS_URL: `${import.meta.url}/below` }, 'OBJECTS_URL names a file, not a folder'],
  [{ OBJECTS_URL: 'file:///proc' }, 'OBJECTS_URL names a folder that this process cannot write to (ENOENT)'],
  [{ OBJECTS_URL: 'file:///sys/objects' }, 'OBJECTS_URL names a folder that this process cannot write to'],
  [
    { PUBLIC_URL: 'https://api.example.com', APPS_URL: 'https://apps.example.com' },
    'APPS_URL and PUBLIC_URL share the domain example.com',
  ],
  [
    { IDP_URL: 'https://id.example.co.uk', OBJECTS_DOMAIN: 'example.co.uk:8080' },
    'OBJECTS_DOMAIN and IDP_URL share the domain example.co.uk',
  ],
  [
    { CONSOLE_URL: 'https://console.example.com', APPS_URL: 'https://apps.example.com' },
    'APPS_URL and CONSOLE_URL share the domain example.com',
  ],
  [
    { PUBLIC_URL: 'https://api.example.com', S3_DOMAIN: '-s3.example.com' },
    'S3_DOMAIN and PUBLIC_URL share the domain example.com',
  ],
  [{ DATABASE_URL: 'postgres://localhost:1/api' }, 'The database of DATABASE_URL cannot be reached at localhost:1 ('],
])('a start with %j ends with a sentence and exit code 1', async (wrong, sentence) => {
  const env = await environment(wrong)
  // A process only where the environment is not refused by itself: what was open by then has to end with it.
  const { code, stderr } = 'DATABASE_URL' in wrong ? await start(env).ended : await callProgram(run, { words: [], env })
  expect([code, stderr]).toEqual([1, expect.stringContaining(sentence)])
  expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  expect(stderr).not.toContain('hunter2')
})

test('every variable of earlier releases is still read, or is refused with the name of a successor that is', () => {
  const earlier = new Set(releases.flatMap((release) => release.variables.api))
  expect(earlier.size).toBeGreaterThan(40)
  expect([...earlier].filter((name) => !variables.includes(name)).toSorted()).toEqual(Object.keys(retired).toSorted())
  for (const successor of Object.values(retired)) expect(variables).toContain(successor)
})

test('a wrong value of any variable is answered with what is expected, and neither the value nor a pattern', () => {
  const load = () => loadConfig(Object.fromEntries(variables.map((name) => [name, '? hunter2 ?'])))
  expect(load).not.toThrow(/hunter2|pattern|\^|\\/)
  // Any text may be right for these.
  const free = ['HOST', 'HEALTH_HOST', 'AI_PROVIDERS', 'CONSOLE_CLIENT_IDS', 'FUNCTION_EGRESS_ALLOW']
  for (const name of variables.filter((each) => !free.includes(each)))
    expect(load).toThrow(new RegExp(`(?:^|; )${name} is not valid[^:;]*(?:: [^;]*)?: expected `))
})

test('ordinary variables of a machine, and those of the other programs, are not taken for misspelled ones', () => {
  expect(Object.keys(ordinaryVariables).length).toBeGreaterThan(50)
  const others = Object.fromEntries(['ACCOUNT_URL', 'AUDIENCES', 'MAIL_URL', 'MAIL_FROM'].map((name) => [name, 'x']))
  expect(findMisspelled(variables, { ...ordinaryVariables, ...others })).toEqual([])
})

/** A folder on a small file system of its own; undefined where this user may not mount one. */
function mountFolder(options: string): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'platform-mounted-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder])
  if (status !== 0) return undefined
  onTestFinished(() => void spawnSync('umount', ['-l', folder]))
  return folder
}

test('a folder for objects that is read-only ends the start before anything is written to the database, also for root', async (context) => {
  const folder = mountFolder('ro,size=64k')
  if (folder === undefined) return context.skip('this user may not mount a file system')
  const { url } = await createDatabase('empty')
  const before = await dumpDatabase(url)
  const env = await environment({ OBJECTS_URL: pathToFileURL(folder).href, DATABASE_URL: url })
  const { code, stderr } = await callProgram(run, { words: [], env })
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/^OBJECTS_URL names a folder that this process cannot write to \(EROFS\)/),
  ])
  expect(await dumpDatabase(url)).toBe(before)
})

test('a process that must have a user namespace and has none ends before anything is written to the database', async (context) => {
  if (!hasMachineUsers()) return context.skip('the users of this process are not the machine’s')
  const { url } = await createDatabase('empty')
  const before = await dumpDatabase(url)
  const env = await environment({ REQUIRE_USER_NAMESPACE: 'true', DATABASE_URL: url })
  const { code, stderr } = await callProgram(run, { words: [], env })
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(
      /^REQUIRE_USER_NAMESPACE is true, and root of this process is root of the machine: .*containerd 2\.0/,
    ),
  ])
  expect(await dumpDatabase(url)).toBe(before)
})

test.for([
  { map: '0 100000 65536', sentence: /^The database of DATABASE_URL cannot be reached/ },
  { map: '0 0 65536', sentence: /^REQUIRE_USER_NAMESPACE is true, and root of this process is root of the machine/ },
])(
  'a process that must have a user namespace and has one with the map $map gets as far as that allows',
  async ({ map, sentence }, context) => {
    if (process.getuid?.() !== 0 || spawnSync('unshare', ['--user', 'true']).status !== 0)
      return context.skip('only root maps users of its choice, where it may make user namespaces')
    const env = await environment({ REQUIRE_USER_NAMESPACE: 'true', DATABASE_URL: 'postgres://localhost:1/api' })
    const script = 'echo made; read -r go; exec "$@"'
    const args = ['--user', 'sh', '-c', script, 'sh', process.execPath, main.pathname]
    const child = spawn('unshare', args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
    const stderr = text(child.stderr)
    const ended = once(child, 'exit')
    await once(child.stdout, 'data')
    for (const kind of ['uid_map', 'gid_map']) writeFileSync(`/proc/${child.pid}/${kind}`, map)
    child.stdin.end('go\n')
    expect([await ended, await stderr]).toEqual([[1, null], expect.stringMatching(sentence)])
  },
)

test('a full disk ends no start: it is a store that is away', async (context) => {
  const folder = mountFolder('size=4k')
  if (folder === undefined) return context.skip('this user may not mount a file system')
  writeFileSync(join(folder, 'full'), 'x'.repeat(4_096))
  const url = pathToFileURL(folder).href
  await requireWritableFolder(url)
  await expect((await openBlobs(url)).check()).rejects.toMatchObject({ code: 'ENOSPC' })
  expect(readdirSync(folder)).toEqual(['full'])
})

test('dependencies that are away end no start: each is a warning and 0 in dependency_up', async () => {
  const refusing = createServer((_, response) => response.writeHead(403).end())
  await once(refusing.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void refusing.close())
  const { port } = refusing.address() as AddressInfo
  const env = await environment({
    OBJECTS_URL: `s3://key:hunter2@bucket?endpoint=http://127.0.0.1:${port}`,
    REDIS_URL: 'redis://127.0.0.1:1',
    LOG_LEVEL: 'warn',
    STOP_NOTICE_MS: '1',
  })
  const { child, ended } = start(env, 'api')
  const log = text(child.stdout)
  await untilStatus(`http://127.0.0.1:${env.HEALTH_PORT}/ready`, 200)
  const up = async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${env.HEALTH_PORT}/metrics`)).text()
    return Object.fromEntries(
      [...metrics.matchAll(/^dependency_up\{dependency="(.+)"\} (.)$/gm)].map((line) => line.slice(1)),
    )
  }
  await expect.poll(up).toEqual({ database: '1', redis: '0', objects: '0', issuer: '0' })
  child.kill('SIGTERM')
  expect((await ended).code).toBe(0)
  const lines = (await log).trimEnd().split('\n')
  const away = lines.map((line) => (JSON.parse(line) as { dependency?: string }).dependency)
  expect([away.length, new Set(away)]).toEqual([3, new Set(['issuer', 'objects', 'redis'])])
  expect(await log).toContain('The dependency objects (OBJECTS_URL) does not answer, or refuses access')
  expect(await log).not.toContain('hunter2')
})

test.each([
  [
    {
      PUBLIC_URL: 'https://api.example.com',
      APPS_URL: 'https://apps.example.net',
      OBJECTS_DOMAIN: 'objects.example.net',
    },
  ],
  // Siblings below a public suffix are sites of their own.
  [{ PUBLIC_URL: 'https://api.example.co.uk', APPS_URL: 'https://apps.co.uk' }],
  [{ PUBLIC_URL: 'https://mine.github.io', APPS_URL: 'https://apps.github.io' }],
  [{ PUBLIC_URL: 'https://api.example.com', APPS_URL: 'https://apps.example.com', ALLOW_SHARED_DOMAIN: 'true' }],
  [{ APPS_URL: 'http://apps.localhost:4002' }],
])('%j keeps pages of tenants off the sites of the platform, or says that it need not be (D98)', async (more) => {
  expect(() => loadConfig({ ...required, ...more })).not.toThrow()
})

test('a role that there is none of is named, with those there are', async () => {
  const { code, stderr } = await callProgram(run, { words: ['cook'], env: await environment() })
  expect([code, stderr]).toEqual([1, 'There is no role cook; choose one of all, api, worker, edge\n'])
})

test('a taken port is named in a sentence, whichever it is', async () => {
  const taken = createServer()
  await once(taken.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void taken.close())
  const { port } = taken.address() as AddressInfo
  for (const name of ['PORT', 'EDGE_PORT', 'S3_PORT', 'CONSOLE_PORT', 'HEALTH_PORT']) {
    const { ended } = start(await environment({ ...withConsole, [name]: String(port) }))
    expect([name, await ended]).toEqual([
      name,
      { code: 1, stderr: expect.stringContaining(`Port ${port} is taken`) as string },
    ])
  }
})

test.each([
  ['all', 200, 403, 404, 503, ['issuer']],
  ['api', 200, 403, 0, 503, ['issuer']],
  ['edge', 0, 0, 404, 0, []],
  ['worker', 0, 0, 0, 0, []],
])(
  'the role %s answers on its own ports and no others, is live and ready, and watches what it needs',
  async (...row) => {
    const [role, api, s3, edge, site, further] = row
    const env = await environment(withConsole)
    start(env, role)
    await untilStatus(`http://127.0.0.1:${env.HEALTH_PORT}/ready`, 200)
    expect(await statusOf(`http://127.0.0.1:${env.PORT}/.well-known/jwks.json`)).toBe(api)
    expect(await statusOf(`http://127.0.0.1:${env.S3_PORT}/`)).toBe(s3)
    expect(await statusOf(`http://127.0.0.1:${env.EDGE_PORT}/`)).toBe(edge)
    expect(await statusOf(`http://127.0.0.1:${env.CONSOLE_PORT}/`)).toBe(site)
    const internal = await Promise.all(
      ['/live', '/metrics', '/nope'].map((path) => statusOf(`http://127.0.0.1:${env.HEALTH_PORT}${path}`)),
    )
    expect(internal).toEqual([200, 200, 404])
    const watched = async () => {
      const metrics = await (await fetch(`http://127.0.0.1:${env.HEALTH_PORT}/metrics`)).text()
      return new Set(Array.from(metrics.matchAll(/^dependency_up\{dependency="(.+)"\}/gm), ([, name]) => name))
    }
    await expect.poll(watched).toEqual(new Set(['database', 'objects', ...further]))
  },
)

test('an edge that FUNCTION_NETWORK would have change the network of the machine runs no Function, and says why', async (context) => {
  const obstacle = findTestObstacle(['bwrap', 'nft', 'ip', 'nsenter', 'setpriv', 'prlimit'])
  if (obstacle !== undefined || !isInMachineNetwork())
    return context.skip(obstacle ?? 'the network of this process is not the machine’s')
  const folder = mkdtempSync('/tmp/fn-')
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const { child } = start(
    await environment({ FUNCTION_NETWORK: 'veth', FUNCTIONS_FOLDER: folder, LOG_LEVEL: 'warn' }),
    'edge',
  )
  const lines = createInterface({ input: child.stdout })
  const said: string[] = []
  for await (const line of lines) {
    const { msg } = JSON.parse(line) as { msg: string }
    if (!msg.startsWith('Functions c')) continue
    said.push(msg)
    break
  }
  expect(said).toEqual([
    expect.stringMatching(
      /^Functions cannot run here: .* private addresses: FUNCTION_NETWORK=veth would change the machine's own network/,
    ),
  ])
})

test.each(Object.keys(withConsole))('without %s there is no console', async (name) => {
  const env = await environment({ ...withConsole, [name]: '' })
  start(env, 'api')
  await untilStatus(`http://127.0.0.1:${env.HEALTH_PORT}/ready`, 200)
  expect(await statusOf(`http://127.0.0.1:${env.CONSOLE_PORT}/`)).toBe(0)
})

test('a key that the CLI rotates is what running processes publish at once, and nothing else', async () => {
  const env = await environment()
  start(env, 'api')
  await untilStatus(`http://127.0.0.1:${env.HEALTH_PORT}/ready`, 200)
  const published = async () => {
    const { keys } = (await (await fetch(`${env.PUBLIC_URL}/.well-known/jwks.json`)).json()) as {
      keys: { kid: string }[]
    }
    return keys.map(({ kid }) => kid)
  }
  const [before] = await published()
  const { stdout } = await promisify(execFile)(process.execPath, [cli, 'keys', 'rotate'], { env })
  const { kid, note } = JSON.parse(stdout) as { kid: string; note: string }
  expect(note).toContain('Within 2 seconds')
  expect(kid).not.toBe(before)
  // By itself the process would read its keys again within a minute.
  await expect.poll(published).toEqual([kid])
})

test('readiness says no within a second or so while Postgres hangs, and yes again afterwards', async () => {
  const env = await environment()
  const cable = await startCable(new URL(env.DATABASE_URL ?? ''))
  onTestFinished(() => cable.close())
  start({ ...env, DATABASE_URL: cable.url }, 'api')
  const ready = `http://127.0.0.1:${env.HEALTH_PORT}/ready`
  await untilStatus(ready, 200)
  cable.hang()
  // Far more than it takes, and far less than the statement and connection limits of the pool.
  const answer = await fetch(ready, { signal: AbortSignal.timeout(4_500) })
  expect(answer.status).toBe(503)
  expect(await statusOf(`http://127.0.0.1:${env.HEALTH_PORT}/live`)).toBe(200)
  cable.wake()
  await untilStatus(ready, 200)
})

test('a worker whose job goes on failing is not ready until the job succeeds; a process that also serves stays ready', async () => {
  const env = await environment({ JOBS_EVERY_MS: '50' })
  const { DATABASE_URL = '', MASTER_KEYS = '' } = env
  const other = await environment({ JOBS_EVERY_MS: '50', DATABASE_URL, MASTER_KEYS })
  start(env, 'worker')
  start(other, 'all')
  const [worker, server] = [env, other].map(({ HEALTH_PORT }) => `http://127.0.0.1:${HEALTH_PORT}`)
  await untilStatus(`${worker}/ready`, 200)
  await untilStatus(`${server}/ready`, 200)
  const sql = postgres(DATABASE_URL, { max: 1 })
  onTestFinished(() => sql.end())
  await sql`alter table activities rename to activities_away`
  await untilStatus(`${worker}/ready`, 503)
  const failuresOf = async (url?: string) =>
    Number(
      /^job_failures_total{job="discard activities"} (\d+)$/m.exec(await (await fetch(`${url}/metrics`)).text())?.[1],
    )
  expect(await failuresOf(worker)).toBeGreaterThanOrEqual(3)
  await expect.poll(() => failuresOf(server)).toBeGreaterThanOrEqual(3)
  expect(await statusOf(`${server}/ready`)).toBe(200)
  await sql`alter table activities_away rename to activities`
  await untilStatus(`${worker}/ready`, 200)
})

test('SIGTERM: readiness fails while requests are still answered, what is under way finishes, then the process ends with 0', async () => {
  const env = await environment()
  const { child, ended } = start(env)
  const ready = `http://127.0.0.1:${env.HEALTH_PORT}/ready`
  await untilStatus(ready, 200)

  const slow = connect(Number(env.PORT), '127.0.0.1')
  const answered = (async () => (await slow.setEncoding('utf8').toArray()).join(''))()
  const body = 'grant_type=client_credentials'
  slow.write(
    `POST /oauth2/token HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\n\r\n`,
  )
  child.kill('SIGTERM')
  await untilStatus(ready, 503)
  // From the first second on every answer closes its connection, and no stream is opened.
  const last = await fetch(`http://127.0.0.1:${env.PORT}/.well-known/jwks.json`)
  expect([last.status, last.headers.get('connection')]).toEqual([200, 'close'])
  for (const deadline = Date.now() + 10_000; Date.now() < deadline; await sleep(100)) {
    if ((await statusOf(`http://127.0.0.1:${env.PORT}/.well-known/jwks.json`)) === 0) break
  }
  slow.write(body) // the door is closed by now; this request came in before
  expect(await answered).toMatch(/^HTTP\/1\.1 401 .*invalid_client/s)
  expect((await ended).code).toBe(0)
})

test('a process whose launcher is gone ends by itself, and leaves nothing in the temporary folder', async () => {
  const env = await environment({ PLATFORM_PARENT_PIPE: '1' })
  const { child, ended } = start(env)
  await untilStatus(`http://127.0.0.1:${env.HEALTH_PORT}/ready`, 200)
  const ofFunctions = join(tmpdir(), `platform-functions-${env.HEALTH_PORT}`)
  await expect.poll(() => existsSync(ofFunctions)).toBe(true)
  child.stdin.end()
  expect((await ended).code).toBe(0)
  expect(existsSync(ofFunctions)).toBe(false)
})

test.each([
  ['the identity provider’s database', () => createServiceDatabase('idp')],
  ['a stranger’s database', createStrangersDatabase],
])('a start on %s ends with a sentence, migrating or not, and writes nothing there', async (_, create) => {
  const { url } = await create()
  const before = await dumpDatabase(url)
  for (const MIGRATE_ON_START of ['true', 'false']) {
    const env = await environment({ DATABASE_URL: url, MIGRATE_ON_START })
    const { code, stderr } = await callProgram(run, { words: [], env })
    expect(code).toBe(1)
    expect(stderr).toContain('The database of DATABASE_URL belongs to another program: ')
  }
  expect(await dumpDatabase(url)).toBe(before)
})
