import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { inspect } from 'node:util'
import { expect, test, vi } from 'vitest'
import {
  apiKey,
  createApiKey,
  createApplicationVariable,
  fromEnv,
  functionCredential,
  getOrganization,
  Platform,
  PlatformError,
  staticToken,
} from '../src/index.ts'
import { deployArchive, uploadObject } from '../src/uploads/index.ts'
import { type Behaviour, halfJson, json, reset, resetInBody, secret, startHostileServer } from './hostile-server.ts'

const id = '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'
const ok = json(200, { id })
const tokensOf = (requests: { headers: { authorization?: string | undefined } }[]) =>
  new Set(requests.map(({ headers }) => headers.authorization))

/** Moves the clock of this process, which a token's life is counted by. */
function advanceClock(ms: number): void {
  const now = Date.now() + ms
  vi.spyOn(Date, 'now').mockReturnValue(now)
}

const jwt = (claims: object): string =>
  ['{"alg":"ES256"}', JSON.stringify(claims), 'signature']
    .map((part) => Buffer.from(part).toString('base64url'))
    .join('.')

test('200 calls that find no token make one exchange', async () => {
  const { platform, requests, exchanges } = await startHostileServer([ok])
  await Promise.all(Array.from({ length: 200 }, () => getOrganization(platform, { id })))
  expect([requests.length, exchanges.length]).toEqual([200, 1])
})

test('200 calls near the end of a token go on with it and make one exchange; those after its end wait for one', async () => {
  const { platform, requests, exchanges } = await startHostileServer([ok])
  await getOrganization(platform, { id })
  advanceClock(241_000)
  await Promise.all(Array.from({ length: 200 }, () => getOrganization(platform, { id })))
  expect([[...tokensOf(requests)], exchanges.length]).toEqual([['Bearer token-1'], 2])
  advanceClock(301_000)
  requests.length = 0
  await Promise.all(Array.from({ length: 200 }, () => getOrganization(platform, { id })))
  expect([[...tokensOf(requests)], exchanges.length]).toEqual([['Bearer token-3'], 3])
  vi.restoreAllMocks()
})

test('a renewal that fails while the token still lives disturbs no call', async () => {
  let isBroken = false
  const exchange: Behaviour = (...args) =>
    (isBroken ? json(400, { error: 'invalid_request' }) : json(200, { access_token: 'token', expires_in: 300 }))(
      ...args,
    )
  const { platform, exchanges } = await startHostileServer([ok], exchange)
  await getOrganization(platform, { id })
  isBroken = true
  advanceClock(290_000)
  await getOrganization(platform, { id })
  await vi.waitFor(() => expect(exchanges).toHaveLength(2), 60_000)
  advanceClock(301_000)
  await expect(getOrganization(platform, { id })).rejects.toMatchObject({
    status: 400,
    operation: 'POST /oauth2/token',
  })
  vi.restoreAllMocks()
})

test('200 calls whose token the platform has stopped to accept make one exchange and succeed', async () => {
  const { platform, exchanges } = await startHostileServer([
    (response, request) =>
      (request.headers.authorization === 'Bearer token-1' ? json(401, { error: 'expired' }) : ok)(response, request),
  ])
  await Promise.all(Array.from({ length: 200 }, () => getOrganization(platform, { id })))
  expect(exchanges).toHaveLength(2)
})

test('an exchange is tried again as reads are, and a key that is refused is a 401', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0)
  const script = [json(503, { error: 'x' }), reset, halfJson, json(200, { access_token: 'token', expires_in: 300 })]
  const { platform, exchanges } = await startHostileServer([ok], (...args) => script.shift()?.(...args))
  await getOrganization(platform, { id })
  expect(exchanges).toHaveLength(4)
  const refused = json(401, { error: 'invalid_client', error_description: 'Unknown key or wrong secret' })
  const gone = await startHostileServer([ok], refused)
  await expect(getOrganization(gone.platform, { id })).rejects.toMatchObject({
    status: 401,
    code: 'invalid_client',
    message: 'Unknown key or wrong secret',
  })
  expect([gone.exchanges.length, gone.requests.length]).toEqual([1, 0])
  vi.restoreAllMocks()
})

