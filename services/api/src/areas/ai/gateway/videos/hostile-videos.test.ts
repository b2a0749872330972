import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, inArray } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { askAi, openAiRequest, ownHeaders } from '../../../../../test/ai-asks.ts'
import { aiKeys, mockModel, mockProvider, newEntitledOwner } from '../../../../../test/ai-providers.ts'
import { type HostileProvider, startHostileProvider } from '../../../../../test/hostile-provider.ts'
import { hurryAi } from '../../../../../test/hurry-ai.ts'
import type { Owner } from '../../../../../test/scenario.ts'
import { aiVideoJobs } from '../table.ts'
import { pollVideos } from './poll-videos.ts'

let provider: HostileProvider
let platform: TestPlatform
let owner: Owner
beforeAll(async () => {
  provider = await startHostileProvider()
  platform = await startPlatform({
    aiProviders: {
      providers: [mockProvider(provider), mockProvider(provider, 'other')],
      models: [mockModel('film'), mockModel('other/film', {}, 'other')],
    },
    env: aiKeys,
    aiTimings: { retryMs: 1 },
  })
  owner = await newEntitledOwner(platform)
})
afterAll(async () => {
  await platform.close()
  await provider.close()
})

const jobOf = async (id: string) => {
  const [job] = await platform.api.db.select().from(aiVideoJobs).where(eq(aiVideoJobs.id, id))
  return job
}

/** Starts a video with the provider's id for it. */
async function start(upstreamId: string, model = 'film'): Promise<string> {
  provider.say(JSON.stringify({ id: upstreamId, status: 'pending' }))
  const { body } = await askAi(platform, owner.token, '/videos', { model, prompt: 'x' })
  return (body as { id: string }).id
}

/** Polls a job, as the worker does. */
async function poll(id: string): Promise<void> {
  await platform.api.db
    .update(aiVideoJobs)
    .set({ pollAt: new Date(0) })
    .where(eq(aiVideoJobs.id, id))
  await pollVideos(platform.api)
}

/** Makes a completed video. */
async function film(upstreamId: string, more: object = {}): Promise<string> {
  const id = await start(upstreamId)
  provider.say(JSON.stringify({ id: upstreamId, status: 'completed', ...more }))
  await poll(id)
  return id
}

test('an id of a provider stays one segment of the paths below it', async () => {
  const upstreamId = '../../admin?x=1#y\r\nX: z/%2e%2e'
  const id = await film(upstreamId)
  const polled = provider.requests.at(-1)
  provider.play((_, outgoing) => outgoing.writeHead(200, { 'content-type': 'video/mp4' }).end('film'))
  expect((await askAi(platform, owner.token, `/videos/${id}/content`)).bytes.toString()).toBe('film')
  const path = `/v1/videos/${encodeURIComponent(upstreamId)}`
  expect([polled?.url, provider.requests.at(-1)?.url]).toEqual([path, `${path}/content`])
})

test.each([
  ['image/svg+xml', 200, 'application/octet-stream'],
  ['text/html', 503, 'application/json; charset=UTF-8'],
])('none of the headers of a video reaches the caller, and nothing of %s is shown', async (type, status, shown) => {
  const id = await film('v')
  provider.play((_, outgoing) =>
    outgoing
      .writeHead(200, {
        'content-type': type,
        'set-cookie': 'a=b',
        'strict-transport-security': 'max-age=9',
        'access-control-allow-origin': '*',
        'content-disposition': 'inline',
        location: '/',
      })
      .end('<script>'),
  )
  const answer = await askAi(platform, owner.token, `/videos/${id}/content`)
  expect(Object.keys(answer.headers).filter((name) => !ownHeaders.has(name))).toEqual([])
  const { 'content-type': sent, 'x-content-type-options': options } = answer.headers
  expect([answer.status, sent, options]).toEqual([status, shown, 'nosniff'])
})

test('an address with a user, another port or another scheme is not asked with the key', async () => {
  const { host, hostname } = new URL(provider.baseUrl)
  const urls = [
    `http://${hostname}:1/x`,
    `https://${host}/x`,
    `http://${host}@example.com/x`,
    'file:///etc/passwd',
    'data:,x',
  ]
  const id = await film('v', { urls })
  expect(await jobOf(id)).toMatchObject({ status: 'completed', contentUrl: null })
})

