// engines: postgres
import { Browser, type Visit } from '@platform/testkit/browser'
import { holding } from '@platform/testkit/holding'
import { eq } from 'drizzle-orm'
import { base32 } from 'oslo/encoding'
import { generateHOTP } from 'oslo/otp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { claimsOf, startTestIdp, type TestIdp, type TestPerson } from '../../../test/start.ts'
import { users } from '../accounts/table.ts'
import { setClientPolicy } from '../clients/clients.ts'
import { removeAuthenticator, renewRecoveryCodes } from './authenticator.ts'
import { countRecoveryCodes } from './recovery-codes.ts'
import { authenticators } from './table.ts'

const STEP_MS = 30_000
const MINUTE_MS = 60_000

let idp: TestIdp
let networks = 0
const lines: string[] = []
beforeAll(async () => {
  idp = await startTestIdp({}, { logTo: { write: (line) => void lines.push(line) } })
  // Pauses, limits and lifetimes end when a test says so, and not while a busy machine is at it.
  idp.holdClock()
})
afterAll(() => idp.close())

/** The secret on a page, as typed into an app. */
function secretOn(page: Visit): Uint8Array {
  const text = /class="secret">([^<]+)</.exec(page.body)?.[1] ?? ''
  return base32.decode(text.replaceAll(' ', ''), { strict: false })
}
/** The app's code, a number of steps from now. */
const codeOf = (secret: Uint8Array, steps = 0) =>
  generateHOTP(secret, Math.floor(idp.now().getTime() / STEP_MS) + steps)
const codesOn = (page: Visit) => [...page.body.matchAll(/<li>([0-9A-Z-]{19})<\/li>/g)].map(([, code = '']) => code)

interface Enrolled {
  person: TestPerson
  browser: Browser
  secret: Uint8Array
  recoveryCodes: string[]
}

/** A user with an app. The code of that step is used, and the clock is at the next step. */
async function enrolled(): Promise<Enrolled> {
  const person = await idp.person()
  const browser = await idp.signedIn(person)
  const page = await browser.visit(`${idp.url}/authenticator/add`)
  const secret = secretOn(page)
  const done = await browser.submit(page, { code: await codeOf(secret) })
  expect(done.status).toBe(200)
  // To the start of a step, so that no step ends within the test.
  idp.advance(2 * STEP_MS - (idp.now().getTime() % STEP_MS))
  return { person, browser, secret, recoveryCodes: codesOn(done) }
}

/** The page that asks for the code, after a correct password. */
async function afterPassword(person: TestPerson, at = `${idp.url}/sign-in`) {
  networks++
  const browser = new Browser({ 'x-forwarded-for': `10.40.${networks >> 8}.${networks & 255}` })
  const form = await browser.follow(await browser.visit(at), idp.url)
  return { browser, page: await idp.signIn(browser, form, person) }
}
const isSignedIn = async (browser: Browser) => (await browser.visit(`${idp.url}/`)).status === 200
const sorted = (answers: { status: number }[]) => answers.map(({ status }) => status).toSorted((a, b) => a - b)

