import { availableParallelism } from 'node:os'
import { workUnderWay } from '@platform/service/metrics'
import { Browser } from '@platform/testkit/browser'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { hasherOf } from '../../../test/hasher.ts'
import { startTestIdp, type TestIdp } from '../../../test/start.ts'

const WAITING_MAX = 64

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

/** Keeps every slot and the whole queue occupied during some work. */
async function whileFull<T>(work: () => Promise<T>): Promise<T> {
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
  const ana = await idp.person()
  const client = await idp.client()
  const { refresh_token = '', access_token } = await idp.tokens(client, ana)
  const browser = new Browser()
  const page = await browser.visit(`${idp.url}/sign-in`)

  const [refused, refreshed, userinfo] = await whileFull(async () => [
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

test('who was told 503 has not guessed: the right password signs in at once afterwards', async () => {
  const ana = await idp.person()
  const browser = new Browser()
  const page = await browser.visit(`${idp.url}/sign-in`)
  const statuses = await whileFull(() =>
    Promise.all(Array.from({ length: 10 }, async () => (await idp.signIn(browser, page, ana)).status)),
  )
  expect(statuses).toEqual(Array(10).fill(503))
  expect((await idp.signIn(browser, page, ana)).status).toBe(303)
})

describe('a flood of guesses from unknown browsers, while every hash takes for ever', () => {
  const waiting = async () => {
    const { values } = await workUnderWay.get()
    return values.find(({ labels }) => labels.kind === 'password_hash' && labels.state === 'waiting')?.value ?? 0
  }
  const untilWaiting = (count: number) => vi.waitFor(async () => expect(await waiting()).toBe(count), 10_000)

  interface Flood {
    /** The number of strangers' guesses answered so far. */
    answered: () => number
    /** Lets hashing continue, and waits until the flood is over. */
    drain: () => Promise<void>
  }

  /** Stops the hashing process and fills every slot and the ordinary queue. */
  async function flood(): Promise<Flood> {
    await idp.deps.passwords.verify(undefined, 'starts the process', 'ordinary')
    const pid = hasherOf(process.pid)
    process.kill(pid, 'SIGSTOP')
    let answered = 0
    const guesses: Promise<unknown>[] = []
    const resume = () => void process.kill(pid, 'SIGCONT')
    onTestFinished(resume)
    while ((await waiting()) < WAITING_MAX)
      guesses.push(idp.deps.passwords.verify(undefined, 'a guess', 'ordinary').then(() => answered++))
    return {
      answered: () => answered,
      async drain() {
        resume()
        await Promise.all(guesses)
      },
    }
  }
  const slots = () => Math.max(1, Math.min(4, availableParallelism() - 1))

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
    const verify = vi.spyOn(idp.deps.passwords, 'verify')
    onTestFinished(() => verify.mockRestore())
    const answer = signIn(known)
    await untilWaiting(WAITING_MAX + 1)
    const own = verify.mock.results.at(-1)?.value.then(() => strangers.answered())
    const drained = strangers.drain()
    expect((await answer).status).toBe(303)
    // Hashes that were already running, and those that other slots finished meanwhile; hardly any from the queue.
    expect(await own).toBeLessThan(slots() * 8)
    await drained
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
