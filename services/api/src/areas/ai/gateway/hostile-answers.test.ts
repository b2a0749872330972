import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { askAi, usageEventOf } from '../../../../test/ai-asks.ts'
import { aiKeys, chatOf, mockModel, mockProvider, newEntitledOwner } from '../../../../test/ai-providers.ts'
import { type HostileProvider, startHostileProvider } from '../../../../test/hostile-provider.ts'
import { newKey, type Owner, unique } from '../../../../test/scenario.ts'
import { aiResponses, aiVideoJobs } from './table.ts'
import { pollVideos } from './videos/poll-videos.ts'

let provider: HostileProvider
let platform: TestPlatform
let owner: Owner
beforeAll(async () => {
  provider = await startHostileProvider()
  const providers = [
    mockProvider(provider, 'mock', { responses: true }),
    mockProvider(provider, 'anthropic', { driver: 'anthropic' }),
  ]
  const dear = {
    price: { input_mtok: 1e6, output_mtok: 1e6, cache_read_mtok: 1e6, audio_hours: 1e6, output_video_seconds: 1e6 },
  }
  platform = await startPlatform({
    aiProviders: { providers, models: [mockModel('dear', dear), mockModel('claude', dear, 'anthropic')] },
    env: aiKeys,
    aiTimings: { retryMs: 1 },
  })
  owner = await newEntitledOwner(platform)
})
afterAll(async () => {
  await platform.close()
  await provider.close()
})

// Answers that are none open circuits.
afterEach(() => platform.api.ai.reload())

const HUGE = String(Number.MAX_SAFE_INTEGER)
const message = '"choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]'
const completion = (usage: string) => `{"id":"c","object":"chat.completion",${message},"usage":${usage}}`
const chunks = (usage: string) =>
  `data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\ndata: {"choices":[],"usage":${usage}}\n\ndata: [DONE]\n\n`
const response = (usage: string, id = `"resp_${unique()}"`) =>
  `{"id":${id},"object":"response","status":"completed","output":[],"usage":${usage}}`
const counts = (n: string, names = ['prompt_tokens', 'completion_tokens', 'total_tokens']) =>
  `{${names.map((name) => `"${name}":${n}`).join(',')}}`
const speech = { input: 'x', voice: 'alloy', stream_format: 'sse' }
const transcription = { input_audio: { data: 'AAAA', format: 'wav' } }
const wrongNumbers = [
  HUGE,
  '-1',
  '1.5',
  '1e999',
  '-1e999',
  '"7"',
  'null',
  '1e300',
  '1e308',
  '9007199254740993',
  'true',
  '[1]',
  '{}',
]

describe('usage that no answer can have', () => {
  const ofNumber = (n: string): [path: string, body: object, answer: string, type?: string][] => [
    ['/chat/completions', chatOf('dear'), completion(counts(n))],
    ['/chat/completions', chatOf('dear', { stream: true }), chunks(counts(n)), 'text/event-stream'],
    [
      '/chat/completions',
      chatOf('dear'),
      completion(
        `{"prompt_tokens":${n},"completion_tokens":${HUGE},"total_tokens":${n},"prompt_tokens_details":{"cached_tokens":${n},"audio_tokens":${n}},"completion_tokens_details":{"reasoning_tokens":${n}}}`,
      ),
    ],
    ['/responses', { model: 'dear', input: 'x' }, response(counts(n, ['input_tokens', 'output_tokens']))],
    [
      '/chat/completions',
      chatOf('claude'),
      `{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":${counts(n, ['input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens'])}}`,
    ],
    [
      '/audio/transcriptions',
      { model: 'dear', ...transcription },
      `{"text":"x","usage":{"type":"duration","seconds":${n}}}`,
    ],
    [
      '/audio/transcriptions',
      { model: 'dear', ...transcription },
      `{"text":"x","usage":${counts(n, ['input_tokens', 'output_tokens'])}}`,
    ],
    [
      '/audio/speech',
      { model: 'dear', ...speech },
      `data: {"type":"speech.audio.done","usage":${counts(n, ['input_tokens', 'output_tokens'])}}\n\n`,
      'text/event-stream',
    ],
  ]
  test.each(wrongNumbers)('%s leaves its event, and those of others', async (n) => {
    for (const [path, body, answer, type] of ofNumber(n)) {
      provider.say(answer, type)
      const answered = await askAi(platform, owner.token, path, body)
      expect([path, answered.status, answered.isCut]).toEqual([path, 200, false])
      const event = await usageEventOf(platform, answered.headers['x-service-request-id'])
      expect([path, event?.status, event?.statusCode]).toEqual([path, 'success', 200])
    }
  })
})

const NUL = String.raw`\u0000`
const ids = {
  'with NUL': `"resp${NUL}"`,
  'of half a character': String.raw`"resp\ud800"`,
  'that is too long': `"${'r'.repeat(100_000)}"`,
  'that is empty': '""',
  'that is a number': '7',
  'that is null': 'null',
  'that is an array': '["r"]',
}
const oneToken = counts('1', ['input_tokens', 'output_tokens'])

