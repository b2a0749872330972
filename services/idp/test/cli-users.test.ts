import { randomUUID } from 'node:crypto'
import { auditEvents } from '@platform/service/audit-table'
import { Browser } from '@platform/testkit/browser'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createUser } from '../src/features/accounts/accounts.ts'
import { users } from '../src/features/accounts/table.ts'
import { type Operated, refused, startOperated } from './operator.ts'
import { passkeyOptionsOn, SoftAuthenticator } from './soft-authenticator.ts'
import { linkIn, type TestIdp } from './start.ts'

let operated: Operated
let idp: TestIdp
let run: Operated['run']
let runJson: Operated['runJson']
beforeAll(async () => {
  operated = await startOperated()
  ;({ idp, run, runJson } = operated)
})
afterAll(() => idp.close())

const mailOfReset = async (person: { email: string }): Promise<string> => {
  const browser = new Browser()
  await browser.submit(await browser.visit(`${idp.url}/forgot-password`), { email: person.email })
  return linkIn((await idp.letters(person)).at(-1))
}

describe('user list', () => {
  test('shows users oldest first, page by page, and tells nothing secret', async () => {
    const before = (await runJson('user list --limit 1000')) as { users: { id: string }[] }
    const made: string[] = []
    for (let i = 0; i < 3; i++) made.push((await idp.person()).userId)
    const after = before.users.at(-1)?.id
    const first = await runJson(`user list --limit 2${after === undefined ? '' : ` --after ${after}`}`)
    expect(first.users.map(({ id }: { id: string }) => id)).toEqual(made.slice(0, 2))
    expect(first.next).toBe(made[1])
    expect(Object.keys(first.users[0] as object).toSorted()).toEqual(
      ['createdAt', 'email', 'emailVerified', 'familyName', 'givenName', 'id', 'suspendedAt'].toSorted(),
    )
    const second = await runJson(`user list --limit 2 --after ${first.next}`)
    expect(second).toMatchObject({ users: [{ id: made[2], givenName: 'Ana', familyName: 'Silva' }], next: null })
    expect((await run(`user list --limit 2${after === undefined ? '' : ` --after ${after}`}`)).stdout).toMatch(
      new RegExp(
        `^${made[0]}  \\S+  proven      active     \\S+  Ana Silva\n${made[1]} .*\nThere are more: --after ${made[1]}\n$`,
      ),
    )
  })

  test('finds a text in addresses and names, in any case, and takes % and _ for letters', async () => {
    const names = { givenName: 'Zoë 100%', familyName: 'van Dijk' }
    const zoe = await createUser(idp.deps, { email: 'zoe_d@example.com', ...names, emailVerified: false })
    await createUser(idp.deps, { email: 'zoeXd@example.com' })
    const found = async (text: string) => {
      const { users: listed } = await runJson(['user', 'list', '--search', text])
      return listed.map(({ email }: { email: string }) => email)
    }
    for (const text of ['ZOE_D', 'zoë 100% VAN', '0%'])
      expect([text, await found(text)]).toEqual([text, ['zoe_d@example.com']])
    expect(await found('nobody has this')).toEqual([])
    expect((await run(['user', 'list', '--search', zoe.email])).stdout).toContain('not proven')
  })
})

test('user show tells ways to sign in, sessions, clients, withdrawn products and invitations, and no secret', async () => {
  const ana = await idp.person()
  const browser = await idp.signedIn(ana)
  const page = await browser.visit(`${idp.url}/passkeys/add`)
  await browser.submit(page, { credential: new SoftAuthenticator(idp.url).create(passkeyOptionsOn(page)), name: 'Key' })
  const client = await idp.client({ isFirstParty: false, name: 'A third party' })
  await idp.tokens(client, ana)
  await run(`product withdraw ${ana.userId} storage`)
  const invitation = { id: randomUUID(), issuer: 'https://api.example.com' }
  const joined = [{ ...invitation, until: '2030-01-01T00:00:00.000Z' }]
  await idp.deps.db.update(users).set({ joined }).where(eq(users.id, ana.userId))

  const shown = await runJson(`user show ${ana.email.toUpperCase()}`)
  expect(shown).toMatchObject({
    id: ana.userId,
    hasPassword: true,
    passkeys: [{ name: 'Key' }],
    authenticator: null,
    recoveryCodesLeft: 0,
    clients: [{ clientId: client.id, name: 'A third party', connectionCount: 1 }],
    withdrawnProducts: ['storage'],
    joined,
  })
  expect(shown.sessions).toHaveLength(2)
  expect(JSON.stringify(shown)).not.toMatch(/argon2|hash|cookie|credential|publicKey/i)
  const { stdout } = await run(`user show ${ana.userId}`)
  for (const part of [
    'password        set',
    'passkey         Key',
    'A third party',
    'withdrawn       storage',
    `invitation      https://api.example.com#${invitation.id}`,
  ])
    expect(stdout).toContain(part)
  expect(await run('user show nobody@example.com')).toEqual(refused('User nobody@example.com not found'))
  expect(await run(`user show ${randomUUID()}`)).toEqual(refused('User not found'))
})

