// engines: postgres
import { randomUUID } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { auditEvents } from '@platform/service/audit-table'
import { jobsAt } from '@platform/testing/api'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { holding } from '@platform/testkit/holding'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newKey, newOwner, type Owner, unique } from '../../../../test/scenario.ts'
import { tokenLike } from '../../../../test/user-tokens.ts'
import { setMember } from '../organizations/members.ts'
import { organizations } from '../organizations/table.ts'
import { setQuota } from '../products/quotas.ts'
import { profiles } from '../profiles/table.ts'
import { invitations } from '../organizations/invitations-table.ts'

const DAY_MS = 86_400_000
let platform: TestPlatform
let folder: string
const logged: string[] = []
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'api-mail-'))
  platform = await startPlatform({
    env: { MAIL_URL: pathToFileURL(folder).href, MAIL_FROM: 'Platform <hello@example.com>' },
    onLogLine: (line) => void logged.push(line),
  })
})
afterAll(async () => {
  await platform.close()
  await rm(folder, { recursive: true, force: true })
})

const newAddress = () => `${unique()}@example.com`
const invite = ({ token, organizationId }: Owner, body: object, headers?: Record<string, string>) =>
  platform.call(token, `POST /organizations/${organizationId}/invitations`, body, headers)
const list = ({ token, organizationId }: Owner) =>
  platform.call(token, `GET /organizations/${organizationId}/invitations`)
const revoke = ({ token, organizationId }: Owner, id: unknown) =>
  platform.call(token, `DELETE /organizations/${organizationId}/invitations/${String(id)}`)

/** A member of somebody's organization, with a token of every scope. */
async function memberOf(owner: Owner, role: 'OWNER' | 'ADMIN' | 'MEMBER'): Promise<Owner> {
  const sub = randomUUID()
  await setMember(platform.api, owner.organizationId, sub, role)
  return { ...owner, token: tokenLike(platform, owner.token, { sub }) }
}

/** The letters that an address got; those on their way arrive first. */
async function lettersTo(email: string): Promise<string[]> {
  await platform.api.afterAnswer.settled()
  const names = (await readdir(folder)).toSorted()
  const letters = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))
  return letters.filter((letter) => letter.includes(`\r\nTo: ${email}\r\n`))
}

const auditOf = async ({ organizationId }: Owner) => {
  const events = await platform.api.db
    .select({ actor: auditEvents.actor, action: auditEvents.action, details: auditEvents.details })
    .from(auditEvents)
    .where(eq(auditEvents.subject, `organization:${organizationId}`))
    .orderBy(auditEvents.id)
  return events
}

test('an invitation shows its link once, in the answer and in a letter, and is listed without it, newest first (D112)', async () => {
  const owner = await newOwner(platform)
  const email = newAddress()
  const { status, body } = await invite(owner, { email, role: 'MEMBER' })
  expect(status).toBe(201)
  const invitation = {
    id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/) as string,
    organizationId: owner.organizationId,
    email,
    role: 'MEMBER',
    invitedByUserId: owner.person.userId,
    createdAt: expect.stringMatching(/Z$/) as string,
    expiresAt: new Date(Date.parse(body.createdAt as string) + 7 * DAY_MS).toISOString(),
  }
  const link = `${platform.apiUrl}/.well-known/invitation/`
  expect(body).toEqual({ ...invitation, isMailed: true, url: expect.stringContaining(link) as string })
  expect((body.url as string).slice(link.length)).toMatch(/^[\w-]{43}$/)
  const second = await invite(owner, { email: newAddress(), role: 'ADMIN' })
  const listed = await list(owner)
  expect(listed.body).toEqual({ items: [expect.objectContaining({ id: second.body.id }), invitation], total: 2 })
  const letters = await lettersTo(email)
  expect(letters.map((letter) => letter.match(/https?:\/\/\S+/g))).toEqual([[body.url]])
  expect(letters[0]).toContain('From: Platform <hello@example.com>')
})

