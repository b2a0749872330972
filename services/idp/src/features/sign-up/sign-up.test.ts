import { Browser, type Visit } from '@platform/testkit/browser'
import { auditEvents } from '@platform/service/audit-table'
import { asc, eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  accountsOf,
  askForCode,
  codeIn,
  lastCode,
  NAMES,
  newAddress,
  PASSWORD,
  proveAddress,
  signUp,
  signUpUrl,
  stranger,
  withPasskey,
  withPassword,
} from '../../../test/come-in.ts'
import { type InvitationIssuer, startInvitationIssuer } from '../../../test/invitation-issuer.ts'
import { passkeyOptionsOn, SoftAuthenticator } from '../../../test/soft-authenticator.ts'
import { linkIn, REDIRECT_URI, startTestIdp, type TestIdp } from '../../../test/start.ts'

const MINUTE_MS = 60_000
const WRONG = '0000-0000'

let issuer: InvitationIssuer
let idp: TestIdp
const lines: string[] = []
beforeAll(async () => {
  issuer = await startInvitationIssuer()
  idp = await startTestIdp(
    { SIGN_UP: 'open', INVITATION_ISSUERS: issuer.entry },
    { logTo: { write: (line) => void lines.push(line) } },
  )
  // Limits and lifetimes end when a test says so, and not while a busy machine is at it.
  idp.holdClock()
})
afterAll(async () => {
  await idp.close()
  await issuer.close()
})

const titleOf = ({ body }: Visit): string => /<title>([^<]*)</.exec(body)?.[1] ?? ''
const over = { status: 400, body: expect.stringContaining('This code is over') as string }
const notBegun = { status: 400, body: expect.stringContaining('Nothing was begun here') as string }
const namesPage = () => `${idp.url}/sign-up/name`

describe('creating an account where anybody may (SIGN_UP=open)', () => {
  test('goes by address, code and names; the account is made with the last form, and signs in with its password (D114)', async () => {
    const email = newAddress()
    const asked = await askForCode(idp, email)
    expect(asked.page).toMatchObject({ status: 200, url: `${idp.url}/sign-up/code` })
    expect(asked.page.body).toContain(`A letter is on its way to <strong>${email}</strong>`)
    const [letter = '', ...more] = await idp.letters({ email })
    expect(more).toEqual([])
    expect(letter).toContain('Subject: Your code')
    const { browser } = asked
    const typed = await browser.submit(asked.page, { code: codeIn(letter) ?? '' })
    expect(typed).toMatchObject({ status: 303, location: namesPage() })
    const page = await browser.follow(typed, idp.url)
    expect(await accountsOf(idp, email)).toEqual([])
    const done = await browser.submit(page, NAMES, withPassword)
    expect(done).toMatchObject({ status: 303, location: `${idp.url}/` })
    const [userId = '', ...others] = await accountsOf(idp, email)
    expect(others).toEqual([])
    const home = await browser.visit(`${idp.url}/`)
    expect(home.body).toContain('Ada Lovelace')
    expect(home.body).not.toContain('not confirmed')
    await idp.signedIn({ userId, email, password: PASSWORD })
  })

  test('the letter tells the browser and the network that asked, and leads to the code', async () => {
    const email = newAddress()
    const browser = new Browser({
      'x-forwarded-for': '203.0.113.77',
      'user-agent': 'Mozilla/5.0 (X11; Linux) Firefox/140.0',
    })
    await askForCode(idp, email, { browser })
    const [letter = ''] = await idp.letters({ email })
    expect(letter).toContain('Browser: Firefox on Linux')
    expect(letter).toContain('Address: 203.0.113.77')
    expect(linkIn(letter)).toBe(`${idp.url}/sign-up/code?code=${codeIn(letter)}`)
  })

  test('the family name may be left out; both are stored in one form, without space around them', async () => {
    const { browser, page, email } = await proveAddress(idp, newAddress())
    const names = { ...NAMES, givenName: '  Zoe\u0308 ', familyName: '' }
    expect((await browser.submit(page, names, withPassword)).status).toBe(303)
    const [row] = await idp.deps.db.execute(`select given_name, family_name from users where email = '${email}'`)
    expect(row).toEqual({ given_name: 'Zo\u00eb', family_name: null })
  })

  test('the audit log has who made the account and how, and no address', async () => {
    const made = async (button: typeof withPassword) => {
      const { email, browser, page } = await proveAddress(idp, newAddress())
      await browser.submit(page, NAMES, button)
      const [id] = await accountsOf(idp, email)
      const rows = await idp.deps.db
        .select()
        .from(auditEvents)
        .where(eq(auditEvents.subject, `user:${id}`))
        .orderBy(asc(auditEvents.id))
      expect(JSON.stringify(rows)).not.toContain('@')
      return rows.map(({ actor, action, details }) => [
        actor.replace(`${id}`, 'ID'),
        action,
        (details as { way?: string }).way,
      ])
    }
    expect(await made(withPassword)).toEqual([
      ['system', 'user.created', undefined],
      ['user:ID', 'user.signed_up', 'password'],
    ])
    expect(await made(withPasskey)).toEqual([
      ['system', 'user.created', undefined],
      ['user:ID', 'user.signed_up', 'passkey'],
    ])
  })

  test('whoever is signed in already is led on to where they wanted to be', async () => {
    const { browser } = await signUp(idp, newAddress())
    expect(await browser.visit(signUpUrl(idp, '/passkeys'))).toMatchObject({
      status: 302,
      location: `${idp.url}/passkeys`,
    })
  })

  test('whoever is signed in may create another account for a client that waits, as at sign-in', async () => {
    const { browser } = await signUp(idp, newAddress())
    const returnTo = idp.authorizeUrl(await idp.client(), { prompt: 'select_account' })
    const { page } = await signUp(idp, newAddress(), { browser, returnTo })
    expect(page).toMatchObject({ status: 303, location: returnTo })
  })
})

