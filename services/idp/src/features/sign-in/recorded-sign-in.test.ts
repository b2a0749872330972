import { auditEvents } from '@platform/service/audit-table'
import { Browser, type Visit } from '@platform/testkit/browser'
import { asc, eq } from 'drizzle-orm'
import { base32 } from 'oslo/encoding'
import { generateHOTP } from 'oslo/otp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { passkeyOptionsOn, SoftAuthenticator } from '../../../test/soft-authenticator.ts'
import { linkIn, startTestIdp, type TestIdp, type TestPerson } from '../../../test/start.ts'
import { makeResetLink } from '../password/reset-password.ts'

const STEP_MS = 30_000
const HOUR_MS = 3_600_000
const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'
const WRONG = 'not the password'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

const firefoxAt = (address: string) => new Browser({ 'user-agent': FIREFOX, 'x-forwarded-for': address })
const signIn = async (browser: Browser, person: TestPerson) =>
  // Also asks users who are already signed in.
  idp.signIn(browser, await browser.visit(`${idp.url}/sign-in?returnTo=/passkeys/add`), person)
const guess = (browser: Browser, person: TestPerson) => signIn(browser, { ...person, password: WRONG })

/** The audit log of a user, as `audit tail --subject user:ID` shows it, without the set-up events. */
async function logOf({ userId }: TestPerson) {
  await idp.deps.afterAnswer.settled()
  const events = await idp.deps.db
    .select({ actor: auditEvents.actor, action: auditEvents.action, details: auditEvents.details })
    .from(auditEvents)
    .where(eq(auditEvents.subject, `user:${userId}`))
    .orderBy(asc(auditEvents.id))
  return events.filter(({ action }) => !/created|added|recovery_code_used/.test(action))
}
const actionsOf = async (person: TestPerson) => (await logOf(person)).map(({ action }) => action)
const subjectsTo = async (person: TestPerson) =>
  (await idp.allLetters(person)).map((letter) => /^Subject: (.+?)\r$/m.exec(letter)?.[1])
/** The text of a mail without its soft line breaks. */
const textOf = (letter: string | undefined) => (letter ?? '').replaceAll('=\r\n', '').replaceAll(/\r?\n/g, ' ')

async function withApp() {
  const person = await idp.person()
  const browser = await idp.signedIn(person)
  const page = await browser.visit(`${idp.url}/authenticator/add`)
  const text = /class="secret">([^<]+)</.exec(page.body)?.[1] ?? ''
  const secret = base32.decode(text.replaceAll(' ', ''), { strict: false })
  const codeNow = () => generateHOTP(secret, Math.floor(idp.now().getTime() / STEP_MS))
  const done = await browser.submit(page, { code: await codeNow() })
  idp.advance(2 * STEP_MS - (idp.now().getTime() % STEP_MS))
  const recoveryCodes = [...done.body.matchAll(/<li>([0-9A-Z-]{19})</g)].map(([, code = '']) => code)
  return { person, browser, codeNow, recoveryCodes }
}
async function addPasskey(browser: Browser) {
  const authenticator = new SoftAuthenticator(idp.url)
  const page = await browser.visit(`${idp.url}/passkeys/add`)
  await browser.submit(page, { credential: authenticator.create(passkeyOptionsOn(page)) })
  return authenticator
}

