// engines: postgres
import { Browser, type Visit } from '@platform/testkit/browser'
import { eq, sql } from 'drizzle-orm'
import { base32 } from 'oslo/encoding'
import { generateHOTP } from 'oslo/otp'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { addSessions } from '../../../test/crowded-account.ts'
import { holdNoon } from '../../../test/hold-hour.ts'
import { words } from '../../../test/page-words.ts'
import {
  claimsOf,
  DEVICE_GRANT,
  startTestIdp,
  type TestClient,
  type TestIdp,
  type TestPerson,
} from '../../../test/start.ts'
import { describeBrowser } from '../../site/describe-browser.ts'
import { endSessionOf } from '../access/end-access.ts'
import { sessions } from '../sessions/table.ts'

let idp: TestIdp
let client: TestClient
beforeAll(async () => {
  idp = await startTestIdp()
  client = await idp.client({ name: 'Notes' })
})
afterAll(() => idp.close())

const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'
const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1'

async function signedIn(person: TestPerson, userAgent: string, address: string): Promise<Browser> {
  const browser = new Browser({ 'user-agent': userAgent, 'x-forwarded-for': address })
  await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), person)
  return browser
}
const visit = (browser: Browser, path: string) => browser.visit(`${idp.url}${path}`)
/** Also asks users who are already signed in. */
const SIGN_IN_AGAIN = '/sign-in?returnTo=/passkeys/add'
const isSignedIn = async (browser: Browser) => (await visit(browser, '/')).status === 200
const hiddenOf = (html: string, name: string) => new RegExp(`name="${name}" value="([^"]+)"`).exec(html)?.[1] ?? ''
/** The rows of the list, each with the sessions that it unfolds to; the row of this browser has none. */
const rowsOf = ({ body }: Visit) =>
  body
    .split(/<(?:div|summary) class="row">/)
    .slice(1)
    .map((row) => ({
      text: words(/^.*?(?=<\/(?:div|summary)>)/s.exec(row)?.[0]),
      sessions: row
        .split('<li>')
        .slice(1)
        .filter((item) => item.includes('name="session"'))
        .map((item) => /^.*?(?=<\/li>)/s.exec(item)?.[0] ?? '')
        .map((markup) => ({
          markup,
          text: words(markup),
          form: { csrf: hiddenOf(markup, 'csrf'), session: hiddenOf(markup, 'session') },
        })),
    }))
