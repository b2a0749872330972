import { randomUUID } from 'node:crypto'
import { openGuardedFetch } from '@platform/guarded-fetch/guarded-fetch'
import { type MockUpstream, mockVideo, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { aiKeys, eventOf, mockModel, mockProvider, newEntitledOwner } from '../../../../../test/ai-providers.ts'
import { newKey, newOwner, type Owner } from '../../../../../test/scenario.ts'
import { pollVideos } from './poll-videos.ts'
import { aiVideoJobs } from '../table.ts'
import { discardVideos } from './video-jobs.ts'

let platform: TestPlatform
let mock: MockUpstream
let owner: Owner

beforeAll(async () => {
  mock = await startMockUpstream()
  const plain = [
    'film',
    'held-film',
    'mock/video-gone',
    ...['402', '404', '422', '429', '500'].map((status) => `mock/video-content-${status}`),
    'mock/video-fails',
    'mock/video-cancelled',
    'mock/video-expired',
    'mock/video-poll-500',
    'mock/400',
    'mock/500',
    'mock/reset-before',
    'mock/bad-json',
  ]
  platform = await startPlatform({
    aiProviders: {
      providers: [mockProvider(mock, 'mock', { contentHosts: [new URL(mock.elsewhere.origin).hostname] })],
      models: [
        ...plain.map((id) => mockModel(id, { price: { output_video_seconds: 0.1, requests_kcount: 5 } })),
        ...['mock/video-elsewhere', 'mock/video-redirect'].map((id) => mockModel(id)),
      ],
    },
    env: aiKeys,
    aiTimings: { retryMs: 1 },
    // The other origin is on this machine too.
    guardedFetch: openGuardedFetch({ allow: ['127.0.0.1'] }),
  })
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})
beforeEach(async () => {
  owner = await newEntitledOwner(platform)
})

const start = (model: string, more: object = {}, headers: Record<string, string> = {}) =>
  platform.call(
    owner.token,
    'POST /ai/v1/videos',
    { model, prompt: 'A ball that bounces', duration: 4, ...more },
    headers,
  )
const get = (id: string, { token } = owner, headers: Record<string, string> = {}) =>
  platform.call(token, `GET /ai/v1/videos/${id}`, undefined, headers)
const bytesOf = (id: string, { token } = owner) =>
  fetch(`${platform.apiUrl}/ai/v1/videos/${id}/content`, { headers: { authorization: `Bearer ${token}` } })

/** Advances the clock, and lets the worker poll what is due. */
async function follow(times: number): Promise<void> {
  for (let n = 0; n < times; n++) {
    platform.clock.advance(60_000)
    await pollVideos(platform.api)
  }
}

describe('a job', () => {
  test('is taken, followed and settled, and its bytes are the provider’s', async () => {
    const started = await start('film', { seed: 7, size: '1280x720' })
    expect([started.status, started.body]).toEqual([
      202,
      {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
        object: 'video',
        status: 'pending',
        model: 'film',
        created_at: expect.any(Number) as number,
        expires_at: (started.body.created_at as number) + 86_400,
        video: null,
        error: null,
        usage: null,
      },
    ])
    const { id } = started.body as { id: string }
    expect(mock.ledger.at(-1)?.body).toEqual({
      model: 'film',
      prompt: 'A ball that bounces',
      duration: 4,
      seed: 7,
      size: '1280x720',
    })
    expect(await eventOf(platform, started.headers['x-request-id'])).toMatchObject({
      status: 'pending',
      completedAt: null,
      operation: 'videos',
      statusCode: 202,
    })
    expect((await bytesOf(id)).status).toBe(409)
    await follow(1)
    expect((await get(id)).body.status).toBe('in_progress')
    await follow(3)
    expect((await get(id)).body).toMatchObject({
      status: 'completed',
      video: { url: `${platform.apiUrl}/ai/v1/videos/${id}/content`, duration: 4 },
      usage: { seconds: 4 },
      error: null,
    })
    const event = await eventOf(platform, started.headers['x-request-id'])
    // 4 seconds at $0.10 and one request at $0.005.
    expect(event).toMatchObject({
      status: 'success',
      provider: 'mock',
      providerCostNanos: 405_000_000n,
      billableCostNanos: 405_000_000n,
      priceVersion: 'operator',
      usageSource: 'provider',
    })
    const content = await bytesOf(id)
    expect([content.status, content.headers.get('content-type')]).toEqual([200, 'video/mp4'])
    const [options] = mock.ledger.slice(-1)
    expect(Buffer.from(await content.arrayBuffer())).toEqual(mockVideo(options?.path.split('/')[3] ?? ''))
    // The provider is not asked about it any more.
    const { length } = mock.ledger
    await follow(2)
    expect(mock.ledger.length).toBe(length)
  })

  test.each([
    ['mock/video-fails', 'failed', 'error'],
    ['mock/video-cancelled', 'cancelled', 'cancelled'],
    ['mock/video-expired', 'expired', 'error'],
  ])('that ends otherwise (%s) says so and costs nothing', async (model, status, ofEvent) => {
    const started = await start(model)
    await follow(4)
    const job = await get(started.body.id as string)
    expect(job.body).toMatchObject({ status, video: null, error: { code: `video_${status}` } })
    expect(await eventOf(platform, started.headers['x-request-id'])).toMatchObject({
      status: ofEvent,
      providerCostNanos: 0n,
      usageSource: 'none',
    })
    expect((await bytesOf(started.body.id as string)).status).toBe(409)
  })

  test('survives a provider that fails when it is asked', async () => {
    const { id } = (await start('mock/video-poll-500')).body as { id: string }
    await follow(5)
    // The first token lives no longer than that.
    const token = await owner.person.token(['network:ai_gateway:chat'])
    expect((await get(id, { ...owner, token })).body.status).toBe('completed')
  })

  test('that the provider answers with a page for is none any more', async () => {
    const { id } = (await start('mock/video-gone')).body as { id: string }
    await follow(4)
    expect((await get(id)).body).toMatchObject({ status: 'failed', error: { code: 'video_not_found' } })
  })

  test.each([
    ['402', 503, 'provider_unavailable'],
    ['404', 503, 'upstream_error'],
    ['422', 503, 'upstream_error'],
    ['429', 429, 'upstream_rate_limited'],
    ['500', 503, 'upstream_error'],
  ])('whose bytes the provider refuses with %s says %i, %s', async (refused, status, code) => {
    const { id } = (await start(`mock/video-content-${refused}`)).body as { id: string }
    await follow(4)
    const answer = await bytesOf(id)
    expect([answer.status, await answer.json()]).toMatchObject([status, { error: { code } }])
  })

  test('that no provider takes leaves nothing, and its failure is answered', async () => {
    const count = async () =>
      (await platform.api.db.select().from(aiVideoJobs).where(eq(aiVideoJobs.organizationId, owner.organizationId)))
        .length
    for (const [model, status] of [
      ['mock/400', 400],
      ['mock/500', 503],
      ['mock/bad-json', 503],
    ] as const)
      expect([model, (await start(model)).status]).toEqual([model, status])
    expect(await count()).toBe(0)
  })

  test.each(['mock/reset-before', 'mock/bad-json'])(
    'that %s may have taken all the same is bought once: a repeat finds it failed',
    async (model) => {
      const key = { 'idempotency-key': randomUUID() }
      const from = mock.ledger.length
      expect((await start(model, {}, key)).status).toBe(503)
      const again = await start(model, {}, key)
      expect([again.status, again.headers['idempotency-replayed']]).toEqual([202, 'true'])
      expect(mock.ledger.slice(from)).toHaveLength(1)
      const { body } = await get((again.body as { id: string }).id)
      expect(body).toMatchObject({ status: 'failed', error: { code: 'upstream_error' } })
    },
  )

  test('that is being started under a key is not started a second time meanwhile', async () => {
    const key = { 'idempotency-key': randomUUID() }
    const hold = mock.hold('held-film', 0)
    const first = start('held-film', {}, key)
    await hold.reached()
    expect(await start('held-film', {}, key)).toMatchObject({ status: 409, body: { error: { code: 'conflict' } } })
    hold.release()
    expect((await first).status).toBe(202)
    expect((await start('held-film', {}, key)).headers['idempotency-replayed']).toBe('true')
  })

  test('expires after a day, whoever has not finished it, and is forgotten a day later', async () => {
    const { id } = (await start('film')).body as { id: string }
    await platform.api.db.update(aiVideoJobs).set({ upstreamId: 'gone' }).where(eq(aiVideoJobs.id, id))
    platform.clock.advance(86_400_000)
    await pollVideos(platform.api)
    const token = await owner.person.token(['network:ai_gateway:chat'])
    expect((await get(id, { ...owner, token })).body).toMatchObject({ status: 'expired', video: null })
    platform.clock.advance(86_400_000)
    await discardVideos(platform.api)
    expect((await get(id, { ...owner, token: await owner.person.token(['network:ai_gateway:chat']) })).status).toBe(404)
  })

  test('under an Idempotency-Key is started once; a failed one may be tried again', async () => {
    const key = { 'idempotency-key': randomUUID() }
    const from = mock.ledger.length
    const first = await start('film', {}, key)
    const again = await start('film', {}, key)
    expect([again.status, again.body, again.headers['idempotency-replayed']]).toEqual([202, first.body, 'true'])
    expect(mock.ledger.slice(from)).toHaveLength(1)
    expect((await start('film', { seed: 2 }, key)).status).toBe(422)
    const other = { 'idempotency-key': randomUUID() }
    expect((await start('mock/400', {}, other)).status).toBe(400)
    expect((await start('film', {}, other)).status).toBe(202)
  })

  test('takes no address to call back, and has no /responses of its own', async () => {
    expect((await start('film', { callback_url: 'https://example.com/hook' })).body.error).toMatchObject({
      code: 'unsupported_parameter',
      param: 'callback_url',
    })
    const image = { frame_images: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }] }
    expect((await start('film', image)).body.error).toMatchObject({ code: 'unsupported_url' })
  })
})

