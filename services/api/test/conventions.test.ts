import { createHmac, createPublicKey, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { edges } from '../src/areas/cluster/edges/table.ts'
import { profiles } from '../src/areas/tenancy/profiles/table.ts'
import { register } from 'prom-client'
import { decodeJwt, type JSONWebKeySet } from 'jose'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newKey, newOwner, type Owner, unique } from './scenario.ts'

const ORIGIN = 'https://console.example.com'
let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ corsOrigins: [ORIGIN] })
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const address = (n: number) => ({ 'x-forwarded-for': `198.18.${n >> 8}.${n & 255}` })
let nextAddress = Math.floor(Math.random() * 60_000)

test('tokens that only look right are a 401: alg none, HS256 with the public key, another typ, an ID token (D5)', async () => {
  const claims = decodeJwt(ana.token)
  const jwks = (await (await fetch(`${platform.idpUrl}/.well-known/jwks.json`)).json()) as JSONWebKeySet
  const [jwk] = jwks.keys
  const none = `${encode({ alg: 'none', typ: 'at+jwt', kid: jwk?.kid })}.${encode(claims)}.`
  const hsHead = `${encode({ alg: 'HS256', typ: 'at+jwt', kid: jwk?.kid })}.${encode(claims)}`
  const pem = createPublicKey({ key: jwk as never, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
  const hs256 = `${hsHead}.${createHmac('sha256', pem).update(hsHead).digest('base64url')}`
  const signed = (typ: string, more: object) => platform.idp.keySet.sign(typ, { ...claims, ...more })
  const bad = {
    none,
    hs256,
    'an ID token': signed('JWT', {}),
    'another audience': signed('at+jwt', { aud: 'https://elsewhere.example.com' }),
    'another issuer': signed('at+jwt', { iss: 'https://elsewhere.example.com' }),
    'the API as issuer, signed by the IdP': signed('at+jwt', { iss: platform.apiUrl, aud: platform.apiUrl }),
    'no exp': signed('at+jwt', { exp: undefined }),
    'no sub': signed('at+jwt', { sub: undefined }),
    expired: signed('at+jwt', { exp: (claims.iat ?? 0) - 1 }),
    'a changed byte': `${ana.token.slice(0, -2)}${ana.token.endsWith('AA') ? 'BB' : 'AA'}`,
    'very long': `${ana.token}${'A'.repeat(9_000)}`,
  }
  for (const [what, token] of Object.entries(bad)) {
    const answer = await platform.call(token, 'GET /organizations')
    expect([what, answer.status, answer.headers['www-authenticate']]).toEqual([
      what,
      401,
      `Bearer error="invalid_token", error_description="${answer.body.error}"`,
    ])
  }
  expect((await platform.call(signed('at+jwt', {}), 'GET /organizations')).status).toBe(200) // the same, unspoilt
})

test('a key named in the token itself is not looked at (D5)', async () => {
  const { publicKey, privateKey } = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, [
    'sign',
    'verify',
  ])
  const jwk = await crypto.subtle.exportKey('jwk', publicKey)
  const head = `${encode({ alg: 'ES256', typ: 'at+jwt', kid: 'mine', jwk, jku: `${ORIGIN}/jwks.json` })}.${encode({ ...decodeJwt(ana.token), iss: platform.apiUrl, aud: platform.apiUrl })}`
  const signature = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, privateKey, Buffer.from(head))
  expect(
    (await platform.call(`${head}.${Buffer.from(signature).toString('base64url')}`, 'GET /organizations')).status,
  ).toBe(401)
})

test('a key expires 7,776,000,000 ms after its creation, although each look at the clock tells another time (A §4)', async () => {
  platform.clock.stepAtEachReading(1)
  onTestFinished(() => platform.clock.stepAtEachReading(0))
  const { body } = await platform.call(ana.token, 'POST /api-keys', { name: 'ci', applicationId: ana.applicationId })
  expect(Date.parse(body.expiresAt) - Date.parse(body.createdAt)).toBe(7_776_000_000)
  expect(body.updatedAt).toBe(body.createdAt)
})

