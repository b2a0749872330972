import { request } from 'node:http'
import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { aiKeys, chatOf, eventOf, mockModel, mockProvider, newEntitledOwner } from '../../../../test/ai-providers.ts'
import { newKey, newOwner, type Owner } from '../../../../test/scenario.ts'
import { openSender } from '../../../../test/send.ts'
import { setEntitlement } from '../../tenancy/products/products.ts'

let platform: TestPlatform
let mock: MockUpstream
let sender: ReturnType<typeof openSender>
let owner: Owner

beforeAll(async () => {
  mock = await startMockUpstream()
  platform = await startPlatform({
    aiProviders: {
      providers: [mockProvider(mock)],
      models: ['chat', 'mock/hang-headers', 'mock/slow-1000', 'mock/held'].map((id) => mockModel(id)),
    },
    env: aiKeys,
    corsOrigins: ['https://console.test'],
  })
  sender = openSender(platform.apiUrl)
  owner = await newEntitledOwner(platform)
})
afterAll(async () => {
  sender.close()
  await platform.close()
  await mock.close()
})

const json = { 'content-type': 'application/json' }
const inferring = [
  ['/ai/v1/chat/completions', { model: 'nope', messages: [{ role: 'user', content: 'x' }] }],
  ['/ai/v1/responses', { model: 'nope', input: 'x' }],
  ['/ai/v1/audio/speech', { model: 'nope', input: 'x', voice: 'alloy' }],
  ['/ai/v1/audio/transcriptions', { model: 'nope', input_audio: { data: 'AAAA', format: 'wav' } }],
  ['/ai/v1/videos', { model: 'nope', prompt: 'x' }],
] as const

describe.each(inferring)('%s', (path, right) => {
  test('refuses in the order of D18, in the nested shape, each with an id that is ours', async () => {
    const scopeless = await owner.person.token(everyScope.filter((scope) => scope !== 'network:ai_gateway:chat'))
    const stranger = await newOwner(platform)
    const withheld = await newOwner(platform)
    await setEntitlement(platform.api, withheld.organizationId, 'ai-gateway', 'REVOKED')
    const large = { 'content-length': String(40 * 1_048_576) }
    const ask = (token: string | null, headers: Record<string, string | string[]>, body: string) =>
      sender.send({ method: 'POST', path, token, headers: { 'x-request-id': 'mine', ...headers }, body })
    const foreign = { ...json, 'x-organization-id': stranger.organizationId }
    const steps = [
      [
        await ask(null, { ...foreign, 'content-type': 'text/plain' }, '{'),
        401,
        'authentication_error',
        'invalid_token',
        null,
      ],
      [
        await ask(scopeless, { 'content-type': 'text/plain' }, '{'),
        403,
        'permission_error',
        'insufficient_scope',
        null,
      ],
      [
        await ask(owner.token, { ...foreign, 'content-type': 'text/plain', ...large }, ''),
        413,
        'invalid_request_error',
        'request_too_large',
        null,
      ],
      [
        await ask(owner.token, { ...foreign, 'content-type': 'text/plain' }, '{'),
        422,
        'invalid_request_error',
        'invalid_value',
        'content-type',
      ],
      [await ask(owner.token, foreign, '{'), 400, 'invalid_request_error', 'invalid_json', null],
      [await ask(owner.token, foreign, '\xff'), 400, 'invalid_request_error', 'invalid_json', null],
      [await ask(owner.token, foreign, '[]'), 422, 'invalid_request_error', 'invalid_value', null],
      [await ask(owner.token, foreign, '{}'), 422, 'invalid_request_error', 'invalid_value', 'model'],
      [
        await ask(owner.token, { ...json, 'x-organization-id': 'acme' }, JSON.stringify(right)),
        422,
        'invalid_request_error',
        'invalid_value',
        'X-Organization-Id',
      ],
      [await ask(owner.token, foreign, JSON.stringify(right)), 404, 'invalid_request_error', 'not_found', null],
      [await ask(withheld.token, json, JSON.stringify(right)), 403, 'permission_error', 'product_required', null],
      [await ask(owner.token, json, JSON.stringify(right)), 404, 'invalid_request_error', 'model_not_found', 'model'],
    ] as const
    for (const [n, [answer, status, type, code, param]] of steps.entries()) {
      const { error } = answer.body as { error: Record<string, unknown> }
      expect([n, answer.status, error.type, error.code, error.param]).toEqual([n, status, type, code, param])
      expect(Object.keys(error)).toEqual(['message', 'type', 'param', 'code'])
      expect(answer.headers['x-service-request-id']).toBe(answer.headers['x-request-id'])
      expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)
    }
  })

  test('takes unknown members, and no body that is too large as it comes (chunked)', async () => {
    const unknown = await sender.send({
      method: 'POST',
      path,
      token: owner.token,
      headers: json,
      body: JSON.stringify({ ...right, expireAt: 1 }),
    })
    expect((unknown.body as { error: { code: string } }).error.code).toBe('model_not_found')
    const status = await new Promise<number>((resolve, reject) => {
      const outgoing = request(`${platform.apiUrl}${path}`, {
        method: 'POST',
        headers: { ...json, authorization: `Bearer ${owner.token}`, 'transfer-encoding': 'chunked' },
      })
      outgoing.on('response', (incoming) => resolve(incoming.resume().statusCode ?? 0)).on('error', reject)
      const chunk = Buffer.alloc(1_048_576, ' ')
      for (let n = 0; n < 38; n++) outgoing.write(chunk)
      outgoing.end()
    })
    expect(status).toBe(413)
  })
})