describe('ids of responses that cannot be kept', () => {
  test.each(Object.entries(ids))('an answer under an id %s is passed on all the same', async (_, id) => {
    const document = response(oneToken, id)
    for (const stream of [false, true]) {
      if (stream) provider.say(`data: {"type":"response.completed","response":${document}}\n\n`, 'text/event-stream')
      else provider.say(document)
      const answered = await askAi(platform, owner.token, '/responses', { model: 'dear', input: 'x', stream })
      expect([answered.status, answered.bytes.includes(document)]).toEqual([200, true])
      const event = await usageEventOf(platform, answered.headers['x-service-request-id'])
      expect(event).toMatchObject({ status: 'success', inputTokens: 1, usageSource: 'provider' })
    }
  })

  test('an id that a provider gives to a second organization stays with the first, and so do its tokens', async () => {
    const other = await newEntitledOwner(platform)
    const id = `resp_${unique()}`
    const ask = (token: string, tokens: string) => {
      provider.say(response(counts(tokens, ['input_tokens', 'output_tokens']), `"${id}"`))
      return askAi(platform, token, '/responses', { model: 'dear', input: 'x' })
    }
    expect((await ask(owner.token, '1')).status).toBe(200)
    expect((await ask(other.token, '500')).status).toBe(200)
    expect(await platform.api.db.select().from(aiResponses).where(eq(aiResponses.id, id))).toMatchObject([
      { organizationId: owner.organizationId, totalTokens: 2 },
    ])
    const next = { model: 'dear', input: 'x', previous_response_id: id }
    expect((await askAi(platform, other.token, '/responses', next)).body).toMatchObject({
      error: { code: 'previous_response_not_found' },
    })
  })
})

describe('what providers say of videos', () => {
  const film = () => askAi(platform, owner.token, '/videos', { model: 'dear', prompt: 'x', duration: 4 })

  test.each([...Object.entries(ids), ['of one dot', '"."'], ['of two dots', '".."'], ['that is none', '{}']])(
    'an id %s is no job: 503',
    async (_, id) => {
      provider.say(`{"id":${id},"status":"pending"}`)
      const answered = await film()
      expect([answered.status, answered.body]).toMatchObject([503, { error: { code: 'upstream_error' } }])
    },
  )

  test.each(['1e300', '1e308', '1e999', '-4', '"4"', '2147483648', '4294967296.5'])(
    'a duration of %s is not believed, at the start and in the end',
    async (duration) => {
      const started = `{"id":"v-${unique()}","status":"pending","duration":${duration}}`
      provider.say(started)
      const { status, body } = await film()
      expect(status).toBe(202)
      const { id } = body as { id: string }
      const address = `${provider.baseUrl}/x${NUL}${'y'.repeat(9_000)}`
      provider.say(
        started.replace('pending', 'completed').replace('}', `,"urls":["${address}","${provider.baseUrl}/a${NUL}b"]}`),
      )
      await platform.api.db
        .update(aiVideoJobs)
        .set({ pollAt: new Date(0) })
        .where(eq(aiVideoJobs.id, id))
      await pollVideos(platform.api)
      const [job] = await platform.api.db.select().from(aiVideoJobs).where(eq(aiVideoJobs.id, id))
      expect(job).toMatchObject({ status: 'completed', duration: 4, contentUrl: `${provider.baseUrl}/a%00b` })
    },
  )
})

test('names that no column holds leave an event, cut and made storable', async () => {
  const key = await newKey(platform, owner, ['network:ai_gateway:chat'])
  const odd = `\0\ud800${'m'.repeat(1_048_576)}`
  const body = { ...chatOf(odd), user: odd, metadata: { [odd]: odd, a: odd }, safety_identifier: odd }
  const headers = { 'x-request-id': 'r'.repeat(8_000) }
  const answered = await askAi(platform, key.token, '/chat/completions', body, headers)
  expect(answered.status).toBeGreaterThanOrEqual(400)
  expect(answered.status).toBeLessThan(500)
  const event = await usageEventOf(platform, answered.headers['x-service-request-id'])
  expect(event).toMatchObject({ status: 'error', modelRequested: expect.stringMatching(/^\ufffd\ufffdm{253}$/) })
})

test('the log probabilities of a long answer are passed on, though they have more members than a body may', async () => {
  const entry = { token: 'word', logprob: -0.125, bytes: [119, 111, 114, 100] }
  const token = { ...entry, top_logprobs: Array.from({ length: 20 }, () => entry) }
  const choice = {
    index: 0,
    message: { role: 'assistant', content: 'x' },
    logprobs: { content: Array.from({ length: 4_000 }, () => token) },
    finish_reason: 'stop',
  }
  const answer = Buffer.from(JSON.stringify({ id: 'c', object: 'chat.completion', choices: [choice] }))
  provider.say(answer)
  const { status, bytes } = await askAi(platform, owner.token, '/chat/completions', chatOf('dear', { logprobs: true }))
  expect([status, bytes.equals(answer)]).toEqual([200, true])
})