describe('a sign-in is recorded, with its way, its address and its browser', () => {
  test('by a password', async () => {
    const ana = await idp.person()
    await signIn(firefoxAt('10.60.0.1'), ana)
    expect(await logOf(ana)).toEqual([
      {
        actor: `user:${ana.userId}`,
        action: 'user.signed_in',
        details: { ways: ['password'], address: '10.60.0.1', browser: 'Firefox on Linux' },
      },
    ])
  })

  test('by a passkey', async () => {
    const ana = await idp.person()
    const authenticator = await addPasskey(await idp.signedIn(ana))
    const browser = firefoxAt('10.60.0.2')
    const page = await browser.visit(`${idp.url}/sign-in`)
    const form = { credential: authenticator.get(passkeyOptionsOn(page)) }
    expect((await browser.submit(page, form)).status).toBe(303)
    expect((await logOf(ana)).at(-1)?.details).toMatchObject({ ways: ['passkey'], address: '10.60.0.2' })
  })

  test('by a password and a code, or a recovery code; not before the code', async () => {
    const { person, codeNow, recoveryCodes } = await withApp()
    const [browser, other] = [firefoxAt('10.60.0.3'), firefoxAt('10.60.0.4')]
    const page = await signIn(browser, person)
    expect(await actionsOf(person)).toEqual(['user.signed_in'])
    await browser.submit(page, { code: await codeNow() })
    await other.submit(await signIn(other, person), { code: recoveryCodes[0] ?? '' })
    expect((await logOf(person)).slice(1).map(({ details }) => details.ways)).toEqual([
      ['password', 'code'],
      ['password', 'recovery-code'],
    ])
  })

  test('a second factor that is shown later, as that', async () => {
    const person = await idp.person()
    const browser = await idp.signedIn(person)
    const authenticator = await addPasskey(await idp.signedIn(person))
    const url = idp.authorizeUrl(await idp.client(), { acr_values: 'aal2' })
    const page = await browser.follow(await browser.visit(url), idp.url)
    await browser.submit(page, { credential: authenticator.get(passkeyOptionsOn(page)) })
    const [last] = (await logOf(person)).toReversed()
    expect(last).toMatchObject({ action: 'user.second_factor_shown', details: { ways: ['passkey'] } })
  })

  test('changing the password is no sign-in', async () => {
    const ana = await idp.person()
    const browser = await idp.signedIn(ana)
    const wanted = 'a new and longer password'
    const page = await browser.visit(`${idp.url}/password`)
    await browser.submit(page, { current: ana.password, new: wanted, again: wanted })
    expect(await actionsOf(ana)).toEqual(['user.signed_in', 'user.password_changed'])
  })
})

describe('a refused sign-in is recorded', () => {
  test('with where it came from and how many there were; nothing that was typed', async () => {
    const ana = await idp.person()
    await guess(firefoxAt('10.61.0.1'), ana)
    expect(await logOf(ana)).toEqual([
      {
        actor: 'system',
        action: 'user.password_refused',
        details: { guesses: 1, address: '10.61.0.1', browser: 'Firefox on Linux' },
      },
    ])
  })

  test('a hundred guesses from as many addresses make seven rows, each with twice the number', async () => {
    const ana = await idp.person()
    let looked = 0
    for (let i = 0; looked < 100; i++) {
      const { status } = await guess(firefoxAt(`10.62.${i >> 8}.${i & 255}`), ana)
      if (status === 401) looked++
      else idp.advance(61_000)
    }
    expect((await logOf(ana)).map(({ details }) => details.guesses)).toEqual([1, 2, 4, 8, 16, 32, 64])
  }, 30_000)

  test('so do those from a known browser, and one success begins anew', async () => {
    const ana = await idp.person()
    const browser = firefoxAt('10.63.0.1')
    await signIn(browser, ana)
    for (let i = 0; i < 4; i++) await guess(browser, ana)
    await signIn(browser, ana)
    await guess(browser, ana)
    const guesses = (await logOf(ana)).map(({ details }) => details.guesses)
    expect(guesses).toEqual([undefined, 1, 2, 4, undefined, 1])
  })

  test('wrong codes, and the wrong password of whoever is signed in', async () => {
    const { person, browser } = await withApp()
    const other = firefoxAt('10.64.0.1')
    const page = await signIn(other, person)
    for (let i = 0; i < 3; i++) await other.submit(page, { code: 'no code' })
    await browser.submit(await browser.visit(`${idp.url}/authenticator`), { 'proof-remove': WRONG })
    expect((await logOf(person)).slice(1)).toMatchObject([
      { action: 'user.second_factor_refused', details: { guesses: 1, address: '10.64.0.1' } },
      { action: 'user.second_factor_refused', details: { guesses: 2 } },
      { action: 'user.password_refused', details: { guesses: 1 } },
    ])
  })

  test('not of an address that nobody has', async () => {
    const rows = () => idp.deps.db.$count(auditEvents)
    const before = await rows()
    await guess(firefoxAt('10.65.0.1'), { userId: '', email: 'nobody-here@example.com', password: WRONG })
    await idp.deps.afterAnswer.settled()
    expect(await rows()).toBe(before)
  })
})

