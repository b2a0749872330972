// engines: postgres
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { raceFifty } from '../../../test/race-fifty.ts'
import {
  basic,
  claimsOf,
  headerOf,
  REDIRECT_URI,
  startTestIdp,
  type TestClient,
  type TestIdp,
  type TestPerson,
} from '../../../test/start.ts'
import { deleteUser } from '../access/delete-user.ts'
import { disableClient } from '../access/disable-client.ts'
import { restoreUser, suspendUser } from '../access/suspend-user.ts'
import { setProductAccess } from '../accounts/accounts.ts'
import { rotateClientSecret, setClientPolicy } from '../clients/clients.ts'

let idp: TestIdp
let client: TestClient
let server: TestClient
let ana: TestPerson
beforeAll(async () => {
  idp = await startTestIdp()
  client = await idp.client()
  server = await idp.client({ kind: 'confidential', secret: 'a secret/with+odd:signs%' })
  ana = await idp.person()
})
afterAll(() => idp.close())

const redeem = async (changes: Record<string, string | undefined> = {}, by = client) => {
  const form: Record<string, string | undefined> = { ...idp.codeForm(by, await idp.code(by, ana)), ...changes }
  const entries = Object.entries(form).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return idp.token(Object.fromEntries(entries))
}

describe('what a code is redeemed for (B §2)', () => {
  test('an access token (RFC 9068) with the claims of D5, for 300 seconds, never cached', async () => {
    const code = await idp.code(client, ana, { scope: 'network:env_vars:read email' })
    const { status, headers, body } = await idp.token(idp.codeForm(client, code))
    expect(status).toBe(200)
    expect(headers['cache-control']).toBe('no-store')
    expect(headers['access-control-allow-origin']).toBe('*')
    expect(body).toEqual({
      token_type: 'Bearer',
      access_token: expect.any(String),
      expires_in: 300,
      scope: 'network:env_vars:read email',
    })
    const jwks = await idp.send('GET /.well-known/jwks.json')
    expect(headerOf(body.access_token)).toEqual({ alg: 'RS256', typ: 'at+jwt', kid: jwks.body.keys[0].kid })
    const claims = claimsOf(body.access_token) as { iat: number; exp: number }
    expect(claims).toEqual({
      iss: idp.url,
      sub: ana.userId,
      aud: ['https://api.example.com', idp.url],
      client_id: client.id,
      scope: 'network:env_vars:read email',
      jti: expect.any(String),
      iat: expect.any(Number),
      exp: claims.iat + 300,
      auth_time: expect.any(Number),
      acr: 'aal1',
      amr: ['pwd'],
      sid: expect.any(String),
    })
  })

  test('an ID token with openid, which carries the nonce that was sent', async () => {
    const nonce = 'n'.repeat(511) + 'é'
    const code = await idp.code(client, ana, { scope: 'openid', nonce })
    const { body } = await idp.token(idp.codeForm(client, code))
    expect(headerOf(body.id_token).typ).toBe('JWT')
    const claims = claimsOf(body.id_token) as { iat: number }
    expect(claims).toEqual({
      iss: idp.url,
      sub: ana.userId,
      aud: client.id,
      iat: expect.any(Number),
      exp: claims.iat + 300,
      auth_time: expect.any(Number),
      nonce,
      at_hash: createHash('sha256').update(body.access_token).digest().subarray(0, 16).toString('base64url'),
      acr: 'aal1',
      amr: ['pwd'],
      sid: claimsOf(body.access_token).sid,
    })
  })

  test('a refresh token with offline_access, and neither it nor a nonce otherwise', async () => {
    const { body } = await redeem()
    expect(body).not.toHaveProperty('refresh_token')
    expect(claimsOf(body.id_token)).not.toHaveProperty('nonce')
    const { refresh_token } = await idp.tokens(client, ana, 'offline_access')
    expect(refresh_token).toMatch(/^v1\.[\w-]{8}\.[0-9a-f-]{36}\.1\.[\w-]{43}$/)
  })
})

