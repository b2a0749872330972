import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unless } from '@platform/test-runner/task-meta'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import postgres, { type Sql } from 'postgres'
import { clients, demoEmail } from './clients.ts'
import { explainFailure } from './explain-failure.ts'
import { anyPorts, repository, spawnLauncher, stopLauncher, untilStarted } from './launch-for-tests.ts'
import { describeMemory, measurePlatform } from './platform-memory.ts'
import { prepareStart } from './prepare-start.ts'
import { readSecrets } from './secrets.ts'

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'

let dataFolder: string
const launchers: ChildProcess[] = []

beforeEach(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'platform-launcher-test-'))
})

afterEach(async () => {
  for (const launcher of launchers.splice(0)) {
    launcher.kill('SIGTERM')
    if (launcher.exitCode === null && launcher.signalCode === null) await once(launcher, 'exit')
  }
  await rm(dataFolder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
})

/** Patience for three starts of the whole platform on a busy machine. */
const STARTS_MS = 600_000
/** V8 collects what a start leaves behind once it has seen nothing to do for a while: some 100 s. */
const RESTS_MS = 180_000

function launch(env: Record<string, string> = {}, ...options: string[]) {
  const launcher = spawnLauncher(dataFolder, env, options)
  launchers.push(launcher)
  return launcher
}

/** Why a start cannot work, as the launcher reports it, without a process. */
async function refusalOf(env: Record<string, string>): Promise<string> {
  const started = prepareStart([], { DATA_DIR: dataFolder, ...anyPorts, ...env }, repository)
  return started.then(
    () => '',
    (error: unknown) => `${explainFailure(error, undefined)}\n`,
  )
}

/** Runs a launcher that ends by itself, and returns its exit code and output. */
async function runToEnd(env: Record<string, string> = {}, ...options: string[]) {
  const launcher = launch(env, ...options)
  const [out, err, [code]] = await Promise.all([
    launcher.stdout.toArray(),
    launcher.stderr.toArray(),
    once(launcher, 'exit'),
  ])
  return { code: code as number, out: out.join(''), err: err.join('') }
}

/** Fetches a page by its hostname, which not every resolver resolves below localhost. */
async function pageAt(url: string): Promise<string> {
  const { host, port, pathname } = new URL(url)
  const [answer] = (await once(get({ host: 'localhost', port, path: pathname, headers: { host } }), 'response')) as [
    IncomingMessage,
  ]
  return (await answer.toArray()).join('')
}

async function takePort(): Promise<{ port: string; free: () => void }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: String((server.address() as AddressInfo).port), free: () => server.close() }
}