test('an upload session lasts 86,400,000 ms, although each look at the clock tells another time (A §4)', async () => {
  const buckets = `/applications/${ana.applicationId}/environments/production/buckets`
  const { name } = (await platform.call(ana.token, `POST ${buckets}`, { name: unique() })).body
  platform.clock.stepAtEachReading(1)
  onTestFinished(() => platform.clock.stepAtEachReading(0))
  const session = { key: 'a', contentLength: 1, checksumSha256: 'a'.repeat(64) }
  const { body } = await platform.call(ana.token, `POST ${buckets}/${name}/uploads`, session)
  expect(Date.parse(body.session.expiresAt) - Date.parse(body.session.createdAt)).toBe(86_400_000)
})

test('a token is refused once it has expired, although it was accepted before (A §5)', async () => {
  const token = await ana.person.token(everyScope)
  expect((await platform.call(token, 'GET /organizations')).status).toBe(200)
  platform.clock.advance(301_000)
  expect(await platform.call(token, 'GET /organizations')).toMatchObject({
    status: 401,
    body: { error: 'The token has expired' },
  })
  ana.token = await ana.person.token(everyScope)
})

test('an unknown path asks for a token first and is then a 404, the root too (A §5, D10)', async () => {
  for (const path of ['/', '/nope', '/organizations/x/y/z', '/v1/organizations', '/ai/v1/nothing']) {
    expect([path, (await platform.call(null, `GET ${path}`)).status]).toEqual([path, 401])
    expect([path, (await platform.call(ana.token, `GET ${path}`)).status]).toEqual([path, 404])
  }
  expect((await platform.call(ana.token, 'DELETE /organizations')).status).toBe(404) // wrong method (D19)
  expect((await platform.call(null, 'GET /.well-known/nope')).status).toBe(404)
})

test('below /ai/v1 failures nest under error, below /s3 they are XML (A §7, D21)', async () => {
  const ai = await platform.call(null, 'POST /ai/v1/chat/completions', {})
  expect(ai.body).toEqual({
    error: { message: expect.any(String) as string, type: 'authentication_error', param: null, code: 'invalid_token' },
  })
  expect(ai.headers['www-authenticate']).toContain('Bearer')
  const s3 = await fetch(`${platform.apiUrl}/s3/bucket/key`)
  expect([s3.status, s3.headers.get('content-type'), await s3.text()]).toEqual([
    403,
    'application/xml',
    expect.stringContaining('<Code>AccessDenied</Code>'),
  ])
})

test('an address may send 600 requests without a bearer header, one more is throttled, and the counter is shared with bearer requests (A §8, D53, D54)', async () => {
  const from = address(nextAddress++)
  const statuses = (
    await Promise.all(
      Array.from({ length: 600 }, () => platform.call(null, 'GET /.well-known/jwks.json', undefined, from)),
    )
  ).map(({ status }) => status)
  expect(new Set(statuses)).toEqual(new Set([200]))
  const over = await platform.call(null, 'GET /.well-known/jwks.json', undefined, from)
  expect(over).toMatchObject({
    status: 429,
    body: { error: 'rate_limit_exceeded', message: expect.any(String) as string },
  })
  expect(over.headers['retry-after']).toBe('60')
  expect(
    Object.keys(over.headers).filter((name) => name.startsWith('x-ratelimit') || name.startsWith('ratelimit')),
  ).toEqual([])
  const token = await platform.call(null, 'POST /oauth2/token', 'grant_type=client_credentials', {
    ...from,
    'content-type': 'application/x-www-form-urlencoded',
  })
  expect(token).toMatchObject({
    status: 429,
    body: { error: 'rate_limit_exceeded', message: expect.any(String) as string },
  })
  expect(
    (await platform.call(null, 'GET /docs/json', undefined, { ...from, authorization: 'Basic eDp5' })).status,
  ).toBe(429) // Basic is no bearer
  expect((await platform.call(ana.token, 'GET /organizations', undefined, from)).status).toBe(200) // the same counter, the higher cap
  expect(
    (await platform.call(null, 'GET /docs/json', undefined, { ...from, authorization: 'Bearer garbage' })).status,
  ).toBe(200)
  expect((await platform.call(null, 'GET /docs/json', undefined, address(nextAddress++))).status).toBe(200)
})

