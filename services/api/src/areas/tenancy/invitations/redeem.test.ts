// engines: postgres
import { randomUUID } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { auditEvents } from '@platform/service/audit-table'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { holding } from '@platform/testkit/holding'
import { and, eq, sql } from 'drizzle-orm'
import { generateKeyPair, importPKCS8, exportPKCS8, decodeJwt, SignJWT } from 'jose'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { newOwner, type Owner, unique } from '../../../../test/scenario.ts'
import { acceptedHere, tokenLike } from '../../../../test/user-tokens.ts'
import { changeRole, memberRoles, removeMember, setMember } from '../organizations/members.ts'
import type { Role } from '../organizations/table.ts'
import { setQuota } from '../products/quotas.ts'
import { createRedeemer } from './redeem.ts'
import { invitations } from '../organizations/invitations-table.ts'

let platform: TestPlatform
let owner: Owner
beforeAll(async () => {
  platform = await startPlatform()
  owner = await newOwner(platform)
  await setQuota(platform.api, owner.organizationId, 'invitations_per_day', 1_000)
})
afterAll(() => platform.close())

async function invite(
  role: Role,
  { token, organizationId } = owner,
  email = `${unique()}@example.com`,
): Promise<string> {
  const made = await platform.call(token, `POST /organizations/${organizationId}/invitations`, { email, role })
  if (made.status !== 201) throw new Error(`No invitation: ${made.text}`)
  return made.body.id as string
}
/** Somebody with an account: a user id, tokens that say which invitations they accepted, and tokens with any `joined`. */
function someone(sub: string = randomUUID()) {
  const tokenOf = (joined: unknown) => tokenLike(platform, owner.token, { sub, joined })
  return { userId: sub, token: (ids: string[]) => tokenOf(acceptedHere(platform, ids)), tokenOf }
}
/** A member of an organization and their token. */
async function member(role: Role, { organizationId, token, ...more } = owner) {
  const { userId } = someone()
  await setMember(platform.api, organizationId, userId, role)
  return { userId, owner: { ...more, organizationId, token: tokenLike(platform, token, { sub: userId }) } }
}
const roleOf = async (userId: string, { organizationId } = owner) =>
  (await memberRoles(platform.api, organizationId)).find((row) => row.userId === userId)?.role
const ask = (token: string, { organizationId } = owner) => platform.call(token, `GET /organizations/${organizationId}`)
const audited = (userId: string) =>
  platform.api.db
    .select({ action: auditEvents.action, subject: auditEvents.subject, details: auditEvents.details })
    .from(auditEvents)
    .where(eq(auditEvents.actor, `user:${userId}`))
    .orderBy(auditEvents.id)

test('the first call with a token that has `joined` already reaches the organization, even one that is then refused (D112)', async () => {
  const [ana, ben] = [someone(), someone()]
  const [forAna, forBen] = [await invite('MEMBER'), await invite('ADMIN')]
  expect((await ask(ana.token([forAna]))).status).toBe(200)
  const bare = tokenLike(platform, owner.token, {
    sub: ben.userId,
    scope: 'openid',
    joined: acceptedHere(platform, [forBen]),
  })
  expect((await ask(bare)).status).toBe(403)
  expect([await roleOf(ana.userId), await roleOf(ben.userId)]).toEqual(['MEMBER', 'ADMIN'])
  expect(await audited(ana.userId)).toEqual([
    {
      action: 'member.joined',
      subject: `organization:${owner.organizationId}`,
      details: { invitationId: forAna, invitedByUserId: owner.person.userId, role: 'MEMBER' },
    },
  ])
})

test('an invitation changes the role of a member, once', async () => {
  const { userId, token } = someone()
  await ask(token([await invite('MEMBER')]))
  const raise = await invite('ADMIN')
  await ask(token([raise]))
  expect(await roleOf(userId)).toBe('ADMIN')
  await changeRole(platform.api, owner.organizationId, userId, 'MEMBER')
  // As another process, which has no memory of it, would.
  await createRedeemer(platform.api)(userId, [raise])
  await ask(token([raise]))
  expect(await roleOf(userId)).toBe('MEMBER')
  expect((await audited(userId)).map(({ action, details }) => [action, details.from])).toEqual([
    ['member.joined', undefined],
    ['member.role_changed', 'MEMBER'],
  ])
})

