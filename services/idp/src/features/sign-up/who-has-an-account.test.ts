// engines: postgres
import { Browser, type Visit } from '@platform/testkit/browser'
import { sentStatements } from '@platform/testkit/sent-statements'
import { isDrill } from '@platform/testkit/test-environment'
import { createCheapHashing } from '@platform/testing/cheap-hashing'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { accountsOf, askForCode, codeIn, newAddress, signUpUrl, stranger } from '../../../test/come-in.ts'
import { startTestIdp, type TestIdp } from '../../../test/start.ts'
import { suspendUser } from '../access/suspend-user.ts'
import { createUser } from '../accounts/accounts.ts'

let idp: TestIdp
let hashes = 0
beforeAll(async () => {
  const cheap = createCheapHashing()
  const hashing = {
    ...cheap,
    hash: (password: string) => (hashes++, cheap.hash(password)),
    verify: (hash: string, password: string) => (hashes++, cheap.verify(hash, password)),
  }
  idp = await startTestIdp({ SIGN_UP: 'open' }, { hashing })
  // Limits and lifetimes end when a test says so, and not while a busy machine is at it.
  idp.holdClock()
})
afterAll(() => idp.close())

/** Addresses of one length, by what the provider knows of them. */
const kinds: Record<string, () => Promise<string>> = {
  unknown: async () => newAddress(),
  known: async () => {
    const email = newAddress()
    await createUser(idp.deps, { email, password: 'a password of several words', givenName: 'Ana' })
    return email
  },
  suspended: async () => {
    const email = newAddress()
    const { id } = await createUser(idp.deps, { email, password: 'a password of several words' })
    await suspendUser(idp.deps, id)
    return email
  },
  // Whom the operator invited, and who has not set a password yet.
  invited: async () => {
    const email = newAddress()
    await createUser(idp.deps, { email })
    return email
  },
}

/** Headers of a moment or of a browser. */
const OF_ITS_OWN = ['date', 'set-cookie', 'x-request-id', 'request-id']

/** A whole answer, without what differs between any two of them. */
function answerOf({ status, headers, body }: Visit, email: string) {
  const cookies = headers.getSetCookie().map((line) => line.replace(/=[^;]*/, '=COOKIE'))
  return {
    status,
    headers: [...headers].filter(([name]) => !OF_ITS_OWN.includes(name)),
    cookies,
    body: body.replaceAll(email, 'EMAIL').replaceAll(/name="csrf" value="[^"]+"/g, 'CSRF'),
  }
}

/** Every answer from the first page until no code counts any more. */
async function walk(email: string) {
  const browser = stranger()
  const visits = [await browser.visit(signUpUrl(idp, '/passkeys'))]
  const look = (visit: Visit) => void visits.push(visit)
  const last = () => visits.at(-1) as Visit
  look(await browser.submit(last(), { email }))
  look(await browser.follow(last(), idp.url))
  look(await browser.visit(`${idp.url}/sign-up/name`))
  look(await browser.visit(`${idp.url}/sign-up/code?code=0000-0000`))
  for (let guesses = 0; guesses < 5; guesses++) look(await browser.submit(visits[2] as Visit, { code: '0000-0000' }))
  return visits.map((visit) => answerOf(visit, email))
}