describe('a start that cannot work says why in one sentence', () => {
  test.each([
    [{ API_PORT: '4oo0' }, /^API_PORT is not valid: expected the port of the API, such as 4000.*\.\n$/],
    [{ EDGE_PORT: '70000' }, /^EDGE_PORT is not valid/],
    [{ CONSOLE_PORT: 'x' }, /^CONSOLE_PORT is not valid: expected the port of the web console, such as 4003/],
    [{ S3_PORT: '4100', EDGE_PORT: '4100' }, /^EDGE_PORT and S3_PORT are both 4100: give each its own port\.\n$/],
    [
      { CONSOLE_PORT: '4100', EDGE_PORT: '4100' },
      /^EDGE_PORT and CONSOLE_PORT are both 4100: give each its own port\.\n$/,
    ],
    [{ API_PORT: '4100', IDP_PORT: '4100' }, /^API_PORT and IDP_PORT are both 4100: give each its own port\.\n$/],
    [{ FUNCTION_SANDBOX: 'maybe' }, /^FUNCTION_SANDBOX is not valid .*: expected required, auto/],
    [{ FUNCTION_EGRESS: 'all' }, /^FUNCTION_EGRESS is not valid/],
    [{ FUNCTIONS_FOLDER: 'fn' }, /^FUNCTIONS_FOLDER is not valid/],
    [{ LOG_LEVEL: 'loud' }, /^LOG_LEVEL is not valid .*: expected trace, debug/],
    [{ DATA_DIR: '/dev/null/platform' }, /^DATA_DIR \/dev\/null\/platform cannot be written \(ENOTDIR\): .*\.\n$/],
    [{ DATA_DIR: '/proc/platform' }, /^DATA_DIR \/proc\/platform cannot be written \(\w+\): .*\.\n$/],
  ])('%j', async (env, message) => {
    expect(await refusalOf(env)).toMatch(message)
  })

  test('a process prints it on stderr alone, and ends with 1', async () => {
    const env = { API_PORT: '4oo0' }
    expect(await runToEnd(env)).toEqual({ code: 1, out: '', err: await refusalOf(env) })
  })

  test('a file of AI providers that is not right, which the API gets', async () => {
    const file = join(dataFolder, 'ai-providers.json')
    await writeFile(file, '{"providers":1,"models":[]}')
    const { code, out } = await runToEnd({ AI_PROVIDERS: file })
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(await readFile(join(dataFolder, 'logs', 'api.log'), 'utf8')).toContain(`${file} is not right`)
  })

  test('an unknown option', async () => {
    const { code, err } = await runToEnd({}, '--jsno')
    expect(err).toMatch(/^Unknown option '--jsno'.* The only option is --json/)
    expect(code).toBe(1)
  })

  test.each(['API_PORT', 'IDP_PORT', 'EDGE_PORT', 'CONSOLE_PORT', 'S3_PORT'])('a taken %s', async (name) => {
    const { port, free } = await takePort()
    const refusal = await refusalOf({ [name]: port })
    free()
    expect(refusal).toBe(`Port ${port} is taken by another program: stop it, or set ${name} to a free port.\n`)
  })

  test('a taken POSTGRES_PORT', async () => {
    const { port, free } = await takePort()
    const { code, err } = await runToEnd({ POSTGRES_PORT: port })
    free()
    expect(err).toContain(`Port ${port} for Postgres is taken`)
    expect(code).toBe(1)
  })

  test('a data folder that another launcher holds, until that one is gone', async () => {
    const script = `import { holdDataFolder } from ${JSON.stringify(join(import.meta.dirname, 'data-folder.ts'))}
      holdDataFolder(process.argv[1]); console.log('held'); setInterval(() => {}, 1000)`
    const holder = spawn(process.execPath, ['--input-type=module', '-e', script, dataFolder], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(holder.stdout, 'data')
    const second = await runToEnd()
    expect(second.err).toMatch(new RegExp(`^The platform already runs in ${dataFolder} \\(process ${holder.pid}\\): `))
    expect(second.code).toBe(1)

    holder.kill('SIGKILL')
    await once(holder, 'exit')
    // Past the lock, up to the next refusal.
    await writeFile(join(dataFolder, 'secrets.json'), '{')
    expect((await runToEnd()).err).toMatch(/secrets\.json is damaged/)
  })

  test(
    'a data folder that may not be written',
    unless(process.getuid?.() === 0 ? 'root may write everywhere' : undefined),
    async () => {
      await chmod(dataFolder, 0o500)
      const { code, err } = await runToEnd()
      expect(err).toContain(`DATA_DIR ${dataFolder} cannot be written (EACCES)`)
      expect(code).toBe(1)
    },
  )
})

describe('a start that works', { timeout: STARTS_MS }, () => {
  async function start(env?: Record<string, string>) {
    const launcher = launch(env, '--json')
    return { launcher, platform: await untilStarted(launcher) }
  }

  /** What waits for its next use ends after a second. */
  const restsSoon = { DATABASE_IDLE_MS: '1000', HASHING_IDLE_MS: '1000' }

  /** Waits until all parts together have no more than a tenth above the bound, in MiB, and prints what each has. */
  async function expectSmall({ launcher }: { launcher: ChildProcess }, name: string, bound: number): Promise<void> {
    if (process.platform !== 'linux') return
    const npm = 17 // which is not started here
    const measure = () => measurePlatform(launcher.pid!)
    const seen = describeMemory(measure())
    await expect
      .poll(() => measure().anonymous / 1024 ** 2, { timeout: RESTS_MS, interval: 1000, message: seen })
      .toBeLessThan((bound - npm) * 1.1)
    // Unlike what goes to the console it is shown when all is well, too.
    process.stdout.write(`After a ${name} start, without npm:\n${describeMemory(measure())}\n`)
  }

  test('tells programs what they need, stays within its bounds of memory, keeps everything over kill -9, brings an older console up to date, stops without a trace, takes its clients along to other ports, and says in its summary that Functions have no walls where it was told so', async () => {
    const first = await start(restsSoon)
    await expectSmall(first, 'first', 200)
    const { consoleUrl } = first.platform
    const { port: CONSOLE_PORT } = new URL(consoleUrl)
    expect(Object.keys(first.platform)[0]).toBe('consoleUrl')
    expect(first.platform).toMatchObject({
      demo: { email: demoEmail },
      clients: {
        cli: { id: clients.cli.id, redirectUri: 'http://127.0.0.1/callback' },
        console: { id: clients.console.id, redirectUri: `${consoleUrl}/callback` },
      },
    })
    const built = join(repository, 'packages/console/dist/index.html')
    const [page, builtAt] = [await readFile(built, 'utf8'), (await stat(built)).mtimeMs]
    expect(await (await fetch(consoleUrl)).text()).toBe(page)
    const { baseUrl: apiUrl, idpUrl: issuer } = first.platform
    expect(await (await fetch(`${consoleUrl}/config.json`)).json()).toMatchObject({ apiUrl, issuer })
    const discovery = await fetch(`${first.platform.idpUrl}/.well-known/openid-configuration`)
    expect(await discovery.json()).toMatchObject({ issuer: first.platform.idpUrl })
    expect(await (await fetch(first.platform.s3Url)).text()).toContain('<Code>AccessDenied</Code>')
    expect(await pageAt(first.platform.helloUrl)).toContain('It works')
    // Anybody may create an account; the letter is on this machine.
    expect(await (await fetch(`${issuer}/sign-up`)).text()).toContain('Mail me a code')
    const clientFile = async (name: string) => (await fetch(`${first.platform.baseUrl}/docs/clients/${name}`)).bytes()
    const checksums = Buffer.from(await clientFile('checksums.txt')).toString()
    const served: string[] = []
    for (const [, sha256, name = ''] of checksums.matchAll(/^(\S+) {2}(\S+)$/gm)) {
      served.push(name.replace(/[0-9a-f]{8}\.tgz$/, 'tgz'))
      expect(
        createHash('sha256')
          .update(await clientFile(name))
          .digest('hex'),
      ).toBe(sha256)
    }
    const { version } = JSON.parse(await readFile(join(repository, 'packages/sdk/package.json'), 'utf8')) as {
      version: string
    }
    expect(served).toEqual([`sdk-${version}-tgz`, `cli-${version}-tgz`, 'platform.mjs', 'llms.txt', 'agents.md'])
    expect(await signInAt(first.platform)).toBe('/sign-in')
    expect((await stat(join(dataFolder, 'secrets.json'))).mode & 0o777).toBe(0o600)
    expect(await readConsole()).toMatchObject({
      redirect_uris: [`${consoleUrl}/callback`],
      post_logout_redirect_uris: [`${consoleUrl}/`],
      grants: ['authorization_code', 'refresh_token'],
    })

    // As a folder from before the console of today has it, with what a person changed in it.
    await changeConsole((sql) => sql`delete from clients where id = ${clients.docs.id}`)
    await changeConsole((sql) => {
      const redirectUris = ['http://localhost:3000/callback', 'https://own.example.com/callback']
      const grants = ['authorization_code', 'refresh_token', DEVICE_GRANT]
      return sql`update clients set ${sql({ name: 'My console', redirect_uris: redirectUris, post_logout_redirect_uris: ['https://own.example.com/'], grants, requires_second_factor: true })}
        where id = ${clients.console.id}`
    })
    await writeFile(join(dataFolder, 'seeded'), `${new Date().toISOString()}\n`)

    const serverPid = await postgresPid()
    first.launcher.kill('SIGKILL')
    await once(first.launcher, 'exit')
    const { port: API_PORT } = new URL(first.platform.baseUrl)
    const { port: IDP_PORT } = new URL(first.platform.idpUrl)
    const second = await start({ API_PORT, IDP_PORT, CONSOLE_PORT, ...restsSoon })
    await expectSmall(second, 'second', 170)
    // The same build is served.
    expect((await stat(built)).mtimeMs).toBe(builtAt)
    expect(await (await fetch(consoleUrl)).text()).toBe(page)
    expect(second.platform.demo).toEqual(first.platform.demo)
    expect(isAlive(serverPid)).toBe(false)
    expect(await readConsole()).toEqual({
      name: 'My console',
      redirect_uris: ['https://own.example.com/callback', `${consoleUrl}/callback`],
      post_logout_redirect_uris: ['https://own.example.com/', `${consoleUrl}/`],
      grants: ['authorization_code', 'refresh_token'],
      scopes: null,
      is_first_party: true,
      requires_second_factor: true,
    })
    expect(await signInAt(second.platform)).toBe('/sign-in')
    const started = await fetch(`${second.platform.idpUrl}/oauth2/device_authorization`, {
      method: 'POST',
      body: new URLSearchParams({ client_id: clients.console.id, scope: 'openid' }),
    })
    expect({ status: started.status, body: await started.json() }).toMatchObject({
      status: 400,
      body: { error: 'unauthorized_client' },
    })
    // Pages of the console may call the API.
    const preflight = await fetch(`${second.platform.baseUrl}/organizations`, {
      method: 'OPTIONS',
      headers: { origin: consoleUrl, 'access-control-request-method': 'GET' },
    })
    expect(preflight.headers.get('access-control-allow-origin')).toBe(consoleUrl)

    expect(await stopLauncher(second.launcher)).toBe(0)
    await expect(fetch(second.platform.baseUrl)).rejects.toThrow('fetch failed')
    await expect(fetch(consoleUrl)).rejects.toThrow('fetch failed')
    await expect(stat(join(dataFolder, 'postgres', 'cluster', 'postmaster.pid'))).rejects.toThrow('ENOENT')

    // On other ports, beside a platform with a folder of its own.
    const { launcher: third, platform } = await start()
    const beside = await startForPeople(join(dataFolder, 'beside'))
    expect(new Set([consoleUrl, platform.consoleUrl, beside.consoleUrl]).size).toBe(3)
    for (const { consoleUrl: url, baseUrl, idpUrl } of [platform, beside]) {
      expect(await (await fetch(url)).text()).toBe(page)
      expect(await (await fetch(`${url}/config.json`)).json()).toMatchObject({ apiUrl: baseUrl, issuer: idpUrl })
    }
    expect(await readConsole()).toMatchObject({
      redirect_uris: ['https://own.example.com/callback', `${platform.consoleUrl}/callback`],
      post_logout_redirect_uris: ['https://own.example.com/', `${platform.consoleUrl}/`],
    })
    expect(await signInAt(platform)).toBe('/sign-in')
    expect(await changeConsole((sql) => sql`select redirect_uris from clients where id = ${clients.docs.id}`)).toEqual([
      { redirect_uris: [`${platform.baseUrl}/docs`] },
    ])
    expect([await stopLauncher(third), await stopLauncher(beside.launcher)]).toEqual([0, 0])
  })

  /** Starts a platform without walls for Functions, checks what its summary says, and returns the addresses there. */
  async function startForPeople(folder: string) {
    const launcher = launch({ DATA_DIR: folder, FUNCTION_SANDBOX: 'none' })
    let out = ''
    launcher.stdout.on('data', (chunk) => (out += chunk))
    await vi.waitFor(() => expect(out).toContain('Ctrl-C stops everything'), { timeout: 60_000, interval: 50 })
    // No escape codes if the output is not a terminal.
    expect(out).toMatch(/^Functions run as plain processes, .*: leave FUNCTION_SANDBOX out for walls\.$/m)
    const readLog = () => readFile(join(folder, 'logs', 'api.log'), 'utf8')
    await expect
      .poll(readLog, { timeout: 60_000 })
      .toMatch(/"isIsolated":false,"isNetworkClosed":false,.*"msg":"Functions can run"/)
    expect(await readLog()).toContain('Functions run as plain processes')
    const [, consoleUrl = ''] = /running\.\n\n  Console +(\S+)\n/.exec(out) ?? []
    const [, baseUrl = ''] = /^  API +(\S+)$/m.exec(out) ?? []
    const [, idpUrl = ''] = /^  Identity provider +(\S+)$/m.exec(out) ?? []
    const [, packageUrl = ''] = /^ +npx (\S+) deploy$/m.exec(out) ?? []
    expect(packageUrl).toMatch(new RegExp(`^${baseUrl}/docs/clients/cli-[\\d.]+-[0-9a-f]{8}\\.tgz$`))
    expect((await fetch(packageUrl)).status).toBe(200)
    return { launcher, consoleUrl, baseUrl, idpUrl }
  }

  const postgresPid = async () =>
    Number.parseInt(await readFile(join(dataFolder, 'postgres', 'cluster', 'postmaster.pid'), 'utf8'), 10)

  /** The redirect URI of a browser that signs in from the API reference, as configured. */
  async function signInAt({ baseUrl, idpUrl }: { baseUrl: string; idpUrl: string }): Promise<string> {
    const page = await (await fetch(`${baseUrl}/docs`)).text()
    const [, configuration = '{}'] = /<script id="configuration"[^>]*>([^<]*)</.exec(page) ?? []
    const { clientId, redirectUri } = JSON.parse(configuration) as { clientId: string; redirectUri: string }
    const query = new URLSearchParams({
      client_id: clientId,
      redirect_uri: redirectUri,
      response_type: 'code',
      scope: 'platform:organizations:read',
      state: 'x',
      code_challenge: 'x'.repeat(43),
      code_challenge_method: 'S256',
    })
    const answer = await fetch(`${idpUrl}/oauth2/authorize?${query.toString()}`, { redirect: 'manual' })
    return new URL(answer.headers.get('location') ?? '/none', idpUrl).pathname
  }

  /** Runs a query as the identity provider's role, on the running platform's database. */
  async function changeConsole<T>(change: (sql: Sql) => PromiseLike<T>): Promise<T> {
    const lines = (await readFile(join(dataFolder, 'postgres', 'cluster', 'postmaster.pid'), 'utf8')).split('\n')
    const { databasePasswords } = await readSecrets(dataFolder)
    const sql = postgres(`postgres://idp:${databasePasswords.idp}@127.0.0.1:${lines[3]}/idp`, { max: 1 })
    try {
      return await change(sql)
    } finally {
      await sql.end()
    }
  }
  const readConsole = () =>
    changeConsole(async (sql) => {
      const [row] =
        await sql`select name, redirect_uris, post_logout_redirect_uris, grants, scopes, is_first_party, requires_second_factor
        from clients where id = ${clients.console.id}`
      return row
    })
})

/** A zombie that nobody reaps, as in most containers, counts as ended. */
function isAlive(pid: number): boolean {
  const state = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' }).stdout.trim()
  return state !== '' && !state.startsWith('Z')
}
