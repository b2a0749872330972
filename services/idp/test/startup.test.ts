import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { findMisspelled } from '@platform/runtime/config'
import { startupFailure } from '@platform/service/startup-failure'
import { releases } from '@platform/testing/earlier-schemas'
import { ordinaryVariables } from '@platform/testing/ordinary-variables'
import { Browser } from '@platform/testkit/browser'
import { callProgram } from '@platform/testkit/call-program'
import { createDatabase } from '@platform/testkit/databases'
import { serviceEnvironment, startServiceProcess, untilStatus } from '@platform/testing/service-process'
import postgres from 'postgres'
import { expect, inject, onTestFinished, test } from 'vitest'
import { runCommandLine } from '../src/commands/run.ts'
import { prepareDatabase } from '../src/compose.ts'
import { loadConfig, retired, variables } from '../src/config.ts'
import { run } from '../src/run.ts'

const main = new URL('../src/main.ts', import.meta.url)
const cli = new URL('../src/cli.ts', import.meta.url).pathname
const environment = (more?: Record<string, string>) => serviceEnvironment('idp', more)
const start = (env: Record<string, string>) => startServiceProcess(main, env)

test.each([
  [{ PUBLIC_URL: '' }, 'PUBLIC_URL is missing: expected the issuer, an origin such as https://id.example.com'],
  [{ PUBLIC_URL: 'https://id.example.com/path' }, 'PUBLIC_URL is not valid'],
  [{ PORT: 'http' }, 'PORT is not valid'],
  [
    { MASTER_KEYS: 'k1:abcd' },
    'MASTER_KEYS is not valid: expected id:base64 of 32 bytes, newest first, such as k1:…= (openssl rand -base64 32)\n',
  ],
  [{ ACCOUNT_URL: 'https://elsewhere.example.com' }, 'ACCOUNT_URL is not valid'],
  [{ MAIL_URL: 'https://mail.example.com' }, 'MAIL_URL is not valid'],
  [
    { MAIL_URL: 'smtp:/x' },
    'MAIL_URL is not valid (it names no host): expected a URL for mail, such as smtps://user:password@mail.example.com',
  ],
  [{ MAIL_URL: 'file://var/mail' }, 'MAIL_URL is not valid (file: takes three slashes and a folder)'],
  [
    { AUDIENCES: 'https://api.example.com,foo,bar' },
    'AUDIENCES is not valid: expected URLs of the services that take access tokens, with commas, such as https://api.example.com\n',
  ],
  [{ MAIL_FROM: 'nobody' }, 'MAIL_FROM is not valid'],
  [
    { TRUSTED_PROXIES: 'nginx' },
    'TRUSTED_PROXIES is not valid (an entry is neither an address nor a range): expected addresses or ranges of proxies, with commas, such as 10.0.0.0/8\n',
  ],
  [
    { SIGN_UP: 'open', MAIL_URL: '' },
    'SIGN_UP=open mails a code to everyone who signs up: set MAIL_URL, such as smtps://user:password@mail.example.com, or SIGN_UP=closed\n',
  ],
  [{ SIGN_UP: 'domains', SIGN_UP_DOMAINS: 'example.com', MAIL_URL: '' }, 'SIGN_UP=domains mails a code to everyone'],
  [
    { SIGN_UP: 'domains', MAIL_URL: 'file:///var/mail' },
    'SIGN_UP=domains wants SIGN_UP_DOMAINS, such as example.com\n',
  ],
  [{ SIGN_UP: 'invited' }, 'SIGN_UP is not valid ('],
  [{ SIGN_UP_DOMAINS: 'example.com,exa mple.com' }, 'SIGN_UP_DOMAINS is not valid (an entry is no domain): expected'],
  [{ INVITATION_DOMAINS: 'a@example.com' }, 'INVITATION_DOMAINS is not valid (an entry is no domain): expected'],
  [{ INVITATION_ISSUERS: 'https://api.example.com/path' }, 'INVITATION_ISSUERS is not valid'],
  [{ INVITATION_ISSUERS: 'https://a.example=http://api:4000=x' }, 'INVITATION_ISSUERS is not valid'],
  [{ SUPPORT_URL: 'javascript:alert(1)' }, 'SUPPORT_URL is not valid'],
  [{ DATABASE_URL: 'postgres://localhost:1/idp' }, 'The database of DATABASE_URL cannot be reached at localhost:1 ('],
])('a start with %j ends with a sentence and exit code 1', async (wrong, sentence) => {
  const env = await environment(wrong)
  // A process only where the environment is not refused by itself: what was open by then has to end with it.
  const { code, stderr } = 'DATABASE_URL' in wrong ? await start(env).ended : await callProgram(run, { words: [], env })
  expect(code).toBe(1)
  expect(stderr).toContain(sentence)
  expect(stderr.trimEnd().split('\n')).toHaveLength(1)
})

