import { createHmac, createSign, generateKeyPairSync } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  claimsOf,
  headerOf,
  startTestIdp,
  type TestClient,
  type TestIdp,
  type TestPerson,
} from '../../../test/start.ts'
import { deleteUser } from '../access/delete-user.ts'
import { suspendUser } from '../access/suspend-user.ts'
import { createUser } from '../accounts/accounts.ts'

let idp: TestIdp
let client: TestClient
let ana: TestPerson
beforeAll(async () => {
  idp = await startTestIdp()
  client = await idp.client()
  ana = await idp.person()
})
afterAll(() => idp.close())

const ask = (token: string | undefined, method = 'GET') =>
  idp.send(`${method} /oauth2/userinfo`, undefined, token === undefined ? {} : { authorization: `Bearer ${token}` })
const accessToken = async (scope: string, person = ana) => (await idp.tokens(client, person, scope)).access_token

const refused = {
  status: 401,
  body: { error: 'invalid_token', error_description: expect.any(String) },
  headers: {
    'www-authenticate': expect.stringMatching(/^Bearer error="invalid_token", error_description="[^"]+"$/),
    'cache-control': 'no-store',
    'access-control-allow-origin': '*',
  },
}

test('the claims follow the scopes (B §2); GET and POST alike (D63)', async () => {
  const claims = async (scope: string, method: string) => (await ask(await accessToken(scope), method)).body as unknown
  expect(await claims('openid', 'GET')).toEqual({ sub: ana.userId })
  expect(await claims('openid email', 'POST')).toEqual({ sub: ana.userId, email: ana.email, email_verified: true })
  expect(await claims('openid profile', 'GET')).toEqual({
    sub: ana.userId,
    name: 'Ana Silva',
    given_name: 'Ana',
    family_name: 'Silva',
    updated_at: expect.any(Number),
  })
})

test('what is not known of a user is left out, so a service has to do without (D73)', async () => {
  const [email, password] = [`${Date.now()}@example.com`, 'a good password']
  const { id } = await createUser(idp.deps, { email, password, emailVerified: false })
  const token = await accessToken('openid profile email', { userId: id, email, password })
  expect((await ask(token)).body).toEqual({
    sub: id,
    updated_at: expect.any(Number),
    email,
    email_verified: false,
  })
})

test('the token may come in a POSTed form (RFC 6750 §2.2), never in the query', async () => {
  const token = (await accessToken('openid')) ?? ''
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  expect((await idp.send('POST /oauth2/userinfo', `access_token=${token}`, form)).status).toBe(200)
  expect((await idp.send(`GET /oauth2/userinfo?access_token=${token}`)).status).toBe(401)
  const [twice, large] = [`access_token=${token}&access_token=${token}`, `a=${'x'.repeat(70_000)}`]
  for (const body of [twice, large])
    expect(await idp.send('POST /oauth2/userinfo', body, form)).toMatchObject({
      status: 400, // D52
      body: { error: 'invalid_request' },
    })
})

test('the scheme is read in any case', async () => {
  const token = await accessToken('openid')
  const answer = await idp.send('GET /oauth2/userinfo', undefined, { authorization: `bEARER ${token}` })
  expect(answer.status).toBe(200)
})

test('a token without openid is 403 insufficient_scope (B §7)', async () => {
  const answer = await ask(await accessToken('email'))
  expect(answer).toMatchObject({ status: 403, body: { error: 'insufficient_scope' } })
  expect(answer.headers['www-authenticate']).toContain('error="insufficient_scope"')
})

test.each([
  ['no token', {}],
  ['an empty one', { authorization: 'Bearer ' }],
  ['Basic', { authorization: 'Basic eDp5' }],
  ['two tokens', { authorization: 'Bearer a b' }],
  ['nonsense', { authorization: 'Bearer nonsense' }],
  ['a very long one', { authorization: `Bearer ${'a.'.repeat(5_000)}` }],
])('%s is 401 invalid_token with a Bearer challenge (B §7)', async (_, headers: Record<string, string>) => {
  expect(await idp.send('GET /oauth2/userinfo', undefined, headers)).toMatchObject(refused)
})

