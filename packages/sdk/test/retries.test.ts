import { freePort } from '@platform/testkit/free-port'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import {
  apiKey,
  createApiKey,
  createApplication,
  createChatCompletion,
  deleteApiKey,
  type Fetch,
  getOrganization,
  isSecretLost,
  listApplications,
  Platform,
  PlatformError,
  runCron,
  setHostname,
  startUpload,
  updateApplicationVariable,
} from '../src/index.ts'
import { type Behaviour, halfJson, json, reset, resetInBody, secret, startHostileServer } from './hostile-server.ts'

const id = '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'

beforeEach(() => {
  // Full jitter goes down to no wait at all.
  vi.spyOn(Math, 'random').mockReturnValue(0)
  return () => void vi.restoreAllMocks()
})

/** An operation of each kind. */
const kinds = {
  read: (platform: Platform) => getOrganization(platform, { id }),
  replace: (platform: Platform) => setHostname(platform, { id, body: { label: 'shop' } }),
  repeatable: (platform: Platform) => startUpload(platform, { id }),
  create: (platform: Platform) => createApplication(platform, { body: { name: 'Shop', organizationId: id } }),
  remove: (platform: Platform) => deleteApiKey(platform, { apiKeyId: id }),
  change: (platform: Platform) => updateApplicationVariable(platform, { id, varId: id, body: { value: 'x' } }),
  once: (platform: Platform) => runCron(platform, { id, cronId: id }),
  infer: (platform: Platform) =>
    createChatCompletion(platform, { body: { model: 'local/echo', messages: [{ role: 'user', content: 'Hi' }] } }),
}
type Kind = keyof typeof kinds

const failure = (status: number, headers: Record<string, string> = {}) => json(status, { error: 'No' }, headers)

/** By failure, how many requests of each kind a server sees that fails so each time. */
const seen: Record<string, [Behaviour, number, Record<Kind, number>]> = {
  '401': [
    failure(401),
    401,
    { read: 2, replace: 2, repeatable: 2, create: 2, remove: 2, change: 2, once: 2, infer: 2 },
  ],
  '429 with Retry-After': [
    failure(429, { 'retry-after': '0' }),
    429,
    { read: 4, replace: 4, repeatable: 4, create: 4, remove: 4, change: 4, once: 4, infer: 2 },
  ],
  '429 without it': [
    failure(429),
    429,
    { read: 1, replace: 1, repeatable: 1, create: 1, remove: 1, change: 1, once: 1, infer: 1 },
  ],
  '400': [
    failure(400),
    400,
    { read: 1, replace: 1, repeatable: 1, create: 1, remove: 1, change: 1, once: 1, infer: 1 },
  ],
  '404': [
    failure(404),
    404,
    { read: 1, replace: 1, repeatable: 1, create: 1, remove: 1, change: 1, once: 1, infer: 1 },
  ],
  '409': [
    failure(409),
    409,
    { read: 1, replace: 1, repeatable: 1, create: 1, remove: 1, change: 1, once: 1, infer: 1 },
  ],
  '500': [
    failure(500),
    500,
    { read: 4, replace: 4, repeatable: 4, create: 4, remove: 4, change: 1, once: 1, infer: 1 },
  ],
  '502': [
    failure(502),
    502,
    { read: 4, replace: 4, repeatable: 4, create: 4, remove: 4, change: 1, once: 1, infer: 1 },
  ],
  '503': [
    failure(503),
    503,
    { read: 4, replace: 4, repeatable: 4, create: 4, remove: 4, change: 1, once: 1, infer: 2 },
  ],
  '503 with X-Should-Retry: false': [
    failure(503, { 'x-should-retry': 'false' }),
    503,
    { read: 1, replace: 1, repeatable: 1, create: 1, remove: 1, change: 1, once: 1, infer: 1 },
  ],
  'a reset before the answer': [
    reset,
    0,
    { read: 4, replace: 4, repeatable: 4, create: 4, remove: 4, change: 1, once: 1, infer: 1 },
  ],
  'a reset in the body': [
    resetInBody,
    0,
    { read: 4, replace: 4, repeatable: 4, create: 4, remove: 4, change: 1, once: 1, infer: 1 },
  ],
  'half a JSON document': [
    halfJson,
    0,
    { read: 4, replace: 4, repeatable: 4, create: 4, remove: 4, change: 1, once: 1, infer: 1 },
  ],
  'a redirect': [
    (response) => response.writeHead(307, { location: 'http://127.0.0.1:9/' }).end(),
    307,
    { read: 1, replace: 1, repeatable: 1, create: 1, remove: 1, change: 1, once: 1, infer: 1 },
  ],
}

