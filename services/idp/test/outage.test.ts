import { Browser } from '@platform/testkit/browser'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Cable, startCable } from '@platform/testkit/cable'
import { createServiceDatabase } from '@platform/testing/service-databases'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { basic, DEVICE_GRANT, startTestIdp, type TestClient, type TestIdp, type TestPerson } from './start.ts'

let cable: Cable
let idp: TestIdp
let client: TestClient
let ana: TestPerson
beforeAll(async () => {
  cable = await startCable(new URL((await createServiceDatabase('idp')).url))
  idp = await startTestIdp({ DATABASE_URL: cable.url })
  client = await idp.client()
  ana = await idp.person()
})
afterAll(async () => {
  await idp.close()
  cable.close()
})

test('with the database away everything that needs it is JSON 503, nothing redirects, and all is well again after (D66)', async () => {
  const browser = await idp.signedIn(ana)
  const tokens = await idp.tokens(client, ana)
  const form = idp.codeForm(client, await idp.code(client, ana))
  const stranger = new Browser()
  const signInForm = await stranger.visit(`${idp.url}/sign-in`)
  cable.cut()
  await sleep(100)

  const visited = await Promise.all(
    [
      idp.authorizeUrl(client),
      idp.authorizeUrl(client, { prompt: 'none' }),
      `${idp.url}/`,
      `${idp.url}/device?user_code=ABCD-EFGH`,
    ].map((url) => browser.visit(url)),
  )
  visited.push(await stranger.submit(signInForm, { email: ana.email, password: ana.password }))
  for (const { status, location, body, headers } of visited) {
    expect({ status, location }).toEqual({ status: 503, location: undefined })
    expect(headers.get('content-type')).toMatch(/^application\/json/)
    expect(JSON.parse(body)).toMatchObject({ error: 'temporarily_unavailable' })
  }

  const refresh = { grant_type: 'refresh_token', client_id: client.id, refresh_token: tokens.refresh_token ?? '' }
  const json = { 'content-type': 'application/json' }
  const answers = [
    await idp.token(form),
    await idp.token(refresh),
    await idp.token({ grant_type: DEVICE_GRANT, client_id: client.id, device_code: 'x' }),
    await idp.token({ grant_type: 'authorization_code' }, { authorization: basic(client.id, 'unknown') }),
    await idp.send('GET /oauth2/userinfo', undefined, { authorization: `Bearer ${tokens.access_token}` }),
    await idp.send('POST /oauth2/revoke', { client_id: client.id, token: 'x' }, json),
    await idp.send('POST /oauth2/device_authorization', { client_id: client.id, scope: 'openid' }, json),
  ]
  for (const answer of answers) {
    expect(answer).toMatchObject({ status: 503, body: { error: 'temporarily_unavailable' } })
    expect(answer.headers['cache-control']).toBe('no-store')
  }
  // What needs no database goes on.
  expect((await idp.send('GET /.well-known/jwks.json')).status).toBe(200)
  expect((await idp.send('GET /.well-known/openid-configuration')).status).toBe(200)
  expect((await browser.visit(idp.authorizeUrl(client, { response_type: 'token' }))).status).toBe(400)

  await cable.mend()
  for (const deadline = Date.now() + 10_000; Date.now() < deadline; await sleep(50))
    if ((await idp.token(refresh)).status === 200) break
  expect((await idp.token(form)).status).toBe(200)
  expect((await browser.visit(`${idp.url}/`)).status).toBe(200)
})

test('a database that hangs is answered for within 30 s, by 503 too (D66)', async () => {
  const tokens = await idp.tokens(client, ana)
  const userinfo = () => idp.send('GET /oauth2/userinfo', undefined, { authorization: `Bearer ${tokens.access_token}` })
  expect((await userinfo()).status).toBe(200)
  cable.hang()
  const answering = Promise.all([
    userinfo(),
    idp.token({ grant_type: 'refresh_token', client_id: client.id, refresh_token: tokens.refresh_token ?? '' }),
  ])
  const answers = await Promise.race([answering, sleep(32_000, undefined, { ref: false })])
  expect(answers).toHaveLength(2)
  for (const answer of answers ?? [])
    expect(answer).toMatchObject({ status: 503, body: { error: 'temporarily_unavailable' } })
  cable.wake()
  expect((await userinfo()).status).toBe(200)
})