test('an address with a bearer header is throttled after 6,000, before the token is looked at (A §8, D18)', async () => {
  const from = address(nextAddress++)
  await Promise.all(
    Array.from({ length: 6_000 }, () => platform.api.limiter.hit([`address:${from['x-forwarded-for']}`])),
  )
  expect((await platform.call('garbage', 'GET /organizations', undefined, from)).status).toBe(429)
  expect((await platform.call(ana.token, 'GET /organizations', undefined, from)).status).toBe(429)
})

test('a key may send 3,000 requests from all its addresses, and refused ones count (A §8, D55)', async () => {
  const key = await newKey(platform, ana, ['network:env_vars:read'])
  await Promise.all(Array.from({ length: 2_999 }, () => platform.api.limiter.hit([`key:${key.id}`])))
  const line = `GET /applications/${ana.applicationId}/env-vars`
  expect((await platform.call(key.token, line, undefined, address(nextAddress++))).status).toBe(200)
  const over = await platform.call(key.token, line, undefined, address(nextAddress++))
  expect([over.status, over.headers['retry-after'], over.body.error]).toEqual([429, '60', 'rate_limit_exceeded'])
  expect((await platform.call(key.token, 'GET /organizations', undefined, address(nextAddress++))).status).toBe(429) // before the scope
})

test('object paths are counted on their own, before the header is examined (A §8)', async () => {
  const from = address(nextAddress++)
  await Promise.all(
    Array.from({ length: 6_000 }, () => platform.api.limiter.hit([`address:${from['x-forwarded-for']}`])),
  )
  expect((await platform.call(ana.token, 'GET /files/x', undefined, from)).status).toBe(404)
  await Promise.all(
    Array.from({ length: 24_000 }, () => platform.api.limiter.hit([`objects:${from['x-forwarded-for']}`])),
  )
  const over = await platform.call(ana.token, 'GET /files/x', undefined, from)
  expect([over.status, over.body.error]).toEqual([429, 'rate_limit_exceeded'])
})

test('counters go by the path as it was sent, like the listeners', async () => {
  const from = address(nextAddress++)
  await Promise.all(Array.from({ length: 600 }, () => platform.api.limiter.hit([`address:${from['x-forwarded-for']}`])))
  const status = async (path: string) => (await platform.call(null, `GET ${path}`, undefined, from)).status
  for (const path of ['/%733/x', '/%66iles/x', '/s3%2fx', '/S3/x'])
    expect([path, await status(path)]).toEqual([path, 429])
  expect(await status('/files/x')).toBe(401)
})

test('a configured origin may read answers and failures; a preflight needs no credential; others get nothing (D12)', async () => {
  const answer = await platform.call(null, 'GET /organizations', undefined, { origin: ORIGIN })
  expect([answer.status, answer.headers['access-control-allow-origin'], answer.headers.vary]).toEqual([
    401,
    ORIGIN,
    'Origin',
  ])
  expect(answer.headers['access-control-expose-headers']).toContain('Retry-After')
  const preflight = await platform.call(null, 'OPTIONS /applications', undefined, {
    origin: ORIGIN,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization,content-type',
  })
  expect([preflight.status, preflight.headers['access-control-allow-origin']]).toEqual([204, ORIGIN])
  expect(preflight.headers['access-control-allow-headers']).toContain('Authorization')
  const other = await platform.call(ana.token, 'GET /organizations', undefined, { origin: 'https://evil.example.com' })
  expect(other.headers['access-control-allow-origin']).toBeUndefined()
  expect(other.headers['access-control-allow-credentials']).toBeUndefined()
})