test('a signal ends the wait for a token, and not the renewal that others wait for', async () => {
  const exchanged = Promise.withResolvers<void>()
  const leaving = new AbortController()
  const reason = new Error('enough')
  const { platform, exchanges } = await startHostileServer([ok], async (...args) => {
    leaving.abort(reason)
    await exchanged.promise
    json(200, { access_token: 'token', expires_in: 300 })(...args)
  })
  const leaves = getOrganization(platform, { id }, { signal: leaving.signal })
  const stays = getOrganization(platform, { id })
  await expect(leaves).rejects.toBe(reason)
  exchanged.resolve()
  expect(await stays).toEqual({ id })
  expect(exchanges).toHaveLength(1)
})

test('a credential of one platform is refused by another before a request', async () => {
  const [first, second] = [await startHostileServer([ok]), await startHostileServer([ok])]
  const credential = apiKey({ id: 'key', secret })
  const platform = new Platform({ baseUrl: first.baseUrl, credential })
  expect(() => new Platform({ baseUrl: second.baseUrl, credential })).toThrow(first.baseUrl)
  expect(new Platform({ baseUrl: `${first.baseUrl}/`, credential }).baseUrl).toBe(platform.baseUrl)
  const foreign = staticToken(jwt({ aud: ['https://api.example.com'] }))
  expect(() => new Platform({ baseUrl: second.baseUrl, credential: foreign })).toThrow('https://api.example.com')
  expect([second.requests.length, second.exchanges.length]).toEqual([0, 0])
})

