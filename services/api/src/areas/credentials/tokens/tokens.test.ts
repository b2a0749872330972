import { randomUUID } from 'node:crypto'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { exchange, newKey, newOwner, type Owner } from '../../../../test/scenario.ts'
import { applications } from '../../tenancy/applications/table.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const form = 'application/x-www-form-urlencoded'
const post = (body: string, headers: Record<string, string> = {}) =>
  platform.call(null, 'POST /oauth2/token', body, { 'content-type': form, ...headers })
const makeKey = async (body: object = {}) =>
  (await platform.call(ana.token, 'POST /api-keys', { name: 'k', applicationId: ana.applicationId, ...body })).body as {
    id: string
    secret: string
  }

test('a key is exchanged for a bearer token of 300 seconds that acts as its application (A §4, §5, D5)', async () => {
  const key = await makeKey({ scopes: ['network:env_vars:read', 'network:deployments:read'] })
  const answer = await exchange(platform, key.id, key.secret)
  expect(answer.status).toBe(200)
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(answer.body).toEqual({
    access_token: expect.any(String) as string,
    token_type: 'Bearer',
    expires_in: 300,
    scope: 'network:env_vars:read network:deployments:read',
  })

  const jwks = createRemoteJWKSet(new URL(`${platform.apiUrl}/.well-known/jwks.json`))
  const { payload, protectedHeader } = await jwtVerify(answer.body.access_token as string, jwks, {
    issuer: platform.apiUrl,
    audience: platform.apiUrl,
    typ: 'at+jwt',
  })
  expect(protectedHeader).toEqual({ alg: 'ES256', typ: 'at+jwt', kid: expect.any(String) as string })
  expect(payload).toMatchObject({
    sub: ana.applicationId,
    client_id: key.id,
    scope: 'network:env_vars:read network:deployments:read',
    jti: expect.any(String) as string,
  })
  expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(300)
})

test('HTTP Basic works as well, and wins over the body (RFC 6749 §2.3.1)', async () => {
  const key = await makeKey()
  const basic = (id: string, secret: string) => ({
    authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
  })
  expect((await post('grant_type=client_credentials', basic(key.id, key.secret))).status).toBe(200)
  const wrong = await post(
    `grant_type=client_credentials&client_id=${key.id}&client_secret=${key.secret}`,
    basic(key.id, 'wrong'),
  )
  expect(wrong).toMatchObject({ status: 401, body: { error: 'invalid_client' } })
  expect(wrong.headers['www-authenticate']).toMatch(/^Basic /)
})

test('a narrower scope may be asked for, a wider one not', async () => {
  const key = await makeKey({ scopes: ['network:env_vars:read', 'network:deployments:read'] })
  expect((await exchange(platform, key.id, key.secret, { scope: 'network:deployments:read' })).body.scope).toBe(
    'network:deployments:read',
  )
  expect(await exchange(platform, key.id, key.secret, { scope: 'network:env_vars:write' })).toMatchObject({
    status: 400,
    body: { error: 'invalid_scope' },
  })
})

test('an unknown key and a wrong secret are the same refusal, whatever the state of the key (D2)', async () => {
  const key = await makeKey()
  const deleted = await makeKey()
  await platform.call(ana.token, `DELETE /api-keys/${deleted.id}`)
  const refusals = await Promise.all([
    exchange(platform, key.id, 'svc_secret_wrong'),
    exchange(platform, deleted.id, 'svc_secret_wrong'),
    exchange(platform, randomUUID(), key.secret),
    exchange(platform, 'not-a-uuid', key.secret),
    exchange(platform, '00000000-0000-0000-0000-000000000000', ''),
    post(`grant_type=client_credentials&client_id=${key.id}`),
  ])
  for (const { status, text } of refusals) expect([status, text]).toEqual([401, refusals[0]?.text])
  expect(refusals[0]?.body).toEqual({ error: 'invalid_client', error_description: 'Client authentication failed' })
})