describe('the place that waits (returnTo)', () => {
  const places: Record<string, () => Promise<{ returnTo: string; arrived: RegExp; email?: string }>> = {
    'an authorization request': async () => ({
      // It wants a new sign-in, which creating an account is.
      returnTo: idp.authorizeUrl(await idp.client(), { prompt: 'login' }),
      arrived: new RegExp(`^${REDIRECT_URI}\\?code=`),
    }),
    'a device': async () => {
      const form = { client_id: (await idp.client()).id, scope: 'openid' }
      const { body } = await idp.send('POST /oauth2/device_authorization', form, { 'content-type': 'application/json' })
      const { user_code: code } = body as { user_code: string }
      return {
        returnTo: `${idp.url}/device?user_code=${code}`,
        arrived: new RegExp(`^${idp.url}/device\\?user_code=${code}$`),
      }
    },
    'an invitation': async () => {
      const email = newAddress()
      const assertion = await issuer.invite(idp, { email })
      const returnTo = `${idp.url}/join?invitation=${assertion}`
      return { returnTo, email, arrived: new RegExp(`^${RegExp.escape(returnTo)}$`) }
    },
  }
  const arrivalOf = ({ location, url }: Visit): string => location ?? url

  test.each(Object.keys(places))('%s is led to at once with a password', async (place) => {
    const { returnTo, arrived, email = newAddress() } = await places[place]!()
    const { browser, page } = await signUp(idp, email, { returnTo })
    expect(arrivalOf(await browser.follow(page, idp.url))).toMatch(arrived)
  })

  test.each(Object.keys(places))('%s is led to by way of making a passkey', async (place) => {
    const { returnTo, arrived, email = newAddress() } = await places[place]!()
    const { browser, page } = await proveAddress(idp, email, { returnTo })
    const names = { ...NAMES, new: '', again: '' }
    const adding = await browser.follow(await browser.submit(page, names, withPasskey), idp.url)
    expect(adding.url).toBe(`${idp.url}/passkeys/add?returnTo=${encodeURIComponent(returnTo)}`)
    const credential = new SoftAuthenticator(idp.url).create(passkeyOptionsOn(adding))
    const added = await browser.submit(adding, { credential })
    expect(arrivalOf(await browser.follow(added, idp.url))).toMatch(arrived)
  })

  test('the pages of sign-in and sign-up lead to each other with it, and the client is named', async () => {
    const browser = stranger()
    const client = await idp.client({ name: 'Back office' })
    const signIn = await browser.follow(await browser.visit(idp.authorizeUrl(client)), idp.url)
    const linkTo = (page: Visit, path: string) =>
      new RegExp(`href="(${idp.url}/${path}\\?returnTo=[^"]+)"`).exec(page.body)?.[1] ?? ''
    const shown = await browser.visit(linkTo(signIn, 'sign-up'))
    expect(shown.body).toContain('to continue to <strong>Back office</strong>')
    expect(linkTo(shown, 'sign-in')).toBe(signIn.url)
  })

  test('a place on another site is not led to', async () => {
    const { page } = await signUp(idp, newAddress(), { returnTo: 'https://elsewhere.example/' })
    expect(page.location).toBe(`${idp.url}/`)
  })

  test('the account is signed in by its code until there is a passkey, and by its password else (amr)', async () => {
    const client = await idp.client()
    const amrOf = async (button: typeof withPassword) => {
      const { browser, page } = await proveAddress(idp, newAddress(), { returnTo: idp.authorizeUrl(client) })
      await browser.submit(page, NAMES, button)
      const { location = '' } = await browser.visit(idp.authorizeUrl(client))
      const { body } = await idp.token(idp.codeForm(client, new URL(location).searchParams.get('code') ?? ''))
      const [, payload = ''] = (body as { id_token: string }).id_token.split('.')
      return (JSON.parse(Buffer.from(payload, 'base64url').toString()) as { amr: string[] }).amr
    }
    expect(await amrOf(withPassword)).toEqual(['pwd'])
    expect(await amrOf(withPasskey)).toEqual(['otp'])
  })
})