describe('where a call belongs (D78)', () => {
  const belongs = async (token: string, headers: Record<string, string> = {}) => {
    const answer = await platform.call(token, 'POST /ai/v1/chat/completions', chatOf('local/echo'), headers)
    const event = await eventOf(platform, answer.headers['x-request-id'])
    return [answer.status, event?.organizationId, event?.applicationId]
  }

  test('a key’s is its application’s; a user’s is what the headers name, or the only organization', async () => {
    const key = await newKey(platform, owner, ['network:ai_gateway:chat'])
    const { organizationId, applicationId } = owner
    expect(await belongs(key.token)).toEqual([200, organizationId, applicationId])
    // Ids are accepted in any case (D16).
    for (const name of ['X-Organization-Id', 'OpenAI-Organization'])
      expect(await belongs(key.token, { [name]: organizationId.toUpperCase() })).toEqual([
        200,
        organizationId,
        applicationId,
      ])
    expect(await belongs(owner.token)).toEqual([200, organizationId, null])
    expect(await belongs(owner.token, { 'x-application-id': applicationId })).toEqual([
      200,
      organizationId,
      applicationId,
    ])
    expect(await belongs(owner.token, { 'OpenAI-Organization': organizationId })).toEqual([200, organizationId, null])
    const other = await newOwner(platform)
    expect(
      await belongs(owner.token, { 'x-organization-id': organizationId, 'OpenAI-Organization': other.organizationId }),
    ).toEqual([200, organizationId, null])
    expect((await belongs(owner.token, { 'x-application-id': other.applicationId }))[0]).toBe(404)
    // The package sends the developer's organization at OpenAI: it is used only if nothing more specific is present.
    const openAi = { 'OpenAI-Organization': 'org-abc' }
    expect(await belongs(owner.token, { ...openAi, 'x-organization-id': organizationId })).toEqual([
      200,
      organizationId,
      null,
    ])
    expect((await belongs(owner.token, openAi))[0]).toBe(404)
  })

  test('a user of several has to say which; one of none cannot', async () => {
    const several = await newOwner(platform)
    const second = await newOwner(platform, several.person)
    const unnamed = await platform.call(several.token, 'POST /ai/v1/chat/completions', chatOf('local/echo'))
    expect([unnamed.status, unnamed.body.error.message]).toEqual([400, expect.stringContaining('X-Organization-Id')])
    expect(await eventOf(platform, unnamed.headers['x-request-id'])).toBeUndefined()
    expect(await belongs(several.token, { 'x-organization-id': second.organizationId })).toEqual([
      200,
      second.organizationId,
      null,
    ])
    const nobody = await platform.person()
    expect((await belongs(await nobody.token(everyScope)))[0]).toBe(400)
  })

  test('models are listed for an organization too', async () => {
    const listed = await platform.call(owner.token, 'GET /ai/v1/models')
    expect(listed.body.data).toEqual(listed.body.items)
    const ids = (listed.body.data as { id: string }[]).map(({ id }) => id)
    expect(ids).toEqual(
      expect.arrayContaining(['local/echo', 'local/echo-speech', 'local/echo-transcribe', 'local/echo-video', 'chat']),
    )
    expect(listed.body.total).toBe(ids.length)
    const videos = await platform.call(owner.token, 'GET /ai/v1/videos/models')
    expect((videos.body.data as { id: string }[]).map(({ id }) => id)).toEqual(['local/echo-video'])
    for (const id of ['local/echo', 'local%2Fecho'])
      expect((await platform.call(owner.token, `GET /ai/v1/models/${id}`)).body).toMatchObject({
        id: 'local/echo',
        object: 'model',
        owned_by: 'local',
      })
    expect((await platform.call(owner.token, 'GET /ai/v1/models/a/b/c')).body.error.code).toBe('model_not_found')
  })
})