describe('user update', () => {
  test('corrects an address, which ends every older link, and counts as proven (D114)', async () => {
    const ana = await idp.person({ emailVerified: false })
    const mailed = await mailOfReset(ana)
    const { link: handed } = await runJson(`user reset ${ana.userId}`)
    const email = `right.${ana.email}`
    expect(await runJson(`user update ${ana.email} --email ${email.toUpperCase()}`)).toMatchObject({
      id: ana.userId,
      email,
      emailVerified: true,
    })
    for (const link of [mailed, handed]) expect((await new Browser().visit(link)).status).toBe(400)
    expect(await idp.signedIn({ ...ana, email })).toBeDefined()
    expect((await new Browser().visit(await mailOfReset({ email }))).status).toBe(200)
    expect((await idp.changesOf(ana)).at(-1)).toBe('operator user.changed')
    const events = await idp.deps.db
      .select()
      .from(auditEvents)
      .where(eq(auditEvents.subject, `user:${ana.userId}`))
    expect(JSON.stringify(events)).not.toContain(ana.email)
  })

  test('leaves links alone where only a name changes, and clears an empty one', async () => {
    const ana = await idp.person()
    const link = await mailOfReset(ana)
    await runJson(['user', 'update', ana.userId, '--given-name', 'Anna Maria', '--family-name', ''])
    expect(await runJson(`user show ${ana.userId}`)).toMatchObject({ givenName: 'Anna Maria', familyName: null })
    expect((await new Browser().visit(link)).status).toBe(200)
  })

  test('a link that was mailed while the address was corrected sets no password', async () => {
    const ana = await idp.person()
    const link = await mailOfReset(ana)
    await idp.deps.db
      .update(users)
      .set({ email: `right.${ana.email}` })
      .where(eq(users.id, ana.userId))
    const browser = new Browser()
    const form = { new: 'from a mailbox of somebody else', again: 'from a mailbox of somebody else' }
    expect((await browser.submit(await browser.visit(link), form)).status).toBe(400)
    expect(await idp.signedIn({ ...ana, email: `right.${ana.email}` })).toBeDefined()
  })

  test('keeps a new address unproven if told so, and proves the one that is there', async () => {
    const ana = await idp.person()
    const email = `new.${ana.email}`
    const update = (words: string) => runJson(`user update ${ana.userId} ${words}`)
    expect(await update(`--email ${email} --email-verified false`)).toMatchObject({ email, emailVerified: false })
    expect(await update('--email-verified true')).toMatchObject({ email, emailVerified: true })
  })

  test('writes nothing down where nothing changes', async () => {
    const ana = await idp.person()
    await runJson(`user update ${ana.userId} --email ${ana.email} --given-name Ana`)
    expect(await idp.changesOf(ana)).toEqual([])
  })

  test('refuses an address that is taken, in any case, or none, with a sentence', async () => {
    const [ana, bob] = [await idp.person(), await idp.person()]
    expect(await run(`user update ${ana.userId} --email ${bob.email.toUpperCase()}`)).toEqual(
      refused(`A user with the email ${bob.email} exists already`),
    )
    expect(await run(`user update ${ana.userId} --email a@b@c`)).toEqual(refused('This is not an email address'))
    expect(await run(`user update ${randomUUID()} --given-name Ana`)).toEqual(refused('User not found'))
    expect(await idp.changesOf(ana)).toEqual([])
  })
})

test('calling user list, update and invite wrongly ends with exit code 2', async () => {
  const wrong = [
    'user list --limit 0',
    'user list --limit 1001',
    'user list --limit many',
    'user list --after nobody',
    'user show',
    'user update',
    'user update a@example.com',
    'user update a@example.com --email-verified perhaps',
    'user invite',
    'user invite a@example.com --expires 31d',
    'user invite a@example.com --expires 0h',
    'user invite a@example.com --expires 7',
    'user invite a@example.com --expires tomorrow',
  ]
  for (const words of wrong) expect([words, (await run(words)).code]).toEqual([words, 2])
})