describe.each(Object.entries(seen))(
  'of a server that answers every request with %s',
  (_, [behaviour, status, counts]) => {
    test.each(Object.entries(counts))('an operation of the kind %s sends %i requests', async (kind, count) => {
      const { platform, requests } = await startHostileServer([behaviour])
      const error = await kinds[kind as Kind](platform).then(
        () => undefined,
        (thrown: PlatformError) => thrown,
      )
      expect(error).toBeInstanceOf(PlatformError)
      expect([error?.status, error?.attempts, requests.length]).toEqual([status, count, count])
      expect(new Set(requests.map(({ headers }) => headers['idempotency-key'])).size).toBe(1)
    })
  },
)

test('what succeeds at the third try is a success', async () => {
  const organization = { id, name: 'Ana' }
  const { platform, requests } = await startHostileServer([reset, failure(502), json(200, organization)])
  expect(await getOrganization(platform, { id })).toEqual(organization)
  expect(requests).toHaveLength(3)
})

test('a call without a connection is repeated whatever it does, since nothing was done', async () => {
  const baseUrl = `http://127.0.0.1:${await freePort()}`
  let fetches = 0
  const counted: Fetch = (url, init) => {
    if (url.endsWith('/oauth2/token')) return Promise.resolve(Response.json({ access_token: 'token', expires_in: 300 }))
    fetches += 1
    return fetch(url, init)
  }
  const platform = new Platform({ baseUrl, credential: apiKey({ id: 'key', secret }), fetch: counted })
  await expect(kinds.once(platform)).rejects.toMatchObject({ status: 0, attempts: 4, retryable: true })
  expect(fetches).toBe(4)
})

test('waits double from half a second up to eight, each times a number drawn between 0 and 1', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0.001)
  const waits = vi.spyOn(globalThis, 'setTimeout')
  const { platform } = await startHostileServer([failure(503)])
  await expect(getOrganization(platform, { id }, { retries: 6 })).rejects.toMatchObject({ status: 503 })
  const drawn = waits.mock.calls.map(([, ms = 0]) => ms).filter((ms) => ms <= 8 && ms > 0 && ms % 0.5 === 0)
  expect(drawn).toEqual([0.5, 1, 2, 4, 8, 8])
})

test('a 429 whose Retry-After does not fit into the time of the call is an error at once', async () => {
  const { platform, requests } = await startHostileServer([failure(429, { 'retry-after': '60' })])
  await expect(getOrganization(platform, { id }, { timeoutMs: 30_000 })).rejects.toMatchObject({
    status: 429,
    retryable: true,
    retryAfterSeconds: 60,
  })
  expect(requests).toHaveLength(1)
})

