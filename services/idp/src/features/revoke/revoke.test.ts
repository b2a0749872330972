import { auditEvents } from '@platform/service/audit-table'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { refuseCommits } from '../../../test/refuse-commit.ts'
import { basic, startTestIdp, type TestClient, type TestIdp, type TestPerson } from '../../../test/start.ts'

let idp: TestIdp
let client: TestClient
let server: TestClient
let ana: TestPerson
beforeAll(async () => {
  idp = await startTestIdp()
  client = await idp.client()
  server = await idp.client({ kind: 'confidential' })
  ana = await idp.person()
})
afterAll(() => idp.close())

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
const revoke = (form: Record<string, string>, headers: Record<string, string> = {}) =>
  idp.send('POST /oauth2/revoke', new URLSearchParams(form).toString(), { ...FORM, ...headers })
const refresh = (refresh_token: string, by = client) =>
  idp.token({
    grant_type: 'refresh_token',
    client_id: by.id,
    ...(by.secret ? { client_secret: by.secret } : {}),
    refresh_token,
  })
const newToken = async (by = client) => (await idp.tokens(by, ana)).refresh_token ?? ''
const done = { status: 200, text: '' }

test('an active refresh token of the client is revoked with 200 and no body (B §3)', async () => {
  const token = await newToken()
  const answer = await revoke({ client_id: client.id, token, token_type_hint: 'refresh_token' })
  expect(answer).toMatchObject(done)
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(await refresh(token)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
  expect(await revoke({ client_id: client.id, token })).toMatchObject(done)
})

test('a revocation that Postgres refuses at the commit is not on record, and the token still works', async () => {
  const bob = await idp.person()
  const token = (await idp.tokens(client, bob)).refresh_token ?? ''
  const recorded = () => idp.deps.db.$count(auditEvents, eq(auditEvents.action, 'family.revoked'))
  const before = await recorded()
  const accept = await refuseCommits(idp, 'refresh_families', 'user_id', bob.userId)
  onTestFinished(accept)
  expect((await revoke({ client_id: client.id, token })).status).toBe(500)
  expect(await recorded()).toBe(before)
  await accept()
  expect((await refresh(token)).status).toBe(200)
})

test('JSON works as the form does (D23)', async () => {
  const token = await newToken()
  const answer = await idp.send(
    'POST /oauth2/revoke',
    { client_id: client.id, token, extra: { a: 1 } }, // members that nobody knows are ignored (D52)
    { 'content-type': 'application/json' },
  )
  expect(answer).toMatchObject(done)
  expect((await refresh(token)).status).toBe(400)
})

test('an old generation ends its family as well (D62)', async () => {
  const old = await newToken()
  const { body } = await refresh(old)
  expect(await revoke({ client_id: client.id, token: old })).toMatchObject(done)
  expect((await refresh(body.refresh_token)).status).toBe(400)
})

test("another client's token is left alone, and the answer does not tell (B §7, D62)", async () => {
  const token = await newToken()
  const as = { authorization: basic(server.id, server.secret ?? '') }
  expect(await revoke({ token }, as)).toMatchObject(done)
  expect((await refresh(token)).status).toBe(200)
})

test('unknown tokens, access tokens, forged ones and unknown hints are 200 (B §7)', async () => {
  const tokens = await idp.tokens(client, ana)
  const forged = `${tokens.refresh_token?.slice(0, -43)}${'A'.repeat(43)}`
  for (const token of ['nonsense', tokens.access_token ?? '', tokens.id_token ?? '', forged, 'x'.repeat(20_000)])
    expect(await revoke({ client_id: client.id, token, token_type_hint: 'whatever' })).toMatchObject(done)
  expect((await refresh(tokens.refresh_token ?? '')).status).toBe(200)
  expect(
    (await idp.send('GET /oauth2/userinfo', undefined, { authorization: `Bearer ${tokens.access_token}` })).status,
  ).toBe(200)
})

test('a client that does not show who it is gets 401 invalid_client (B §5, D11)', async () => {
  const token = await newToken(server)
  const refused = { status: 401, body: { error: 'invalid_client' } }
  expect(await revoke({ token })).toMatchObject(refused)
  expect(await revoke({ token, client_id: server.id })).toMatchObject(refused)
  expect(await revoke({ token, client_id: server.id, client_secret: 'wrong' })).toMatchObject(refused)
  expect(await revoke({ token, client_id: client.id, client_secret: 'x' })).toMatchObject(refused)
  const basicRefused = await revoke({ token }, { authorization: basic(server.id, 'wrong') })
  expect(basicRefused).toMatchObject(refused)
  expect(basicRefused.headers['www-authenticate']).toBe('Basic realm="oauth2"')
  // Invalid Basic credentials never fall back on valid ones in the body.
  const right = { token, client_id: server.id, client_secret: server.secret ?? '' }
  expect(await revoke(right, { authorization: basic(server.id, 'wrong') })).toMatchObject(refused)
  expect((await refresh(token, server)).status).toBe(200)
})

test('Basic wins over the body, its client_id included; an empty secret counts as none (B §5, D11)', async () => {
  const token = await newToken(server)
  const as = { authorization: basic(server.id, server.secret ?? '') }
  expect(await revoke({ token, client_id: client.id, client_secret: 'x' }, as)).toMatchObject(done)
  expect((await refresh(token, server)).status).toBe(400)
  const own = await newToken()
  expect(await revoke({ token: own, client_id: client.id, client_secret: '' })).toMatchObject(done)
  expect((await refresh(own)).status).toBe(400)
})

test('without a token, with one twice or in another encoding it is 400 invalid_request (D62)', async () => {
  const refused = { status: 400, body: { error: 'invalid_request' } }
  expect(await revoke({ client_id: client.id })).toMatchObject(refused)
  expect(await idp.send('POST /oauth2/revoke', `client_id=${client.id}&token=a&token=b`, FORM)).toMatchObject(refused)
  expect(await idp.send('POST /oauth2/revoke', 'x', { 'content-type': 'text/plain' })).toMatchObject(refused)
  expect(await revoke({ client_id: client.id, token: 'a\0' })).toMatchObject(refused)
  expect(await revoke({ client_id: client.id, token: 'x'.repeat(70_000) })).toMatchObject(refused) // D52
})