test('an invitation to the role that a member has is used up, and audited as accepted', async () => {
  const { userId, token } = someone()
  await ask(token([await invite('MEMBER'), await invite('MEMBER')]))
  expect((await audited(userId)).map(({ action }) => action)).toEqual(['member.joined', 'invitation.accepted'])
  const live = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/invitations`)
  expect(live.body.total).toBe(0)
})

test('a token without `joined` costs no statement more, and one with it only the first time (D112)', async () => {
  const ana = await member('MEMBER')
  const plain = ana.owner.token
  const joined = tokenLike(platform, plain, { joined: acceptedHere(platform, [await invite('ADMIN')]) })
  const statements: string[] = []
  const note = (message: unknown) => {
    const { pool, text } = message as { pool: string; text: string }
    // Profiles are learned in the background.
    if (pool === 'platform-api' && !text.includes('profiles')) statements.push(text)
  }
  subscribe('platform:database:statement', note)
  onTestFinished(() => void unsubscribe('platform:database:statement', note))
  const count = async (token: string) => {
    statements.length = 0
    expect((await ask(token)).status).toBe(200)
    return [...statements]
  }
  expect(await count(plain)).toHaveLength(1)
  expect((await count(joined)).length).toBeGreaterThan(5)
  expect(await count(joined)).toHaveLength(1)
  expect(await count(tokenLike(platform, joined, {}))).toHaveLength(1)
})

test('joined-without-a-click: the invited address alone makes nobody a member', async () => {
  const ana = await platform.person()
  await invite('MEMBER', owner, ana.email)
  const token = await ana.token(['openid', 'email', 'profile', 'platform:organizations:read'])
  expect(decodeJwt(token)).not.toHaveProperty('joined')
  expect((await ask(token)).status).toBe(404)
  expect(await roleOf(ana.userId)).toBeUndefined()
})

test('invitation-of-another-issuer: a live id under another issuer’s name changes nothing, nor does one unknown here; a token of a stranger’s key is a 401', async () => {
  const { userId, token, tokenOf } = someone()
  expect((await ask(token([randomUUID()]))).status).toBe(404)
  const id = await invite('OWNER')
  const { apiUrl } = platform
  for (const issuer of ['https://api.evil.example', `${apiUrl}.evil.example`, `${apiUrl}/`, `${apiUrl}#`, ''])
    expect((await ask(tokenOf([`${issuer}#${id}`, id]))).status).toBe(404)
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const key = await importPKCS8(await exportPKCS8(privateKey), 'RS256')
  const claims = { ...decodeJwt(owner.token), sub: userId, joined: acceptedHere(platform, [id]) }
  for (const iss of [platform.idpUrl, 'https://id.evil.example']) {
    const header = { alg: 'RS256', typ: 'at+jwt', kid: 'stranger' }
    const forged = await new SignJWT({ ...claims, iss }).setProtectedHeader(header).sign(key)
    expect((await ask(forged)).status).toBe(401)
  }
  // The API's own key signs for API keys alone, whatever they claim.
  const asKey = platform.api.keySet.sign('at+jwt', { ...claims, iss: platform.apiUrl, sub: owner.applicationId })
  expect((await ask(asKey)).status).toBe(403)
  expect(await memberRoles(platform.api, owner.organizationId)).not.toContainEqual(expect.objectContaining({ userId }))
  expect(await platform.api.db.$count(invitations, and(eq(invitations.id, id), sql`ended_at is null`))).toBe(1)
})

test('revoked-between-join-and-token: an invitation that was revoked, replaced or is over makes nobody a member', async () => {
  const address = `${unique()}@example.com`
  const [revoked, replaced, expired] = [
    await invite('MEMBER'),
    await invite('MEMBER', owner, address),
    await invite('MEMBER'),
  ]
  await platform.call(owner.token, `DELETE /organizations/${owner.organizationId}/invitations/${revoked}`)
  await invite('MEMBER', owner, address)
  const past = new Date(platform.clock.now().getTime() - 1)
  await platform.api.db.update(invitations).set({ expiresAt: past }).where(eq(invitations.id, expired))
  const { userId, token } = someone()
  expect((await ask(token([revoked, replaced, expired]))).status).toBe(404)
  expect(await roleOf(userId)).toBeUndefined()
})

test('a revocation that comes while a token waits to be redeemed is either too late or seen', async () => {
  const id = await invite('MEMBER')
  const { userId, token } = someone()
  const [answer] = await holding(
    platform.databaseUrl,
    (held) => held`update invitations set ended_at = now() where id = ${id}`,
    [() => ask(token([id]))],
  )
  expect(answer.status).toBe(404)
  expect(await roleOf(userId)).toBeUndefined()
})