test('a 401 takes a fresh token, and the repetition carries it', async () => {
  const { platform, requests, exchanges } = await startHostileServer([failure(401), json(200, { id })])
  await getOrganization(platform, { id })
  expect(requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer token-1', 'Bearer token-2'])
  expect(exchanges).toHaveLength(2)
})

test('a creation carries one Idempotency-Key through its tries, a UUIDv7, and another call has another', async () => {
  const { platform, requests } = await startHostileServer([reset, json(201, { id }), json(201, { id })])
  await kinds.create(platform)
  await kinds.create(platform)
  const [first, second, third] = requests.map(({ headers }) => headers['idempotency-key'])
  expect(first).toMatch(/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-8[\da-f]{3}-[\da-f]{12}$/)
  expect(second).toBe(first)
  expect(third).not.toBe(first)
  await createApplication(
    platform,
    { body: { name: 'Shop', organizationId: id } },
    { idempotencyKey: 'mine', onResponse: ({ status }) => expect(status).toBe(201) },
  )
  expect(requests.at(-1)?.headers['idempotency-key']).toBe('mine')
})

test('a creation whose first try is still under way (409) is asked for again; a name that is taken stays a 409', async () => {
  const { platform, requests } = await startHostileServer([reset, failure(409), json(201, { id })])
  expect(await kinds.create(platform)).toEqual({ id })
  expect(requests).toHaveLength(3)
})

test('a removal that finds nothing at its repetition has succeeded; at its first try it has not', async () => {
  const gone = await startHostileServer([resetInBody, failure(404)])
  expect(await kinds.remove(gone.platform)).toBeUndefined()
  expect(gone.requests).toHaveLength(2)
  const missing = await startHostileServer([failure(404)])
  await expect(kinds.remove(missing.platform)).rejects.toMatchObject({ status: 404 })
})

test('a key whose creation was answered and lost is named, and none is deleted', async () => {
  const keys = ['a', 'b', 'c'].map((keyId) => ({ id: keyId, name: keyId === 'c' ? 'other' : 'ci' }))
  const { platform, requests } = await startHostileServer([
    reset,
    ...Array.from({ length: 3 }, () => failure(409)),
    json(200, { items: keys, total: 3 }),
  ])
  const error: unknown = await createApiKey(platform, { body: { name: 'ci', applicationId: id } }).catch(
    (thrown: unknown) => thrown,
  )
  expect(isSecretLost(error)).toBe(true)
  expect(error).toMatchObject({ status: 409, apiKeyIds: ['a', 'b'] })
  expect(requests.map(({ method }) => method)).toEqual(['POST', 'POST', 'POST', 'POST', 'GET'])
})

test('a signal ends a call while it waits for an answer, and while it sleeps', async () => {
  const reason = new Error('enough')
  const first = new AbortController()
  const silent = await startHostileServer([() => first.abort(reason)])
  await expect(getOrganization(silent.platform, { id }, { signal: first.signal })).rejects.toBe(reason)

  const second = new AbortController()
  const late = await startHostileServer([failure(429, { 'retry-after': '60' })])
  const call = getOrganization(
    late.platform,
    { id },
    { signal: second.signal, onResponse: () => setImmediate(() => second.abort(reason)) },
  )
  await expect(call).rejects.toBe(reason)
  expect([silent.requests.length, late.requests.length]).toEqual([1, 1])
})

test('a call that takes longer than its time is an error that says so', async () => {
  const { platform } = await startHostileServer([() => {}])
  await expect(getOrganization(platform, { id }, { timeoutMs: 20 })).rejects.toMatchObject({
    status: 0,
    message: expect.stringMatching(/^No answer: nothing within \d+ ms$/) as string,
  })
})

test.each<[string, object, object, string]>([
  ['an option of the call', { timeout: 5 }, {}, '"timeout"'],
  ['a member of the operation', {}, { organisationId: id }, '"organisationId"'],
])('%s that is not known is refused before a request', async (_, options, params, named) => {
  const { platform, requests, exchanges } = await startHostileServer([json(200, { items: [], total: 0 })])
  await expect(listApplications(platform, params, options)).rejects.toThrow(named)
  expect([requests.length, exchanges.length]).toEqual([0, 0])
})

test.each(['', '.', '..', undefined as unknown as string])(
  'the id %j is refused, since its path would be another',
  async (bad) => {
    const { platform, requests } = await startHostileServer([json(200, {})])
    await expect(getOrganization(platform, { id: bad })).rejects.toThrow('needs id')
    expect(requests).toHaveLength(0)
  },
)

test.each([
  [{ baseUrl: '' }, 'baseUrl'],
  [{ baseUrl: 'localhost:4000' }, 'baseUrl'],
  [{ baseUrl: 'http://user:pass@localhost' }, 'baseUrl'],
  [{ baseURL: 'http://localhost:4000' }, '"baseURL"'],
  [{ credential: undefined }, 'credential'],
  [{ credential: 'svc' }, 'credential'],
])('a Platform of %j is refused with a sentence', (more, named) => {
  const credential = apiKey({ id: 'key', secret })
  expect(() => new Platform({ baseUrl: 'http://localhost:4000', credential, ...more } as never)).toThrow(named)
})