test('every variable of earlier releases is still read, or is refused with the name of a successor that is', () => {
  const earlier = new Set(releases.flatMap((release) => release.variables.idp))
  expect(earlier.size).toBeGreaterThan(15)
  expect([...earlier].filter((name) => !variables.includes(name)).toSorted()).toEqual(Object.keys(retired).toSorted())
  for (const successor of Object.values(retired)) expect(variables).toContain(successor)
})

test('a wrong value of any variable is answered with what is expected, and neither the value nor a pattern', () => {
  const load = () => loadConfig(Object.fromEntries(variables.map((name) => [name, '? hunter2 ?'])))
  expect(load).not.toThrow(/hunter2|pattern|\^|\\/)
  // Any text may be right for these.
  const free = ['HOST', 'HEALTH_HOST']
  for (const name of variables.filter((each) => !free.includes(each)))
    expect(load).toThrow(new RegExp(`(?:^|; )${name} is not valid[^:;]*(?:: [^;]*)?: expected `))
})

test('ordinary variables of a machine, and those of the other programs, are not taken for misspelled ones', () => {
  expect(Object.keys(ordinaryVariables).length).toBeGreaterThan(50)
  const others = Object.fromEntries(
    ['CONSOLE_URL', 'APPS_URL', 'API_INTERNAL_URL', 'OBJECTS_URL', 'IDP_URL', 'S3_PORT', 'EDGE_PORT'].map((name) => [
      name,
      'x',
    ]),
  )
  expect(findMisspelled(variables, { ...ordinaryVariables, ...others })).toEqual([])
})