test('a preflight needs no credential, but counts on the address (A §8, D12, D18)', async () => {
  const from = address(nextAddress++)
  const preflight = () =>
    platform.call(null, 'OPTIONS /organizations', undefined, {
      ...from,
      origin: ORIGIN,
      'access-control-request-method': 'GET',
    })
  const statuses = await Promise.all(Array.from({ length: 601 }, preflight))
  expect(statuses.filter(({ status }) => status === 204)).toHaveLength(600)
  expect((await preflight()).status).toBe(429)
})

test('a preflight for a request with a bearer is judged by 6,000, as that request is (D53)', async () => {
  const from = address(nextAddress++)
  const count = (hits: number) =>
    Promise.all(Array.from({ length: hits }, () => platform.api.limiter.hit([`address:${from['x-forwarded-for']}`])))
  const preflight = async (headers: string) =>
    (
      await platform.call(null, 'OPTIONS /organizations', undefined, {
        ...from,
        origin: ORIGIN,
        'access-control-request-method': 'GET',
        'access-control-request-headers': headers,
      })
    ).status
  await count(600)
  expect(await preflight('content-type')).toBe(429)
  expect(await preflight('x-authorization')).toBe(429)
  expect(await preflight('Authorization')).toBe(204)
  expect(await preflight('content-type, authorization')).toBe(204)
  await count(6_000)
  expect(await preflight('authorization')).toBe(429)
})

test('a page may send what clients of every kind send, and read the id of a service request (D53)', async () => {
  const { headers } = await platform.call(null, 'OPTIONS /organizations', undefined, {
    origin: ORIGIN,
    'access-control-request-method': 'GET',
  })
  const allowed = (headers['access-control-allow-headers'] ?? '').toLowerCase().split(', ')
  for (const name of 'last-event-id x-application-id x-organization-id x-end-user-id idempotency-key traceparent'.split(
    ' ',
  ))
    expect(allowed).toContain(name)
  const answer = await platform.call(null, 'GET /organizations', undefined, { origin: ORIGIN })
  expect(answer.headers['access-control-expose-headers']).toContain('X-Service-Request-Id')
})

test('year 0 is no year, in any timestamp (D26)', async () => {
  const bucket = await platform.call(ana.token, `POST /applications/${ana.applicationId}/storage/buckets`, {
    name: `b-${unique()}`,
  })
  const restore = (deletedAfter: string) =>
    platform.call(
      ana.token,
      `POST /applications/${ana.applicationId}/environments/production/buckets/${bucket.body.name}/trash/restore`,
      { deletedAfter },
    )
  expect(await restore('0000-01-01T00:00:00.000Z')).toMatchObject({ status: 422, body: { property: '/deletedAfter' } })
  expect((await restore('0001-01-01T00:00:00.000Z')).status).toBe(200)
  const logs = await platform.call(
    ana.token,
    `GET /applications/${ana.applicationId}/requests?from=0000-12-31T23:59:59.999Z`,
  )
  expect(logs).toMatchObject({ status: 422, body: { property: '/from' } })
})

test('a field that fails in two ways is one entry (A §7, D14)', async () => {
  const { body } = await platform.call(ana.token, 'POST /organizations', { name: '\0'.repeat(300), slug: '-A' })
  expect(body.errors.map(({ property }: { property: string }) => property)).toEqual(['/name', '/slug'])
})

/** Sends bytes as they are and answers with all that comes back. */
async function raw(text: string, to = platform.apiUrl): Promise<string> {
  const socket = connect(Number(new URL(to).port), 'localhost')
  socket.write(text)
  return (await socket.setEncoding('utf8').toArray()).join('')
}