test('an expired key is told so, but only with the right secret; its tokens never outlive it (D2)', async () => {
  const soon = new Date(platform.clock.now().getTime() + 120_000)
  const key = await makeKey({ expiresAt: soon.toISOString() })
  const early = await exchange(platform, key.id, key.secret)
  expect(early.body.expires_in).toBeGreaterThan(110)
  expect(early.body.expires_in).toBeLessThanOrEqual(120)
  expect(decodeJwt(early.body.access_token as string).exp).toBe(Math.floor(soon.getTime() / 1_000))
  platform.clock.advance(121_000)
  const late = await exchange(platform, key.id, key.secret)
  expect(late).toMatchObject({ status: 401, body: { error: 'invalid_token', error_description: 'API key expired' } })
  expect(late.headers['www-authenticate']).toBe('Bearer error="invalid_token", error_description="API key expired"')
  expect((await exchange(platform, key.id, 'wrong')).body.error).toBe('invalid_client')
  expect(
    (await platform.call(early.body.access_token as string, `GET /applications/${ana.applicationId}/env-vars`)).status,
  ).toBe(401)
  ana.token = await ana.person.token(everyScope)
})

test('a key whose application is gone is a 401 at once, at the exchange and with a token it has (D3)', async () => {
  const owner = await newOwner(platform)
  const key = await newKey(platform, owner, ['network:env_vars:read', 'network:applications:read'])
  await platform.api.db.delete(applications).where(eq(applications.id, owner.applicationId))
  expect(await exchange(platform, key.id, key.secret)).toMatchObject({ status: 401, body: { error: 'invalid_token' } })
  for (const on of [`GET /applications/${owner.applicationId}/env-vars/pull`, 'GET /applications']) {
    const answer = await platform.call(key.token, on)
    expect(answer.status).toBe(401)
    expect(answer.headers['www-authenticate']).toContain('error="invalid_token"')
  }
})

test.each([
  ['JSON', '{"grant_type":"client_credentials"}', { 'content-type': 'application/json' }, 'invalid_request'],
  ['plain text', 'grant_type=client_credentials', { 'content-type': 'text/plain' }, 'invalid_request'],
  ['no grant', 'client_id=x', {}, 'invalid_request'],
  ['an empty grant', 'grant_type=', {}, 'invalid_request'],
  ['a repeated parameter', 'grant_type=client_credentials&client_id=a&client_id=b', {}, 'invalid_request'],
  ['a NUL', 'grant_type=client_credentials&client_id=%00', {}, 'invalid_request'],
  ['a grant of the identity provider', 'grant_type=authorization_code&client_id=x', {}, 'unsupported_grant_type'],
])('%s is a 400 in the shape of OAuth (A §5, D23)', async (_, body, headers, error) => {
  const answer = await post(body, headers)
  expect(answer).toMatchObject({ status: 400, body: { error, error_description: expect.any(String) as string } })
  expect(answer.headers['cache-control']).toBe('no-store')
})

test.each(['GET', 'PUT', 'DELETE', 'PATCH'])('%s is a 405 that names POST (D19)', async (method) => {
  const answer = await platform.call(null, `${method} /oauth2/token`)
  expect([answer.status, answer.headers.allow, answer.body.error]).toEqual([405, 'POST', 'invalid_request'])
})

test('client_credentials is refused at the identity provider, and a missing client named (D4)', async () => {
  const answer = await fetch(`${platform.idpUrl}/oauth2/token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'client_credentials', client_id: 'x', client_secret: 'y' }),
  })
  expect([answer.status, ((await answer.json()) as { error: string }).error]).toEqual([400, 'unsupported_grant_type'])
})

test('a key token cannot be used at the identity provider (D5)', async () => {
  const key = await newKey(platform, ana, ['network:env_vars:read'])
  const answer = await fetch(`${platform.idpUrl}/oauth2/userinfo`, {
    headers: { authorization: `Bearer ${key.token}` },
  })
  expect(answer.status).toBe(401)
  expect(decodeProtectedHeader(key.token).alg).toBe('ES256')
})
