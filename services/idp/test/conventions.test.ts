import { Browser } from '@platform/testkit/browser'
import { afterEach, describe, expect, test } from 'vitest'
import { linkIn, startTestIdp, type TestIdp } from './start.ts'

let idp: TestIdp | undefined
afterEach(async () => {
  await idp?.close()
  idp = undefined
})

test('no log line holds a secret: passwords, codes, tokens, cookies, addresses of people', async () => {
  const lines: string[] = []
  idp = await startTestIdp({}, { logTo: { write: (line) => void lines.push(line) } })
  const client = await idp.client({ kind: 'confidential', secret: 'the secret of a client' })
  const ana = await idp.person()
  const tokens = await idp.tokens(client, ana)
  const code = await idp.code(client, ana)
  await idp.token(idp.codeForm(client, code))
  await idp.send('GET /oauth2/userinfo', undefined, { authorization: `Bearer ${tokens.access_token}` })
  await idp.send('GET /oauth2/authorize?code=secret-in-a-query')
  // A query that fails: drizzle's message would quote its parameters.
  await idp.deps.db.execute('alter table users rename column suspended_at to away')
  const browser = new Browser()
  const form = await browser.visit(`${idp.url}/sign-in`)
  expect((await idp.signIn(browser, form, ana)).status).toBe(500)
  const log = lines.join('')
  expect(log).toMatch(/"path":"\/oauth2\/token","address":"[^"]+","status":200/)
  expect(log).toContain('request failed')
  const secrets = [
    ana.email,
    ana.password,
    code,
    'the secret of a client',
    'secret-in-a-query',
    tokens.access_token,
    tokens.refresh_token,
  ]
  for (const secret of secrets) expect(log).not.toContain(secret)
  expect(log).not.toMatch(/session_\d+=|params/)
})

test('a failure that nobody foresaw is a 500 that says nothing of its cause', async () => {
  idp = await startTestIdp()
  const client = await idp.client()
  await idp.deps.db.execute('drop table client_secrets')
  const answer = await idp.token({ grant_type: 'refresh_token', client_id: client.id, refresh_token: 'x' })
  expect(answer).toMatchObject({ status: 500, body: { error: 'server_error', error_description: 'Internal error' } })
  expect(answer.headers['cache-control']).toBe('no-store')
})

describe('on https', () => {
  test('cookies carry the __Host- prefix and Secure, and browsers are told to stay on https', async () => {
    idp = await startTestIdp({ PUBLIC_URL: 'https://id.example.com', ACCOUNT_URL: 'https://id.example.com' })
    const { headers } = await idp.send('GET /sign-in')
    expect(headers['set-cookie']?.[0]).toMatch(/^__Host-before=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Secure$/)
    expect(headers['strict-transport-security']).toBe('max-age=31536000')
    const { body } = await idp.send('GET /.well-known/openid-configuration')
    const page = await idp.send('GET /sign-in')
    expect(page.text).toContain('&quot;rpId&quot;:&quot;id.example.com&quot;')
    expect(body.token_endpoint).toBe('https://id.example.com/oauth2/token')
  })
})

describe('an account site below a path ({account_url})', () => {
  test('sign-in, device and style live there, and the flow goes through', async () => {
    idp = await startTestIdp({}, { accountPath: '/account' })
    const client = await idp.client()
    const ana = await idp.person()
    const browser = new Browser()
    const page = await browser.follow(await browser.visit(idp.authorizeUrl(client)), idp.url)
    expect(page.url).toContain(`${idp.url}/account/sign-in?returnTo=`)
    expect(page.body).toContain('href="/account/style.')
    expect(page.body).toContain('href="' + idp.url + '/account/forgot-password"')
    const script = /src="(\/account\/script\.\w+\.js)"/.exec(page.body)?.[1] ?? ''
    expect((await idp.send(`GET ${script}`)).status).toBe(200)
    const done = await browser.follow(await idp.signIn(browser, page, ana), idp.url)
    expect(new URL(done.location ?? '').searchParams.get('code')).toBeTruthy()
    const device = await idp.send(
      'POST /oauth2/device_authorization',
      { client_id: client.id, scope: 'openid' },
      { 'content-type': 'application/json' },
    )
    expect(device.body.verification_uri).toBe(`${idp.url}/account/device`)
    const approval = await browser.visit(device.body.verification_uri_complete)
    expect(approval.body).toContain(device.body.user_code)
    expect((await idp.send('GET /sign-in')).status).toBe(404)
    expect((await browser.visit(`${idp.url}/account/authenticator`)).body).toContain('/account/authenticator/add"')
    const asked = new Browser()
    await asked.submit(await asked.visit(`${idp.url}/account/forgot-password`), { email: ana.email })
    expect(linkIn((await idp.letters(ana))[0])).toContain(`${idp.url}/account/set-password?token=`)
  })
})

test('behind a pooler in transaction mode no statement is named, and everything works', async () => {
  idp = await startTestIdp({ DATABASE_PREPARE: 'false', DATABASE_POOL: '2' })
  const client = await idp.client()
  const { refresh_token } = await idp.tokens(client, await idp.person())
  const answer = await idp.token({
    grant_type: 'refresh_token',
    client_id: client.id,
    refresh_token: refresh_token ?? '',
  })
  expect(answer.status).toBe(200)
  const rows = await idp.deps.db.execute('select count(*)::int as n from pg_prepared_statements')
  expect(rows[0]).toEqual({ n: 0 })
})