test.each([
  ['no address', { email: '', role: 'MEMBER' }, '/email'],
  ['an address without a host', { email: 'ana', role: 'MEMBER' }, '/email'],
  ['300 characters', { email: `${'a'.repeat(288)}@example.com`, role: 'MEMBER' }, '/email'],
  ['two @', { email: 'ana@bob@example.com', role: 'MEMBER' }, '/email'],
  ['a list of addresses', { email: 'ana@example.com, bob@example.com', role: 'MEMBER' }, '/email'],
  ['a name with the address', { email: 'Ana <ana@example.com>', role: 'MEMBER' }, '/email'],
  ['another alphabet before the @', { email: 'аna@example.com', role: 'MEMBER' }, '/email'],
  ['an unknown role', { email: 'ana@example.com', role: 'BOSS' }, '/role'],
  ['an unknown member of the body', { email: 'ana@example.com', role: 'MEMBER', name: 'Ana' }, '/name'],
])('an invitation with %s is a 422 that names the field', async (_, body, property) => {
  const owner = await newOwner(platform)
  expect(await invite(owner, body)).toMatchObject({ status: 422, body: { on: 'body', property } })
  expect((await list(owner)).body.total).toBe(0)
})

test('case-and-unicode-twins: two spellings of one address are one invitation, and the later one ends the earlier', async () => {
  const owner = await newOwner(platform)
  const name = unique()
  const first = await invite(owner, { email: `${name}.Ana@BÜCHER.example`, role: 'MEMBER' })
  const second = await invite(owner, { email: ` ${name}.ana@xn--bcher-kva.example`, role: 'ADMIN' })
  expect([first.status, second.status]).toEqual([201, 201])
  expect((await list(owner)).body.items).toMatchObject([
    { id: second.body.id as string, email: `${name}.ana@xn--bcher-kva.example`, role: 'ADMIN' },
  ])
  expect(await auditOf(owner)).toMatchObject([
    { action: 'invitation.created', details: { invitationId: first.body.id as string, role: 'MEMBER' } },
    { action: 'invitation.replaced', details: { invitationId: first.body.id as string, by: second.body.id as string } },
    { action: 'invitation.created', details: { invitationId: second.body.id as string, role: 'ADMIN' } },
  ])
})

