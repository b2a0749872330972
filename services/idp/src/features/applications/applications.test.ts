import { createHmac, randomUUID } from 'node:crypto'
import { Browser, type Visit } from '@platform/testkit/browser'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addConnections } from '../../../test/crowded-account.ts'
import { holdNoon } from '../../../test/hold-hour.ts'
import { words } from '../../../test/page-words.ts'
import {
  DEVICE_GRANT,
  REDIRECT_URI,
  startTestIdp,
  type TestClient,
  type TestIdp,
  type TestPerson,
} from '../../../test/start.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

const open = (browser: Browser) => browser.visit(`${idp.url}/applications`)
/** The rows of the list, each from its summary to the end of what it unfolds to. */
const itemsOf = (page: Visit) =>
  page.body
    .split('<summary class="row">')
    .slice(1)
    .map((item) => item.split('</details>')[0] ?? '')
const itemOf = (page: Visit, name: string) =>
  itemsOf(page).find((item) => item.trimStart().startsWith(`<span class="name">${name}</span>`)) ?? ''
/** What a row shows while it is folded. */
const foldedOf = (item = '') => words(item.split('</summary>')[0])
const hiddenOf = (html: string, name: string) => new RegExp(`name="${name}" value="([^"]+)"`).exec(html)?.[1] ?? ''
const formToDisconnect = (page: Visit, name: string) => {
  const form = itemOf(page, name)
    .split('action="')
    .find((part) => part.startsWith(`${idp.url}/applications/disconnect"`))
  return { csrf: hiddenOf(form ?? '', 'csrf'), client_id: hiddenOf(form ?? '', 'client_id') }
}
const disconnect = async (browser: Browser, name: string) => {
  const form = formToDisconnect(await open(browser), name)
  return browser.visit(`${idp.url}/applications/disconnect`, form)
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

  test('shows a consent and a refresh family of one client as one, with scopes in words, since when and when last used', async () => {
    holdNoon(idp)
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
    expect(itemsOf(page)).toHaveLength(1)
    const item = itemOf(page, 'Reader')
    const [summary = '', unfolded = ''] = item.split('</summary>')
    expect(summary).toContain(`<time datetime="${used.toISOString()}"`)
    expect(unfolded).toContain(`Connected <time datetime="${since.toISOString()}"`)
    const words = [...item.matchAll(/<li title="([^"]+)">/g)].map(([, scope]) => scope)
    expect(words).toEqual(['offline_access', 'openid profile email'])
    expect(item).toContain('and your email address')
    expect(page.body).not.toMatch(/<script(?! type="module" src="[^"]+"><)|style=|onclick/)
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

  test('a folded application shows how many connections it has, when one was last used, and its three weightiest scopes', async () => {
    holdNoon(idp)
    const ana = await idp.person()
    const [tool, reader] = [await idp.client({ name: 'Tool' }), await thirdParty('Reader')]
    const deletes = 'network:storage:delete'
    const scope = `openid email network:storage:read network:ai_gateway:chat offline_access network:deployments:trigger ${deletes}`
    await idp.tokens(tool, ana, scope)
    await idp.tokens(tool, ana, scope)
    await idp.code(reader, ana, { scope: 'openid network:storage:read network:deployments:trigger' })
    idp.advance(2 * 60_000)
    const page = await open(await idp.signedIn(ana))
    // What deletes, what changes, what costs money; then what lasts, what reads, and who the user is, in one line.
    expect(foldedOf(itemOf(page, 'Tool'))).toBe(
      'Tool 2 minutes ago 2 connections. Delete stored files · Deploy applications · Use AI models at the cost of your organization · 3 more',
    )
    expect(foldedOf(itemOf(page, 'Reader'))).toBe(
      'Reader No connection Deploy applications · Read stored files · See which account is yours',
    )
  })

  test('applications that were used or connected last come first', async () => {
    const ana = await idp.person()
    const [older, newer] = [await idp.client({ name: 'Older' }), await idp.client({ name: 'Newer' })]
    const { refresh_token } = await idp.tokens(older, ana)
    idp.advance(60_000)
    await idp.tokens(newer, ana)
    const browser = await idp.signedIn(ana)
    const names = async () => itemsOf(await open(browser)).map((item) => foldedOf(item).split(' ')[0])
    expect(await names()).toEqual(['Newer', 'Older'])
    idp.advance(60_000)
    await refresh(older, refresh_token)
    expect(await names()).toEqual(['Older', 'Newer'])
  })

  test('seven applications are shown and further ones folded away, but never a single one', async () => {
    const ana = await idp.person()
    const clients = await Promise.all(Array.from({ length: 9 }, () => idp.client()))
    const some = { each: 1, scope: 'openid offline_access' }
    await addConnections(idp, ana, clients.slice(0, 8), some)
    const browser = await idp.signedIn(ana)
    const eight = await open(browser)
    expect(itemsOf(eight)).toHaveLength(8)
    expect(eight.body).not.toMatch(/<summary>/)
    await addConnections(idp, ana, clients.slice(8), some)
    const [shown = '', folded = ''] = (await open(browser)).body.split('<summary>')
    expect(itemsOf({ ...eight, body: shown })).toHaveLength(7)
    expect(folded).toMatch(/^2 more applications</)
    expect(itemsOf({ ...eight, body: folded })).toHaveLength(2)
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
    const form = formToDisconnect(await open(browser), 'Reader')
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
    const { csrf } = formToDisconnect(await open(browser), 'Writer')
    for (const form of [
      { csrf, client_id: reader.id },
      { csrf: 'x', client_id: reader.id },
    ])
      expect((await browser.visit(`${idp.url}/applications/disconnect`, form)).status).toBe(403)
    expect((await refresh(reader, refresh_token)).status).toBe(200)
  })
})

describe('connections of an application', () => {
  const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'
  const machinesOf = (page: Visit, name: string) => {
    const list = /<ul class="entries">(.*?)<\/ul>/s.exec(itemOf(page, name))?.[1] ?? ''
    return list
      .split('<li>')
      .slice(1)
      .map((markup) => ({
        text: words(markup),
        form: { csrf: hiddenOf(markup, 'csrf'), connection: hiddenOf(markup, 'connection') },
      }))
  }
  const cutOff = (browser: Browser, form: Record<string, string>) =>
    browser.visit(`${idp.url}/applications/cut-off`, form)
  const signedInWith = async (person: TestPerson, headers: Record<string, string>) => {
    const browser = new Browser(headers)
    await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), person)
    return browser
  }
  /** Tokens for a code of this browser, which another program redeems from elsewhere. */
  const tokensIn = async (browser: Browser, client: TestClient) => {
    const url = idp.authorizeUrl(client, { scope: 'openid offline_access' })
    const { location } = await browser.follow(await browser.visit(url), idp.url)
    const code = new URL(location ?? '').searchParams.get('code') ?? ''
    const server = { 'user-agent': 'node', 'x-forwarded-for': '203.0.113.200' }
    const form = new URLSearchParams(idp.codeForm(client, code)).toString()
    return (await idp.token(form, server)).body as Record<string, string>
  }
  /** Tokens of a device that a person approves in this browser. */
  const tokensOfDevice = async (browser: Browser, client: TestClient, headers: Record<string, string>) => {
    const form = { client_id: client.id, scope: 'openid offline_access' }
    const json = { 'content-type': 'application/json', ...headers }
    const { body } = await idp.send('POST /oauth2/device_authorization', form, json)
    const page = await browser.visit(body.verification_uri_complete as string)
    await browser.submit(page, {}, { name: 'decision', value: 'approve' })
    const poll = { grant_type: DEVICE_GRANT, client_id: client.id, device_code: body.device_code as string }
    return (await idp.token(poll)).body as Record<string, string>
  }

  test('a connection that looks like no other has a line of its own: what asked for it and from where, last use, since when', async () => {
    holdNoon(idp)
    const ana = await idp.person()
    const client = await idp.client({ name: 'Tool' })
    const browser = await signedInWith(ana, { 'user-agent': FIREFOX, 'x-forwarded-for': '198.51.100.20' })
    await tokensIn(browser, client)
    idp.advance(86_400_000)
    const ofDevice = { 'user-agent': 'tool/1.2 (<b>linux</b>)', 'x-forwarded-for': '2001:db8:7:7::1' }
    const { refresh_token } = await tokensOfDevice(browser, client, ofDevice)
    idp.advance(86_400_000)
    await refresh(client, refresh_token)
    idp.advance(60_000)
    const page = await open(browser)
    const [day = '', month = ''] = new Date(idp.now().getTime() - 2 * 86_400_000).toUTCString().slice(5).split(' ')
    expect(machinesOf(page, 'Tool').map(({ text }) => text)).toEqual([
      'tool 2001:db8:7:7::/64, used 1 minute ago, connected yesterday, 12:00 UTC Cut off',
      expect.stringMatching(
        new RegExp(
          `^Firefox on Linux 198\\.51\\.100\\.20, used (${Number(day)} ${month}\\w*(?: \\d{4})?, 12:00 UTC), connected \\1 Cut off$`,
        ),
      ),
    ])
    expect(page.body).toContain('title="tool/1.2 (&lt;b&gt;linux&lt;/b&gt;)"')
    expect(page.body).not.toContain('<b>linux')
  })

  test('connections that differ in nothing that is shown are one line: their number, the newest use, the oldest start', async () => {
    holdNoon(idp)
    const ana = await idp.person()
    const client = await idp.client({ name: 'Tool' })
    for (const version of ['140', '141', '142']) {
      const headers = { 'user-agent': FIREFOX.replaceAll('140', version), 'x-forwarded-for': '198.51.100.31' }
      await tokensIn(await signedInWith(ana, headers), client)
      idp.advance(3_600_000)
    }
    const elsewhere = { 'user-agent': FIREFOX, 'x-forwarded-for': '198.51.100.32' }
    const browser = await signedInWith(ana, elsewhere)
    await tokensIn(browser, client)
    idp.advance(60_000)
    const page = await open(browser)
    expect(machinesOf(page, 'Tool').map(({ text }) => text)).toEqual([
      'Firefox on Linux 198.51.100.32, used 1 minute ago, connected 1 minute ago Cut off',
      'Firefox on Linux, 3 connections 198.51.100.31, used today, 14:00 UTC, connected today, 12:00 UTC Cut off',
    ])
    expect(foldedOf(itemOf(page, 'Tool'))).toContain('4 connections.')
    expect(words(itemOf(page, 'Tool'))).not.toContain('in all')
  })

  test('ten tabs of one console are one application with one line', async () => {
    const ana = await idp.person()
    const console = await idp.client({ name: 'Console' })
    const browser = await signedInWith(ana, { 'user-agent': FIREFOX, 'x-forwarded-for': '198.51.100.33' })
    for (let tab = 0; tab < 10; tab++) await tokensIn(browser, console)
    const page = await open(browser)
    expect(itemsOf(page).map((item) => foldedOf(item))).toEqual([expect.stringContaining('10 connections. ')])
    expect(machinesOf(page, 'Console')).toMatchObject([
      { text: expect.stringMatching(/^Firefox on Linux, 10 connections 198\.51\.100\.33, /) },
    ])
  })

  test('a line that is cut off ends every connection of it, with an audit row for each; all others go on', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const [tool, other] = [await idp.client({ name: 'Tool' }), await idp.client({ name: 'Other' })]
    const here = { 'user-agent': FIREFOX, 'x-forwarded-for': '198.51.100.34' }
    const updated = { ...here, 'user-agent': FIREFOX.replaceAll('140', '141') }
    const tokens = async (headers: Record<string, string>, { by = ana, of = tool } = {}) => {
      const { refresh_token = '' } = await tokensIn(await signedInWith(by, headers), of)
      return { refresh_token, client: of }
    }
    const alike = [await tokens(here), await tokens(here), await tokens(updated)]
    const others = [
      await tokens({ ...here, 'x-forwarded-for': '198.51.100.35' }),
      await tokens({ ...here, 'user-agent': 'tool/1.2' }),
      await tokens(here, { of: other }),
      await tokens(here, { by: bob }),
    ]
    const browser = await signedInWith(ana, here)
    const line = machinesOf(await open(browser), 'Tool').find(({ text }) => text.includes('3 connections'))
    expect((await cutOff(browser, line?.form ?? {})).status).toBe(303)

    const answers = async (all: typeof alike) =>
      Promise.all(all.map(async (one) => (await refresh(one.client, one.refresh_token)).status))
    expect(await answers(alike)).toEqual([400, 400, 400])
    expect(await answers(others)).toEqual([200, 200, 200, 200])
    const rows = await idp.deps.db.execute<{ subject: string; action: string }>(
      `select subject, action from audit_events where actor = 'user:${ana.userId}' and subject like 'family:%'`,
    )
    const familyOf = ({ refresh_token }: { refresh_token: string }) => `family:${refresh_token.split('.')[2]}`
    const expected = alike.map((one) => ({ subject: familyOf(one), action: 'family.revoked' }))
    expect(rows.toSorted((a, b) => a.subject.localeCompare(b.subject))).toEqual(
      expected.toSorted((a, b) => a.subject.localeCompare(b.subject)),
    )
  })

  test('a connection that looks like no other is cut off alone, with one audit row; the application stays, even without any', async () => {
    const ana = await idp.person()
    const client = await thirdParty('Tool')
    await idp.code(client, ana, { scope: 'openid offline_access' })
    const at = (address: string) => signedInWith(ana, { 'user-agent': FIREFOX, 'x-forwarded-for': address })
    const one = await tokensIn(await at('198.51.100.36'), client)
    idp.advance(1_000)
    const two = await tokensIn(await at('198.51.100.37'), client)
    const browser = await idp.signedIn(ana)
    const [newest, oldest] = machinesOf(await open(browser), 'Tool')
    expect(await cutOff(browser, oldest?.form ?? {})).toMatchObject({
      status: 303,
      location: `${idp.url}/applications`,
    })
    expect((await refresh(client, one.refresh_token)).status).toBe(400)
    expect((await refresh(client, two.refresh_token)).status).toBe(200)
    const [left, ...others] = machinesOf(await open(browser), 'Tool')
    expect([left?.form.connection, others]).toEqual([newest?.form.connection, []])
    // Again, from the old page.
    expect((await cutOff(browser, oldest?.form ?? {})).status).toBe(303)
    const rows = await idp.deps.db.execute<{ actor: string; action: string }>(
      `select actor, action from audit_events where subject = 'family:${oldest?.form.connection}'`,
    )
    expect(rows).toEqual([{ actor: `user:${ana.userId}`, action: 'family.revoked' }])
    expect(itemOf(await open(browser), 'Tool')).toContain('Stays connected with')
    await cutOff(browser, left?.form ?? {})
    const item = itemOf(await open(browser), 'Tool')
    expect(foldedOf(item)).toMatch(/^Tool No connection /)
    expect(item).not.toContain('Stays connected with')
    expect(await auditOf(ana, client)).toEqual(['consent.granted'])
  })

  test('a connection of somebody else is answered like one that nobody has, and goes on', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const client = await idp.client({ name: 'Tool' })
    const { refresh_token } = await idp.tokens(client, ana)
    const [hers] = machinesOf(await open(await idp.signedIn(ana)), 'Tool')
    const his = new Browser()
    const signedIn = await idp.signIn(his, await his.visit(`${idp.url}/sign-in`), bob)
    // A user who reads their own cookie can compute the token of any form.
    const cookie = /session_\d+=([\w-]{43})/.exec(signedIn.headers.getSetCookie().join())?.[1] ?? ''
    const answers = []
    for (const connection of [hers?.form.connection ?? '', randomUUID(), 'x']) {
      const csrf = createHmac('sha256', cookie).update(`cut-off\n${connection}`).digest('base64url')
      const { status, body, location } = await cutOff(his, { csrf, connection })
      answers.push({ status, body, location })
    }
    for (const answer of answers) expect(answer).toEqual({ status: 303, body: '', location: `${idp.url}/applications` })
    expect((await refresh(client, refresh_token)).status).toBe(200)
  })

  test('a line is cut off only by its own form (CSRF), and by nobody without a session', async () => {
    const ana = await idp.person()
    const client = await idp.client({ name: 'Tool' })
    await tokensIn(await signedInWith(ana, { 'x-forwarded-for': '198.51.100.38' }), client)
    idp.advance(1_000)
    const browser = await signedInWith(ana, { 'x-forwarded-for': '198.51.100.39' })
    const { refresh_token } = await tokensIn(browser, client)
    const [newest, oldest] = machinesOf(await open(browser), 'Tool')
    const connection = newest?.form.connection ?? ''
    expect(oldest?.form.csrf).toMatch(/^[\w-]{43}$/)
    for (const csrf of ['x', oldest?.form.csrf ?? '', formToDisconnect(await open(browser), 'Tool').csrf])
      expect((await cutOff(browser, { csrf, connection })).status).toBe(403)
    expect((await cutOff(new Browser(), { csrf: 'x', connection })).location).toContain('/sign-in?returnTo=')
    expect((await refresh(client, refresh_token)).status).toBe(200)
  })

  test('live connections are listed; twenty lines at most, those used last, and how many connections there are in all', async () => {
    const ana = await idp.person()
    const [client, other] = [await idp.client({ name: 'Tool' }), await idp.client({ name: 'Other' })]
    const { refresh_token: revoked = '' } = await idp.tokens(client, ana)
    const revocation = { client_id: client.id, token: revoked }
    await idp.send('POST /oauth2/revoke', new URLSearchParams(revocation).toString(), {
      'content-type': 'application/x-www-form-urlencoded',
    })
    await idp.tokens(client, ana)
    idp.advance(31 * 86_400_000) // that one has expired
    await idp.tokens(other, ana)
    const { refresh_token } = await idp.tokens(client, ana)
    await idp.deps.db.execute(sql`
      insert into refresh_families
        (id, client_id, user_id, scope, auth_time, amr, sid, created_at, generation, expires_at, address)
      select gen_random_uuid(), client_id, user_id, scope, auth_time, amr, sid, created_at + n * interval '1 ms', 1, expires_at,
        case when n < 22 then '198.51.100.' || n end
      from refresh_families, generate_series(1, 22) as n
      where user_id = ${ana.userId} and client_id = ${client.id} and revoked_at is null and expires_at > ${idp.now().toISOString()}`)
    const browser = await idp.signedIn(ana)
    idp.advance(60_000)
    await refresh(client, refresh_token) // the oldest, which is now the one used last
    const page = await open(browser)
    const machines = machinesOf(page, 'Tool')
    expect(machines).toHaveLength(20)
    expect(machines[0]?.form.connection).toBe(refresh_token?.split('.')[2])
    expect(machines[1]?.text).toMatch(/^A machine Address not known, /) // of rows older than the columns
    expect(words(itemOf(page, 'Tool'))).toContain('of 23 in all')
    expect(machinesOf(page, 'Other')).toHaveLength(1)
    expect(itemOf(page, 'Other')).not.toContain('in all')
  })
})
