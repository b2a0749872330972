import { spawn } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { Browser } from '@platform/testkit/browser'
import { createServiceDatabase } from '@platform/testing/service-databases'
import { callProgram } from '@platform/testkit/call-program'
import { createDatabase } from '@platform/testkit/databases'
import { inheritedEnvironment } from '@platform/testkit/test-environment'
import { base32 } from 'oslo/encoding'
import { generateHOTP } from 'oslo/otp'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runCommandLine } from '../src/commands/run.ts'
import { DEVICE_GRANT, startTestIdp, type TestIdp } from './start.ts'

const cli = new URL('../src/cli.ts', import.meta.url).pathname
const MASTER_KEYS = `test:${randomBytes(32).toString('base64')}`
let idp: TestIdp
let sql: postgres.Sql
beforeAll(async () => {
  idp = await startTestIdp({ MASTER_KEYS, DATABASE_URL: (await createServiceDatabase('idp')).url })
  sql = postgres(idp.databaseUrl, { max: 1 })
})
afterAll(async () => {
  await sql.end()
  await idp.close()
})

const environment = (more: Record<string, string>) => ({
  PUBLIC_URL: idp.url,
  DATABASE_URL: idp.databaseUrl,
  MASTER_KEYS,
  ...more,
})
const split = (words: string) => words.split(' ').filter((word) => word !== '')

/** Runs a command in this process. */
const run = (words: string, stdin = '', more: Record<string, string> = {}) =>
  callProgram(runCommandLine, { words: split(words), env: environment(more), stdin })