describe('setting up an authenticator app (identity.md: TOTP)', () => {
  test('shows a QR code, a link and the key in words; a code turns it on and shows ten recovery codes once', async () => {
    const ana = await idp.person()
    const browser = await idp.signedIn(ana)
    expect((await browser.visit(`${idp.url}/authenticator`)).body).toContain('not set up')
    const page = await browser.visit(`${idp.url}/authenticator/add`)
    expect(page.body).toContain('<svg class="qr" role="img" aria-label="QR code')
    const uri = new URL(/href="(otpauth:[^"]+)"/.exec(page.body)?.[1]?.replaceAll('&amp;', '&') ?? '')
    expect(uri.host + uri.pathname).toBe(`totp/localhost:${encodeURIComponent(ana.email)}`)
    expect(uri.searchParams.get('secret')).toBe(base32.encode(secretOn(page), { includePadding: false }))
    expect(secretOn(page)).toHaveLength(20)
    const done = await browser.submit(page, { code: await codeOf(secretOn(page)) })
    expect(new Set(codesOn(done)).size).toBe(10)
    const present = await browser.visit(`${idp.url}/authenticator`)
    expect(present.body).toContain('10 left')
    expect(codesOn(present)).toEqual([])
    expect(await idp.changesOf(ana)).toEqual([`user:${ana.userId} user.authenticator_added`])
  })

  test('this browser goes on under another cookie, and counts as signed in with a second factor', async () => {
    const ana = await idp.person()
    const browser = await idp.signedIn(ana)
    const client = await idp.client()
    await setClientPolicy(idp.deps, { clientId: client.id, policy: { requiresSecondFactor: true } })
    const before = await browser.follow(await browser.visit(idp.authorizeUrl(client)), idp.url)
    expect(before.body).toContain('Set up a second factor')
    const page = await browser.visit(`${idp.url}/authenticator/add`)
    const done = await browser.submit(page, { code: await codeOf(secretOn(page)) })
    expect(done.headers.getSetCookie()[0]).toMatch(/^session_\d+=[\w-]{43}; /)
    const admitted = await browser.follow(await browser.visit(idp.authorizeUrl(client)), idp.url)
    const { body } = await idp.token(
      idp.codeForm(client, new URL(admitted.location ?? '').searchParams.get('code') ?? ''),
    )
    expect(claimsOf(body.id_token)).toMatchObject({ amr: ['pwd', 'otp', 'mfa'], acr: 'aal2' })
  })

  test('a wrong code turns nothing on, and the same secret may be tried again', async () => {
    const ana = await idp.person()
    const browser = await idp.signedIn(ana)
    const page = await browser.visit(`${idp.url}/authenticator/add`)
    const again = await browser.submit(page, { code: '000000' })
    expect(again).toMatchObject({ status: 400, body: expect.stringContaining('role="alert"') })
    expect(secretOn(again)).toEqual(secretOn(page))
    expect(await idp.changesOf(ana)).toEqual([])
    const code = await codeOf(secretOn(page))
    expect((await browser.submit(again, { code: `${code.slice(0, 3)} ${code.slice(3)}` })).status).toBe(200)
  })

  test('of several apps at once one is set up', async () => {
    const ana = await idp.person()
    const browsers = await Promise.all([1, 2, 3, 4].map(() => idp.signedIn(ana)))
    const pages = await Promise.all(browsers.map((browser) => browser.visit(`${idp.url}/authenticator/add`)))
    const done = await Promise.all(
      pages.map(async (page, i) => browsers[i]?.submit(page, { code: await codeOf(secretOn(page)) })),
    )
    expect(done.filter((answer) => answer?.status === 200)).toHaveLength(1)
    expect(await idp.changesOf(ana)).toHaveLength(1)
  })

  test('takes a session of the last quarter of an hour, and leads back after signing in', async () => {
    const ana = await idp.person()
    const browser = await idp.signedIn(ana)
    const page = await browser.visit(`${idp.url}/authenticator/add`)
    idp.advance(15 * MINUTE_MS)
    const wanted = `${idp.url}/sign-in?returnTo=${encodeURIComponent(`${idp.url}/authenticator/add`)}`
    expect((await browser.visit(`${idp.url}/authenticator/add`)).location).toBe(wanted)
    expect((await browser.submit(page, { code: await codeOf(secretOn(page)) })).location).toBe(wanted)
    expect((await new Browser().visit(`${idp.url}/authenticator/add`)).location).toBe(wanted)
    const form = await browser.visit(wanted)
    expect(form.body).toContain('once more')
    const back = await idp.signIn(browser, form, ana)
    expect(back.location).toBe(`${idp.url}/authenticator/add`)
  })

  test('takes the CSRF token of the session, and a secret that this session was given', async () => {
    const [ana, eve] = [await idp.person(), await idp.person()]
    const [hers, evil] = [await idp.signedIn(ana), await idp.signedIn(eve)]
    const [page, foreign] = [
      await hers.visit(`${idp.url}/authenticator/add`),
      await evil.visit(`${idp.url}/authenticator/add`),
    ]
    const field = (on: Visit, name: string) => new RegExp(`name="${name}" value="([^"]+)"`).exec(on.body)?.[1] ?? ''
    const send = (csrf: string, ticket: string, code: string) =>
      hers.visit(`${idp.url}/authenticator/add`, { csrf, ticket, code })
    const code = await codeOf(secretOn(foreign))
    expect((await send('', field(page, 'ticket'), code)).status).toBe(403)
    expect((await send(field(foreign, 'csrf'), field(page, 'ticket'), code)).status).toBe(403)
    const own = field(page, 'ticket')
    const changed = `test.${own[5] === 'A' ? 'B' : 'A'}${own.slice(6)}`
    for (const ticket of [field(foreign, 'ticket'), 'x', 'test.x', changed])
      expect((await send(field(page, 'csrf'), ticket, code)).location).toBe(`${idp.url}/authenticator/add`)
    expect(await idp.changesOf(ana)).toEqual([])
  })

  test('the secret is sealed at rest, recovery codes are hashed, and neither is in a log', async () => {
    const { secret, recoveryCodes } = await enrolled()
    const rows = await idp.deps.db.execute(
      `select row_to_json(authenticators)::text as row from authenticators
       union all select row_to_json(recovery_codes)::text from recovery_codes`,
    )
    const stored = JSON.stringify(rows)
    for (const shown of recoveryCodes) {
      expect(stored).not.toContain(Buffer.from(shown.replaceAll('-', '')).toString('hex'))
      expect(lines.join('')).not.toContain(shown)
    }
    expect(stored).not.toContain(Buffer.from(secret).toString('hex'))
    expect(lines.join('')).not.toContain(base32.encode(secret, { includePadding: false }))
  })
})