test('a provider that does not begin with a video is given up in time', async () => {
  const id = await film('v')
  provider.play(() => {})
  const answered = await hurryAi(platform, { streamFirstByteMs: 300 }, () =>
    askAi(platform, owner.token, `/videos/${id}/content`),
  )
  expect([answered.status, answered.body]).toMatchObject([503, { error: { code: 'upstream_timeout' } }])
})

test('a page in place of a video that does not end is left', async () => {
  const id = await film('v')
  const closed = Promise.withResolvers<void>()
  provider.play((_, outgoing) => {
    outgoing.once('close', closed.resolve).writeHead(200, { 'content-type': 'text/html' })
    const more = () => {
      while (!outgoing.destroyed && outgoing.write('<p>'.repeat(10_000)));
    }
    outgoing.on('drain', more)
    more()
  })
  expect((await askAi(platform, owner.token, `/videos/${id}/content`)).status).toBe(503)
  await closed.promise
})

test('a job that a provider may have is not asked for again, and no word of the provider is kept', async () => {
  for (const document of [
    '{"id":"v1","status":"starting","error":""}',
    '{"usage":{"seconds":4},"error":{"code":"secret-word","message":"secret-word","status":400}}',
  ]) {
    provider.say(document)
    const before = provider.requests.length
    const prompt = `${document.length}`
    const key = { 'idempotency-key': `once-${prompt}` }
    const { status } = await askAi(platform, owner.token, '/videos', { model: 'other/film', prompt }, key)
    expect([status, provider.requests.length - before]).toEqual([document.includes('400') ? 400 : 503, 1])
  }
  const jobs = await platform.api.db
    .select()
    .from(aiVideoJobs)
    .where(eq(aiVideoJobs.organizationId, owner.organizationId))
  const failed = jobs.filter(({ errorCode }) => errorCode !== null)
  expect(failed.map(({ errorCode }) => errorCode)).toEqual(['upstream_error', 'upstream_refused'])
  expect(JSON.stringify(failed)).not.toContain('secret-word')
})

test('a video that does not end is cut off in time', async () => {
  const id = await film('v')
  provider.play((_, outgoing) => {
    outgoing.writeHead(200, { 'content-type': 'video/mp4' }).write('film')
    const drip = setInterval(() => outgoing.write('film'), 20)
    outgoing.on('close', () => clearInterval(drip))
  })
  const answered = await hurryAi(platform, { totalMs: 1_000 }, () =>
    askAi(platform, owner.token, `/videos/${id}/content`),
  )
  expect([answered.status, answered.isCut]).toEqual([200, true])
})

test('who leaves while the provider hangs ends the request there', async () => {
  const id = await film('v')
  const { promise, resolve } = Promise.withResolvers<void>()
  provider.play((_, outgoing) => outgoing.on('close', resolve))
  const options = openAiRequest(platform, owner.token, `/videos/${id}/content`)
  const before = provider.requests.length
  await expect.poll(() => provider.requests.length).toBeGreaterThan(before)
  options.leave()
  await promise
  expect((await options.answer).status).toBe(0)
})

test('a job that the provider does not know any more has failed, whatever the page says', async () => {
  const id = await start('v')
  provider.play((_, outgoing) => outgoing.writeHead(404, { 'content-type': 'text/html' }).end('<!doctype html>'))
  await poll(id)
  expect(await jobOf(id)).toMatchObject({ status: 'failed', errorCode: 'video_not_found' })
})

test('a provider that hangs is asked for twenty jobs in a round, and those of others are looked at', async () => {
  const ids = await Promise.all(Array.from({ length: 25 }, (_, n) => start(`hung-${n}`)))
  const other = await start('other', 'other/film')
  const { db } = platform.api
  await db
    .update(aiVideoJobs)
    .set({ pollAt: new Date(0) })
    .where(inArray(aiVideoJobs.id, ids))
  await db
    .update(aiVideoJobs)
    .set({ pollAt: new Date(1) })
    .where(eq(aiVideoJobs.id, other))
  const before = provider.requests.length
  provider.play((incoming, outgoing) => {
    if (incoming.url === '/v1/videos/other')
      outgoing.writeHead(200, { 'content-type': 'application/json' }).end('{"id":"other","status":"completed"}')
  })
  await hurryAi(platform, { pollMs: 1_000 }, () => pollVideos(platform.api))
  expect(await jobOf(other)).toMatchObject({ status: 'completed' })
  const polled = provider.requests.slice(before).map(({ url }) => url)
  expect(polled.filter((url) => url?.startsWith('/v1/videos/hung-'))).toHaveLength(20)
})