test('a misspelled variable is one warning in the log, which names both and shows no value', async () => {
  const env = await environment({ REDIS_URI: 'redis://:hunter2@127.0.0.1:6379' })
  const { code, stderr } = await callProgram(runCommandLine, { words: ['client', 'list'], env })
  expect(code).toBe(0)
  const lines = stderr.trimEnd().split('\n')
  expect(lines.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual([
    'REDIS_URI is set but never read, and REDIS_URL is not set',
  ])
  expect(stderr).not.toContain('hunter2')
})

test('a role that may not migrate is told the statement with which it may', async () => {
  const { url, drop } = await createDatabase('empty')
  const role = `plain_${randomBytes(4).toString('hex')}`
  const sql = postgres(url, { max: 1 })
  await sql.unsafe(`create role ${role} login password 'hunter2'`)
  onTestFinished(async () => {
    await sql.end()
    await drop()
    const administrator = postgres(inject('testServers').databaseUrl, { max: 1 })
    await administrator.unsafe(`drop role ${role}`)
    await administrator.end()
  })
  const own = Object.assign(new URL(url), { username: role, password: 'hunter2' }).href
  const env = await environment({ DATABASE_URL: own })
  const config = loadConfig(env)
  const sentence = await prepareDatabase(config).then(
    () => 'migrated',
    (error: unknown) => startupFailure(error, env),
  )
  expect(sentence).toContain('(permission denied for database ')
  expect(sentence).not.toContain('hunter2')
  await sql.unsafe(/ALTER DATABASE .*/.exec(sentence)?.[0] ?? 'none')
  await prepareDatabase(config)
})

test('a taken port is named in a sentence', async () => {
  const taken = createServer()
  await once(taken.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void taken.close())
  const { port } = taken.address() as AddressInfo
  const { ended } = start(await environment({ PORT: String(port) }))
  expect(await ended).toEqual({ code: 1, stderr: expect.stringContaining(`Port ${port} is taken`) })
  const health = start(await environment({ HEALTH_PORT: String(port) }))
  expect(await health.ended).toEqual({ code: 1, stderr: expect.stringContaining(`Port ${port} is taken`) })
})

test('SIGTERM: readiness fails first while requests are still answered, then the process ends with 0', async () => {
  const env = await environment()
  const { child, ended } = start(env)
  const ready = `http://127.0.0.1:${env.HEALTH_PORT}/ready`
  await untilStatus(ready, 200)
  child.kill('SIGTERM')
  await untilStatus(ready, 503)
  // From the first second on every answer closes its connection.
  const last = await fetch(`http://127.0.0.1:${env.PORT}/.well-known/openid-configuration`)
  expect([last.status, last.headers.get('connection')]).toEqual([200, 'close'])
  expect((await ended).code).toBe(0)
})

test('a service that main.ts has started hashes passwords at their real cost', async () => {
  const env = await environment()
  start(env)
  await untilStatus(`http://127.0.0.1:${env.HEALTH_PORT}/ready`, 200)
  const health = async () => (await fetch(`http://127.0.0.1:${env.HEALTH_PORT}/metrics`)).text()
  await expect.poll(health).toMatch(/^dependency_up.*\n(?!dependency_up)/m)
  expect(await health()).toContain('dependency_up{dependency="database"} 1\n')
  const command = (...words: string[]) => callProgram(runCommandLine, { words, env })
  await command('user', 'create', '--email', 'ana@example.com')
  const { link } = JSON.parse((await command('user', 'reset', 'ana@example.com', '--json')).stdout) as { link: string }
  const browser = new Browser()
  const password = 'a new and longer password'
  expect((await browser.submit(await browser.visit(link), { new: password, again: password })).status).toBe(200)
  const sql = postgres(env.DATABASE_URL ?? '', { max: 1 })
  onTestFinished(() => sql.end())
  const [user] = await sql`select password_hash from users`
  expect(user?.password_hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
})

test('a process whose launcher is gone ends by itself', async () => {
  const env = await environment({ PLATFORM_PARENT_PIPE: '1' })
  const { child, ended } = start(env)
  await untilStatus(`http://127.0.0.1:${env.HEALTH_PORT}/ready`, 200)
  child.stdin.end()
  expect((await ended).code).toBe(0)
})

test('two processes that start together on an empty database share one signing key', async () => {
  const { url } = await createDatabase('empty')
  const MASTER_KEYS = `test:${randomBytes(32).toString('base64')}`
  const kids = await Promise.all(
    [1, 2].map(async () => {
      const env = await environment({ DATABASE_URL: url, MASTER_KEYS })
      start(env)
      await untilStatus(`http://127.0.0.1:${env.HEALTH_PORT}/ready`, 200)
      const jwks = await fetch(`http://127.0.0.1:${env.PORT}/.well-known/jwks.json`)
      return ((await jwks.json()) as { keys: { kid: string }[] }).keys.map(({ kid }) => kid)
    }),
  )
  expect(kids[0]).toHaveLength(1)
  expect(kids[1]).toEqual(kids[0])
})

test('with MIGRATE_ON_START=false a process leaves the schema alone, and `cli.ts migrate` makes it', async () => {
  const { url } = await createDatabase('empty')
  const env = await environment({ DATABASE_URL: url, MIGRATE_ON_START: 'false' })
  const sentence = expect.stringContaining(
    'is empty, and MIGRATE_ON_START is false: run node services/idp/src/cli.ts migrate',
  )
  expect(await start(env).ended).toMatchObject({ code: 1, stderr: sentence as string })
  const { stdout } = await promisify(execFile)(process.execPath, [cli, 'migrate', '--json'], { env })
  expect(stdout).toBe('{"migrated":true}\n')
  start(env)
  await untilStatus(`http://127.0.0.1:${env.HEALTH_PORT}/ready`, 200)
})