describe('a client that leaves', () => {
  /** Sends a request on a connection of its own, for the test to cut. */
  function leaving(body: object) {
    const outgoing = request(`${platform.apiUrl}/ai/v1/chat/completions`, {
      method: 'POST',
      agent: false,
      headers: { ...json, authorization: `Bearer ${owner.token}` },
    })
    outgoing.on('error', () => {})
    outgoing.end(JSON.stringify(body))
    return outgoing
  }
  const since = (from: number, model: string) => mock.ledger.slice(from).find((each) => each.model === model)

  test('a stream: the provider hears of it before it sends its next event', async () => {
    const from = mock.ledger.length
    // The provider sends nothing more, so that no failed write tells the gateway.
    const hold = mock.hold('mock/slow-1000', 3)
    onTestFinished(() => hold.release())
    const outgoing = leaving(chatOf('mock/slow-1000', { stream: true }))
    await hold.reached()
    outgoing.destroy()
    await mock.waitForAbort((each) => each === since(from, 'mock/slow-1000'))
    expect(since(from, 'mock/slow-1000')).toMatchObject({ framesSent: 3 })
  })

  test('a stream whose answer has not begun: the same', async () => {
    const from = mock.ledger.length
    const outgoing = leaving(chatOf('mock/hang-headers', { stream: true }))
    await mock.waitFor((each) => each === since(from, 'mock/hang-headers'))
    outgoing.destroy()
    await mock.waitForAbort((each) => each === since(from, 'mock/hang-headers'))
    expect(since(from, 'mock/hang-headers')).toMatchObject({ aborted: true, framesSent: 0 })
  })
})

test('pages of the console may call it, with the headers that the openai package sends (CORS)', async () => {
  const preflight = await fetch(`${platform.apiUrl}/ai/v1/chat/completions`, {
    method: 'OPTIONS',
    headers: {
      origin: 'https://console.test',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization, content-type, x-stainless-lang, openai-organization',
    },
  })
  expect(preflight.status).toBe(204)
  const allowed = (preflight.headers.get('access-control-allow-headers') ?? '').toLowerCase()
  for (const name of [
    'authorization',
    'content-type',
    'x-stainless-lang',
    'x-stainless-retry-count',
    'openai-organization',
    'x-application-id',
  ])
    expect(allowed.split(', ')).toContain(name)
  const answer = await fetch(`${platform.apiUrl}/ai/v1/chat/completions`, {
    method: 'POST',
    headers: { ...json, origin: 'https://console.test', authorization: `Bearer ${owner.token}` },
    body: JSON.stringify(chatOf('local/echo', { stream: true })),
  })
  expect(answer.headers.get('access-control-allow-origin')).toBe('https://console.test')
  expect(answer.headers.get('access-control-expose-headers')).toContain('X-Service-Request-Id')
  expect(await answer.text()).toMatch(/\[DONE\]\n\n$/)
})