describe('the code', () => {
  test('works for ten minutes and not longer; then another one can be asked for, in the same request', async () => {
    const returnTo = idp.authorizeUrl(await idp.client())
    const [early, late] = [await askForCode(idp, newAddress()), await askForCode(idp, newAddress(), { returnTo })]
    const codes = [await lastCode(idp, early.email), await lastCode(idp, late.email)]
    idp.advance(9 * MINUTE_MS)
    expect((await early.browser.submit(early.page, { code: codes[0] ?? '' })).location).toBe(namesPage())
    idp.advance(MINUTE_MS)
    const refused = await late.browser.submit(late.page, { code: codes[1] ?? '' })
    expect(refused).toMatchObject(over)
    expect(refused.body).toContain(`href="${signUpUrl(idp, returnTo)}"`)
    expect((await late.browser.visit(`${idp.url}/sign-up/code?code=${codes[1]}`)).status).toBe(400)
  })

  test('works once: typed again it leads to the same names, and after the account was made to nothing', async () => {
    const { browser, page, email } = await askForCode(idp, newAddress())
    const code = await lastCode(idp, email)
    const type = () => browser.submit(page, { code })
    expect((await type()).location).toBe(namesPage())
    expect((await type()).location).toBe(namesPage())
    const names = await browser.visit(namesPage())
    expect((await browser.submit(names, NAMES, withPassword)).status).toBe(303)
    expect(await type()).toMatchObject(notBegun)
    expect(await accountsOf(idp, email)).toHaveLength(1)
  })

  test('a second press of the last button leads on as the first did; signed out, it leads to sign-in with the same request', async () => {
    const returnTo = idp.authorizeUrl(await idp.client())
    for (const button of [withPassword, withPasskey]) {
      const { email, browser, page } = await proveAddress(idp, newAddress(), { returnTo })
      const { location } = await browser.submit(page, NAMES, button)
      expect(await browser.submit(page, NAMES, button)).toMatchObject({ status: 303, location })
      await idp.deps.db.execute(`delete from sessions`)
      const late = await browser.submit(page, NAMES, button)
      expect(late).toMatchObject({ status: 400, body: expect.stringContaining('may be made already') as string })
      expect(late.body).toContain(`href="${idp.url}/sign-in?returnTo=${encodeURIComponent(returnTo)}"`)
      // Nor is whoever else is signed in by then led on.
      await idp.signIn(browser, await browser.visit(`${idp.url}/sign-in`), await idp.person())
      expect((await browser.submit(page, NAMES, button)).status).toBe(400)
      expect(await accountsOf(idp, email)).toHaveLength(1)
    }
  })

  test('is taken in any case, without its hyphen and with spaces', async () => {
    const { browser, page, email } = await askForCode(idp, newAddress())
    const code = (await lastCode(idp, email)).replace('-', ' ').toLowerCase()
    expect((await browser.submit(page, { code: ` ${code} ` })).location).toBe(namesPage())
  })

  test('of the last letter is the one that counts', async () => {
    const { browser, email } = await askForCode(idp, newAddress())
    const first = await lastCode(idp, email)
    const { page } = await askForCode(idp, email, { browser })
    const second = await lastCode(idp, email)
    expect((await browser.submit(page, { code: first })).status).toBe(400)
    expect((await browser.submit(page, { code: second })).location).toBe(namesPage())
  })

  test('leaves half an hour for names; then the account has to be begun again, in the same request', async () => {
    const returnTo = idp.authorizeUrl(await idp.client())
    const [early, late] = [await proveAddress(idp, newAddress()), await proveAddress(idp, newAddress(), { returnTo })]
    idp.advance(29 * MINUTE_MS)
    expect((await early.browser.submit(early.page, NAMES, withPassword)).status).toBe(303)
    idp.advance(MINUTE_MS)
    const refused = await late.browser.submit(late.page, NAMES, withPassword)
    expect(refused.status).toBe(400)
    expect(titleOf(refused)).toContain('begin again')
    expect(refused.body).toContain(`href="${signUpUrl(idp, returnTo)}"`)
    expect(await accountsOf(idp, late.email)).toEqual([])
  })

  test('names are not asked for before it was typed', async () => {
    const { browser, email } = await askForCode(idp, newAddress())
    expect(await browser.visit(namesPage())).toMatchObject({ status: 302, location: `${idp.url}/sign-up/code` })
    expect((await stranger().visit(namesPage())).status).toBe(400)
    // The token of a form is bound to the browser and the address, and this browser has seen it in a sign-up that is over.
    const { browser: known, page } = await proveAddress(idp, email)
    await askForCode(idp, email, { browser: known })
    expect(await known.submit(page, NAMES, withPassword)).toMatchObject({ status: 400 })
    expect(await accountsOf(idp, email)).toEqual([])
  })

  test('the link shows the code filled in where it was asked for, and nothing but the code elsewhere', async () => {
    const { browser, email } = await askForCode(idp, newAddress(), { returnTo: '/passkeys' })
    const link = linkIn((await idp.letters({ email })).at(-1))
    const code = await lastCode(idp, email)
    const here = await browser.visit(link)
    expect(here.body).toContain(`value="${code}"`)
    const elsewhere = await stranger().visit(link)
    expect(elsewhere).toMatchObject({ status: 200, body: expect.stringContaining(code) as string })
    expect(elsewhere.body).toContain('If you began nothing, close this page.')
    expect(elsewhere.body).not.toMatch(/<form|<a |returnTo|@example/)
    expect((await browser.submit(here, {})).location).toBe(namesPage())
    expect(await browser.visit(link)).toMatchObject({ status: 302, location: namesPage() })
  })
})