describe('bytes', () => {
  test('of another host that the entry lists are fetched without the key', async () => {
    const { id } = (await start('mock/video-elsewhere')).body as { id: string }
    await follow(4)
    const content = await bytesOf(id)
    expect([content.status, content.headers.get('content-type')]).toEqual([200, 'video/mp4'])
    const [visit] = mock.elsewhere.requests.slice(-1)
    expect(visit?.headers).not.toHaveProperty('authorization')
  })

  test('are not fetched where a provider redirects to', async () => {
    const { id } = (await start('mock/video-redirect')).body as { id: string }
    await follow(4)
    const { length } = mock.elsewhere.requests
    const content = await bytesOf(id)
    expect([content.status, ((await content.json()) as { error: { code: string } }).error.code]).toEqual([
      503,
      'upstream_error',
    ])
    expect(mock.elsewhere.requests.length).toBe(length)
  })

  test('of the local model are a video that a browser opens', async () => {
    const { id } = (await start('local/echo-video', { duration: 2 })).body as { id: string }
    await follow(1)
    const content = await bytesOf(id)
    expect([content.status, content.headers.get('content-type')]).toEqual([200, 'video/webm'])
    expect(
      Buffer.from(await content.arrayBuffer())
        .subarray(0, 4)
        .toString('hex'),
    ).toBe('1a45dfa3')
  })
})

