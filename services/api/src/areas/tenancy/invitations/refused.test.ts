// engines: postgres
import { randomUUID } from 'node:crypto'
import { auditEvents } from '@platform/service/audit-table'
import { OWNED_ORGANIZATIONS_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import { jobsAt } from '@platform/testing/api'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { holding } from '@platform/testkit/holding'
import { and, eq, isNull } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newOwner, type Owner, unique } from '../../../../test/scenario.ts'
import { acceptedHere, tokenLike } from '../../../../test/user-tokens.ts'
import { invitations } from '../organizations/invitations-table.ts'
import { changeRole, memberRoles, removeMember, setMember, transferOrganization } from '../organizations/members.ts'
import { members, removedMembers, type Role } from '../organizations/table.ts'
import { setQuota } from '../products/quotas.ts'
import { createRedeemer } from './redeem.ts'

const DAY_MS = 86_400_000
let platform: TestPlatform
let founder: Owner
beforeAll(async () => {
  platform = await startPlatform()
  founder = await newOwner(platform)
})
afterAll(() => platform.close())

/** Somebody, with the organization that a test has them in, and tokens that say which invitations they accepted. */
interface Member extends Owner {
  userId: string
  accepting: (...ids: string[]) => string
}
function as(owner: Owner, userId: string = randomUUID()): Member {
  const accepting = (...ids: string[]) =>
    tokenLike(platform, founder.token, { sub: userId, joined: acceptedHere(platform, ids) })
  return { ...owner, userId, token: tokenLike(platform, founder.token, { sub: userId }), accepting }
}
/** A new organization, by its only OWNER. */
async function found(): Promise<Member> {
  const owner = await newOwner(platform, founder.person)
  const { userId } = founder.person
  const own = as(owner)
  await setMember(platform.api, own.organizationId, own.userId, 'OWNER')
  await removeMember(platform.api, own.organizationId, userId)
  return own
}
async function member(owner: Owner, role: Role): Promise<Member> {
  const made = as(owner)
  await setMember(platform.api, owner.organizationId, made.userId, role)
  return made
}
async function invite({ token, organizationId }: Owner, role: Role): Promise<string> {
  const invitation = { email: `${unique()}@example.com`, role }
  const made = await platform.call(token, `POST /organizations/${organizationId}/invitations`, invitation)
  if (made.status !== 201) throw new Error(`No invitation: ${made.text}`)
  return made.body.id as string
}
const ask = (token: string, { organizationId }: Owner) => platform.call(token, `GET /organizations/${organizationId}`)
const roleOf = async ({ userId }: Member, { organizationId }: Owner) =>
  (await memberRoles(platform.api, organizationId)).find((row) => row.userId === userId)?.role
/** Invitations that were neither accepted, refused nor ended otherwise. */
const unended = ({ organizationId }: Owner) =>
  platform.api.db.$count(invitations, and(eq(invitations.organizationId, organizationId), isNull(invitations.endedAt)))
const auditedOf = async ({ userId }: Member) => {
  const events = await platform.api.db
    .select({ action: auditEvents.action, details: auditEvents.details })
    .from(auditEvents)
    .where(eq(auditEvents.actor, `user:${userId}`))
    .orderBy(auditEvents.id)
  return events
    .filter(({ action }) => action !== 'invitation.created')
    .map(({ action, details }) => [action, details.reason].filter(Boolean).join(' '))
}
const remove = async (by: Member, { userId }: Member) => {
  const { body } = await platform.call(by.token, `GET /organizations/${by.organizationId}/members`)
  const row = (body.items as { userId: string; membershipId: string }[]).find((item) => item.userId === userId)
  expect((await platform.call(by.token, `DELETE /memberships/${row?.membershipId}`)).status).toBe(204)
}

test('the last OWNER stays one, whatever they accept, an ADMIN’s invitation changes no OWNER, and either ends by the try', async () => {
  const last = await found()
  const admin = await member(last, 'ADMIN')
  await ask(last.accepting(await invite(last, 'MEMBER'), await invite(admin, 'MEMBER')), last)
  expect(await roleOf(last, last)).toBe('OWNER')
  expect(await auditedOf(last)).toEqual(['invitation.refused last_owner', 'invitation.refused owner'])
  const second = await member(last, 'OWNER')
  const byAdmin = await invite(admin, 'ADMIN')
  await ask(second.accepting(byAdmin), last)
  expect(await roleOf(second, last)).toBe('OWNER')
  expect(await unended(last)).toBe(0)
  await ask(second.accepting(await invite(last, 'MEMBER')), last)
  expect(await roleOf(second, last)).toBe('MEMBER')
  // In a process that has no memory of it, as in one that has.
  await createRedeemer(platform.api)(second.userId, [byAdmin])
  expect(await roleOf(second, last)).toBe('MEMBER')
})

test('an inviter whose role was taken by an earlier release, which ends no invitations, invites nobody, nor once they have it back', async () => {
  const owner = await found()
  const inviter = await member(owner, 'OWNER')
  const id = await invite(inviter, 'OWNER')
  await platform.api.db.update(members).set({ role: 'ADMIN' }).where(eq(members.userId, inviter.userId))
  const ana = as(owner)
  expect((await ask(ana.accepting(id), owner)).status).toBe(404)
  await changeRole(platform.api, owner.organizationId, inviter.userId, 'OWNER')
  await createRedeemer(platform.api)(ana.userId, [id])
  expect(await roleOf(ana, owner)).toBeUndefined()
  expect(await auditedOf(ana)).toEqual(['invitation.refused inviter'])
})