test.each([
  ['no version', 'GET /docs\r\n\r\n', 400],
  ['a header line that is none', 'GET /docs HTTP/1.1\r\nHost: a\r\nb\r\n\r\n', 400],
  ['two lengths', 'POST /docs HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n', 400],
  ['no path', 'GET * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 400],
  ['a host that is none', 'GET /docs HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n', 400],
  ['no host', 'GET /docs HTTP/1.1\r\n\r\n', 400],
  ['two hosts', 'GET /docs HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n', 400],
  ['headers of 20 kB', `GET /docs HTTP/1.1\r\nHost: a\r\nX-A: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
])('%s: even what is not HTTP gets a sentence and an id (A §7)', async (_, text, status) => {
  let answer = ''
  const { api } = await loggedBy(async () => void (answer = await raw(text)))
  expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  const error = status === 431 ? 'The headers of the request are too large' : 'The request is not valid HTTP'
  expect(answer).toContain(`{"error":"${error}"}`)
  const id = /^x-request-id: (.+)\r$/im.exec(answer)?.[1] ?? 'none'
  expect(api.filter((line) => line.includes(`"${id}"`))).toHaveLength(1)
})

const listeners = {
  api: { url: () => platform.apiUrl, type: 'application/json; charset=UTF-8', body: '{"error":"TEXT"}' },
  s3: { url: () => platform.s3Url, type: 'application/xml', body: '<Message>TEXT</Message>' },
  idp: {
    url: () => platform.idpUrl,
    type: 'application/json; charset=UTF-8',
    body: '{"error":"invalid_request","error_description":"TEXT"}',
  },
  edge: { url: () => platform.edgeUrl, type: 'text/html; charset=utf-8', body: '<p>TEXT.</p>' },
  'internal edge': { url: internalUrl, type: 'text/plain; charset=UTF-8', body: 'TEXT' },
}

async function internalUrl(): Promise<string> {
  const { db, membership } = platform.api
  const [edge] = await db.select().from(edges).where(eq(edges.id, membership.id))
  return edge?.internalUrl ?? ''
}

describe.each(Object.entries(listeners))('the %s listener', (_, { url, type, body }) => {
  test.each([
    ['garbage', 'GET / HTTP/1.1\nHost: a\n\n', 400, 'unreadable request'],
    ['a request without a host', 'GET / HTTP/1.1\r\n\r\n', 400, 'unreadable request'],
    ['headers of 70 kB', `GET / HTTP/1.1\r\nHost: a\r\nX-A: ${'a'.repeat(70_000)}\r\n\r\n`, 431, 'unreadable request'],
    [
      'CONNECT',
      `CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\nGET /docs HTTP/1.1\r\nHost: a\r\n\r\n`,
      405,
      'refused method',
    ],
  ])(
    'answers %s in the shape of its place, with an id that is in one log line (A §7)',
    async (_, bytes, status, line) => {
      let answer = ''
      const to = await url()
      const { api, idp } = await loggedBy(async () => void (answer = await raw(bytes, to)))
      expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
      // Nothing that came after it was answered.
      expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1)
      const [head = '', content] = answer.toLowerCase().split('\r\n\r\n')
      expect(head).toContain('connection: close')
      expect(head).toContain(`content-type: ${type.toLowerCase()}`)
      expect(/^allow: (.*)$/m.exec(head)?.[1]?.startsWith('get, head, ')).toBe(status === 405 ? true : undefined)
      const sentences: Record<number, string> = {
        400: 'The request is not valid HTTP',
        405: 'CONNECT is for proxies, and this is none',
        431: 'The headers of the request are too large',
      }
      const text = sentences[status] ?? ''
      expect(content).toContain(body.replace('TEXT', text).toLowerCase())
      const id = /^x-request-id: (.+)$/m.exec(head)?.[1] ?? 'none'
      const lines = [...api, ...idp].filter((each) => each.includes(`"${id}"`))
      expect(lines.map((each) => JSON.parse(each) as object)).toMatchObject([{ status, message: line }])
      expect(lines.join()).not.toContain('x:1')
    },
  )
})

test('the absolute form of a request target is read as its path (RFC 9112 §3.2.2)', async () => {
  const line = (target: string) => `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`
  expect(await raw(line('http://a/docs/json'))).toMatch(/^HTTP\/1\.1 200 [^]*"openapi"/)
  expect(await raw(line('http://a/s3/'))).toMatch(/^HTTP\/1\.1 403 [^]*<Code>AccessDenied/)
  expect(await raw(line('http://a'))).toMatch(/^HTTP\/1\.1 401 /)
  expect(await raw(line('http://a/production-none/key'), platform.s3Url)).toMatch(
    /^HTTP\/1\.1 403 [^]*<Code>AccessDenied/,
  )
})

test.each([
  ['an unread body', 'GET /docs/json HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n', 200],
  ['a body without a token', 'POST /organizations HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n', 401],
])('%s does not keep the connection of its answer open', async (_, text, status) => {
  const socket = connect(Number(new URL(platform.apiUrl).port), 'localhost').on('error', () => {})
  const dripping = setInterval(() => socket.write('x'.repeat(1_000)), 10)
  let answer = ''
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1')))
  socket.write(text)
  await new Promise((resolve) => socket.once('close', resolve))
  clearInterval(dripping)
  expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [^]*\r\nconnection: close\r\n`, 'i'))
})