test('a job is its organization’s and application’s alone (D89)', async () => {
  const { id } = (await start('film')).body as { id: string }
  const [stranger, key] = await Promise.all([newOwner(platform), newKey(platform, owner, ['network:ai_gateway:chat'])])
  const sibling = await platform.call(owner.token, 'POST /applications', {
    organizationId: owner.organizationId,
    name: 'Second',
  })
  const ofOther = await newKey(platform, { token: owner.token, applicationId: sibling.body.id as string }, [
    'network:ai_gateway:chat',
  ])
  for (const token of [stranger.token, key.token, ofOther.token]) {
    expect((await get(id, { ...owner, token })).status).toBe(404)
    expect((await bytesOf(id, { ...owner, token })).status).toBe(404)
  }
  expect((await get(id, owner, { 'x-application-id': owner.applicationId })).status).toBe(404)
  const ofKey = (await platform.call(key.token, 'POST /ai/v1/videos', { model: 'film', prompt: 'x' })).body as {
    id: string
  }
  expect((await get(ofKey.id, { ...owner, token: key.token })).status).toBe(200)
  expect((await get(ofKey.id, owner, { 'x-application-id': owner.applicationId })).status).toBe(200)
  expect((await get(ofKey.id)).status).toBe(404)
  expect((await get(ofKey.id, { ...owner, token: ofOther.token })).status).toBe(404)
})