test('a token of its own is sent as it is, and a 401 is final', async () => {
  const { baseUrl, requests } = await startHostileServer([json(401, { error: 'expired' })])
  const token = jwt({ aud: [baseUrl, 'https://id.example.com'] })
  const platform = new Platform({ baseUrl, credential: staticToken(token) })
  await expect(getOrganization(platform, { id })).rejects.toMatchObject({ status: 401, message: 'expired' })
  expect(requests.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${token}`])
})

test('what is no secret of a key and what is no token are refused with a sentence that does not repeat them', () => {
  expect(() => apiKey({ id: '', secret })).toThrow('needs an id')
  for (const refused of [
    () => apiKey({ id: 'key', secret: 'canary' }),
    () => staticToken('canary'),
    () => staticToken(secret),
  ])
    expect(refused).toThrow(expect.objectContaining({ message: expect.not.stringMatching(/canary|SSSS/) as string }))
})

test('an API key is refused in a browser, unless it is allowed', () => {
  vi.stubGlobal('document', {})
  expect(() => apiKey({ id: 'key', secret })).toThrow('allowInBrowser')
  expect(apiKey({ id: 'key', secret, allowInBrowser: true })).toHaveProperty('bind')
  vi.unstubAllGlobals()
})

test('a Platform without options takes three variables, and names the one that is missing', () => {
  const env = { PLATFORM_API_URL: 'http://localhost:4000', PLATFORM_CLIENT_ID: 'key', PLATFORM_CLIENT_SECRET: secret }
  expect(new Platform(fromEnv(env)).baseUrl).toBe('http://localhost:4000')
  expect(functionCredential(env)).toHaveProperty('bind')
  for (const name of Object.keys(env)) expect(() => fromEnv({ ...env, [name]: '' })).toThrow(`needs ${name}`)
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value)
  expect(new Platform().baseUrl).toBe('http://localhost:4000')
  vi.unstubAllEnvs()
  expect(() => new Platform()).toThrow('needs PLATFORM_API_URL')
})

test('a process whose Platform has made a call ends by itself, though its token lives on', async () => {
  const { baseUrl } = await startHostileServer([ok])
  const program = `import { apiKey, getOrganization, Platform } from ${JSON.stringify(import.meta.resolve('../src/index.ts'))}
    const platform = new Platform({ baseUrl: ${JSON.stringify(baseUrl)}, credential: apiKey({ id: 'key', secret: ${JSON.stringify(secret)} }) })
    await getOrganization(platform, { id: ${JSON.stringify(id)} })
    const keeps = process.getActiveResourcesInfo().filter((name) => name === 'Timeout')
    process.exitCode = keeps.length === 0 ? 7 : 1`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: 'inherit' })
  expect(await once(child, 'exit')).toEqual([7, null])
})

test('a redirect takes neither the token nor the secret to where it leads', async () => {
  const elsewhere = await startHostileServer([ok], ok)
  const leads: Behaviour = (response, { path }) =>
    response.writeHead(307, { location: `${elsewhere.baseUrl}${path}` }).end()
  const { platform } = await startHostileServer([leads])
  await expect(getOrganization(platform, { id })).rejects.toMatchObject({ status: 307 })
  const exchanging = await startHostileServer([ok], leads)
  await expect(getOrganization(exchanging.platform, { id })).rejects.toMatchObject({ status: 307 })
  expect([elsewhere.requests, elsewhere.exchanges]).toEqual([[], []])
})

test('bytes and signed URLs are not sent to another origin that the platform names', async () => {
  const elsewhere = await startHostileServer([ok], ok)
  const url = `${elsewhere.baseUrl}/files/x`
  const place = { applicationId: id, environment: 'production', bucket: 'media', key: 'a', data: new Uint8Array(3) }
  const uploading = await startHostileServer([json(201, { session: { id }, upload: { url } })])
  await expect(uploadObject(uploading.platform, place)).rejects.toThrow('does not belong to')
  const deploying = await startHostileServer([json(201, { id }), json(200, { uploadId: id }), json(200, { url })])
  const archive = new Blob(['zip']).stream()
  await expect(deployArchive(deploying.platform, { deployment: { applicationId: id }, archive })).rejects.toThrow(
    'does not belong to',
  )
  expect([elsewhere.requests, elsewhere.exchanges]).toEqual([[], []])
})

test('nothing that is printed of a Platform, a credential or an error holds a secret or a token', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0)
  const token = 'canary-token'
  const echo = (status: number): Behaviour =>
    json(status, { error: `You sent Bearer ${token}`, message: token, errors: [{ property: '/x', message: token }] })
  const exchange = json(200, { access_token: token, expires_in: 300 })
  const failures = [
    ...[400, 401, 403, 404, 409, 422, 429, 500, 502, 503].map(echo),
    reset,
    resetInBody,
    halfJson,
    ((response) => response.socket?.end(`HTTP/1.1 200 OK\r\nbroken ${token}\r\n\r\n`)) as Behaviour,
    ((response) => response.writeHead(302, { location: `http://127.0.0.1:9/?${token}` }).end()) as Behaviour,
    ((response) => response.writeHead(500, { 'content-type': 'text/html' }).end(`<p>${token}`)) as Behaviour,
  ]
  for (const behaviour of failures) {
    const { platform, baseUrl } = await startHostileServer([behaviour], exchange)
    const credential = apiKey({ id: 'key', secret })
    const printed = [platform, credential, new Platform({ baseUrl, credential })] as unknown[]
    for (const call of [
      () => getOrganization(platform, { id }),
      () => createApiKey(platform, { body: { name: 'ci', applicationId: id } }),
      () => createApplicationVariable(platform, { id, body: { key: 'A', value: secret, sensitive: true } }),
    ]) {
      const error: unknown = await call().catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(PlatformError)
      printed.push(error)
    }
    for (const each of printed) {
      const text = [
        inspect(each, { depth: 20, showHidden: true }),
        JSON.stringify(each),
        JSON.stringify(Object.entries(Object.getOwnPropertyDescriptors(each as object))),
        (each as Error).stack ?? '',
      ].join('\n')
      expect(text).not.toContain(token)
      expect(text).not.toContain(secret)
    }
  }
  const refused = await startHostileServer([ok], (response, { body }) =>
    json(401, { error: body.toString() })(response, {} as never),
  )
  const error: unknown = await getOrganization(refused.platform, { id }).catch((thrown: unknown) => thrown)
  expect(inspect(error, { depth: 20 })).not.toContain(secret)
  vi.restoreAllMocks()
})