describe('signing in with a second factor', () => {
  test('asks for the code after the password; the session starts only after both, with amr pwd otp mfa', async () => {
    const { person, secret } = await enrolled()
    const client = await idp.client()
    await setClientPolicy(idp.deps, { clientId: client.id, policy: { requiresSecondFactor: true } })
    const { browser, page } = await afterPassword(person, idp.authorizeUrl(client))
    expect(page).toMatchObject({ status: 200, body: expect.stringContaining('Enter your code') })
    expect(page.headers.getSetCookie()).toEqual([])
    expect(await isSignedIn(browser)).toBe(false)
    const done = await browser.follow(await browser.submit(page, { code: await codeOf(secret) }), idp.url)
    const code = new URL(done.location ?? '').searchParams.get('code') ?? ''
    const { body } = await idp.token(idp.codeForm(client, code))
    expect(claimsOf(body.id_token)).toMatchObject({ amr: ['pwd', 'otp', 'mfa'], acr: 'aal2' })
  })

  test('a code is taken once: not again in the same step, nor one of a step before it (RFC 6238 §5.2)', async () => {
    const { person, secret } = await enrolled()
    const code = await codeOf(secret)
    const first = await afterPassword(person)
    expect((await first.browser.submit(first.page, { code })).status).toBe(303)
    const second = await afterPassword(person)
    for (const old of [code, await codeOf(secret, -1)])
      expect((await second.browser.submit(second.page, { code: old })).status).toBe(401)
    expect((await second.browser.submit(second.page, { code: await codeOf(secret, 1) })).status).toBe(303)
  })

  test('the code that turned the app on does not sign in as well', async () => {
    const ana = await idp.person()
    const browser = await idp.signedIn(ana)
    const page = await browser.visit(`${idp.url}/authenticator/add`)
    const code = await codeOf(secretOn(page))
    expect((await browser.submit(page, { code })).status).toBe(200)
    const { browser: other, page: asked } = await afterPassword(ana)
    expect((await other.submit(asked, { code })).status).toBe(401)
  })

  test('of one code in ten browsers at once one gets in', async () => {
    const { person, secret } = await enrolled()
    const code = await codeOf(secret)
    const waiting = await Promise.all(Array.from({ length: 10 }, () => afterPassword(person)))
    const answers = await Promise.all(waiting.map(({ browser, page }) => browser.submit(page, { code })))
    expect(answers.filter(({ status }) => status === 303)).toHaveLength(1)
    const signedIn = await Promise.all(waiting.map(({ browser }) => isSignedIn(browser)))
    expect(signedIn.filter(Boolean)).toHaveLength(1)
  })

  test('a clock that is one step off is fine, two are not', async () => {
    const { person, secret } = await enrolled()
    const { browser, page } = await afterPassword(person)
    for (const steps of [-2, 2])
      expect((await browser.submit(page, { code: await codeOf(secret, steps) })).status).toBe(401)
    expect((await browser.submit(page, { code: await codeOf(secret, -1) })).status).toBe(303)
  })

  test('guesses are slowed down by account, wherever they come from, and it is never a lock', async () => {
    const { person, secret } = await enrolled()
    const guess = async (code: string) => {
      const { browser, page } = await afterPassword(person)
      return (await browser.submit(page, { code })).status
    }
    const right = await codeOf(secret)
    const wrong = right === '000000' ? '000001' : '000000'
    const { browser, page } = await afterPassword(person)
    for (let i = 0; i < 5; i++) expect(await guess(wrong)).toBe(401)
    expect((await browser.submit(page, { code: right })).status).toBe(429)
    idp.advance(1_100)
    expect(await guess(await codeOf(secret))).toBe(303)
  })

  test('thirty guesses at once are not thirty free ones', async () => {
    const { person } = await enrolled()
    const { browser, page } = await afterPassword(person)
    const answers = await Promise.all(Array.from({ length: 30 }, () => browser.submit(page, { code: '000000' })))
    expect(sorted(answers).filter((status) => status === 401)).toHaveLength(5)
  })

  test('what was proven is good for ten minutes, in this browser, for this place and this password', async () => {
    const { person, secret } = await enrolled()
    const { browser, page } = await afterPassword(person)
    const other = await afterPassword(person)
    const field = (on: Visit, name: string) => new RegExp(`name="${name}" value="([^"]+)"`).exec(on.body)?.[1] ?? ''
    const send = async (form: { csrf: string; ticket: string; returnTo: string }) =>
      browser.visit(`${idp.url}/sign-in/code`, { ...form, code: await codeOf(secret) })
    const own = { csrf: field(page, 'csrf'), ticket: field(page, 'ticket'), returnTo: field(page, 'returnTo') }
    expect((await send({ ...own, csrf: '' })).status).toBe(403)
    expect((await send({ ...own, returnTo: `${idp.url}/device` })).status).toBe(403)
    expect((await send({ ...own, ticket: field(other.page, 'ticket') })).location).toContain('/sign-in?returnTo=')
    expect((await browser.visit(`${idp.url}/sign-in/code`)).location).toContain('/sign-in')
    idp.advance(10 * MINUTE_MS)
    expect((await send(own)).location).toContain('/sign-in?returnTo=')
    const late = await afterPassword(person)
    await idp.deps.db.execute(`update users set password_hash = 'another' where id = '${person.userId}'`)
    expect((await late.browser.submit(late.page, { code: await codeOf(secret) })).location).toContain('/sign-in?')
    expect(await isSignedIn(late.browser)).toBe(false)
  })

  test('a wrong password reads as ever: the second factor does not tell who has one', async () => {
    const { person } = await enrolled()
    const { page } = await afterPassword({ ...person, password: 'wrong password' })
    expect(page).toMatchObject({ status: 401, body: expect.stringContaining('is not right') })
  })
})

