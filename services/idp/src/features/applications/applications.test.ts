import { Browser, type Visit } from '@platform/testkit/browser'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { REDIRECT_URI, startTestIdp, type TestClient, type TestIdp, type TestPerson } from '../../../test/start.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

const open = (browser: Browser) => browser.visit(`${idp.url}/applications`)
const itemOf = (page: Visit, name: string) => page.body.split('<h2>').find((item) => item.startsWith(name)) ?? ''
const hiddenOf = (html: string, name: string) => new RegExp(`name="${name}" value="([^"]+)"`).exec(html)?.[1] ?? ''
const disconnect = async (browser: Browser, name: string) => {
  const item = itemOf(await open(browser), name)
  return browser.visit(`${idp.url}/applications/disconnect`, {
    csrf: hiddenOf(item, 'csrf'),
    client_id: hiddenOf(item, 'client_id'),
  })
}
const refresh = (client: TestClient, token = '') =>
  idp.token({ grant_type: 'refresh_token', client_id: client.id, refresh_token: token })
const thirdParty = (name: string) => idp.client({ name, isFirstParty: false })
const auditOf = async (person: TestPerson, client: TestClient) => {
  const rows = await idp.deps.db.execute<{ action: string }>(
    `select action from audit_events where actor = 'user:${person.userId}' and subject = 'client:${client.id}' order by id`,
  )
  return rows.map(({ action }) => action)
}

describe('the list of connected applications', () => {
  test('is empty in plain words, and reached from home', async () => {
    const browser = await idp.signedIn(await idp.person())
    expect((await browser.visit(`${idp.url}/`)).body).toContain(`href="${idp.url}/applications"`)
    const page = await open(browser)
    expect(page.body).toContain('No application is connected to your account')
    expect(page.body).not.toContain('<form')
  })

  test('shows a consent and a refresh family of one client as one, with scopes in words and since when', async () => {
    const ana = await idp.person()
    const client = await thirdParty('Reader')
    const since = idp.now()
    await idp.code(client, ana, { scope: 'openid email' })
    idp.advance(2 * 86_400_000)
    const { refresh_token } = await idp.tokens(client, ana, 'openid profile offline_access')
    idp.advance(86_400_000)
    await refresh(client, refresh_token)
    const used = idp.now()
    const page = await open(await idp.signedIn(ana))
    expect(page.body.match(/<h2>/g)).toHaveLength(1)
    const item = itemOf(page, 'Reader')
    expect(item).toMatch(new RegExp(`Connected</dt>\\s*<dd><time datetime="${since.toISOString().slice(0, 13)}`))
    expect(item).toMatch(new RegExp(`Last used</dt>\\s*<dd><time datetime="${used.toISOString().slice(0, 13)}`))
    const words = [...item.matchAll(/<li title="([^"]+)">/g)].map(([, scope]) => scope)
    expect(words).toEqual(['offline_access', 'openid profile email'])
    expect(item).toContain('and your email address')
    expect(page.body).not.toMatch(/<script|style=|onclick/)
  })

  test('shows a first-party client only while it can come back by itself, and the names as text', async () => {
    const ana = await idp.person()
    const client = await idp.client({ name: '<i>Console</i>' })
    const browser = await idp.signedIn(ana)
    await idp.token(idp.codeForm(client, await idp.code(client, ana)))
    expect((await open(browser)).body).toContain('No application')
    await idp.tokens(client, ana)
    expect((await open(browser)).body).toContain('&lt;i&gt;Console&lt;/i&gt;')
    idp.advance(31 * 86_400_000)
    expect((await open(await idp.signedIn(ana))).body).toContain('No application')
  })

  test('without a session it leads to sign-in and back', async () => {
    const browser = new Browser()
    const page = await browser.follow(await open(browser), idp.url)
    expect((await idp.signIn(browser, page, await idp.person())).location).toBe(`${idp.url}/applications`)
    const posted = await new Browser().visit(`${idp.url}/applications/disconnect`, { csrf: 'x' })
    expect(posted.location).toContain('/sign-in?returnTo=')
  })
})

describe('disconnecting', () => {
  test('ends consent, refresh families and pending codes of this user and client, and nothing else', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const [reader, writer] = [await thirdParty('Reader'), await thirdParty('Writer')]
    const [hers, his, other] = [
      await idp.tokens(reader, ana),
      await idp.tokens(reader, bob),
      await idp.tokens(writer, ana),
    ]
    const code = await idp.code(reader, ana, { scope: 'openid offline_access' })
    const browser = await idp.signedIn(ana)
    expect(await disconnect(browser, 'Reader')).toMatchObject({ status: 303, location: `${idp.url}/applications` })

    const page = await open(browser)
    expect(itemOf(page, 'Reader')).toBe('')
    expect(itemOf(page, 'Writer')).not.toBe('')
    const refused = { status: 400, body: { error: 'invalid_grant' } }
    expect(await refresh(reader, hers.refresh_token)).toMatchObject(refused)
    expect(await idp.token(idp.codeForm(reader, code))).toMatchObject(refused)
    expect((await refresh(reader, his.refresh_token)).status).toBe(200)
    expect((await refresh(writer, other.refresh_token)).status).toBe(200)
    const again = await browser.visit(idp.authorizeUrl(reader, { redirect_uri: REDIRECT_URI }))
    expect(again.location).toContain('/consent?')
    expect(await auditOf(ana, reader)).toEqual(['consent.granted', 'client.disconnected'])
  })

  test('is safe to repeat, and recorded once', async () => {
    const ana = await idp.person()
    const client = await thirdParty('Reader')
    await idp.tokens(client, ana)
    const browser = await idp.signedIn(ana)
    const item = itemOf(await open(browser), 'Reader')
    const form = { csrf: hiddenOf(item, 'csrf'), client_id: client.id }
    const answers = await Promise.all([1, 2, 3].map(() => browser.visit(`${idp.url}/applications/disconnect`, form)))
    expect(answers.map(({ status }) => status)).toEqual([303, 303, 303])
    expect((await auditOf(ana, client)).filter((action) => action === 'client.disconnected')).toHaveLength(1)
  })

  test('takes the token of its own form (CSRF)', async () => {
    const ana = await idp.person()
    const [reader, writer] = [await thirdParty('Reader'), await thirdParty('Writer')]
    const { refresh_token } = await idp.tokens(reader, ana)
    await idp.tokens(writer, ana)
    const browser = await idp.signedIn(ana)
    const csrf = hiddenOf(itemOf(await open(browser), 'Writer'), 'csrf')
    for (const form of [
      { csrf, client_id: reader.id },
      { csrf: 'x', client_id: reader.id },
    ])
      expect((await browser.visit(`${idp.url}/applications/disconnect`, form)).status).toBe(403)
    expect((await refresh(reader, refresh_token)).status).toBe(200)
  })
})