describe('a letter about a sign-in from a new browser (decision 16)', () => {
  const NEW = 'A new browser signed in to your account'

  test('says which, from where, and what to do if it was somebody else', async () => {
    const ana = await idp.person()
    await signIn(firefoxAt('10.66.0.1'), ana)
    expect(await subjectsTo(ana)).toEqual([]) // the very first
    await signIn(firefoxAt('10.66.0.2'), ana)
    expect(await subjectsTo(ana)).toEqual([NEW])
    const [letter] = await idp.allLetters(ana)
    const text = textOf(letter)
    expect(text).toContain('Browser: Firefox on Linux Address: 10.66.0.2')
    expect(text).toContain('If it was you, there is nothing to do. If not, choose a new password now')
    expect(linkIn(letter)).toBe(`${idp.url}/forgot-password`)
  })

  test('is not sent for a browser that the account knows, whoever else signs in there', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    const browser = firefoxAt('10.66.0.3')
    await signIn(browser, ana)
    await signIn(browser, bob)
    await signIn(browser, ana)
    expect(await subjectsTo(ana)).toEqual([])
    await signIn(firefoxAt('10.66.0.4'), bob)
    await signIn(browser, bob)
    expect(await subjectsTo(bob)).toEqual([NEW])
  })

  test('nor after a password that was set by a link, in the browser that set it; nor for the first sign-in elsewhere', async () => {
    const set = async (browser: Browser, person: TestPerson) => {
      const page = await browser.visit(await makeResetLink(idp.deps, person.userId))
      const password = 'a new and longer password'
      await browser.submit(page, { new: password, again: password })
      return { ...person, password }
    }
    const browser = firefoxAt('10.66.0.5')
    await signIn(browser, await set(browser, await idp.person()))
    const bob = await set(browser, await idp.person())
    await signIn(firefoxAt('10.66.0.6'), bob)
    expect(await subjectsTo(bob)).toEqual(['Your password was changed'])
  })

  test('is sent for a passkey too, and once both are shown where a code is asked for', async () => {
    const ana = await idp.person()
    const authenticator = await addPasskey(await idp.signedIn(ana))
    const browser = firefoxAt('10.66.0.7')
    const page = await browser.visit(`${idp.url}/sign-in`)
    await browser.submit(page, { credential: authenticator.get(passkeyOptionsOn(page)) })
    expect(await subjectsTo(ana)).toEqual(['A passkey was added to your account', NEW])

    const { person, codeNow } = await withApp()
    const other = firefoxAt('10.66.0.8')
    const answer: Visit = await signIn(other, person)
    expect(await subjectsTo(person)).not.toContain(NEW)
    await other.submit(answer, { code: await codeNow() })
    expect(await subjectsTo(person)).toContain(NEW)
  })

  test('comes five times an hour at most', async () => {
    const ana = await idp.person()
    for (let i = 0; i < 8; i++) await signIn(firefoxAt(`10.67.0.${i}`), ana)
    expect(await subjectsTo(ana)).toEqual(Array(5).fill(NEW))
    idp.advance(HOUR_MS)
    await signIn(firefoxAt('10.67.0.9'), ana)
    expect(await subjectsTo(ana)).toHaveLength(6)
  })

  test('is sent to whoever signs in after so long that the log has forgotten the last time', async () => {
    const ana = await idp.person()
    await signIn(firefoxAt('10.66.0.9'), ana)
    await idp.deps.afterAnswer.settled()
    await idp.deps.db.delete(auditEvents).where(eq(auditEvents.subject, `user:${ana.userId}`))
    await signIn(firefoxAt('10.66.0.10'), ana)
    expect(await subjectsTo(ana)).toEqual([NEW])
  })

  test('holds no link of the browser’s making', async () => {
    const ana = await idp.person()
    await idp.signedIn(ana)
    await signIn(new Browser({ 'user-agent': 'evil.example.com/1' }), ana)
    const [letter] = await idp.allLetters(ana)
    expect(textOf(letter)).toContain('Browser: evil example com')
  })
})

test('a letter about a used recovery code says how many are left', async () => {
  const { person, browser, recoveryCodes } = await withApp()
  const use = async (code: string | undefined) => {
    const other = await signIn(browser, person)
    expect((await browser.submit(other, { code: code ?? '' })).status).toBe(303)
    return textOf((await idp.allLetters(person)).at(-1))
  }
  const first = await use(recoveryCodes[0])
  expect(first).toContain('A recovery code of your account was used')
  expect(first).toContain('9 recovery codes are left')
  expect(first).toContain(`${idp.url}/forgot-password`)
  for (const code of recoveryCodes.slice(1, 8)) await use(code)
  expect(await use(recoveryCodes[8])).toContain('1 recovery code is left')
  expect(await use(recoveryCodes[9])).toContain('No recovery code is left')
})