test('letters-as-a-bomb: an address gets five letters a day, whichever organizations invite it and whoever leaves them', async () => {
  const [owner, other] = [await newOwner(platform), await newOwner(platform)]
  const email = newAddress()
  const helper = await memberOf(owner, 'OWNER')
  const mailed: boolean[] = []
  for (const inviter of [helper, helper, owner, other]) {
    const { body } = await invite(inviter, { email, role: 'MEMBER' })
    mailed.push(body.isMailed as boolean)
  }
  const { body: members } = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/members`)
  const membershipId = members.items[1].membershipId as string
  expect((await platform.call(owner.token, `DELETE /memberships/${membershipId}`)).status).toBe(204)
  for (const inviter of [owner, other, other]) {
    const { status, body } = await invite(inviter, { email, role: 'MEMBER' })
    expect(status).toBe(201)
    mailed.push(body.isMailed as boolean)
  }
  expect(mailed).toEqual([true, true, true, true, true, false, false])
  expect(await lettersTo(email)).toHaveLength(5)
})

test('one of two organizations that invite an address at once mails its fifth letter', async () => {
  const [owner, other] = [await newOwner(platform), await newOwner(platform)]
  const email = newAddress()
  for (let n = 0; n < 4; n++) await invite(owner, { email, role: 'MEMBER' })
  const answers = await holding(
    platform.databaseUrl,
    (held) => held`select pg_advisory_xact_lock(7150116, hashtext(${email}))`,
    [() => invite(owner, { email, role: 'MEMBER' }), () => invite(other, { email, role: 'MEMBER' })],
  )
  expect(answers.map(({ body }) => body.isMailed as boolean)).toEqual([true, false])
})

test('organization-named-like-a-link: a letter has one link, its own, and names lose what makes another', async () => {
  const owner = await newOwner(platform)
  const { db } = platform.api
  const name = 'Win at https://evil.example/prize call 0800 123456'
  await db.update(organizations).set({ name }).where(eq(organizations.id, owner.organizationId))
  const profile = { email: null, givenName: 'www.evil.example', familyName: 'a@evil.example', imageUrl: null }
  await db
    .insert(profiles)
    .values({ userId: owner.person.userId, learnedAt: platform.api.now(), ...profile })
    .onConflictDoUpdate({ target: profiles.userId, set: profile })
  const email = newAddress()
  const { body } = await invite(owner, { email, role: 'MEMBER' })
  const [letter = ''] = await lettersTo(email)
  expect(letter.match(/https?:\/\/\S+/g)).toEqual([body.url])
  expect(letter.replace(body.url as string, '')).not.toMatch(/evil\.example|@evil|0800|123456/)
  expect(letter).toContain('Subject: www evil example a evil example invites you to Win at')
  expect(letter).toContain('If you do not know them, do nothing.')
})

test('an invitation without MAIL_URL is made and says that nothing was mailed', async () => {
  const silent = await startPlatform()
  try {
    const { token, organizationId } = await newOwner(silent)
    const invitation = { email: newAddress(), role: 'MEMBER' }
    const made = await silent.call(token, `POST /organizations/${organizationId}/invitations`, invitation)
    expect(made).toMatchObject({
      status: 201,
      body: { isMailed: false, url: expect.stringMatching(/^http/) as string },
    })
  } finally {
    await silent.close()
  }
})

test('a MEMBER neither lists nor makes nor revokes invitations (403), an ADMIN does (D17)', async () => {
  const owner = await newOwner(platform)
  const [admin, member] = [await memberOf(owner, 'ADMIN'), await memberOf(owner, 'MEMBER')]
  const { body } = await invite(admin, { email: newAddress(), role: 'ADMIN' })
  const refused = { status: 403, body: { error: 'Your role in this organization does not allow this' } }
  expect(await list(member)).toMatchObject(refused)
  expect(await invite(member, { email: newAddress(), role: 'MEMBER' })).toMatchObject(refused)
  expect(await revoke(member, body.id)).toMatchObject(refused)
  expect((await list(admin)).body.total).toBe(1)
  expect((await revoke(admin, body.id)).status).toBe(204)
})

test('admin-invites-owner: only an OWNER invites an OWNER (403)', async () => {
  const owner = await newOwner(platform)
  const admin = await memberOf(owner, 'ADMIN')
  expect(await invite(admin, { email: newAddress(), role: 'OWNER' })).toMatchObject({
    status: 403,
    body: { error: 'Only an OWNER can invite an OWNER' },
  })
  expect((await list(owner)).body.total).toBe(0)
  expect((await invite(owner, { email: newAddress(), role: 'OWNER' })).status).toBe(201)
})

test('an OWNER who loses the role while they invite an OWNER is refused (403)', async () => {
  const owner = await newOwner(platform)
  const [answer] = await holding(
    platform.databaseUrl,
    async (held) => {
      await held`select from organizations where id = ${owner.organizationId} for update`
      await held`update organization_members set role = 'ADMIN' where organization_id = ${owner.organizationId}`
    },
    [() => invite(owner, { email: newAddress(), role: 'OWNER' })],
  )
  expect(answer).toMatchObject({ status: 403, body: { error: 'Only an OWNER can invite an OWNER' } })
})

test('key-invites: neither an API key nor a token of the members’ scopes that a key asks for reaches invitations (403)', async () => {
  const owner = await newOwner(platform)
  const key = await newKey(platform, owner, ['platform:organizations:read', 'network:applications:read'])
  const byKey = { ...owner, token: key.token }
  const refused = { status: 403, body: { error: 'This operation needs a user-backed token' } }
  for (const answer of [
    await list(byKey),
    await invite(byKey, { email: newAddress(), role: 'MEMBER' }),
    await revoke(byKey, randomUUID()),
  ])
    expect(answer).toMatchObject(refused)
  for (const scope of ['platform:members:read', 'platform:members:write'])
    expect(
      await platform.call(owner.token, 'POST /api-keys', {
        name: 'ci',
        applicationId: owner.applicationId,
        scopes: [scope],
      }),
    ).toMatchObject({ status: 400, body: { error: `An API key can never hold the scope ${scope}` } })
})

test.each(['OWNER', 'ADMIN'])(
  'inviting an %s takes a sign-in within 15 minutes, from any client (RFC 9470)',
  async (role) => {
    const owner = await newOwner(platform)
    const seconds = Math.floor(platform.clock.now().getTime() / 1_000)
    const signedInAgo = (ago: number) => ({
      ...owner,
      token: tokenLike(platform, owner.token, { auth_time: seconds - ago }),
    })
    const refused = await invite(signedInAgo(901), { email: newAddress(), role })
    expect(refused.status).toBe(403)
    expect(refused.headers['www-authenticate']).toMatch(
      /^Bearer error="insufficient_user_authentication", error_description="Sign in again: [^"]+", max_age="900"$/,
    )
    expect((await invite(signedInAgo(901), { email: newAddress(), role: 'MEMBER' })).status).toBe(201)
    expect((await invite(signedInAgo(800), { email: newAddress(), role })).status).toBe(201)
  },
)

/** Writes down invitations of an organization, past its quotas. */
async function fill({ organizationId, person }: Owner, count: number, createdAt: Date): Promise<void> {
  await platform.api.db.insert(invitations).values(
    Array.from({ length: count }, () => ({
      id: randomUUID(),
      organizationId,
      email: newAddress(),
      role: 'MEMBER' as const,
      tokenHash: Buffer.from(randomUUID()),
      invitedByUserId: person.userId,
      isMailed: false,
      createdAt,
      expiresAt: new Date(createdAt.getTime() + 7 * DAY_MS),
    })),
  )
}

test('fifty invitations can wait (409); one that was revoked or has expired makes room (D112)', async () => {
  const owner = await newOwner(platform)
  const yesterday = new Date(platform.clock.now().getTime() - DAY_MS)
  await fill(owner, 3, new Date(yesterday.getTime() - 7 * DAY_MS))
  await fill(owner, 49, yesterday)
  const email = newAddress()
  expect((await invite(owner, { email, role: 'MEMBER' })).status).toBe(201)
  expect(await invite(owner, { email: newAddress(), role: 'MEMBER' })).toMatchObject({
    status: 409,
    body: { error: '50 invitations are waiting already: revoke one first' },
  })
  // The earlier one of the same address makes room, too.
  const again = await invite(owner, { email, role: 'MEMBER' })
  expect(again.status).toBe(201)
  expect((await list(owner)).body.total).toBe(50)
  await revoke(owner, again.body.id)
  expect((await invite(owner, { email: newAddress(), role: 'MEMBER' })).status).toBe(201)
})

test('the day’s quota counts every invitation, revoked ones too, and is shown (403, D112)', async () => {
  const owner = await newOwner(platform)
  await fill(owner, 5, new Date(platform.clock.now().getTime() - DAY_MS))
  await setQuota(platform.api, owner.organizationId, 'invitations_per_day', 2)
  const first = await invite(owner, { email: newAddress(), role: 'MEMBER' })
  await revoke(owner, first.body.id)
  expect((await invite(owner, { email: newAddress(), role: 'MEMBER' })).status).toBe(201)
  expect(await invite(owner, { email: newAddress(), role: 'MEMBER' })).toMatchObject({
    status: 403,
    body: { error: expect.stringContaining('invitations_per_day (2 of 2 used)') as string },
  })
  const { body } = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/quotas`)
  const shown = (name: string) => (body.items as { name: string }[]).find((quota) => quota.name === name)
  expect(shown('invitations_per_day')).toMatchObject({
    limit: 2,
    used: 2,
    windowEnd: expect.stringMatching(/T00:00:00\.000Z$/) as string,
  })
  expect(shown('organizations_per_owner')).toMatchObject({ limit: 10, used: null, windowEnd: null })
})