/** Runs a command as an operator does. */
async function runProcess(words: string, stdin = '', more: Record<string, string> = {}) {
  const env = { ...inheritedEnvironment, ...environment(more) }
  const child = spawn(process.execPath, [cli, ...split(words)], { env })
  child.stdin.end(stdin)
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return { code: code as number, stdout, stderr }
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
async function runJson(words: string, stdin = '', runWords = run): Promise<any> {
  const { code, stdout, stderr } = await runWords(`${words} --json`, stdin)
  if (code !== 0) throw new Error(stderr)
  return JSON.parse(stdout)
}

/** What was done to somebody or something, without their sign-ins. */
const actionsOf = async (subject: string): Promise<string[]> => {
  const rows =
    await sql`select action from audit_events where subject = ${subject} and action <> 'user.signed_in' order by id`
  return rows.map(({ action }) => action as string)
}

test('apply makes users and clients once, however often it runs; they can sign in', async () => {
  const clientId = randomUUID()
  const document = {
    users: [{ email: 'Demo@example.com', givenName: 'Demo', familyName: 'User', password: 'a demo password' }],
    clients: [
      {
        id: clientId,
        name: 'Console',
        kind: 'confidential',
        secret: 'a secret of the console',
        redirectUris: ['https://app.example.com/callback'],
        postLogoutRedirectUris: ['https://app.example.com/'],
        grants: ['authorization_code', 'refresh_token'],
        scopes: '*',
        isFirstParty: true,
      },
    ],
  }
  const first = await runJson('apply -', JSON.stringify(document), runProcess)
  expect(first).toMatchObject({
    users: [{ email: 'Demo@example.com', isNew: true }],
    clients: [{ id: clientId, isNew: true }],
  })
  const again = await runJson('apply -', JSON.stringify(document))
  expect(again).toMatchObject({
    users: [{ id: first.users[0].id, isNew: false }],
    clients: [{ id: clientId, isNew: false }],
  })
  expect(await actionsOf(`user:${first.users[0].id}`)).toEqual(['user.created'])
  expect(await actionsOf(`client:${clientId}`)).toEqual(['client.created'])

  const person = { userId: first.users[0].id, email: 'demo@example.com', password: 'a demo password' }
  const tokens = await idp.tokens({ id: clientId, secret: 'a secret of the console' }, person)
  expect(tokens.refresh_token).toBeDefined()

  const changed = { users: [{ ...document.users[0], password: 'another password' }], clients: [] }
  await runJson('apply -', JSON.stringify(changed))
  const refreshed = await idp.token({
    grant_type: 'refresh_token',
    client_id: clientId,
    client_secret: 'a secret of the console',
    refresh_token: tokens.refresh_token ?? '',
  })
  expect(refreshed.body.error).toBe('invalid_grant')
  expect(await actionsOf(`user:${person.userId}`)).toEqual(['user.created', 'user.password_set'])
})

test.each([
  ['no JSON', '{', 2],
  ['unknown members', '{"clients":[],"extra":1}', 2],
  [
    'a scope outside the catalogue',
    '{"clients":[{"id":"ID","name":"x","kind":"public","grants":[],"scopes":["nope"]}]}',
    1,
  ],
  [
    'http away from loopback',
    '{"clients":[{"id":"ID","name":"x","kind":"public","grants":[],"scopes":"*","redirectUris":["http://app.example.com/"]}]}',
    1,
  ],
  [
    'javascript:',
    '{"clients":[{"id":"ID","name":"x","kind":"public","grants":[],"scopes":"*","redirectUris":["javascript:alert(1)"]}]}',
    1,
  ],
  [
    'a fragment',
    '{"clients":[{"id":"ID","name":"x","kind":"public","grants":[],"scopes":"*","redirectUris":["https://a.example.com/#x"]}]}',
    1,
  ],
  ['an unknown grant', '{"clients":[{"id":"ID","name":"x","kind":"public","grants":["password"],"scopes":"*"}]}', 1],
  [
    'a short secret',
    '{"clients":[{"id":"ID","name":"x","kind":"confidential","secret":"x","grants":[],"scopes":"*"}]}',
    1,
  ],
  ['an id that is no UUID', '{"clients":[{"id":"x","name":"x","kind":"public","grants":[],"scopes":"*"}]}', 1],
  ['a short password', '{"users":[{"email":"a@example.com","password":"short"}]}', 1],
  ['an address that is none', '{"users":[{"email":"a","password":"long enough"}]}', 1],
])('apply refuses %s with a sentence', async (_, document, code) => {
  const refused = await run('apply -', document.replace('ID', randomUUID()))
  expect(refused.code).toBe(code)
  expect(refused.stderr.trimEnd().split('\n')).toHaveLength(1)
  expect(refused.stdout).toBe('')
})

test('users are made, suspended, restored and deleted, each with its audit row', async () => {
  const { id } = await runJson(
    'user create --email eve@example.com --given-name Eve --password-stdin',
    'a long password\n',
  )
  const [made] = await sql`select password_hash from users where id = ${id}`
  expect(made?.password_hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  expect((await run('user create --email EVE@example.com')).stderr).toContain('exists already')
  await runJson('user suspend eve@example.com')
  const [suspended] = await sql`select suspended_at from users where id = ${id}`
  expect(suspended?.suspended_at).not.toBeNull()
  await runJson(`user restore ${id}`)
  await runJson('product withdraw eve@example.com storage')
  await runJson('product grant eve@example.com storage')
  await runJson('user delete eve@example.com')
  expect(await sql`select 1 from users where id = ${id}`).toHaveLength(0)
  expect(await actionsOf(`user:${id}`)).toEqual([
    'user.created',
    'user.suspended',
    'user.restored',
    'product.withdrawn',
    'product.granted',
    'user.deleted',
  ])
  expect(await run('user suspend eve@example.com')).toMatchObject({
    code: 1,
    stderr: 'User eve@example.com not found\n',
  })
})

test('user reset prints a link that sets a password once, and ends all access (identity.md, operator)', async () => {
  const ana = await idp.person()
  const { refresh_token = '' } = await idp.tokens(await idp.client(), ana)
  const { id, link } = await runJson(`user reset ${ana.email.toUpperCase()}`)
  expect(id).toBe(ana.userId)
  const browser = new Browser()
  const page = await browser.visit(link)
  const form = { new: 'handed over and changed', again: 'handed over and changed' }
  expect((await browser.submit(page, form)).status).toBe(200)
  expect((await browser.submit(page, form)).status).toBe(400)
  expect((await browser.visit(`${idp.url}/`)).status).toBe(302)
  expect(await idp.signedIn({ ...ana, password: form.new })).toBeDefined()
  const [family] = await sql`select revoked_at from refresh_families where user_id = ${id}`
  expect([refresh_token === '', family?.revoked_at === null]).toEqual([false, false])
  expect(await actionsOf(`user:${id}`)).toEqual(['user.created', 'user.reset_link_made', 'user.password_reset'])
  expect(await run('user reset nobody@example.com')).toMatchObject({
    code: 1,
    stderr: 'User nobody@example.com not found\n',
  })
})

describe('init, the first start in production (identity.md, operator)', () => {
  test('makes the own clients and the first user, whose link sets a password; repeating it changes nothing', async () => {
    const words = 'init --email owner@example.org --given-name Olga --console-url https://console.example.com'
    const first = await runJson(words)
    expect(first).toMatchObject({
      clients: [
        { name: 'Platform CLI', isNew: true },
        { name: 'Platform console', isNew: true },
      ],
      user: { email: 'owner@example.org', isNew: true },
    })
    // The password is not set yet, perhaps the link was lost: there is another.
    const second = await runJson(words)
    expect(second.link).not.toBe(first.link)
    expect(second).toMatchObject({
      clients: [{ isNew: false }, { isNew: false }],
      user: { id: first.user.id, isNew: false },
    })
    const browser = new Browser()
    const password = 'the password of the owner'
    expect((await browser.submit(await browser.visit(second.link), { new: password, again: password })).status).toBe(
      200,
    )
    expect((await browser.visit(first.link)).status).toBe(400)
    const owner = { userId: first.user.id, email: 'owner@example.org', password }
    const page = await browser.visit(
      idp.authorizeUrl(
        { id: first.clients[1].id, secret: undefined },
        { redirect_uri: 'https://console.example.com/callback' },
      ),
    )
    const done = await browser.follow(await idp.signIn(browser, await browser.follow(page, idp.url), owner), idp.url)
    expect(done.location).toMatch(/^https:\/\/console\.example\.com\/callback\?code=/)
    expect((await runJson(words)).link).toBeNull()
    expect((await run(words)).stdout).toContain('user reset')
    expect(await actionsOf(`client:${first.clients[0].id}`)).toEqual(['client.created'])
    expect(await actionsOf(`user:${first.user.id}`)).toEqual([
      'user.created',
      'user.reset_link_made',
      'user.reset_link_made',
      'user.password_reset',
    ])
  })

  test('takes the device flow from a console that has it from before, and from no other client (D6)', async () => {
    const words = 'init --email owner@example.org --console-url https://console.example.com'
    const { clients } = await runJson(words)
    const [commandLine, console] = clients.map(({ id }: { id: string }) => id) as [string, string]
    await sql`update clients set grants = ${['authorization_code', 'refresh_token', DEVICE_GRANT]} where id = ${console}`
    await runJson(words)
    const start = (client: string) =>
      idp.send(
        'POST /oauth2/device_authorization',
        { client_id: client, scope: 'openid' },
        { 'content-type': 'application/json' },
      )
    expect(await start(console)).toMatchObject({ status: 400, body: { error: 'unauthorized_client' } })
    expect((await start(commandLine)).status).toBe(200)
    expect((await actionsOf(`client:${console}`)).at(-1)).toBe('client.changed')
  })

  test('makes no console without its address', async () => {
    const { clients } = await runJson('init --email second@example.org')
    expect(clients.map(({ name }: { name: string }) => name)).toEqual(['Platform CLI'])
  })
})

test('audit tail shows what changed last, oldest first, of one subject where asked', async () => {
  const { userId } = await idp.person()
  for (const verb of ['suspend', 'restore']) await run(`user ${verb} ${userId}`)
  const events = await runJson(`audit tail --subject user:${userId}`)
  expect(events).toMatchObject([
    { actor: 'operator', action: 'user.created' },
    { action: 'user.suspended' },
    { action: 'user.restored', subject: `user:${userId}`, at: expect.stringMatching(/^\d{4}-/) },
  ])
  const { stdout } = await run('audit tail --count 1 --actor operator')
  expect(stdout).toMatch(new RegExp(`^\\S+  operator  user\\.restored  user:${userId}\n$`))
})

test('clients are made, listed, given another secret, a policy, and disabled', async () => {
  const made = await runJson(
    'client create --name Jobs --kind confidential --grant refresh_token --scope openid --scope offline_access --requester ops',
  )
  expect(made.secret).toMatch(/^idp_secret_[\w-]{43}$/)
  const listed = await runJson('client list')
  const entry = listed.find(({ id }: { id: string }) => id === made.id)
  expect(entry).toMatchObject({
    name: 'Jobs',
    scopes: ['openid', 'offline_access'],
    requester: 'ops',
    isFirstParty: false,
  })
  expect(JSON.stringify(listed)).not.toContain('ecret')
  expect((await runJson(`client rotate-secret ${made.id}`)).secret).not.toBe(made.secret)
  await runJson(`policy set ${made.id} --domain example.com --second-factor true --product storage`)
  await runJson(`policy set ${made.id} --everyone --no-product`)
  await runJson(`client disable ${made.id}`)
  expect(await actionsOf(`client:${made.id}`)).toEqual([
    'client.created',
    'client.secret_rotated',
    'client.policy_set',
    'client.policy_set',
    'client.disabled',
  ])
  const [row] =
    await sql`select policy_domains, required_product, requires_second_factor from clients where id = ${made.id}`
  expect(row).toEqual({ policy_domains: [], required_product: null, requires_second_factor: true })
})

test('an authenticator app is sealed anew with the keys, and removed by user reset --second-factor', async () => {
  const ana = await idp.person()
  const browser = await idp.signedIn(ana)
  const page = await browser.visit(`${idp.url}/authenticator/add`)
  const secret = base32.decode((/class="secret">([^<]+)</.exec(page.body)?.[1] ?? '').replaceAll(' ', ''), {
    strict: false,
  })
  const step = () => Math.floor(Date.now() / 30_000)
  expect((await browser.submit(page, { code: await generateHOTP(secret, step()) })).status).toBe(200)

  const newer = `next:${randomBytes(32).toString('base64')},${MASTER_KEYS}`
  const sealed = await run('keys reencrypt --json', '', { MASTER_KEYS: newer })
  expect(JSON.parse(sealed.stdout).reencrypted).toBeGreaterThan(1)
  const [row] = await sql`select kek_id from authenticators where user_id = ${ana.userId}`
  expect(row?.kek_id).toBe('next')
  await run('keys reencrypt', '', { MASTER_KEYS: `${MASTER_KEYS},${newer.split(',')[0]}` })
  const other = new Browser()
  const asked = await idp.signIn(other, await other.visit(`${idp.url}/sign-in`), ana)
  expect((await other.submit(asked, { code: await generateHOTP(secret, step() + 1) })).status).toBe(303)

  await runJson(`user reset ${ana.userId} --second-factor`)
  expect(await actionsOf(`user:${ana.userId}`)).toEqual([
    'user.created',
    'user.authenticator_added',
    'user.authenticator_removed',
    'user.reset_link_made',
  ])
})

test('keys are listed, rotated in an emergency, and sealed anew under another master key', async () => {
  const before = await runJson('keys list')
  expect(before.map(({ use }: { use: string }) => use)).toEqual(['sign', 'refresh'])
  const { kid } = await runJson('keys rotate --emergency')
  expect(await actionsOf(`key:${kid}`)).toEqual(['key.rotated'])
  // The running service hears of it; by itself it would read its keys again within a minute.
  const published = async () => {
    const { body } = await idp.send('GET /.well-known/jwks.json')
    return (body as { keys: { kid: string }[] }).keys.map((key) => key.kid)
  }
  await expect.poll(published).toEqual([kid])
  const newer = `next:${randomBytes(32).toString('base64')},${MASTER_KEYS}`
  const sealed = await run('keys reencrypt --json', '', { MASTER_KEYS: newer })
  expect(JSON.parse(sealed.stdout)).toEqual({ reencrypted: 3 })
  const alone = await run('keys list --json', '', { MASTER_KEYS: newer.split(',')[0] ?? '' })
  expect(alone.code).toBe(0)
  // A process, since the service fails half-way and what it had opened keeps it alive.
  const old = await runProcess('keys list')
  expect(old.code).toBe(1)
  expect(old.stderr).toContain('master key next')
  expect(old.stderr.trimEnd().split('\n')).toHaveLength(1)
  await run('keys reencrypt', '', { MASTER_KEYS: `${MASTER_KEYS},${newer.split(',')[0]}` })
})

test('keys rotate --emergency says what other verifiers do, and ends every refresh token where asked to', async () => {
  const makesRefreshTokensBy = () => idp.deps.refreshKeys.current().id
  const before = makesRefreshTokensBy()
  const { stdout } = await run('keys rotate --emergency --refresh-tokens')
  expect(stdout).toContain('within 2 seconds')
  expect(stdout).toContain('at the latest in 5 minutes')
  await expect.poll(makesRefreshTokensBy).not.toBe(before)
})

test('called wrongly it says so with exit code 2, and --help lists every command', async () => {
  const wrong = [
    'nope',
    'user',
    'user create',
    'client disable',
    'client disable x',
    'client list --nope',
    'policy set',
    'init',
    'init --email a@example.com --console-url https://console.example.com/path',
    'user reset',
    'audit tail --count many',
  ]
  const codes = await Promise.all(wrong.map(async (words) => (await run(words)).code))
  codes.push((await runProcess('nope')).code)
  expect(new Set(codes)).toEqual(new Set([2]))
  const help = await run('--help', '', { PUBLIC_URL: '' })
  expect(help.code).toBe(0)
  for (const name of [
    'init',
    'user reset',
    'audit tail',
    'apply',
    'migrate',
    'user create',
    'user invite',
    'user list',
    'user show',
    'user update',
    'client show',
    'client update',
    'client enable',
    'client delete',
    'client rotate-secret',
    'policy set',
    'keys reencrypt',
  ])
    expect(help.stdout).toContain(name)
})

test('migrate brings an empty database to the schema, and is safe to repeat', async () => {
  const { url } = await createDatabase('empty')
  for (let i = 0; i < 2; i++) expect((await run('migrate', '', { DATABASE_URL: url })).code).toBe(0)
})
