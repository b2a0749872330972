import { availableParallelism } from 'node:os'
import { workUnderWay } from '@platform/service/metrics'
import { Browser } from '@platform/testkit/browser'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createCheapHashing } from '@platform/testing/cheap-hashing'
import { startTestIdp, type TestIdp } from '../../../test/start.ts'
import { createHashing } from './hashing.ts'

const WAITING_MAX = 64

const hashing = createCheapHashing()
let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp({}, { hashing })
})
afterAll(() => idp.close())

/** Keeps every slot and the whole queue occupied during some work. */
async function whileFull<T>(idp: TestIdp, work: () => Promise<T>): Promise<T> {
  let isDone = false
  const keepTaken = async (): Promise<void> => {
    await idp.deps.passwords.verify(undefined, 'wrong password', 'ordinary')
    if (!isDone) await keepTaken()
  }
  const taken = Array.from({ length: availableParallelism() + WAITING_MAX }, () => keepTaken().catch(() => {}))
  try {
    return await work()
  } finally {
    isDone = true
    await Promise.all(taken)
  }
}

test('when 64 people wait for their password to be checked the next is told 503, and tokens go on (identity.md)', async () => {
  // The real cost and process: what a flood of passwords does to other requests depends on both.
  const idp = await startTestIdp({}, { hashing: createHashing(60_000) })
  onTestFinished(() => idp.close())
  const ana = await idp.person()
  const client = await idp.client()
  const { refresh_token = '', access_token } = await idp.tokens(client, ana)
  const browser = new Browser()
  const page = await browser.visit(`${idp.url}/sign-in`)

  const [refused, refreshed, userinfo] = await whileFull(idp, async () => [
    await idp.signIn(browser, page, ana),
    await idp.token({ grant_type: 'refresh_token', client_id: client.id, refresh_token }),
    await idp.send('GET /oauth2/userinfo', undefined, { authorization: `Bearer ${access_token}` }),
  ])
  expect(refused.status).toBe(503)
  expect(refused.headers.get('retry-after')).toBe('5')
  expect(refused.body).toContain('Too many people are signing in; try again in a moment.')
  expect(refused.body).toContain(`value="${ana.email}"`)
  expect(refreshed.status).toBe(200)
  expect(userinfo.status).toBe(200)

  expect((await idp.signIn(browser, page, ana)).status).toBe(303)
})

const waiting = async () => {
  const { values } = await workUnderWay.get()
  return values.find(({ labels }) => labels.kind === 'password_hash' && labels.state === 'waiting')?.value ?? 0
}
const untilWaiting = (count: number) => vi.waitFor(async () => expect(await waiting()).toBe(count), 60_000)

interface Flood {
  /** The passwords that got a slot, in order. */
  checked: () => string[]
  /** Lets hashing continue, and waits until the flood is over. */
  drain: () => Promise<void>
}

/** Holds every hash back and fills every slot and the ordinary queue. */
async function flood(): Promise<Flood> {
  const gate = Promise.withResolvers<void>()
  const { verify } = hashing
  const held = vi.spyOn(hashing, 'verify').mockImplementation(async (hash, password) => {
    await gate.promise
    return verify(hash, password)
  })
  const guesses: Promise<unknown>[] = []
  onTestFinished(() => {
    gate.resolve()
    held.mockRestore()
  })
  while ((await waiting()) < WAITING_MAX) guesses.push(idp.deps.passwords.verify(undefined, 'a guess', 'ordinary'))
  return {
    checked: () => held.mock.calls.map(([, password]) => password),
    async drain() {
      gate.resolve()
      await Promise.all(guesses)
    },
  }
}

test('who was told 503 has not guessed: the right password signs in at once afterwards', async () => {
  const ana = await idp.person()
  const browser = new Browser()
  const page = await browser.visit(`${idp.url}/sign-in`)
  const strangers = await flood()
  const statuses = await Promise.all(
    Array.from({ length: 10 }, async () => (await idp.signIn(browser, page, ana)).status),
  )
  await strangers.drain()
  expect(statuses).toEqual(Array(10).fill(503))
  expect((await idp.signIn(browser, page, ana)).status).toBe(303)
})

describe('a flood of guesses from unknown browsers, while every hash takes for ever', () => {
  test('a known browser signs in before all who wait, where a stranger is told 503', async () => {
    const [ana, eve] = [await idp.person(), await idp.person()]
    const [known, stranger, knownToEve] = [await idp.signedIn(ana), new Browser(), await idp.signedIn(eve)]
    for (const browser of [known, knownToEve]) await browser.submit(await browser.visit(`${idp.url}/sign-out`), {})
    const pages = new Map<Browser, Awaited<ReturnType<Browser['visit']>>>()
    for (const browser of [known, stranger, knownToEve]) pages.set(browser, await browser.visit(`${idp.url}/sign-in`))
    const signIn = (browser: Browser) => {
      const page = pages.get(browser)
      if (!page) throw new Error('No page')
      return idp.signIn(browser, page, ana)
    }

    const strangers = await flood()
    expect((await signIn(stranger)).status).toBe(503)
    // A browser known to another account is unknown here.
    expect((await signIn(knownToEve)).status).toBe(503)
    const answer = signIn(known)
    await untilWaiting(WAITING_MAX + 1)
    // Those that have a slot; the known browser gets the first that is free.
    const before = strangers.checked().length
    const drained = strangers.drain()
    expect((await answer).status).toBe(303)
    await drained
    expect(strangers.checked().indexOf(ana.password)).toBe(before)
  })

  test('whoever is signed in changes the password', async () => {
    const ana = await idp.person()
    const browser = await idp.signedIn(ana)
    // Forgets every browser: only the session counts from here on.
    await idp.deps.db.execute(
      `update users set updated_at = updated_at + interval '1 second' where id = '${ana.userId}'`,
    )
    const page = await browser.visit(`${idp.url}/password`)
    const wanted = 'a new and longer password'
    const strangers = await flood()
    const answer = browser.submit(page, { current: ana.password, new: wanted, again: wanted })
    await untilWaiting(WAITING_MAX + 1)
    const drained = strangers.drain()
    expect((await answer).body).toContain('Password changed')
    await drained
  })

  test('a known browser that guessed too often waits with the strangers', async () => {
    const ana = await idp.person()
    const known = await idp.signedIn(ana)
    const page = await known.visit(`${idp.url}/sign-in?returnTo=/passkeys/add`)
    for (let i = 0; i < 5; i++)
      expect((await idp.signIn(known, page, { ...ana, password: 'not the password' })).status).toBe(401)
    const strangers = await flood()
    expect((await idp.signIn(known, page, ana)).status).toBe(503)
    await strangers.drain()
  })
})