describe('recovery codes', () => {
  test('each signs in once, in any case and with or without hyphens; its use is audited', async () => {
    const { person, recoveryCodes } = await enrolled()
    const [first = '', second = ''] = recoveryCodes
    const use = async (code: string) => {
      const { browser, page } = await afterPassword(person)
      return (await browser.submit(page, { code })).status
    }
    expect(await use(first)).toBe(303)
    expect(await use(first)).toBe(401)
    expect(await use(second.toLowerCase().replaceAll('-', ' '))).toBe(303)
    expect((await idp.changesOf(person)).slice(1)).toEqual(
      Array(2).fill(`user:${person.userId} user.recovery_code_used`),
    )
  })

  test('of one code in ten browsers at once one gets in', async () => {
    const { person, recoveryCodes } = await enrolled()
    const waiting = await Promise.all(Array.from({ length: 10 }, () => afterPassword(person)))
    const code = recoveryCodes[0] ?? ''
    const answers = await Promise.all(waiting.map(({ browser, page }) => browser.submit(page, { code })))
    expect(answers.filter(({ status }) => status === 303)).toHaveLength(1)
  })

  test('those of someone else are worth nothing', async () => {
    const [ana, bob] = [await enrolled(), await enrolled()]
    const { browser, page } = await afterPassword(ana.person)
    expect((await browser.submit(page, { code: bob.recoveryCodes[0] ?? '' })).status).toBe(401)
  })

  test('new ones take the password or a code, and end the old', async () => {
    const { person, browser, secret, recoveryCodes } = await enrolled()
    const page = await browser.visit(`${idp.url}/authenticator`)
    const refused = await browser.submit(page, { 'proof-recovery-codes': 'wrong password' })
    expect(refused).toMatchObject({ status: 401, body: expect.stringContaining('role="alert"') })
    const renewed = await browser.submit(page, { 'proof-recovery-codes': person.password })
    const again = await browser.submit(page, { 'proof-recovery-codes': await codeOf(secret) })
    expect(new Set([...recoveryCodes, ...codesOn(renewed), ...codesOn(again)]).size).toBe(30)
    const { browser: other, page: asked } = await afterPassword(person)
    for (const code of [recoveryCodes[1] ?? '', codesOn(renewed)[0] ?? ''])
      expect((await other.submit(asked, { code })).status).toBe(401)
    expect((await other.submit(asked, { code: codesOn(again)[0] ?? '' })).status).toBe(303)
    expect(await idp.changesOf(person)).toContain(`user:${person.userId} user.recovery_codes_renewed`)
  })

  test('of two who renew them at the same time the second ends those of the first', async () => {
    const { person } = await enrolled()
    const renew = () => renewRecoveryCodes(idp.deps, person.userId)
    const [first, second] = await holding(
      idp.databaseUrl,
      (held) => held`select from recovery_codes where user_id = ${person.userId} for update`,
      [renew, renew],
    )
    expect(await countRecoveryCodes(idp.deps, person.userId)).toBe(10)
    const { browser, page } = await afterPassword(person)
    expect((await browser.submit(page, { code: first?.[0] ?? '' })).status).toBe(401)
    expect((await browser.submit(page, { code: second?.[0] ?? '' })).status).toBe(303)
  })

  test('new ones take a form of this site, of this session and for this purpose (CSRF); otherwise the old stay', async () => {
    const { person, browser, secret, recoveryCodes } = await enrolled()
    const { browser: other, page: asked } = await afterPassword(person)
    expect((await other.submit(asked, { code: await codeOf(secret) })).status).toBe(303)
    const csrfOf = async (of: Browser, form: 'recovery-codes' | 'remove') => {
      const { body } = await of.visit(`${idp.url}/authenticator`)
      const [, csrf] =
        new RegExp(`/authenticator/${form}"[^<]*<input[^>]* name="csrf" value="([^"]+)"`).exec(body) ?? []
      if (csrf === undefined) throw new Error(`No form ${form}: ${body}`)
      return csrf
    }
    const renew = (csrf: string | undefined, headers?: Record<string, string>) => {
      const form = { ...(csrf !== undefined && { csrf }), 'proof-recovery-codes': person.password }
      return browser.visit(`${idp.url}/authenticator/recovery-codes`, form, headers)
    }
    const own = await csrfOf(browser, 'recovery-codes')
    for (const csrf of [undefined, '', await csrfOf(other, 'recovery-codes'), await csrfOf(browser, 'remove')])
      expect((await renew(csrf)).status).toBe(403)
    for (const origin of ['https://evil.example.com', 'null']) expect((await renew(own, { origin })).status).toBe(403)
    expect(await idp.changesOf(person)).not.toContain(`user:${person.userId} user.recovery_codes_renewed`)
    const { browser: late, page } = await afterPassword(person)
    expect((await late.submit(page, { code: recoveryCodes[0] ?? '' })).status).toBe(303)
    expect(codesOn(await renew(own))).toHaveLength(10)
  })
})