test('fifty-tokens-one-membership: fifty requests with a new token, beside eight other processes, make one membership', async () => {
  const id = await invite('MEMBER')
  const { userId, token } = someone()
  const once = token([id])
  const processes = Array.from({ length: 8 }, () => () => createRedeemer(platform.api)(userId, [id]))
  const requests = () => Promise.all(Array.from({ length: 50 }, () => ask(once)))
  const outcomes = await holding<unknown[]>(
    platform.databaseUrl,
    (held) => held`select from organizations where id = ${owner.organizationId} for update`,
    [...processes, requests],
  )
  const answers = outcomes.at(-1) as Awaited<ReturnType<typeof ask>>[]
  expect(answers.map(({ status }) => status)).toEqual(Array<number>(50).fill(200))
  const rows = (await memberRoles(platform.api, owner.organizationId)).filter((row) => row.userId === userId)
  expect(rows).toEqual([{ userId, email: null, role: 'MEMBER' }])
  expect((await audited(userId)).map(({ action }) => action)).toEqual(['member.joined'])
})

test('one of two people who accepted the same invitation joins', async () => {
  const id = await invite('MEMBER')
  const [ana, ben] = [someone(), someone()]
  const answers = await holding(
    platform.databaseUrl,
    (held) => held`select from organizations where id = ${owner.organizationId} for update`,
    [() => ask(ana.token([id])), () => ask(ben.token([id]))],
  )
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 404])
})

test.each<[string, Role, (organizationId: string, userId: string) => Promise<unknown>]>([
  ['was removed', 'MEMBER', (id, userId) => removeMember(platform.api, id, userId)],
  [
    'was removed and is back',
    'MEMBER',
    async (id, userId) => {
      await removeMember(platform.api, id, userId)
      await setMember(platform.api, id, userId, 'OWNER')
    },
  ],
  ['is a MEMBER now', 'MEMBER', (id, userId) => changeRole(platform.api, id, userId, 'MEMBER')],
  ['is an ADMIN now and invited an OWNER', 'OWNER', (id, userId) => changeRole(platform.api, id, userId, 'ADMIN')],
  [
    'was an ADMIN for a while and invited an OWNER',
    'OWNER',
    async (id, userId) => {
      await changeRole(platform.api, id, userId, 'ADMIN')
      await changeRole(platform.api, id, userId, 'OWNER')
    },
  ],
])(
  'removed-inviter: the invitation of somebody who %s makes nobody a member, and is no longer listed',
  async (_, role, change) => {
    const inviter = await member('OWNER')
    const id = await invite(role, inviter.owner)
    await change(owner.organizationId, inviter.userId)
    const { userId, token } = someone()
    expect((await ask(token([id]))).status).toBe(404)
    expect(await roleOf(userId)).toBeUndefined()
    const listed = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/invitations`)
    expect(listed.status).toBe(200)
    expect(listed.text).not.toContain(id)
  },
)

test('an invitation to MEMBER by an OWNER who is an ADMIN now still counts', async () => {
  const inviter = await member('OWNER')
  const id = await invite('MEMBER', inviter.owner)
  await changeRole(platform.api, owner.organizationId, inviter.userId, 'ADMIN')
  const { userId, token } = someone()
  await ask(token([id]))
  expect(await roleOf(userId)).toBe('MEMBER')
})

test.each([
  ['text', 'x'],
  ['an object', { 0: 'x' }],
  ['null', null],
  ['a list of what is no id', [1, null, {}, ['x'], 'x', '', '#', "'; drop table invitations; --", '\0']],
])('`joined` that is %s is ignored', async (_, joined) => {
  const { tokenOf } = someone()
  expect((await ask(tokenOf(joined))).status).toBe(404)
})

test('the API looks at its first twenty invitations in `joined`, whatever others stand before them', async () => {
  const id = await invite('MEMBER')
  const { userId, token, tokenOf } = someone()
  const others = (count: number) => Array.from({ length: count }, () => randomUUID())
  await ask(token([...others(20), id]))
  expect(await roleOf(userId)).toBeUndefined()
  const elsewhere = others(30).map((other) => `https://api.example.com#${other}`)
  const here = acceptedHere(platform, [...others(19), id.toUpperCase()])
  await ask(tokenOf([...elsewhere, ...here]))
  expect(await roleOf(userId)).toBe('MEMBER')
})

test('a failure of the database is a 503 that leaves the invitation to the next call', async () => {
  const id = await invite('MEMBER')
  const { userId, token } = someone()
  const once = token([id])
  const { db } = platform.api
  await db.execute(sql`create function shut_down() returns trigger language plpgsql as
    $$ begin raise exception 'shutting down' using errcode = '57P01'; end $$`)
  await db.execute(sql`create trigger shut_down before update on invitations for each row execute function shut_down()`)
  const drop = () => db.execute(sql`drop function if exists shut_down cascade`)
  onTestFinished(async () => void (await drop()))
  expect((await ask(once)).status).toBe(503)
  expect(await roleOf(userId)).toBeUndefined()
  await drop()
  expect((await ask(once)).status).toBe(200)
  expect(await roleOf(userId)).toBe('MEMBER')
})