describe('bad input is answered on the same page, with the field marked', () => {
  test.each([
    ['no address', ''],
    ['a word', 'nobody'],
    ['300 characters', `${'x'.repeat(288)}@example.com`],
    ['two @', 'ana@bob@example.com'],
    ['a list', 'ana@example.com,bob@example.com'],
    ['a line break', 'ana@example.com\r\nBcc: bob@example.com'],
    ['a display name', 'Ana <ana@example.com>'],
    ['a domain of a dot', 'ana@.'],
  ])('%s is not an address', async (_, email) => {
    const browser = stranger()
    const refused = await browser.submit(await browser.visit(signUpUrl(idp, '/passkeys')), { email })
    expect(refused.status).toBe(400)
    expect(refused.body).toContain('This is not an email address.')
    expect(refused.body).toMatch(/<input\s+type="email"[^>]*aria-invalid="true"/)
    expect(refused.body).toContain(`name="returnTo" value="${idp.url}/passkeys"`)
    expect((await browser.visit(`${idp.url}/sign-up/code`)).status).toBe(400)
  })

  test.each([
    ['no given name', { givenName: ' ' }, 'Tell us your given name', 'givenName'],
    ['a given name of 101 characters', { givenName: 'x'.repeat(101) }, 'at most 100 characters', 'givenName'],
    ['a family name of 101 characters', { familyName: '🦆'.repeat(101) }, 'at most 100 characters', 'familyName'],
    ['a given name with a line break', { givenName: 'Ada\nLovelace' }, 'one line of text', 'givenName'],
    ['a given name that turns its line', { givenName: 'Ada\u202e' }, 'change the direction', 'givenName'],
    ['a family name that isolates', { familyName: '\u2066Love' }, 'change the direction', 'familyName'],
    ['a given name of signs', { givenName: '-- \u200b' }, 'at least one letter or digit', 'givenName'],
    ['a family name of a duck', { familyName: '\u{1f986}' }, 'at least one letter or digit', 'familyName'],
    ['a family name with a bell', { familyName: 'Love\u0007lace' }, 'one line of text', 'familyName'],
    ['a repetition that differs', { again: `${PASSWORD}!` }, 'not the same', 'new'],
    ['a password of seven characters', { new: 'seven77', again: 'seven77' }, 'at least 8 characters', 'new'],
    ['a password of 1,025 bytes', { new: 'x'.repeat(1_025), again: 'x'.repeat(1_025) }, 'at most 1024 bytes', 'new'],
    ['a password that many use', { new: 'iloveyou', again: 'iloveyou' }, 'attackers try first', 'new'],
    [
      'the name that is typed above as a password',
      { new: 'adalovelace', again: 'adalovelace' },
      'made of your name',
      'new',
    ],
  ])('%s is refused, and what was typed besides stays', async (_, wrong, words, field) => {
    const { browser, page, email } = await proveAddress(idp, newAddress())
    const refused = await browser.submit(page, { ...NAMES, ...wrong }, withPassword)
    expect(refused.status).toBe(400)
    expect(refused.body).toContain(words)
    const marked = [...refused.body.matchAll(/<input\b[^>]*aria-invalid="true"[^>]*>/g)].map(([tag]) => tag)
    expect(marked.map((tag) => /name="(\w+)"/.exec(tag)?.[1])).toContain(field)
    if (field !== 'familyName') expect(refused.body).toContain('value="Lovelace"')
    expect(await accountsOf(idp, email)).toEqual([])
    expect((await browser.submit(refused, NAMES, withPassword)).status).toBe(303)
  })

  test('the address as a password is refused', async () => {
    const { browser, page, email } = await proveAddress(idp, newAddress())
    const refused = await browser.submit(page, { ...NAMES, new: email, again: email }, withPassword)
    expect(refused).toMatchObject({ status: 400, body: expect.stringContaining('your email address') as string })
  })

  test('a code of any bytes is a wrong code', async () => {
    for (const code of ['', '🦆', 'x'.repeat(10_000), '\u0007']) {
      const { browser, page } = await askForCode(idp, newAddress())
      const refused = await browser.submit(page, { code })
      expect(refused.status).toBe(400)
      expect(refused.body).toMatch(/<input\s[^>]*name="code"[^>]*aria-invalid="true"/)
      expect((await browser.visit(`${idp.url}/sign-up/code?code=${encodeURIComponent(code)}`)).status).toBe(200)
      expect((await stranger().visit(`${idp.url}/sign-up/code?code=${encodeURIComponent(code)}`)).status).toBe(400)
    }
  })
})

test('neither an address nor a code nor an assertion is in a log line of somebody who creates an account', async () => {
  const email = newAddress()
  const assertion = await issuer.invite(idp, { email })
  const returnTo = `${idp.url}/join?invitation=${assertion}`
  const { browser, page } = await askForCode(idp, email, { returnTo })
  const link = linkIn((await idp.letters({ email })).at(-1))
  const code = await lastCode(idp, email)
  await browser.submit(page, { code: WRONG })
  await stranger().visit(link)
  const names = await browser.follow(await browser.submit(page, { code }), idp.url)
  await browser.follow(await browser.submit(names, NAMES, withPassword), idp.url)
  await askForCode(idp, email)
  await idp.deps.afterAnswer.settled()
  const log = lines.join('')
  expect(log).toContain('/sign-up/code')
  expect(log).toContain('mail written')
  expect(log).not.toMatch(/@example|%40example/)
  for (const secret of [code, code.replace('-', ''), assertion.slice(-40), PASSWORD, 'Lovelace'])
    expect(log).not.toContain(secret)
})
