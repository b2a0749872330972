import { availableParallelism } from 'node:os'
import { Browser } from '@platform/testkit/browser'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestIdp, type TestIdp } from '../../../test/start.ts'

const WAITING_MAX = 64

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

/** Keeps every slot and the whole queue taken while something else is done. */
async function whileFull<T>(work: () => Promise<T>): Promise<T> {
  let isDone = false
  const keepTaken = async (): Promise<void> => {
    await idp.deps.passwords.verify(undefined, 'wrong password')
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