test('an expired token is 401, to the second, although it was good a moment ago (B §8)', async () => {
  const token = await accessToken('openid')
  expect((await ask(token)).status).toBe(200)
  idp.advance(299_000 - (idp.now().getTime() % 1_000))
  expect((await ask(token)).status).toBe(200)
  idp.advance(2_000)
  expect(await ask(token)).toMatchObject(refused)
})

describe('tokens that are not ours', () => {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = (header: object, claims: object, sign: (text: string) => string) => {
    const text = `${encode(header)}.${encode(claims)}`
    return `${text}.${sign(text)}`
  }

  test('alg none, HS256 under the public key, a key of one’s own, one named by the token', async () => {
    const good = await accessToken('openid')
    const [header, claims] = [headerOf(good), claimsOf(good)]
    const jwk = (await idp.send('GET /.well-known/jwks.json')).body.keys[0]
    const pem = idp.deps.keySet.publicKey(jwk.kid)?.export({ type: 'spki', format: 'pem' }) as string
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const own = (text: string) => createSign('sha256').update(text).sign(privateKey, 'base64url')
    const bad = [
      signed({ ...header, alg: 'none' }, claims, () => ''),
      signed({ ...header, alg: 'None' }, claims, () => ''),
      signed({ ...header, alg: 'HS256' }, claims, (text) => createHmac('sha256', pem).update(text).digest('base64url')),
      signed({ ...header, alg: 'HS256' }, claims, (text) =>
        createHmac('sha256', JSON.stringify(jwk)).update(text).digest('base64url'),
      ),
      signed(header, claims, own),
      signed({ ...header, kid: undefined }, claims, own),
      signed({ ...header, kid: 'other' }, claims, own),
      signed({ ...header, jwk: publicKey.export({ format: 'jwk' }) }, claims, own),
      signed({ ...header, jku: 'https://evil.example.com/jwks.json' }, claims, own),
    ]
    for (const token of bad) expect(await ask(token)).toMatchObject(refused)
  })

  test('another issuer, audience, type, no expiry, changed claims', async () => {
    const good = (await accessToken('openid')) ?? ''
    const claims = claimsOf(good)
    const sign = (typ: string, changed: object) => idp.deps.keySet.sign(typ, { ...claims, ...changed })
    expect((await ask(sign('at+jwt', {}))).status).toBe(200)
    const bad = [
      sign('JWT', {}),
      sign('at+jwt', { iss: 'https://other.example.com' }),
      sign('at+jwt', { aud: ['https://api.example.com'] }),
      sign('at+jwt', { exp: undefined }),
      sign('at+jwt', { sub: undefined }),
      sign('at+jwt', { client_id: undefined }),
      good.replace(/\.[^.]+\./, `.${encode({ ...claims, sub: 'x' })}.`),
      good.slice(0, -4),
    ]
    for (const token of bad) expect(await ask(token)).toMatchObject(refused)
  })

  test('an ID token and a refresh token are no access tokens (D5)', async () => {
    const tokens = await idp.tokens(client, ana)
    for (const token of [tokens.id_token, tokens.refresh_token]) expect(await ask(token)).toMatchObject(refused)
  })
})

test('a suspended subject keeps its claims until the token ends, a deleted one is 401 at once (D63)', async () => {
  const bob = await idp.person()
  const token = await accessToken('openid email', bob)
  await suspendUser(idp.deps, bob.userId)
  expect(await ask(token)).toMatchObject({ status: 200, body: { email: bob.email } })
  await deleteUser(idp.deps, bob.userId)
  expect(await ask(token)).toMatchObject(refused)
})

test('a token of a withdrawn signing key is refused although it was remembered', async () => {
  const token = await accessToken('openid')
  expect((await ask(token)).status).toBe(200)
  await idp.deps.keySet.rotateNow()
  expect(await ask(token)).toMatchObject(refused)
})