test.each([
  ['apiUrl', '/docs', 200],
  ['apiUrl', '/s3/', 403],
  ['idpUrl', '/.well-known/openid-configuration', 200],
  ['edgeUrl', '/', 404],
] as const)('an expectation that %s does not know is ignored (RFC 9110 §10.1.1)', async (service, path, status) => {
  let answer = ''
  const { api, idp } = await loggedBy(async () => {
    const request = `GET ${path} HTTP/1.1\r\nHost: a\r\nExpect: zz\r\nConnection: close\r\n\r\n`
    answer = await raw(request, platform[service])
  })
  expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  const id = /^x-request-id: (.+)\r$/im.exec(answer)?.[1] ?? 'none'
  expect([...api, ...idp].filter((line) => line.includes(`"${id}"`))).toHaveLength(1)
})

test('of two Authorization headers neither is taken', async () => {
  const answer = await raw(
    `GET /organizations HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${ana.token}\r\nAuthorization: Bearer x\r\nConnection: close\r\n\r\n`,
  )
  expect(answer).toMatch(/^HTTP\/1\.1 401 /)
})

test('every answer carries an X-Request-Id, the given one where it is sound', async () => {
  expect((await platform.call(null, 'GET /nope')).headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
  expect(
    (await platform.call(ana.token, 'GET /organizations', undefined, { 'x-request-id': 'abc-1' })).headers[
      'x-request-id'
    ],
  ).toBe('abc-1')
  expect(
    (await platform.call(null, 'GET /docs', undefined, { 'x-request-id': 'a b' })).headers['x-request-id'],
  ).toMatch(/^[0-9a-f-]{36}$/)
})

/** What the two services log while `work` goes on, as JSON. */
async function loggedBy(work: () => Promise<void>): Promise<{ api: string[]; idp: string[] }> {
  const lines = { api: [] as string[], idp: [] as string[] }
  const restore = (['api', 'idp'] as const).map((service) => {
    const { logger } = platform[service]
    const { info, warn, error } = logger
    const write = ((line: object, message: string) =>
      void lines[service].push(JSON.stringify({ ...line, message }))) as typeof info
    Object.assign(logger, { info: write, warn: write, error: write })
    return () => Object.assign(logger, { info, warn, error })
  })
  await work()
  for (const undo of restore) undo()
  return lines
}

test("a caller's trace is in the log of both services, passed on to the identity provider (W3C Trace Context)", async () => {
  const traceId = randomBytes(16).toString('hex')
  const mia = await platform.person()
  const token = await mia.token(['openid', 'platform:organizations:read'])
  const { api, idp } = await loggedBy(async () => {
    const traceparent = `00-${traceId}-${randomBytes(8).toString('hex')}-01`
    await platform.call(token, 'GET /organizations', undefined, { traceparent })
    await platform.call(token, 'GET /organizations', undefined, { traceparent: 'nonsense' })
    await expect
      .poll(() => platform.api.db.select().from(profiles).where(eq(profiles.userId, mia.userId)))
      .toHaveLength(1)
  })
  expect(api.map((line) => JSON.parse(line) as object)).toMatchObject([
    { operation: 'listOrganizations', status: 200, actor: mia.userId, traceId },
    { operation: 'listOrganizations', status: 200 },
  ])
  expect(idp.filter((line) => line.includes(traceId)).map((line) => JSON.parse(line) as object)).toMatchObject([
    { path: '/oauth2/userinfo', status: 200 },
  ])
  expect(api.filter((line) => line.includes(traceId))).toHaveLength(1)
})

test('no log line holds a secret: tokens, key secrets, values', async () => {
  const key = await newKey(platform, ana, ['network:env_vars:write'])
  const { api } = await loggedBy(async () => {
    const line = `/applications/${ana.applicationId}/env-vars`
    await platform.call(key.token, `POST ${line}`, { key: 'LOGGED', value: 'plain-value', sensitive: true })
    await platform.call(key.token, `POST ${line}`, { key: 'LOGGED', value: 'plain-value' })
    await platform.call(key.token, `POST ${line}?token=plain-value`, { key: 'LO GGED', value: ['plain-value'] })
    await platform.call(`${key.token}x`, `GET ${line}`)
    await newKey(platform, ana, ['network:env_vars:read'])
  })
  expect(api.length).toBeGreaterThanOrEqual(6)
  const text = api.join('\n')
  for (const secret of [key.token, key.secret, 'plain-value', 'svc_secret_', ana.token])
    expect(text.includes(secret)).toBe(false)
})

test('a log line says who asked for what, from where and whose it was', async () => {
  const key = await newKey(platform, ana, ['network:env_vars:read'])
  const from = address(nextAddress++)
  const uploadToken = randomBytes(32).toString('base64url')
  const variables = `/applications/${ana.applicationId}/env-vars`
  const uploadId = randomUUID()
  const { api } = await loggedBy(async () => {
    await platform.call(ana.token, `GET ${variables}?limit=1`, undefined, from)
    await platform.call(key.token, `GET ${variables}`, undefined, from)
    await platform.call(null, 'GET /organizations', undefined, from)
    await platform.call(null, `GET /files/${uploadId}${uploadToken}`, undefined, from)
  })
  const lines = api.map((line) => JSON.parse(line) as object)
  const common = { path: variables, address: from['x-forwarded-for'], organizationId: ana.organizationId }
  expect(lines).toMatchObject([
    { ...common, status: 200, actor: expect.any(String) as string },
    { ...common, status: 200, actor: key.id, applicationId: ana.applicationId },
    { path: '/organizations', address: from['x-forwarded-for'], status: 401 },
    { path: `/files/${uploadId}`, address: from['x-forwarded-for'] },
  ])
  expect(lines[2]).not.toHaveProperty('organizationId')
  expect(api.join()).not.toContain(uploadToken)
})

test('the token of an upload is in no log line, even where its URL is wrong', async () => {
  const token = randomBytes(24).toString('base64url')
  const upload = `${randomUUID()}.${token}`
  const { api } = await loggedBy(async () => {
    for (const path of [
      `/files/${upload}`,
      `//files/${upload}`,
      `/api/files/${upload}`,
      `/files/deployments/${upload}`,
    ])
      await platform.call(null, `GET ${path}`)
    for (const path of [`/files%2f${upload}`, `/x/${upload.replace('.', '%2E')}`])
      await platform.call(null, `GET ${path}`)
    await platform.call(null, `GET /s3/files/${upload}`)
  })
  expect(api).toHaveLength(7)
  expect(api.join()).not.toContain(token)
})

test('JSON of 20,000 levels is a 422, a body of 10 MB a 413, broken UTF-8 a 400, and the service goes on', async () => {
  const json = { 'content-type': 'application/json' }
  const deep = `{"name":${'['.repeat(20_000)}${']'.repeat(20_000)}}`
  expect(await platform.call(ana.token, 'POST /organizations', deep, json)).toMatchObject({
    status: 422,
    body: { property: '/name', expected: 'string' },
  })
  const deepObject = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`
  expect((await platform.call(ana.token, 'POST /organizations', deepObject, json)).status).toBe(422)
  expect(
    (await platform.call(ana.token, 'POST /organizations', JSON.stringify({ name: 'x'.repeat(10_000_000) }), json))
      .status,
  ).toBe(413)
  expect(
    (
      await platform.call(null, 'POST /oauth2/token', 'a='.padEnd(10_000_000, 'x'), {
        'content-type': 'application/x-www-form-urlencoded',
      })
    ).status,
  ).toBe(413)
  const broken = await fetch(`${platform.apiUrl}/organizations`, {
    method: 'POST',
    headers: { ...json, authorization: `Bearer ${ana.token}` },
    body: Buffer.from([0x7b, 0xff, 0xfe, 0x7d]),
  })
  expect([broken.status, await broken.json()]).toEqual([400, { error: 'The body is not valid UTF-8' }])
  expect((await platform.call(ana.token, 'GET /organizations')).status).toBe(200)
})

test('a chunked body without a length is cut off at the limit too', async () => {
  const stream = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536).fill(32)) })
  const sent = fetch(`${platform.apiUrl}/organizations`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${ana.token}` },
    body: stream,
    duplex: 'half',
  })
  expect((await sent).status).toBe(413)
  expect((await platform.call(ana.token, 'GET /organizations')).status).toBe(200)
})