/** The form that ends the newest session of a browser. */
const formToEndOn = (page: Visit, browser: string) =>
  rowsOf(page).find(({ text, sessions: all }) => text.includes(browser) && all.length > 0)?.sessions[0]?.form ?? {
    csrf: '',
    session: '',
  }
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
/** A code and tokens for the client, from this browser's session. */
async function codeIn(browser: Browser, of = client): Promise<string> {
  const url = idp.authorizeUrl(of, { scope: 'openid offline_access' })
  const { location } = await browser.follow(await browser.visit(url), idp.url)
  return new URL(location ?? '').searchParams.get('code') ?? ''
}
async function tokensIn(browser: Browser): Promise<Record<string, string>> {
  return (await idp.token(idp.codeForm(client, await codeIn(browser)))).body as Record<string, string>
}
/** A device authorization and the page on which this browser decides it. */
async function deviceIn(browser: Browser): Promise<{ page: Visit; userCode: string; poll: Record<string, string> }> {
  const form = { client_id: client.id, scope: 'openid offline_access' }
  const json = { 'content-type': 'application/json' }
  const { body } = await idp.send('POST /oauth2/device_authorization', form, json)
  const page = await browser.visit(body.verification_uri_complete as string)
  return {
    page,
    userCode: (body.user_code as string).replace('-', ''),
    poll: { grant_type: DEVICE_GRANT, client_id: client.id, device_code: body.device_code as string },
  }
}
const approve = (browser: Browser, page: Visit) => browser.submit(page, {}, { name: 'decision', value: 'approve' })
/** The form with which another browser ends the session of an iPhone. */
const formToEnd = async (browser: Browser) => formToEndOn(await visit(browser, '/sessions'), 'iPhone')
const untilWaiting = (count: number) =>
  vi.waitFor(async () => {
    const waiting = await idp.deps.db.execute(
      "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    )
    expect(waiting).toHaveLength(count)
  }, 60_000)
/** Lets two requests queue for a row, the first in front, and returns their results. */
const inLine = <A, B>(row: ReturnType<typeof sql>, first: () => Promise<A>, second: () => Promise<B>) =>
  idp.deps.db
    .transaction(async (tx) => {
      expect(await tx.execute(row)).toHaveLength(1)
      const one = first()
      await untilWaiting(1)
      const two = second()
      await untilWaiting(2)
      return [one, two] as const
    })
    .then((both) => Promise.all(both))
const refresh = (token = '') => idp.token({ grant_type: 'refresh_token', client_id: client.id, refresh_token: token })

describe('the list of sessions', () => {
  test('the list shows browser, address and times of each session, this browser first, and is reached from home', async () => {
    holdNoon(idp)
    const ana = await idp.person()
    const here = await signedIn(ana, FIREFOX, '198.51.100.7')
    const there = await signedIn(ana, IPHONE, '2001:db8:1:2:3:4:5:6')
    idp.advance(3 * HOUR_MS)
    await visit(there, '/')
    idp.advance(4 * 60_000)
    expect((await visit(here, '/')).body).toContain(`href="${idp.url}/sessions"`)
    const page = await visit(here, '/sessions')
    const [own, other, ...rest] = rowsOf(page)
    expect(rest).toEqual([])
    expect(own).toEqual({
      text: 'Firefox on Linux This browser 198.51.100.7, signed in today, 12:00 UTC',
      sessions: [],
    })
    expect(other?.text).toBe('Safari on iPhone 4 minutes ago 1 session, 2001:db8:1:2::/64')
    expect(other?.sessions.map(({ text }) => text)).toEqual([
      '2001:db8:1:2::/64 Last seen 4 minutes ago, signed in today, 12:00 UTC End session',
    ])
    // Exact times for who points at a rough one, and for the script.
    const exact =
      /<time datetime="(\d{4}-\d\d-\d\dT[\d:.]+Z)" tabindex="0"\s*><span>[^<]+<\/span><span class="exact">\d+ \w+ \d{4}, (\d\d:\d\d:\d\d) UTC</g
    const times = [...(other?.sessions[0]?.markup ?? '').matchAll(exact)].map(([, iso, clock]) => [
      iso?.slice(11),
      clock,
    ])
    expect(times).toEqual([
      ['15:00:00.000Z', '15:00:00'],
      ['12:00:00.000Z', '12:00:00'],
    ])
    expect(page.body).not.toMatch(/<script(?! type="module" src="[^"]+"><)|style=|onclick/)
  })

  test('alone it says so; ended, idle and other people’s sessions are not in it', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const left = await idp.signedIn(ana)
    await left.submit(await visit(left, '/sign-out'), {})
    await idp.signedIn(ana)
    idp.advance(14 * DAY_MS)
    await idp.signedIn(bob)
    const page = await visit(await idp.signedIn(ana), '/sessions')
    expect(rowsOf(page)).toMatchObject([{ sessions: [] }])
    expect(page.body).toContain('nowhere else')
  })

  test('what a browser calls itself is text, cut at 512 characters, and may be missing', async () => {
    const ana = await idp.person()
    const here = await signedIn(ana, `<b onmouseover="alert(1)">${'x'.repeat(2_000)}`, '198.51.100.8')
    const there = await signedIn(ana, FIREFOX, '198.51.100.8')
    for (const browser of [here, there]) {
      const page = await visit(browser, '/sessions')
      expect(page.body).toContain('Unknown browser')
      expect(page.body).toContain('title="&lt;b onmouseover=&quot;alert(1)&quot;&gt;x')
      expect(page.body).not.toContain('<b onmouseover')
      expect(page.body).not.toContain('x'.repeat(512))
    }
    await idp.deps.db.execute(`update sessions set user_agent = null, address = null where user_id = '${ana.userId}'`)
    const [own, other] = rowsOf(await visit(here, '/sessions'))
    expect(own?.text).toMatch(/^Unknown browser This browser Address not known, /)
    expect(other?.text).toMatch(/^Unknown browser .* 1 session, address not known$/)
    expect(other?.sessions[0]?.text).toMatch(/^Address not known Last seen /)
  })

  test('sessions of one browser and system are one row, whatever their versions, with their number, the newest use and its address', async () => {
    holdNoon(idp)
    const ana = await idp.person()
    const here = await signedIn(ana, FIREFOX, '198.51.100.40')
    const older = await signedIn(ana, FIREFOX, '198.51.100.41')
    await signedIn(ana, FIREFOX.replaceAll('140', '141'), '198.51.100.42')
    await signedIn(ana, FIREFOX.replace('X11; Linux x86_64', 'Windows NT 10.0; Win64; x64'), '198.51.100.43')
    idp.advance(2 * HOUR_MS)
    await visit(older, '/')
    idp.advance(60_000)
    const [own, linux, windows, ...rest] = rowsOf(await visit(here, '/sessions'))
    expect(rest).toEqual([])
    expect([own?.text, linux?.text, windows?.text]).toEqual([
      'Firefox on Linux This browser 198.51.100.40, signed in today, 12:00 UTC',
      'Firefox on Linux 1 minute ago 2 sessions, 198.51.100.41',
      'Firefox on Windows today, 12:00 UTC 1 session, 198.51.100.43',
    ])
    expect(linux?.sessions.map(({ text }) => text.split(' ')[0])).toEqual(['198.51.100.41', '198.51.100.42'])
  })

  test('the browser that was used last stands in front of the others, and this browser in front of all', async () => {
    const ana = await idp.person()
    const here = await signedIn(ana, 'first/1', '198.51.100.44')
    idp.advance(60_000)
    const second = await signedIn(ana, 'second/1', '198.51.100.44')
    idp.advance(60_000)
    await signedIn(ana, 'third/1', '198.51.100.44')
    const names = async () => rowsOf(await visit(here, '/sessions')).map(({ text }) => text.split(' ')[0])
    expect(await names()).toEqual(['first', 'third', 'second'])
    idp.advance(2 * HOUR_MS)
    await visit(second, '/')
    expect(await names()).toEqual(['first', 'second', 'third'])
  })

  test('unknown browsers are one row, however many there are', async () => {
    const ana = await idp.person()
    const here = await signedIn(ana, FIREFOX, '198.51.100.45')
    for (const userAgent of ['<b>one</b>', '(another)', 'x'.repeat(50)]) await signedIn(ana, userAgent, '198.51.100.46')
    const [, unknown, ...rest] = rowsOf(await visit(here, '/sessions'))
    expect(rest).toEqual([])
    expect(unknown?.text).toMatch(/^Unknown browser .* 3 sessions, 198\.51\.100\.46$/)
    expect(unknown?.sessions).toHaveLength(3)
  })

  test('ten browsers are shown and further ones folded away, but never a single one; how many sessions they have does not matter', async () => {
    const ana = await idp.person()
    const here = await signedIn(ana, 'tool/1', '198.51.100.20')
    await addSessions(idp, ana, 10)
    await addSessions(idp, ana, 10)
    const eleven = await visit(here, '/sessions')
    expect(rowsOf(eleven)).toHaveLength(11)
    expect(eleven.body).not.toMatch(/<summary>/)
    await addSessions(idp, ana, 11)
    const [shown = '', folded = ''] = (await visit(here, '/sessions')).body.split('<summary>')
    const rows = (body: string) => rowsOf({ ...eleven, body })
    expect(rows(shown)).toHaveLength(10)
    expect(rows(shown)[0]?.text).toContain('This browser')
    expect(folded).toMatch(/^2 more browsers</)
    expect(rows(folded)).toHaveLength(2)
  })

  test('without a session it leads to sign-in and back', async () => {
    const browser = new Browser()
    const page = await browser.follow(await visit(browser, '/sessions'), idp.url)
    const done = await idp.signIn(browser, page, await idp.person())
    expect(done.location).toBe(`${idp.url}/sessions`)
  })
})

describe('ending all other sessions', () => {
  test('ends them and what was granted in them, with an audit row for each; this one and its grants go on', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const here = await signedIn(ana, FIREFOX, '198.51.100.22')
    const others = [await signedIn(ana, IPHONE, '198.51.100.23'), await signedIn(ana, IPHONE, '198.51.100.24')] as const
    const his = await signedIn(bob, IPHONE, '198.51.100.25')
    const [hers, lost, bobs] = [await tokensIn(here), await tokensIn(others[1]), await tokensIn(his)]
    const page = await visit(here, '/sessions')
    const csrf = /end-others">\s*<input type="hidden" name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    const end = () => here.visit(`${idp.url}/sessions/end-others`, { csrf })
    expect(await end()).toMatchObject({ status: 303, location: `${idp.url}/sessions` })

    expect(await Promise.all([here, ...others, his].map(isSignedIn))).toEqual([true, false, false, true])
    expect(await refresh(lost.refresh_token)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    expect((await refresh(hers.refresh_token)).status).toBe(200)
    expect((await refresh(bobs.refresh_token)).status).toBe(200)
    // Once more, from the old page: there is nothing to end or to record.
    expect((await end()).status).toBe(303)
    const ended = await idp.deps.db.execute(
      sql`select actor from audit_events where subject = ${`user:${ana.userId}`} and action = 'session.ended'`,
    )
    expect(ended).toHaveLength(2)
    expect((await visit(here, '/sessions')).body).not.toContain('End all other sessions')
  })

  test('is offered where there are two of them', async () => {
    const ana = await idp.person()
    const here = await signedIn(ana, FIREFOX, '198.51.100.26')
    await signedIn(ana, IPHONE, '198.51.100.27')
    expect((await visit(here, '/sessions')).body).not.toContain('End all other sessions')
    await signedIn(ana, IPHONE, '198.51.100.28')
    expect((await visit(here, '/sessions')).body).toContain('End all other sessions')
  })
})

describe('ending one session', () => {
  test('ends that one and no other, with an audit row; what was granted in others goes on', async () => {
    const ana = await idp.person()
    const [here, there, third] = [
      await signedIn(ana, FIREFOX, '198.51.100.9'),
      await signedIn(ana, IPHONE, '198.51.100.10'),
      await idp.signedIn(ana),
    ]
    const { refresh_token } = await idp.tokens(client, ana)
    const page = await visit(here, '/sessions')
    const form = formToEndOn(page, 'iPhone')
    expect(await here.visit(`${idp.url}/sessions/end`, form)).toMatchObject({
      status: 303,
      location: `${idp.url}/sessions`,
    })
    expect([await isSignedIn(here), await isSignedIn(there), await isSignedIn(third)]).toEqual([true, false, true])
    expect((await refresh(refresh_token)).status).toBe(200)
    // Again, from the old page: nothing happens, nothing is recorded.
    expect((await here.visit(`${idp.url}/sessions/end`, form)).status).toBe(303)
    expect(await idp.changesOf(ana)).toEqual([`user:${ana.userId} session.ended`])
  })

  test('ends none of somebody else, whatever names it', async () => {
    const [ana, eve] = [await idp.person(), await idp.person()]
    const browser = await idp.signedIn(ana)
    const [session] = await idp.deps.db.select().from(sessions).where(eq(sessions.userId, ana.userId))
    await endSessionOf(idp.deps, { userId: eve.userId, sessionId: session?.id ?? '' })
    expect(await isSignedIn(browser)).toBe(true)
    expect(await idp.changesOf(eve)).toEqual([])
    await endSessionOf(idp.deps, { userId: ana.userId, sessionId: session?.id ?? '' })
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('ends what was granted in it: refresh tokens, pending codes and approvals, and nothing of other sessions', async () => {
    const ana = await idp.person()
    const here = await signedIn(ana, FIREFOX, '198.51.100.11')
    const there = await signedIn(ana, IPHONE, '198.51.100.12')
    const [hers, lost] = [await tokensIn(here), await tokensIn(there)]
    const [herCode, lostCode] = [await codeIn(here), await codeIn(there)]
    const [herDevice, lostDevice] = [await deviceIn(here), await deviceIn(there)]
    await approve(here, herDevice.page)
    await approve(there, lostDevice.page)

    expect((await visit(here, '/sessions')).body).toContain('also disconnects the applications and devices')
    const form = await formToEnd(here)
    await here.visit(`${idp.url}/sessions/end`, form)
    const refused = { status: 400, body: { error: 'invalid_grant' } }
    expect(await refresh(lost.refresh_token)).toMatchObject(refused)
    expect(await idp.token(idp.codeForm(client, lostCode))).toMatchObject(refused)
    expect(await idp.token(lostDevice.poll)).toMatchObject(refused)
    expect((await refresh(hers.refresh_token)).status).toBe(200)
    expect((await idp.token(idp.codeForm(client, herCode))).status).toBe(200)
    expect((await idp.token(herDevice.poll)).status).toBe(200)
    const rows = await idp.deps.db.execute<{ details: unknown }>(
      sql`select details from audit_events where subject = ${`user:${ana.userId}`} and action = 'session.ended'`,
    )
    expect(rows.map(({ details }) => details)).toEqual([{ sessionId: form.session, grants: 3 }])
  })

  test('ends what was granted before its user signed in again in the same browser, or set up a second factor there', async () => {
    const ana = await idp.person()
    const here = await signedIn(ana, FIREFOX, '198.51.100.15')
    const there = await signedIn(ana, IPHONE, '198.51.100.16')
    const first = await tokensIn(there)
    const [code, device] = [await codeIn(there), await deviceIn(there)]
    await approve(there, device.page)
    await idp.signIn(there, await visit(there, SIGN_IN_AGAIN), ana)
    const second = await tokensIn(there)
    const add = await visit(there, '/authenticator/add')
    const secret = /class="secret">([^<]+)</.exec(add.body)?.[1]?.replaceAll(' ', '') ?? ''
    const step = Math.floor(idp.now().getTime() / 30_000)
    const done = await there.submit(add, { code: await generateHOTP(base32.decode(secret, { strict: false }), step) })
    expect(done.status).toBe(200)

    await here.visit(`${idp.url}/sessions/end`, await formToEnd(here))
    const refused = { status: 400, body: { error: 'invalid_grant' } }
    expect(await isSignedIn(there)).toBe(false)
    for (const { refresh_token } of [first, second]) expect(await refresh(refresh_token)).toMatchObject(refused)
    expect(await idp.token(idp.codeForm(client, code))).toMatchObject(refused)
    expect(await idp.token(device.poll)).toMatchObject(refused)
  })

  test('leaves alone what somebody else granted before in the same browser', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const shared = await signedIn(ana, IPHONE, '198.51.100.17')
    const { refresh_token, id_token } = await tokensIn(shared)
    await idp.signIn(shared, await visit(shared, SIGN_IN_AGAIN), bob)
    const his = await signedIn(bob, FIREFOX, '198.51.100.18')
    await his.visit(`${idp.url}/sessions/end`, await formToEnd(his))
    expect(await isSignedIn(shared)).toBe(false)
    const { status, body } = await refresh(refresh_token)
    expect(status).toBe(200)
    expect(claimsOf(body.id_token as string).sid).toBe(claimsOf(id_token).sid)
  })

  test('signing out leaves what was granted alone', async () => {
    const browser = await idp.signedIn(await idp.person())
    const { refresh_token } = await tokensIn(browser)
    await browser.submit(await visit(browser, '/sign-out'), {})
    expect((await refresh(refresh_token)).status).toBe(200)
  })

  describe('while something is under way in it', () => {
    const scene = async () => {
      const ana = await idp.person()
      const [here, there] = [
        await signedIn(ana, FIREFOX, '198.51.100.13'),
        await signedIn(ana, IPHONE, '198.51.100.14'),
      ]
      const end = async () => {
        const form = await formToEnd(here)
        return () => here.visit(`${idp.url}/sessions/end`, form)
      }
      const sid = async () => (await formToEnd(here)).session
      return { there, end: await end(), sid: await sid() }
    }
    const refused = { status: 400, body: { error: 'invalid_grant' } }

    test('a refresh that comes first gets a token that is dead, one that comes second none', async () => {
      const one = await scene()
      const { refresh_token } = await tokensIn(one.there)
      const family = (sid: string) => sql`select 1 from refresh_families where sid = ${sid} for update`
      const [rotated, ended] = await inLine(family(one.sid), () => refresh(refresh_token), one.end)
      expect([rotated.status, ended.status]).toEqual([200, 303])
      expect(await refresh(rotated.body.refresh_token as string)).toMatchObject(refused)

      const two = await scene()
      const held = await tokensIn(two.there)
      const [, late] = await inLine(family(two.sid), two.end, () => refresh(held.refresh_token))
      expect(late).toMatchObject(refused)
    })

    test('a code that is redeemed first founds a family that is dead, one that comes second none', async () => {
      const one = await scene()
      const codeOf = (sid: string) => sql`select 1 from authorization_codes where sid = ${sid} for update`
      const form = idp.codeForm(client, await codeIn(one.there))
      const [redeemed, ended] = await inLine(codeOf(one.sid), () => idp.token(form), one.end)
      expect([redeemed.status, ended.status]).toEqual([200, 303])
      expect(await refresh(redeemed.body.refresh_token as string)).toMatchObject(refused)

      const two = await scene()
      const late = idp.codeForm(client, await codeIn(two.there))
      const [, answer] = await inLine(codeOf(two.sid), two.end, () => idp.token(late))
      expect(answer).toMatchObject(refused)
    })

    test('an approval that comes first is worth nothing, one that comes second is none', async () => {
      const one = await scene()
      const session = (sid: string) => sql`select 1 from sessions where id = ${sid} for update`
      const device = await deviceIn(one.there)
      const [approved] = await inLine(session(one.sid), () => approve(one.there, device.page), one.end)
      expect(approved.body).toContain('Device connected')
      expect(await idp.token(device.poll)).toMatchObject(refused)

      const two = await scene()
      const pending = await deviceIn(two.there)
      const [, late] = await inLine(session(two.sid), two.end, () => approve(two.there, pending.page))
      expect(late.location).toContain('/sign-in?returnTo=')
      expect(await idp.token(pending.poll)).toMatchObject({ status: 400, body: { error: 'authorization_pending' } })
    })
  })

  test("another user's session cannot be named, nor one without the token of its form (CSRF)", async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const [hers, his, hersToo] = [await idp.signedIn(ana), await idp.signedIn(bob), await idp.signedIn(ana)]
    await idp.signedIn(bob)
    const own = formToEndOn(await visit(his, '/sessions'), 'node')
    const { csrf } = own
    const { session } = formToEndOn(await visit(hers, '/sessions'), 'node')
    for (const form of [
      { csrf, session },
      { csrf: 'x', session },
      { csrf, session: 'x' },
    ])
      expect((await his.visit(`${idp.url}/sessions/end`, form)).status).toBe(403)
    expect(await isSignedIn(hersToo)).toBe(true)
    expect((await his.visit(`${idp.url}/sessions/end`, own)).status).toBe(303)
  })

  test('without a session the form leads to sign-in', async () => {
    const browser = new Browser()
    for (const path of ['/sessions/end', '/sessions/end-all'])
      expect((await browser.visit(`${idp.url}${path}`, { csrf: 'x' })).location).toContain('/sign-in?returnTo=')
  })
})

describe('sign out everywhere', () => {
  test('ends all sessions, refresh families, pending codes and device approvals of the user, and nobody else’s', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const [here, there, his] = [await idp.signedIn(ana), await idp.signedIn(ana), await idp.signedIn(bob)]
    const [tokens, hisTokens] = [await idp.tokens(client, ana), await idp.tokens(client, bob)]
    const code = await idp.code(client, ana, { scope: 'openid offline_access' })
    const device = await idp.send(
      'POST /oauth2/device_authorization',
      { client_id: client.id, scope: 'openid' },
      { 'content-type': 'application/json' },
    )
    const approval = await here.visit(device.body.verification_uri_complete as string)
    await here.submit(approval, {}, { name: 'decision', value: 'approve' })

    const page = await visit(here, '/sessions')
    const csrf = hiddenOf(page.body.slice(page.body.indexOf('sessions/end-all')), 'csrf')
    expect((await here.visit(`${idp.url}/sessions/end-all`, { csrf: 'x' })).status).toBe(403)
    expect(await isSignedIn(here)).toBe(true)
    const done = await here.visit(`${idp.url}/sessions/end-all`, { csrf })
    expect(done.status).toBe(200)
    expect(done.body).toContain('signed out everywhere')
    expect(done.headers.getSetCookie()[0]).toContain('Max-Age=0')

    expect([await isSignedIn(here), await isSignedIn(there), await isSignedIn(his)]).toEqual([false, false, true])
    const refused = { status: 400, body: { error: 'invalid_grant' } }
    expect(await refresh(tokens.refresh_token)).toMatchObject(refused)
    expect(await idp.token(idp.codeForm(client, code))).toMatchObject(refused)
    const poll = { grant_type: DEVICE_GRANT, client_id: client.id, device_code: device.body.device_code as string }
    expect(await idp.token(poll)).toMatchObject(refused)
    expect((await refresh(hisTokens.refresh_token)).status).toBe(200)
    expect(await idp.changesOf(ana)).toEqual([`user:${ana.userId} user.signed_out_everywhere`])
    await idp.signedIn(ana)
  })

  test('waits for an approval and a redemption that are under way, ends both, and none of them fails', async () => {
    const everywhere = async (browser: Browser) => {
      const { body } = await visit(browser, '/sessions')
      const csrf = hiddenOf(body.slice(body.indexOf('sessions/end-all')), 'csrf')
      return () => browser.visit(`${idp.url}/sessions/end-all`, { csrf })
    }
    const refused = { status: 400, body: { error: 'invalid_grant' } }
    // Signing out holds the user's row and waits for what each of the two holds.
    const one = await idp.signedIn(await idp.person())
    const device = await deviceIn(one)
    const pending = sql`select 1 from device_authorizations where user_code = ${device.userCode} for update`
    const [approved, done] = await inLine(pending, () => approve(one, device.page), await everywhere(one))
    expect([approved.status, done.status]).toEqual([200, 200])
    expect(await idp.token(device.poll)).toMatchObject(refused)

    const two = await idp.signedIn(await idp.person())
    const form = idp.codeForm(client, await codeIn(two))
    const row = sql`select 1 from clients where id = ${client.id} for update`
    const [redeemed, after] = await inLine(row, () => idp.token(form), await everywhere(two))
    expect([redeemed.status, after.status]).toEqual([200, 200])
    expect(await refresh(redeemed.body.refresh_token as string)).toMatchObject(refused)
  })
})

test.each([
  [FIREFOX, 'Firefox on Linux'],
  [IPHONE, 'Safari on iPhone'],
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0',
    'Edge on Windows',
  ],
  [
    'Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36',
    'Chrome on Android',
  ],
  [
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15',
    'Safari on Mac',
  ],
  ['Mozilla/5.0 (X11; Linux x86_64)', 'Browser on Linux'],
  ['curl/8.5.0', 'curl'],
  ['platform-cli/1.4.0 (linux x64)', 'platform-cli'],
  ['Go-http-client/1.1', 'Go-http-client'],
  ['node', 'node'],
  [`${'x'.repeat(41)}/1.0`, 'Unknown browser'],
  ['<b>bold</b>', 'Unknown browser'],
  ['', 'Unknown browser'],
  [null, 'Unknown browser'],
])('%s is %s', (userAgent, words) => {
  expect(describeBrowser(userAgent)).toBe(words)
})
