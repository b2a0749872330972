import { randomUUID } from 'node:crypto'
import { composeApi, startApi } from '@platform/testing/api'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { serviceEnvironment } from '@platform/testing/service-process'
import { createLocalJWKSet, decodeJwt, type JSONWebKeySet, jwtVerify } from 'jose'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { prepareDatabase } from '../../../compose.ts'
import { loadConfig } from '../../../config.ts'
import { newOwner, type Owner, unique } from '../../../../test/scenario.ts'
import { acceptedHere, tokenLike } from '../../../../test/user-tokens.ts'
import { invitations } from '../organizations/invitations-table.ts'
import { changeRole, memberRoles, setMember } from '../organizations/members.ts'
import { members, organizations } from '../organizations/table.ts'
import { profiles } from '../profiles/table.ts'

const DAY_MS = 86_400_000
let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform({ env: { CONSOLE_URL: 'https://console.example.com' } })
})
afterAll(() => platform.close())

async function invite({ token, organizationId }: Owner, role = 'MEMBER') {
  const invitation = { email: `${unique()}@example.com`, role }
  const made = await platform.call(token, `POST /organizations/${organizationId}/invitations`, invitation)
  const { id, url } = made.body as { id: string; url: string }
  return { id, email: invitation.email, path: new URL(url).pathname }
}
const open = (path: string, method = 'GET') => platform.call(null, `${method} ${path}`)
const joinPage = async () => {
  const discovery = await fetch(`${platform.idpUrl}/.well-known/openid-configuration`)
  return ((await discovery.json()) as { invitation_endpoint: string }).invitation_endpoint
}
/** The JWT that a link leads on with; undefined where it leads to the bare page. */
async function assertionOf(path: string): Promise<string | undefined> {
  const { status, headers } = await open(path)
  expect(status).toBe(303)
  const location = new URL(headers.location ?? '')
  expect(location.origin + location.pathname).toBe(await joinPage())
  expect([...location.searchParams.keys()]).toEqual(location.search === '' ? [] : ['invitation'])
  return location.searchParams.get('invitation') ?? undefined
}

test('the link leads to the identity provider with an hour’s assertion of who invites whom to what (D112)', async () => {
  const owner = await newOwner(platform)
  const { id, email, path } = await invite(owner, 'ADMIN')
  for (const method of ['GET', 'HEAD']) {
    const { status, headers, text } = await open(path, method)
    expect([status, text ?? '']).toEqual([303, ''])
    expect(headers).toMatchObject({ 'referrer-policy': 'no-referrer', 'cache-control': 'no-store' })
  }
  const jwks = (await (await fetch(`${platform.apiUrl}/.well-known/jwks.json`)).json()) as JSONWebKeySet
  const { payload, protectedHeader } = await jwtVerify((await assertionOf(path)) ?? '', createLocalJWKSet(jwks), {
    algorithms: ['ES256'],
    typ: 'invitation+jwt',
    issuer: platform.apiUrl,
    audience: platform.idpUrl,
    currentDate: platform.clock.now(),
  })
  expect(protectedHeader).toEqual({ alg: 'ES256', typ: 'invitation+jwt', kid: expect.any(String) as string })
  const { iat = 0 } = payload
  const { body } = await platform.call(owner.token, `GET /organizations/${owner.organizationId}`)
  expect(payload).toEqual({
    iss: platform.apiUrl,
    aud: platform.idpUrl,
    jti: id,
    iat,
    exp: iat + 3_600,
    email,
    role: 'ADMIN',
    organization: body.name as string,
    inviter: expect.stringMatching(/^Ana Test$|^somebody$/) as string,
    console: 'https://console.example.com',
  })
  // Opening it changed nothing.
  expect(await assertionOf(path)).toBeDefined()
  expect(await memberRoles(platform.api, owner.organizationId)).toHaveLength(1)
})

test('names of any length and script leave the link below 2,000 characters, cut at 100 between whole characters', async () => {
  const owner = await newOwner(platform)
  const { db } = platform.api
  const name = `x${'𠀀'.repeat(254)}`
  await db.update(organizations).set({ name }).where(eq(organizations.id, owner.organizationId))
  const userId = randomUUID()
  await setMember(platform.api, owner.organizationId, userId, 'ADMIN')
  const profile = { email: null, givenName: '組'.repeat(255), familyName: null, imageUrl: null }
  await db.insert(profiles).values({ userId, learnedAt: platform.api.now(), ...profile })
  const { id, path } = await invite(owner)
  // By somebody who never calls, so that no other name is learned.
  await db.update(invitations).set({ invitedByUserId: userId }).where(eq(invitations.id, id))
  const assertion = (await assertionOf(path)) ?? ''
  expect(decodeJwt(assertion)).toMatchObject({ organization: `x${'𠀀'.repeat(99)}`, inviter: '組'.repeat(100) })
  expect(`${await joinPage()}?invitation=${assertion}`.length).toBeLessThan(2_000)
})