test('a body that its sender breaks off is no failure of ours', async () => {
  const logged: string[] = []
  const { logger } = platform.api
  const warn = logger.warn.bind(logger)
  logger.warn = ((_: object, message: string) => void logged.push(message)) as typeof logger.warn
  const socket = connect(Number(new URL(platform.apiUrl).port), 'localhost')
  socket.write(
    `POST /organizations HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${ana.token}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"na`,
  )
  const seen = register.getSingleMetric('http_request_duration_seconds')
  socket.end()
  await expect
    .poll(async () =>
      (await seen?.get())?.values.some(
        ({ labels }) => labels.status === '400' && labels.operation === 'createOrganization',
      ),
    )
    .toBe(true)
  logger.warn = warn
  expect(logged).toEqual([])
})

test('an operation without a body ignores the one it is sent, and its type (D18)', async () => {
  const answer = await platform.call(ana.token, 'DELETE /api-keys/00000000-0000-7000-8000-000000000000', '{"broken', {
    'content-type': 'text/plain',
  })
  expect(answer.status).toBe(404)
})

test('a large answer arrives whole although its request has a large body, which nobody reads', async () => {
  const { text: document } = await platform.call(null, 'GET /docs/json')
  const { port } = new URL(platform.apiUrl)
  const sendWithBody = async () => {
    const sent = request({ port, host: 'localhost', path: '/docs/json', agent: false })
    sent.setHeader('content-length', 200_000)
    sent.end(Buffer.alloc(200_000))
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    expect(answer.headers.connection).toBe('close')
    return (await buffer(answer)).toString() === document
  }
  expect(await Promise.all(Array.from({ length: 20 }, sendWithBody))).not.toContain(false)
})

test('a refusal long before the body leaves the connection usable or closes it, and never hangs', async () => {
  const { port } = new URL(platform.apiUrl)
  const socket = connect(Number(port), 'localhost')
  const received = new Promise<string>((resolve) => {
    let text = ''
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString()
      if (text.includes('\r\n\r\n')) resolve(text)
    })
    socket.on('close', () => resolve(text))
  })
  socket.write(
    'POST /organizations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{',
  )
  expect(await received).toMatch(/^HTTP\/1\.1 401 /)
  socket.destroy()
})
