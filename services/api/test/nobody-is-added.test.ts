import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { sql } from 'drizzle-orm'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { setMember } from '../src/areas/tenancy/organizations/members.ts'
import { setQuota } from '../src/areas/tenancy/products/quotas.ts'
import { actorKindOf } from './access-rules.ts'
import { newFunction } from './deployments.ts'
import { open, type Operation, operations } from './operations.ts'
import { makerFor, referencesOf, requestFor, testProviders } from './recipes.ts'
import { newOwner, type Owner } from './scenario.ts'
import { openSender } from './send.ts'

let platform: TestPlatform
let sender: ReturnType<typeof openSender>
let owner: Owner
let functionToken: string
/** The link of a live invitation. */
let link: string
beforeAll(async () => {
  platform = await startPlatform({ aiProviders: testProviders })
  sender = openSender(platform.apiUrl)
  owner = await newOwner(platform)
  for (const quota of ['applications', 'deployments_per_day'] as const)
    await setQuota(platform.api, owner.organizationId, quota, 1_000)
  for (const role of ['OWNER', 'ADMIN', 'MEMBER'] as const)
    await setMember(platform.api, owner.organizationId, `a ${role}`, role)
  functionToken = (await newFunction(platform, owner)).token
  // An invitation of the owner's own address, and one of somebody else.
  for (const email of ['ben@example.com', owner.person.email]) {
    const invitations = `POST /organizations/${owner.organizationId}/invitations`
    const { body } = await platform.call(owner.token, invitations, { email, role: 'ADMIN' })
    link = new URL(body.url as string).pathname
  }
})
afterAll(async () => {
  sender.close()
  await platform.close()
})

/** Every membership, as text. */
async function memberships(): Promise<Set<string>> {
  const rows = await platform.api.db.execute<{ organization_id: string; user_id: string; role: string }>(
    sql`select organization_id, user_id, role from organization_members`,
  )
  return new Set(rows.map((row) => `${row.user_id} is ${row.role} of ${row.organization_id}`))
}

/** Sends a right request for an operation. Returns its status, and the memberships that it made and ended. */
async function ask(operation: Operation) {
  const make = makerFor(platform, owner)
  const isOpen = open.includes(operation)
  const references = isOpen ? [] : referencesOf(operation)
  const ids: string[] = []
  for (const { on, name, thing } of references)
    ids.push((await make(operation, on, name)) ?? (await thing.make(platform, owner)))
  const { body, headers, ...line } = isOpen
    ? { method: operation.method, path: operation.operationId === 'openInvitation' ? link : operation.path }
    : { body: undefined, headers: undefined, ...requestFor(operation, ids) }
  const before = await memberships()
  const answer = await sender.send({
    ...line,
    token: isOpen ? null : actorKindOf(operation) === 'function' ? functionToken : owner.token,
    headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  const after = await memberships()
  return { answer, made: [...after.difference(before)], ended: [...before.difference(after)] }
}

test('no operation of the document adds a member or changes a role, but that the founder of an organization owns it (A §4, D112)', async () => {
  expect(decodeJwt(owner.token)).not.toHaveProperty('joined')
  expect(everyScope.every((scope) => decodeJwt<{ scope: string }>(owner.token).scope.includes(scope))).toBe(true)
  const changes: Record<string, { made: string[]; ended: string[] }> = {}
  const failed: string[] = []
  const founded: string[] = []
  for (const operation of operations) {
    const { answer, made, ended } = await ask(operation)
    if (made.length + ended.length > 0) changes[operation.operationId] = { made, ended }
    if (operation.operationId === 'createOrganization') founded.push((answer.body as { id: string }).id)
    if (answer.status >= 400 && !open.includes(operation)) failed.push(`${operation.operationId} ${answer.text}`)
  }
  expect(failed).toEqual([])
  expect(changes).toEqual({
    createOrganization: { made: [`${owner.person.userId} is OWNER of ${founded[0]}`], ended: [] },
    deleteMembership: { made: [], ended: [expect.stringContaining(` is MEMBER of ${owner.organizationId}`) as string] },
  })
})