test('foreign-invitation-id: another organization’s invitation, an ended one and a malformed id are the same 404', async () => {
  const [owner, other] = [await newOwner(platform), await newOwner(platform)]
  const { body: foreign } = await invite(other, { email: newAddress(), role: 'MEMBER' })
  const { body: own } = await invite(owner, { email: newAddress(), role: 'MEMBER' })
  expect((await revoke(owner, own.id)).status).toBe(204)
  for (const id of [foreign.id, own.id, randomUUID(), 'x'])
    expect(await revoke(owner, id)).toMatchObject({ status: 404, text: '{"error":"Invitation not found"}' })
  expect((await list(other)).body.total).toBe(1)
  expect(await auditOf(owner)).toMatchObject([
    { action: 'invitation.created' },
    {
      actor: `user:${owner.person.userId}`,
      action: 'invitation.revoked',
      details: { invitationId: own.id as string },
    },
  ])
})

test('a repeated Idempotency-Key of an invitation is a 409, since its link is shown once (D79)', async () => {
  const owner = await newOwner(platform)
  const body = { email: newAddress(), role: 'MEMBER' }
  const statuses = [
    await invite(owner, body, { 'idempotency-key': 'k' }),
    await invite(owner, body, { 'idempotency-key': 'k' }),
  ]
  expect(statuses.map(({ status }) => status)).toEqual([201, 409])
  expect(await lettersTo(body.email)).toHaveLength(1)
})