test('a removed member does not come back by an old token', async () => {
  const owner = await found()
  const ana = as(owner)
  const id = await invite(owner, 'MEMBER')
  const old = ana.accepting(id)
  expect((await ask(old, owner)).status).toBe(200)
  await removeMember(platform.api, owner.organizationId, ana.userId)
  expect((await ask(old, owner)).status).toBe(404)
  await createRedeemer(platform.api)(ana.userId, [id])
  expect(await roleOf(ana, owner)).toBeUndefined()
})

test.each<[string, (owner: Member, gone: Member, admin: Member) => Promise<unknown>]>([
  ['left', (_, gone) => remove(gone, gone)],
  ['was removed by another', (owner, gone) => remove(owner, gone)],
  [
    'was removed by the operator',
    ({ organizationId }, { userId }) => removeMember(platform.api, organizationId, userId),
  ],
  [
    'lost the organization to a transfer',
    ({ organizationId }, _, { userId }) => transferOrganization(platform.api, organizationId, userId),
  ],
])(
  'who %s does not come back by an invitation that they accepted before and no token brought; one made later admits them',
  async (_, end) => {
    const owner = await found()
    const [gone, admin] = [await member(owner, 'OWNER'), await member(owner, 'ADMIN')]
    const before = await invite(admin, 'MEMBER')
    await end(owner, gone, admin)
    expect(await roleOf(gone, owner)).toBeUndefined()
    expect((await ask(gone.accepting(before), owner)).status).toBe(404)
    expect(await unended(owner)).toBe(0)
    const after = await invite(admin, 'MEMBER')
    expect((await ask(gone.accepting(before, after), owner)).status).toBe(200)
    expect((await auditedOf(gone)).slice(-2)).toEqual(['invitation.refused removed', 'member.joined'])
    // The second time counts like the first.
    const raise = await invite(admin, 'ADMIN')
    await remove(admin, gone)
    expect((await ask(gone.accepting(raise), owner)).status).toBe(404)
  },
)

test('a removal is remembered for eight days, longer than an earlier invitation works', async () => {
  const owner = await found()
  const gone = await member(owner, 'MEMBER')
  await remove(owner, gone)
  const time = platform.clock.now().getTime()
  const isIt = and(eq(removedMembers.organizationId, owner.organizationId), eq(removedMembers.userId, gone.userId))
  const knownAt = async (at: number) => {
    const job = jobsAt(platform.api, () => new Date(at)).find(({ name }) => name === 'discard invitations')
    await job?.run()
    return platform.api.db.$count(removedMembers, isIt)
  }
  expect(await knownAt(time + 8 * DAY_MS - 60_000)).toBe(1)
  expect(await knownAt(time + 8 * DAY_MS + 60_000)).toBe(0)
})

test('whoever owns as many organizations as they may becomes OWNER of no other by an invitation, which ends (D113)', async () => {
  const [full, other] = [await found(), await found()]
  await setQuota(platform.api, full.organizationId, 'organizations_per_owner', 1)
  expect((await ask(full.accepting(await invite(other, 'OWNER')), other)).status).toBe(404)
  expect(await unended(other)).toBe(0)
  // Any other role is free, raising it later is not, and what they own stays theirs.
  expect((await ask(full.accepting(await invite(other, 'ADMIN')), other)).status).toBe(200)
  await ask(full.accepting(await invite(other, 'OWNER')), other)
  expect(await roleOf(full, other)).toBe('ADMIN')
  await ask(full.accepting(await invite(full, 'OWNER')), full)
  expect(await auditedOf(full)).toEqual([
    'invitation.refused quota',
    'member.joined',
    'invitation.refused quota',
    'invitation.accepted',
  ])
  // The operator may do it, and may let them.
  expect(await changeRole(platform.api, other.organizationId, full.userId, 'OWNER')).toBe('done')
  await setQuota(platform.api, full.organizationId, 'organizations_per_owner', 3)
  const third = await found()
  await ask(full.accepting(await invite(third, 'OWNER')), third)
  expect(await roleOf(full, third)).toBe('OWNER')
})

test('one of two invitations to OWNER that somebody who may own one more redeems at once works (D113)', async () => {
  const [full, a, b] = [await found(), await found(), await found()]
  // The highest among those that they own counts.
  for (const { organizationId } of [full, a, b])
    await setQuota(platform.api, organizationId, 'organizations_per_owner', 2)
  const ids = [await invite(a, 'OWNER'), await invite(b, 'OWNER')]
  await holding(
    platform.databaseUrl,
    (held) => held`select pg_advisory_xact_lock(${OWNED_ORGANIZATIONS_LOCK_CLASS}, hashtext(${full.userId}))`,
    ids.map((id) => () => createRedeemer(platform.api)(full.userId, [id])),
  )
  expect([await roleOf(full, a), await roleOf(full, b)].filter(Boolean)).toEqual(['OWNER'])
  expect((await auditedOf(full)).toSorted()).toEqual(['invitation.refused quota', 'member.joined'])
})