describe('what is refused (B §7, D72)', () => {
  test.each([
    ['no code', { code: undefined }, 'invalid_request'],
    ['no redirect_uri', { redirect_uri: undefined }, 'invalid_request'],
    ['an unknown code', { code: 'x'.repeat(43) }, 'invalid_grant'],
    ['another redirect_uri', { redirect_uri: `${REDIRECT_URI}/` }, 'invalid_grant'],
    ['no verifier', { code_verifier: undefined }, 'invalid_grant'],
    ['a wrong verifier', { code_verifier: 'b'.repeat(43) }, 'invalid_grant'],
    ['a verifier that is none', { code_verifier: 'é' }, 'invalid_grant'],
    ['no grant_type', { grant_type: undefined }, 'invalid_request'],
    [
      'client_credentials, which is answered elsewhere (D4)',
      { grant_type: 'client_credentials' },
      'unsupported_grant_type',
    ],
    ['the password grant', { grant_type: 'password' }, 'unsupported_grant_type'],
    ['a property of Object', { grant_type: 'constructor' }, 'unsupported_grant_type'],
    ['a NUL', { code: 'a\0' }, 'invalid_request'],
  ])('%s', async (_, changes: Record<string, string | undefined>, error) => {
    const { status, headers, body } = await redeem(changes)
    expect({ status, error: body.error }).toEqual({ status: 400, error })
    expect(Object.keys(body)).toEqual(['error', 'error_description'])
    expect(headers['cache-control']).toBe('no-store')
    expect(headers['content-type']).toMatch(/^application\/json/)
  })

  test('not a parameter that nobody knows: it is ignored (D52)', async () => {
    const code = await idp.code(client, ana)
    expect((await idp.token({ ...idp.codeForm(client, code), resource: 'https://x.example.com' })).status).toBe(200)
  })

  test('a parameter that is sent twice', async () => {
    const form = new URLSearchParams(idp.codeForm(client, await idp.code(client, ana))).toString()
    for (const name of ['grant_type=authorization_code', 'code=x', 'client_id=x', 'foo=1&foo=2']) {
      expect((await idp.token(`${form}&${name}`)).body.error).toBe('invalid_request')
    }
    expect((await idp.token(form)).status).toBe(200)
  })

  test('another encoding than a form (D23), and a body too large (D52)', async () => {
    const form = idp.codeForm(client, 'x')
    for (const type of ['application/json', 'text/plain', 'multipart/form-data; boundary=x']) {
      const { status, body } = await idp.send('POST /oauth2/token', JSON.stringify(form), { 'content-type': type })
      expect({ status, error: body.error }).toEqual({ status: 400, error: 'invalid_request' })
    }
    const large = await idp.token(`a=${'b'.repeat(70_000)}`)
    expect({ status: large.status, error: large.body.error }).toEqual({ status: 400, error: 'invalid_request' })
    const chunked = await fetch(`${idp.url}/oauth2/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new Blob(['a='.padEnd(70_000, 'b')]).stream(),
      duplex: 'half',
    })
    expect({ status: chunked.status, body: await chunked.json() }).toMatchObject({
      status: 400,
      body: { error: 'invalid_request' },
    })
    expect(
      (await idp.token('', { 'content-type': 'application/x-www-form-urlencoded; charset=UTF-8' })).body.error,
    ).toBe('invalid_request')
  })

  test('a code of another client, which stays good for its own', async () => {
    const other = await idp.client()
    const code = await idp.code(client, ana)
    expect((await idp.token(idp.codeForm(other, code))).body.error).toBe('invalid_grant')
    expect((await idp.token(idp.codeForm(client, code))).status).toBe(200)
  })

  test('a code after ten minutes (B §8)', async () => {
    const [early, late] = [await idp.code(client, ana), await idp.code(client, ana)]
    idp.advance(599_000)
    expect((await idp.token(idp.codeForm(client, early))).status).toBe(200)
    idp.advance(2_000)
    expect((await idp.token(idp.codeForm(client, late))).body.error).toBe('invalid_grant')
  })

  test('a verifier where no challenge was sent', async () => {
    const none = { code_challenge: undefined, code_challenge_method: undefined }
    const form = idp.codeForm(server, await idp.code(server, ana, none))
    expect((await idp.token(form)).body.error).toBe('invalid_grant')
    const { code_verifier: _, ...without } = form
    expect((await idp.token(without)).status).toBe(200)
  })

  test('a client that is not allowed the grant', async () => {
    const narrow = await idp.client({ grants: ['authorization_code'] })
    const form = { grant_type: 'refresh_token', client_id: narrow.id, refresh_token: 'x' }
    expect((await idp.token(form)).body.error).toBe('unauthorized_client')
  })
})

describe('a code works once (B §2, D61)', () => {
  test('a second use is invalid_grant; within 10 s it ends nothing, later it ends the family', async () => {
    const code = await idp.code(client, ana, { scope: 'openid offline_access' })
    const form = idp.codeForm(client, code)
    const { body } = await idp.token(form)
    const refresh = (refresh_token: string) =>
      idp.token({ grant_type: 'refresh_token', client_id: client.id, refresh_token })
    expect((await idp.token(form)).body).toMatchObject({ error: 'invalid_grant' })
    const next = await refresh(body.refresh_token)
    expect(next.status).toBe(200)
    idp.advance(10_500)
    // Without the verifier it cannot be the client: nothing ends.
    expect((await idp.token({ ...form, code_verifier: 'b'.repeat(43) })).body.error).toBe('invalid_grant')
    const again = await refresh(next.body.refresh_token)
    expect(again.status).toBe(200)
    expect((await idp.token(form)).body.error).toBe('invalid_grant')
    expect((await refresh(again.body.refresh_token)).body.error).toBe('invalid_grant')
  })

  test('of fifty uses of a code at once, one wins, and its refresh token is good', async () => {
    const code = await idp.code(client, ana, { scope: 'openid offline_access' })
    const form = idp.codeForm(client, code)
    const codeHash = createHash('sha256').update(code).digest()
    const answers = await raceFifty(
      idp,
      (sql) => sql`select from authorization_codes where code_hash = ${codeHash} for update`,
      () => idp.token(form),
    )
    const won = answers.filter(({ status }) => status === 200)
    expect(won).toHaveLength(1)
    const lost = new Set(
      answers.filter(({ status }) => status !== 200).map(({ status, body }) => `${status} ${body.error}`),
    )
    expect([...lost]).toEqual(['400 invalid_grant'])
    const { status } = await idp.token({
      grant_type: 'refresh_token',
      client_id: client.id,
      refresh_token: won[0]?.body.refresh_token,
    })
    expect(status).toBe(200)
  })
})

describe('who may not be redeemed for (B §3, §5, D60)', () => {
  const denied = (reason: string) => ({
    status: 400,
    body: {
      error: 'invalid_request',
      error_description: expect.stringMatching(new RegExp(`^access_denied: .*${reason}`)),
    },
  })

  test('a policy that no longer permits the user; nothing is consumed', async () => {
    const own = await idp.client()
    const form = idp.codeForm(own, await idp.code(own, ana))
    await setClientPolicy(idp.deps, { clientId: own.id, policy: { domains: ['other.example.com'] } })
    expect(await idp.token(form)).toMatchObject(denied('policy'))
    await setClientPolicy(idp.deps, { clientId: own.id, policy: { domains: ['EXAMPLE.com'] } })
    expect((await idp.token(form)).status).toBe(200)
  })

  test('a domain counts for a verified email alone, and a subdomain is another', async () => {
    const own = await idp.client()
    const forms = [idp.codeForm(own, await idp.code(own, ana)), idp.codeForm(own, await idp.code(own, ana))]
    await setClientPolicy(idp.deps, { clientId: own.id, policy: { domains: ['mail.example.com'] } })
    expect(await idp.token(forms[0] ?? {})).toMatchObject(denied('policy'))
    await idp.deps.db.execute(`update users set email_verified = false where id = '${ana.userId}'`)
    await setClientPolicy(idp.deps, { clientId: own.id, policy: { domains: ['example.com'] } })
    expect(await idp.token(forms[1] ?? {})).toMatchObject(denied('policy'))
    await idp.deps.db.execute(`update users set email_verified = true where id = '${ana.userId}'`)
  })

  test('a second factor that is required and was not used', async () => {
    const own = await idp.client()
    const form = idp.codeForm(own, await idp.code(own, ana))
    await setClientPolicy(idp.deps, { clientId: own.id, policy: { requiresSecondFactor: true } })
    expect(await idp.token(form)).toMatchObject(denied('second factor'))
  })

  test('a product that was withdrawn, at redemption alone and for clients that require it (D69); nothing is consumed', async () => {
    const own = await idp.client({ requiredProduct: 'storage' })
    const form = idp.codeForm(own, await idp.code(own, ana))
    const access = (hasAccess: boolean) =>
      setProductAccess(idp.deps, { userId: ana.userId, product: 'storage', hasAccess })
    await access(false)
    expect(await idp.token(form)).toMatchObject(denied('storage'))
    expect((await redeem()).status).toBe(200) // another client does not require it
    const meanwhile = idp.codeForm(own, await idp.code(own, ana)) // authorize does not ask
    expect(await idp.token(meanwhile)).toMatchObject(denied('storage'))
    await access(true)
    for (const kept of [form, meanwhile]) expect((await idp.token(kept)).status).toBe(200)
  })

  test('a suspended account; what was pending has ended with it', async () => {
    const bob = await idp.person()
    const form = idp.codeForm(client, await idp.code(client, bob))
    await suspendUser(idp.deps, bob.userId)
    expect(await idp.token(form)).toMatchObject(denied('suspended'))
    expect(await idp.token(form)).toMatchObject(denied('suspended'))
    await restoreUser(idp.deps, bob.userId)
    expect((await idp.token(form)).body.error).toBe('invalid_grant')
  })

  test('a deleted account is as if the code had never been', async () => {
    const bob = await idp.person()
    const form = idp.codeForm(client, await idp.code(client, bob))
    await deleteUser(idp.deps, bob.userId)
    expect((await idp.token(form)).body.error).toBe('invalid_grant')
  })

  test('the refusal comes after the client and the code are proven', async () => {
    const bob = await idp.person()
    const form = idp.codeForm(client, await idp.code(client, bob))
    await suspendUser(idp.deps, bob.userId)
    expect((await idp.token({ ...form, code_verifier: 'b'.repeat(43) })).body.error).toBe('invalid_grant')
  })
})

describe('client authentication (B §5, D11)', () => {
  const secret = 'a secret/with+odd:signs%'
  const form = async () => {
    const { client_id: _, client_secret: __, ...rest } = idp.codeForm(server, await idp.code(server, ana))
    return rest
  }

  test('Basic with form-encoded parts, or the body', async () => {
    expect((await idp.token(await form(), { authorization: basic(server.id, secret) })).status).toBe(200)
    expect((await idp.token({ ...(await form()), client_id: server.id, client_secret: secret })).status).toBe(200)
  })

  test('Basic wins over the body, its client_id included, and a wrong one never falls back', async () => {
    const body = { client_id: client.id, client_secret: 'x' }
    expect((await idp.token({ ...(await form()), ...body }, { authorization: basic(server.id, secret) })).status).toBe(
      200,
    )
    const right = { client_id: server.id, client_secret: secret }
    for (const authorization of [basic(server.id, 'wrong'), 'Basic', 'Basic !', basic('', ''), basic(server.id, '')]) {
      const { status, headers, body } = await idp.token({ ...(await form()), ...right }, { authorization })
      expect({ status, error: body.error }).toEqual({ status: 401, error: 'invalid_client' })
      expect(headers['www-authenticate']).toBe('Basic realm="oauth2"')
      expect(headers['cache-control']).toBe('no-store')
    }
  })

  test.each([
    ['no client at all', {}],
    ['a confidential client without its secret', { client_id: 'SERVER' }],
    ['a confidential client with an empty secret', { client_id: 'SERVER', client_secret: '' }],
    ['a wrong secret', { client_id: 'SERVER', client_secret: 'x' }],
    ['a public client with a secret', { client_id: 'PUBLIC', client_secret: 'x' }],
    ['an unknown client', { client_id: '00000000-0000-4000-8000-000000000000' }],
    ['a client that is no UUID', { client_id: "'; drop table clients" }],
  ])('%s is 401 invalid_client, without a challenge', async (_, credentials: Record<string, string>) => {
    const ids: Record<string, string> = { SERVER: server.id, PUBLIC: client.id }
    const { client_id = '', ...rest } = credentials
    const answer = await idp.token({ ...(await form()), client_id: ids[client_id] ?? client_id, ...rest })
    expect({ status: answer.status, error: answer.body.error }).toEqual({ status: 401, error: 'invalid_client' })
    expect(answer.headers).not.toHaveProperty('www-authenticate')
  })

  test('a public client with an empty secret has sent none', async () => {
    expect((await redeem({ client_secret: '' })).status).toBe(200)
  })

  test('a disabled client is unknown, and what it held is gone', async () => {
    const own = await idp.client()
    const form = idp.codeForm(own, await idp.code(own, ana))
    await disableClient(idp.deps, own.id)
    expect(await idp.token(form)).toMatchObject({ status: 401, body: { error: 'invalid_client' } })
  })

  test('while a secret is replaced both work, then the new one alone', async () => {
    const own = await idp.client({ kind: 'confidential' })
    const poll = (client_secret: string | undefined) =>
      idp.token({
        grant_type: 'refresh_token',
        client_id: own.id,
        client_secret: client_secret ?? '',
        refresh_token: 'x',
      })
    const next = await rotateClientSecret(idp.deps, { clientId: own.id, overlapMs: 60_000 })
    for (const secret of [own.secret, next]) expect((await poll(secret)).body.error).toBe('invalid_grant')
    idp.advance(61_000)
    expect((await poll(own.secret)).status).toBe(401)
    expect((await poll(next)).status).toBe(400)
    await rotateClientSecret(idp.deps, { clientId: own.id, overlapMs: 0 })
    expect((await poll(next)).status).toBe(401)
  })
})

test('each step of the order hides what comes after it (D72)', async () => {
  const narrow = await idp.client({ grants: ['refresh_token'] })
  const nope = 'grant_type=nope&client_id=x'
  const errorOf = async (form: string, headers?: Record<string, string>) =>
    (await idp.token(form, headers)).body.error as string
  // Encoding, duplicates, grant type, client, the client's grants, and last the parameters of the grant.
  expect(await errorOf(`${nope}&a=1&a=2`, { 'content-type': 'text/plain' })).toBe('invalid_request')
  expect(await errorOf(`${nope}&a=1&a=2`)).toBe('invalid_request')
  expect(await errorOf(nope)).toBe('unsupported_grant_type')
  expect(await errorOf('grant_type=authorization_code&client_id=x')).toBe('invalid_client')
  expect(await errorOf(`grant_type=authorization_code&client_id=${narrow.id}`)).toBe('unauthorized_client')
  expect(await errorOf(`grant_type=authorization_code&client_id=${client.id}`)).toBe('invalid_request')
})

test('a form is read behind a byte order mark, whether its length is told or not', async () => {
  const form = '\ufeffgrant_type=nope'
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  const chunks = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(form))
      controller.close()
    },
  })
  for (const body of [form, chunks]) {
    const answer = await fetch(`${idp.url}/oauth2/token`, { method: 'POST', headers, body, duplex: 'half' })
    expect(await answer.json()).toMatchObject({ error: 'unsupported_grant_type' })
  }
})
