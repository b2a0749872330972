import { get, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestIdp, type TestIdp } from '../../../test/start.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

const cacheControl = 'public, max-age=300, stale-while-revalidate=600'

test.each(['/.well-known/openid-configuration', '/.well-known/oauth-authorization-server'])(
  '%s names the issuer, the fixed fields and only endpoints of this origin (B §2, §4, RFC 8414)',
  async (path) => {
    const { status, headers, body } = await idp.send(`GET ${path}`)
    expect(status).toBe(200)
    expect(headers).toMatchObject({ 'cache-control': cacheControl, 'access-control-allow-origin': '*' })
    expect(headers['content-type']).toMatch(/^application\/json/)
    expect(body).toMatchObject({
      issuer: idp.url,
      authorization_endpoint: `${idp.url}/oauth2/authorize`,
      token_endpoint: `${idp.url}/oauth2/token`,
      userinfo_endpoint: `${idp.url}/oauth2/userinfo`,
      revocation_endpoint: `${idp.url}/oauth2/revoke`,
      device_authorization_endpoint: `${idp.url}/oauth2/device_authorization`,
      end_session_endpoint: `${idp.url}/oauth2/logout`,
      jwks_uri: `${idp.url}/.well-known/jwks.json`,
      response_types_supported: ['code'],
      grant_types_supported: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
      code_challenge_methods_supported: ['S256'],
      request_uri_parameter_supported: false,
      authorization_response_iss_parameter_supported: true,
    })
    expect(body.scopes_supported).toEqual(expect.arrayContaining(['openid', 'profile', 'email', 'offline_access']))
    expect(body).not.toHaveProperty('registration_endpoint')
  },
)

test('the JWKS holds public RSA keys with a kid and nothing private (B §2, RFC 7517)', async () => {
  const { status, headers, body } = await idp.send('GET /.well-known/jwks.json')
  expect(status).toBe(200)
  expect(headers).toMatchObject({ 'cache-control': cacheControl, 'access-control-allow-origin': '*' })
  expect(body.keys).toHaveLength(1)
  expect(Object.keys(body.keys[0]).toSorted()).toEqual(['alg', 'e', 'kid', 'kty', 'n', 'use'])
  expect(body.keys[0]).toMatchObject({ kty: 'RSA', alg: 'RS256', use: 'sig', e: 'AQAB' })
})

test.each(['/.well-known/openid-configuration', '/.well-known/jwks.json'])(
  '%s answers 304 to whoever holds it, and HEAD without a body',
  async (path) => {
    const { headers } = await idp.send(`GET ${path}`)
    const again = await idp.send(`GET ${path}`, undefined, { 'if-none-match': `W/${headers.etag}` })
    expect(again).toMatchObject({ status: 304, text: '' })
    expect(again.headers['cache-control']).toBe(cacheControl)
    const other = await idp.send(`GET ${path}`, undefined, { 'if-none-match': '"other"' })
    expect(other.status).toBe(200)
    expect(await idp.send(`HEAD ${path}`)).toMatchObject({ status: 200 })
  },
)

test.each(['/.well-known/jwks.json?of=now', '/.well-known/%6Awks.json', '/oauth2/../.well-known/jwks.json'])(
  '%s is another spelling of the JWKS, and answered with the same headers',
  async (path) => {
    const origin = new URL(idp.url)
    const ask = (target: string, headers: Record<string, string> = {}) =>
      new Promise<IncomingMessage>((resolve, reject) => {
        get({ host: origin.hostname, port: origin.port, path: target, headers }, resolve).on('error', reject)
      })
    const [plain, other] = [await ask('/.well-known/jwks.json'), await ask(path)]
    const { 'x-request-id': first, date: _, ...expected } = plain.headers
    const { 'x-request-id': second, date: __, ...given } = other.headers
    expect(given).toEqual(expected)
    expect(first).not.toBe(second)
    expect(await text(other)).toBe(await text(plain))
    expect((await ask(path, { 'if-none-match': plain.headers.etag ?? '' })).statusCode).toBe(304)
    expect((await ask('/.well-known/jwks.json', { host: 'not a host' })).statusCode).toBe(400)
  },
)