describe('who has an account shows neither in words, nor in the work that is done, nor in the letters to others (D114)', () => {
  test('every answer until no code counts any more is the same, to the byte and with its headers, for unknown, known, suspended and invited addresses', async () => {
    const answers = await Promise.all(Object.values(kinds).map(async (emailOf) => walk(await emailOf())))
    const [unknown = [], ...others] = answers
    expect(unknown.map(({ status }) => status)).toEqual([200, 303, 200, 302, 200, 400, 400, 400, 400, 400])
    for (const other of others) expect(other).toEqual(unknown)
  })

  test('the same statements are sent for all of them, and no password is hashed', async () => {
    const works: Record<string, { statements: string[]; hashes: number }> = {}
    for (const [kind, emailOf] of Object.entries(kinds)) {
      const email = await emailOf()
      const browser = stranger()
      const page = await browser.visit(signUpUrl(idp))
      await idp.deps.afterAnswer.settled()
      const before = hashes
      const statements = await sentStatements(async () => {
        const sent = await browser.submit(page, { email })
        await browser.submit(await browser.follow(sent, idp.url), { code: '0000-0000' })
        await idp.deps.afterAnswer.settled()
      })
      works[kind] = { statements: statements.toSorted(), hashes: hashes - before }
    }
    const { unknown, ...others } = works
    expect(unknown?.hashes).toBe(0)
    // The network, the row of the sign-up, the address, the account; the row for its page; the row for the code, and its guess.
    expect(unknown?.statements).toHaveLength(7)
    for (const other of Object.values(others)) expect(other).toEqual(unknown)
  })

  test('the answer comes before an account is looked up, so nothing in it can depend on one', async () => {
    const [known, unknown] = [await kinds['known']!(), newAddress()]
    const sql = postgres(idp.databaseUrl, { max: 1, onnotice: () => {} })
    await sql.begin(async (tx) => {
      await tx`lock table users in access exclusive mode`
      for (const email of [known, unknown]) expect((await askForCode(idp, email)).page.status).toBe(200)
    })
    await sql.end()
    expect(await idp.letters({ email: known })).toHaveLength(1)
    expect(await idp.letters({ email: unknown })).toHaveLength(1)
  })

  test('an owner is told by letter that there is an account, and gets no code; the owner of a suspended one gets no letter', async () => {
    const subjectsTo = async (kind: string) => {
      const email = await kinds[kind]!()
      await askForCode(idp, email)
      const letters = await idp.letters({ email })
      return letters.map((letter) => [/^Subject: (.*)\r$/m.exec(letter)?.[1], codeIn(letter) !== undefined])
    }
    expect(await subjectsTo('unknown')).toEqual([['Your code', true]])
    expect(await subjectsTo('known')).toEqual([['You have an account already', false]])
    expect(await subjectsTo('invited')).toEqual([['You have an account already', false]])
    expect(await subjectsTo('suspended')).toEqual([])
  })

  test('nobody without an account has one before names were sent, and those who have one keep the one', async () => {
    const counts: Record<string, number> = {}
    for (const [kind, emailOf] of Object.entries(kinds)) {
      const email = await emailOf()
      await askForCode(idp, email)
      await idp.deps.afterAnswer.settled()
      counts[kind] = (await accountsOf(idp, email)).length
    }
    expect(counts).toEqual({ unknown: 0, known: 1, suspended: 1, invited: 1 })
  })

  test('sign-in keeps its page: refused or not, it offers to create an account to everybody alike', async () => {
    const refusalFor = async (email: string) => {
      const browser = stranger()
      const page = await browser.visit(`${idp.url}/sign-in?returnTo=${encodeURIComponent('/passkeys')}`)
      const refused = await browser.submit(page, { email, password: 'not the password' })
      for (const shown of [page, refused])
        expect(shown.body).toContain(`href="${signUpUrl(idp, `${idp.url}/passkeys`)}"`)
      return answerOf(
        {
          ...refused,
          body: refused.body
            .replaceAll(/data-options="[^"]*"/g, 'OPTIONS')
            .replaceAll(/name="ticket" value="[^"]+"/g, 'TICKET'),
        },
        email,
      )
    }
    const refusals = []
    for (const emailOf of Object.values(kinds)) refusals.push(await refusalFor(await emailOf()))
    for (const refusal of refusals) expect(refusal).toEqual(refusals[0])
  })
})

/** Of the logarithms, which outliers move less. */
function welchsT(a: readonly number[], b: readonly number[]): number {
  const of = (times: readonly number[]) => {
    const logs = times.map(Math.log)
    const mean = logs.reduce((sum, x) => sum + x, 0) / logs.length
    const variance = logs.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (logs.length - 1)
    return { mean, error: variance / logs.length }
  }
  const [first, second] = [of(a), of(b)]
  return (first.mean - second.mean) / Math.sqrt(first.error + second.error)
}

const shuffled = <T>(list: readonly T[]): T[] =>
  list
    .map((value) => ({ value, place: Math.random() }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ value }) => value)

const TRIES = 300
const WARM_UP = 20
/** Chance exceeds it once in 16,000 times. */
const T_MAX = 4

test.runIf(isDrill)(
  '300 interleaved starts of known and of unknown addresses take as long as those of a control pair of unknown ones (drill)',
  async () => {
    const times: Record<string, number[]> = { known: [], unknown: [], control: [], 'other control': [] }
    // All from one browser, which opened the form once, but each from another network.
    const browser = new Browser()
    const page = await browser.visit(signUpUrl(idp))
    const csrf = /name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    let sent = 0
    for (let round = -WARM_UP; round < TRIES; round++) {
      const known = await kinds['known']!()
      for (const name of shuffled(Object.keys(times))) {
        sent++
        const headers = { 'x-forwarded-for': `10.60.${sent >> 8}.${sent & 255}` }
        const form = { csrf, returnTo: `${idp.url}/`, email: name === 'known' ? known : newAddress() }
        const start = performance.now()
        const { status } = await browser.visit(`${idp.url}/sign-up`, form, headers)
        const took = performance.now() - start
        expect(status).toBe(303)
        await idp.deps.afterAnswer.settled()
        if (round >= 0) times[name]?.push(took)
      }
    }
    const t = (a: string, b: string) => welchsT(times[a] ?? [], times[b] ?? [])
    const figures = { accounts: t('known', 'unknown'), control: t('control', 'other control') }
    console.log(`Welch's t of ${TRIES} pairs: ${JSON.stringify(figures)}`)
    expect(Math.abs(figures.accounts), JSON.stringify(figures)).toBeLessThan(T_MAX)
  },
)
