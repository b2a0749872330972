import { randomBytes } from 'node:crypto'
import { Browser } from '@platform/testkit/browser'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestIdp, type TestIdp } from '../../../test/start.ts'
import { createUser, findUserByEmail } from './accounts.ts'
import { users } from './table.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

const unique = () => randomBytes(6).toString('hex')
const PASSWORD = 'some words in a row'

/** The statuses of so many sign-ins with a wrong password, each with the address as `spell` writes it. */
async function guess(count: number, spell: (n: number) => string): Promise<number[]> {
  const browser = new Browser()
  const page = await browser.visit(`${idp.url}/sign-in`)
  const statuses: number[] = []
  for (let n = 0; n < count; n++)
    statuses.push((await browser.submit(page, { email: spell(n), password: 'not the password' })).status)
  return statuses
}

test('an address has one account, in whichever script its domain is written (D114)', async () => {
  const name = unique()
  const user = await createUser(idp.deps, { email: `${name}@Bücher.example` })
  expect(user.email).toBe(`${name}@xn--bcher-kva.example`)
  for (const email of [`${name}@bücher.example`, `${name.toUpperCase()}@BÜCHER.example`, user.email])
    expect((await findUserByEmail(idp.deps, email))?.id).toBe(user.id)
  const twin = createUser(idp.deps, { email: `${name}@BÜCHER.example` })
  await expect(twin).rejects.toThrow(/exists already/)
})

test('an account of an earlier release, whose domain is stored in its own script, is found by both spellings and gets no twin', async () => {
  const name = unique()
  const user = await createUser(idp.deps, { email: `${name}@example.com`, password: PASSWORD })
  await idp.deps.db
    .update(users)
    .set({ email: `${name}@bücher.example` })
    .where(eq(users.id, user.id))
  for (const email of [`${name}@bücher.example`, `${name}@xn--bcher-kva.example`]) {
    expect((await findUserByEmail(idp.deps, email))?.id).toBe(user.id)
    await expect(createUser(idp.deps, { email })).rejects.toThrow(/exists already/)
  }
})

test.each(['/1', '?x', '#x', '\\x', ':25', '%2e'])(
  'an address with %s after its domain is no other spelling of it',
  async (ending) => {
    const { email } = await idp.person()
    expect(await findUserByEmail(idp.deps, `${email}${ending}`)).toBeUndefined()
  },
)

test('guesses at a password count together, whichever way the address is spelled', async () => {
  const name = unique()
  await createUser(idp.deps, { email: `${name}@bücher.example`, password: PASSWORD })
  const spellings = [
    'bücher.example',
    'BÜCHER.example',
    'xn--bcher-kva.example',
    'bu\u0308cher.example',
    'ｂücher.example',
  ]
  const statuses = await guess(6, (n) => `${name}@${spellings[n % spellings.length]}`)
  expect(statuses).toEqual([401, 401, 401, 401, 401, 429])
})