test('documents are counted and logged like everything else', async () => {
  const lines: string[] = []
  const logged = await startTestIdp({}, { logTo: { write: (line) => void lines.push(line) } })
  try {
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
    const { headers } = await logged.send('HEAD /.well-known/jwks.json', undefined, { traceparent })
    const line = lines.map((text) => JSON.parse(text) as Record<string, unknown>).find(({ msg }) => msg === 'request')
    const expected = { method: 'HEAD', path: '/.well-known/jwks.json', status: 200, traceId: 'a'.repeat(32) }
    expect(line).toMatchObject({ ...expected, requestId: headers['x-request-id'], service: 'idp' })
  } finally {
    await logged.close()
  }
})

test('an emergency rotation is in the JWKS and its ETag at once (B §5)', async () => {
  const before = await idp.send('GET /.well-known/jwks.json')
  const kid = await idp.deps.keySet.rotateNow()
  const after = await idp.send('GET /.well-known/jwks.json')
  expect(after.body.keys.map((key: { kid: string }) => key.kid)).toEqual([kid])
  expect(after.headers.etag).not.toBe(before.headers.etag)
})

test.each([
  ['POST /.well-known/openid-configuration', 'GET, HEAD, OPTIONS'],
  ['DELETE /.well-known/jwks.json', 'GET, HEAD, OPTIONS'],
  ['PUT /oauth2/authorize', 'GET, HEAD, POST'],
  ['OPTIONS /oauth2/authorize', 'GET, HEAD, POST'],
  ['GET /oauth2/token', 'POST, OPTIONS'],
  ['HEAD /oauth2/token', 'POST, OPTIONS'],
  ['PUT /oauth2/userinfo', 'GET, HEAD, POST, OPTIONS'],
  ['GET /oauth2/revoke', 'POST, OPTIONS'],
  ['GET /oauth2/device_authorization', 'POST, OPTIONS'],
  ['PUT /oauth2/logout', 'GET, HEAD, POST'],
  ['DELETE /sign-in', 'GET, HEAD, POST'],
])('%s is 405 with Allow (D19)', async (on, allow) => {
  const { status, headers } = await idp.send(on)
  expect(status).toBe(405)
  expect(headers.allow).toBe(allow)
  expect(headers['x-request-id']).toMatch(/^[\w-]{36}$/)
})

test.each([
  '/.well-known/openid-configuration',
  '/.well-known/oauth-authorization-server',
  '/.well-known/jwks.json',
  '/oauth2/token',
  '/oauth2/userinfo',
  '/oauth2/revoke',
  '/oauth2/device_authorization',
])('%s answers a preflight of any origin, without credentials (D71)', async (path) => {
  const { status, headers } = await idp.send(`OPTIONS ${path}`, undefined, {
    origin: 'https://spa.example.com',
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization',
  })
  expect(status).toBe(204)
  expect(headers).toMatchObject({
    'access-control-allow-origin': '*',
    'access-control-allow-headers': 'authorization, content-type',
  })
  expect(headers).not.toHaveProperty('access-control-allow-credentials')
})

test.each(['/oauth2/authorize', '/oauth2/logout', '/sign-in', '/device', '/'])(
  '%s sends no CORS header (D71)',
  async (path) => {
    const { headers } = await idp.send(`GET ${path}`, undefined, { origin: 'https://spa.example.com' })
    expect(headers).not.toHaveProperty('access-control-allow-origin')
  },
)

test.each(['/nope', '/oauth2', '/oauth2/register', '/.well-known/', '/oauth2/token/'])(
  '%s is 404: there is no such thing, dynamic registration least of all (B §1)',
  async (path) => {
    const { status, body, headers } = await idp.send(`GET ${path}`)
    expect({ status, error: body.error }).toEqual({ status: 404, error: 'invalid_request' })
    expect(headers['x-request-id']).toBeDefined()
  },
)

test('a document does not follow the Host header (B §1)', async () => {
  const { body } = await idp.send('GET /.well-known/openid-configuration', undefined, { host: 'evil.example.com' })
  expect(JSON.stringify(body)).not.toContain('evil')
})