test.each([
  ['is unknown', async () => `/.well-known/invitation/${'A'.repeat(43)}`],
  ['was cut', async () => '/.well-known/invitation/'],
  ['was cut still shorter', async () => '/.well-known/invitation'],
  ['is malformed', async () => '/.well-known/invitation/x'],
  ['is any bytes', async () => '/.well-known/invitation/%00%ff%F0%9F%27--'],
  ['is far too long', async () => `/.well-known/invitation/${'x'.repeat(8_000)}`],
  [
    'was revoked',
    async (owner: Owner) => {
      const { id, path } = await invite(owner)
      await platform.call(owner.token, `DELETE /organizations/${owner.organizationId}/invitations/${id}`)
      return path
    },
  ],
  [
    'was replaced',
    async (owner: Owner) => {
      const { email, path } = await invite(owner)
      const again = { email, role: 'MEMBER' }
      await platform.call(owner.token, `POST /organizations/${owner.organizationId}/invitations`, again)
      return path
    },
  ],
  [
    'was accepted',
    async (owner: Owner) => {
      const { id, path } = await invite(owner)
      const claims = { sub: randomUUID(), joined: acceptedHere(platform, [id]) }
      await platform.call(tokenLike(platform, owner.token, claims), 'GET /organizations')
      return path
    },
  ],
  [
    'has an inviter who may no longer make it',
    async (owner: Owner) => {
      const sub = randomUUID()
      await setMember(platform.api, owner.organizationId, sub, 'OWNER')
      const { path } = await invite({ ...owner, token: tokenLike(platform, owner.token, { sub }) }, 'OWNER')
      expect(await assertionOf(path)).toBeDefined()
      await changeRole(platform.api, owner.organizationId, sub, 'ADMIN')
      return path
    },
  ],
  [
    'has an inviter whose role an earlier release took, which ends no invitations',
    async (owner: Owner) => {
      const { path } = await invite(owner, 'OWNER')
      const isIt = eq(members.organizationId, owner.organizationId)
      await platform.api.db.update(members).set({ role: 'ADMIN' }).where(isIt)
      return path
    },
  ],
])('a link that %s leads to the page without an assertion', async (_, pathOf) => {
  expect(await assertionOf(await pathOf(await newOwner(platform)))).toBeUndefined()
})

test('a link works for seven days', async () => {
  const later = await startPlatform()
  onTestFinished(() => later.close())
  const { token, organizationId } = await newOwner(later)
  const invitation = { email: 'ana@example.com', role: 'MEMBER' }
  const { body } = await later.call(token, `POST /organizations/${organizationId}/invitations`, invitation)
  const locationOf = async () =>
    (await later.call(null, `GET ${new URL(body.url as string).pathname}`)).headers.location
  later.clock.advance(7 * DAY_MS - 60_000)
  const location = new URL((await locationOf()) ?? '')
  // The assertion names no console if the API has none.
  expect(decodeJwt(location.searchParams.get('invitation') ?? '')).not.toHaveProperty('console')
  later.clock.advance(60_000)
  expect(await locationOf()).not.toContain('?')
})

test('assertion-as-access-token: the assertion of an invitation is no bearer token (401)', async () => {
  const owner = await newOwner(platform)
  const { path } = await invite(owner)
  const answer = await platform.call((await assertionOf(path)) ?? '', 'GET /organizations')
  expect(answer.status).toBe(401)
  expect(answer.headers['www-authenticate']).toContain('error="invalid_token"')
})

test('while the identity provider cannot be read, a link is a 503', async () => {
  const env = await serviceEnvironment('api', {
    IDP_URL: 'http://localhost:1',
    OBJECTS_URL: 'file:///tmp/platform-no-objects',
  })
  const config = loadConfig(env)
  await prepareDatabase(config)
  const { deps, close } = await composeApi(config)
  onTestFinished(close)
  const server = await startApi(deps, { host: 'localhost', port: 0, s3Port: 0 })
  onTestFinished(() => server.stop(0))
  const link = `http://localhost:${server.ports?.[0]}/.well-known/invitation/${'A'.repeat(43)}`
  expect((await fetch(link, { redirect: 'manual' })).status).toBe(503)
})