test('the job discards invitations when their time is over, ended or not, and none before', async () => {
  const owner = await newOwner(platform)
  const { body } = await invite(owner, { email: newAddress(), role: 'MEMBER' })
  await revoke(owner, (await invite(owner, { email: newAddress(), role: 'MEMBER' })).body.id)
  const count = () => platform.api.db.$count(invitations, eq(invitations.organizationId, owner.organizationId))
  const discardAt = async (time: number) => {
    const job = jobsAt(platform.api, () => new Date(time)).find(({ name }) => name === 'discard invitations')
    await job?.run()
    return count()
  }
  const expiry = Date.parse(body.expiresAt as string)
  expect(await discardAt(expiry - 1_000)).toBe(2)
  expect(await discardAt(expiry + 60_000)).toBe(0)
})

test('no log line, list or audit holds a link’s token or an invited address', async () => {
  const owner = await newOwner(platform)
  const email = newAddress()
  const { body } = await invite(owner, { email, role: 'MEMBER' })
  const token = (body.url as string).slice(-43)
  for (const path of [
    `/.well-known/invitation/${token}`,
    `/.well-known/invitation%2f${token}`,
    `/x/Invitation/${token}`,
    `/invitation%252f${token}`,
    `/invitation=${token}`,
    `/invitation%5c${token}`,
    `/invitation%0a/${token}`,
    `/invitations/${token}`,
    `/invitation${token}`,
  ])
    await platform.call(null, `GET ${path}`)
  await platform.api.afterAnswer.settled()
  await revoke(owner, body.id)
  const log = logged.join('')
  expect(log).toContain('"/.well-known/invitation/"')
  expect(log).toContain(`/invitations/${body.id as string}"`)
  for (const secret of [token, email, email.slice(0, 12)]) {
    expect(log).not.toContain(secret)
    expect(JSON.stringify(await auditOf(owner))).not.toContain(secret)
  }
  expect((await list(owner)).text).not.toContain(token)
})
