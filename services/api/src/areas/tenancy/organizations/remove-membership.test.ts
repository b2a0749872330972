// engines: postgres
import { randomUUID } from 'node:crypto'
import { auditEvents } from '@platform/service/audit-table'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { holding } from '@platform/testkit/holding'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { tokenLike } from '../../../../test/user-tokens.ts'
import { memberRoles, setMember } from './members.ts'
import type { Role } from './table.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

interface Member {
  userId: string
  membershipId: string
  token: string
}

async function membershipOf({ token, organizationId }: Owner, userId: string): Promise<string> {
  const { body } = await platform.call(token, `GET /organizations/${organizationId}/members`)
  const row = (body.items as Member[]).find((item) => item.userId === userId)
  return row?.membershipId ?? ''
}
async function add(owner: Owner, role: Role): Promise<Member> {
  const userId = randomUUID()
  await setMember(platform.api, owner.organizationId, userId, role)
  const token = tokenLike(platform, owner.token, { sub: userId })
  return { userId, membershipId: await membershipOf(owner, userId), token }
}
async function own(owner: Owner): Promise<Member> {
  const { userId } = owner.person
  return { userId, membershipId: await membershipOf(owner, userId), token: owner.token }
}
const remove = ({ token }: Pick<Member, 'token'>, { membershipId }: Pick<Member, 'membershipId'>) =>
  platform.call(token, `DELETE /memberships/${membershipId}`)
const rolesIn = async ({ organizationId }: Owner) =>
  (await memberRoles(platform.api, organizationId)).map(({ role }) => role).toSorted()
const auditOf = ({ organizationId }: Owner) =>
  platform.api.db
    .select({ actor: auditEvents.actor, action: auditEvents.action, details: auditEvents.details })
    .from(auditEvents)
    .where(eq(auditEvents.subject, `organization:${organizationId}`))
    .orderBy(auditEvents.id)

test('everybody may leave an organization, without a fresh sign-in (D112)', async () => {
  const owner = await newOwner(platform)
  for (const role of ['MEMBER', 'ADMIN', 'OWNER'] as const) {
    const member = await add(owner, role)
    const seconds = Math.floor(platform.clock.now().getTime() / 1_000)
    const left = await remove({ token: tokenLike(platform, member.token, { auth_time: seconds - 3_600 }) }, member)
    expect([left.status, left.text]).toEqual([204, ''])
    expect(await auditOf(owner)).toContainEqual({
      actor: `user:${member.userId}`,
      action: 'member.left',
      details: { membershipId: member.membershipId, userId: member.userId, role },
    })
    expect((await platform.call(member.token, `GET /organizations/${owner.organizationId}`)).status).toBe(404)
  }
  expect(await rolesIn(owner)).toEqual(['OWNER'])
})

test('the last OWNER can neither leave nor be removed (409)', async () => {
  const owner = await newOwner(platform)
  await add(owner, 'ADMIN')
  const last = await own(owner)
  expect(await remove(last, last)).toMatchObject({
    status: 409,
    body: { error: 'The only OWNER cannot leave: invite another OWNER first' },
  })
  expect(await rolesIn(owner)).toEqual(['ADMIN', 'OWNER'])
})

test.each<[Role, Role, number]>([
  ['OWNER', 'OWNER', 204],
  ['OWNER', 'ADMIN', 204],
  ['OWNER', 'MEMBER', 204],
  ['ADMIN', 'OWNER', 403],
  ['ADMIN', 'ADMIN', 204],
  ['ADMIN', 'MEMBER', 204],
  ['MEMBER', 'OWNER', 403],
  ['MEMBER', 'ADMIN', 403],
  ['MEMBER', 'MEMBER', 403],
])('when an %s removes an %s the answer is %i (D17, D112)', async (by, role, status) => {
  const owner = await newOwner(platform)
  const [caller, member] = [await add(owner, by), await add(owner, role)]
  expect((await remove(caller, member)).status).toBe(status)
  const events = await auditOf(owner)
  expect(events).toEqual(
    status === 204
      ? [
          {
            actor: `user:${caller.userId}`,
            action: 'member.removed',
            details: { membershipId: member.membershipId, userId: member.userId, role },
          },
        ]
      : [],
  )
  expect(await rolesIn(owner)).toHaveLength(status === 204 ? 2 : 3)
})

test('somebody outside the organization gets the 404 of a missing membership, to the byte (D17)', async () => {
  const [owner, stranger] = [await newOwner(platform), await newOwner(platform)]
  const member = await add(owner, 'MEMBER')
  const missing = await remove(stranger, { membershipId: randomUUID() })
  expect([missing.status, missing.text]).toEqual([404, '{"error":"Membership not found"}'])
  for (const membershipId of [member.membershipId, 'x', owner.organizationId]) {
    const answer = await remove(stranger, { membershipId })
    expect([answer.status, answer.text]).toEqual([404, missing.text])
  }
  expect(await rolesIn(owner)).toHaveLength(2)
})

test('removing others takes a sign-in within 15 minutes, from any client (RFC 9470)', async () => {
  const owner = await newOwner(platform)
  const member = await add(owner, 'MEMBER')
  const seconds = Math.floor(platform.clock.now().getTime() / 1_000)
  const refused = await remove({ token: tokenLike(platform, owner.token, { auth_time: seconds - 901 }) }, member)
  expect(refused.status).toBe(403)
  expect(refused.headers['www-authenticate']).toMatch(
    /^Bearer error="insufficient_user_authentication", error_description="Sign in again: [^"]+", max_age="900"$/,
  )
  expect((await remove({ token: tokenLike(platform, owner.token, { auth_time: seconds - 800 }) }, member)).status).toBe(
    204,
  )
})

test('of two OWNERs who remove each other at once one stays', async () => {
  const owner = await newOwner(platform)
  const [first, second] = [await own(owner), await add(owner, 'OWNER')]
  const answers = await holding(
    platform.databaseUrl,
    (held) => held`select from organizations where id = ${owner.organizationId} for update`,
    [() => remove(first, second), () => remove(second, first)],
  )
  // Whoever was removed in the meantime reaches the organization no more.
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([204, 404])
  expect(await rolesIn(owner)).toEqual(['OWNER'])
})