describe('removing the app', () => {
  test('takes the password, a code or a recovery code; then the password alone signs in, and recovery codes are gone', async () => {
    const proofs: ((of: Enrolled) => Promise<string>)[] = [
      async ({ person }) => person.password,
      async ({ secret }) => codeOf(secret),
      async ({ recoveryCodes }) => (recoveryCodes[0] ?? '').toLowerCase(),
    ]
    for (const [i, proofOf] of proofs.entries()) {
      const of = await enrolled()
      const page = await of.browser.visit(`${idp.url}/authenticator`)
      const done = await of.browser.submit(page, { 'proof-remove': await proofOf(of) })
      expect(done).toMatchObject({ status: 303, location: `${idp.url}/authenticator` })
      expect((await of.browser.visit(`${idp.url}/authenticator`)).body).toContain('not set up')
      expect((await afterPassword(of.person)).page.status).toBe(303)
      expect((await idp.changesOf(of.person)).at(-1)).toBe(`user:${of.person.userId} user.authenticator_removed`)
      const subjects = (await idp.letters(of.person)).map((letter) => /^Subject: (.+)$/m.exec(letter)?.[1]?.trim())
      expect(subjects).toEqual([
        'An authenticator app was added to your account',
        ...(i === 2 ? ['A recovery code of your account was used'] : []),
        'The authenticator app was removed from your account',
      ])
      const left = await idp.deps.db.execute(`select 1 from recovery_codes where user_id = '${of.person.userId}'`)
      expect(left).toHaveLength(0)
    }
  })

  test('a recovery code is used up by it, also where it renews the others, and a password that looks like one is one', async () => {
    const { person, browser, recoveryCodes } = await enrolled()
    const page = await browser.visit(`${idp.url}/authenticator`)
    const [code = ''] = recoveryCodes
    const renewed = await browser.submit(page, { 'proof-recovery-codes': code })
    expect(codesOn(renewed)).toHaveLength(10)
    expect(await idp.changesOf(person)).toContain(`user:${person.userId} user.recovery_code_used`)
    expect((await browser.submit(page, { 'proof-remove': code })).status).toBe(401)

    const password = 'ABCD-EFGH-JKMN-PQRS'
    const passwordHash = await idp.deps.passwords.hash(password)
    await idp.deps.db.update(users).set({ passwordHash }).where(eq(users.id, person.userId))
    expect((await browser.submit(page, { 'proof-remove': password })).status).toBe(303)
  })

  test('waits for an app that is being set up, and removes it', async () => {
    const [{ person: ana }, bob] = [await enrolled(), await idp.person()]
    await holding(
      idp.databaseUrl,
      (held) => held`insert into authenticators (user_id, ciphertext, kek_id, last_step, created_at)
        select ${bob.userId}, ciphertext, kek_id, last_step, created_at from authenticators where user_id = ${ana.userId}`,
      [() => removeAuthenticator(idp.deps, bob.userId, 'operator')],
    )
    expect(await idp.deps.db.$count(authenticators, eq(authenticators.userId, bob.userId))).toBe(0)
  })

  test('of two forms at once with one recovery code one is taken', async () => {
    const { person, browser, recoveryCodes } = await enrolled()
    const page = await browser.visit(`${idp.url}/authenticator`)
    const [code = ''] = recoveryCodes
    const renew = () => browser.submit(page, { 'proof-recovery-codes': code })
    const answers = await holding(
      idp.databaseUrl,
      (held) => held`select from recovery_codes where user_id = ${person.userId} for update`,
      [renew, renew],
    )
    expect(sorted(answers)).toEqual([200, 401])
  })

  test('is refused for a wrong proof, a used code, and without session or CSRF token', async () => {
    const { person, browser, secret } = await enrolled()
    const code = await codeOf(secret)
    const { browser: other, page: asked } = await afterPassword(person)
    await other.submit(asked, { code })
    const page = await browser.visit(`${idp.url}/authenticator`)
    for (const proof of ['wrong password', code])
      expect((await browser.submit(page, { 'proof-remove': proof })).status).toBe(401)
    const form = { csrf: 'x', 'proof-remove': person.password }
    expect((await browser.visit(`${idp.url}/authenticator/remove`, form)).status).toBe(403)
    expect((await new Browser().visit(`${idp.url}/authenticator/remove`, form)).location).toContain('/sign-in?')
    expect((await browser.visit(`${idp.url}/authenticator`)).body).toContain('Recovery codes')
  })
})

test('changing the password keeps what the session has shown, and when', async () => {
  const { person, browser } = await enrolled()
  const client = await idp.client()
  await setClientPolicy(idp.deps, { clientId: client.id, policy: { requiresSecondFactor: true } })
  const page = await browser.visit(`${idp.url}/password`)
  const wanted = 'a new and longer password'
  await browser.submit(page, { current: person.password, new: wanted, again: wanted })
  const admitted = await browser.follow(await browser.visit(idp.authorizeUrl(client)), idp.url)
  expect(new URL(admitted.location ?? '').searchParams.get('code')).toBeTruthy()
})
