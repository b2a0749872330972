import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { freePort } from '@platform/testkit/free-port'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type AiAnswer,
  type AiAsk,
  aiAsks,
  aiModel,
  aiProvidersOf,
  askAi,
  ownHeaders,
} from '../../../../../test/ai-asks.ts'
import { aiKeys, mockProvider, newEntitledOwner } from '../../../../../test/ai-providers.ts'
import { hurryAi } from '../../../../../test/hurry-ai.ts'
import type { Owner } from '../../../../../test/scenario.ts'

/** What callers see of a failure, in every protocol. */
interface Told {
  status: number
  type: string
  code: string
  message: string
  shouldRetry?: 'false'
}

const unavailable = (message: string): Told => ({
  status: 503,
  type: 'api_error',
  code: 'provider_unavailable',
  message,
  shouldRetry: 'false',
})
const failed = (message: string): Told => ({ status: 503, type: 'api_error', code: 'upstream_error', message })
const timedOut = (message: string): Told => ({ status: 503, type: 'api_error', code: 'upstream_timeout', message })
const refused = (status: number, code: string, message = `Mock answers ${status}`): Told => ({
  status,
  type: 'invalid_request_error',
  code,
  message,
})

/** Failures before the first byte, by the mock's model name. Anthropic's errors have a type and no code. */
const beforeTheAnswer = ({ provider }: AiAsk): Record<string, Told> => {
  const code = (plain: string, ofAnthropic: string) => (provider === 'anthropic' ? ofAnthropic : plain)
  const keyRefused = unavailable(`The operator’s key of the provider ${provider} was refused`)
  const answered = (status: number) => failed(`The provider ${provider} answered ${status}: Mock answers ${status}`)
  return {
    '400': refused(400, code('invalid_value', 'invalid_request_error')),
    '404': refused(404, code('model_not_found', 'not_found_error')),
    '413': refused(413, 'request_too_large'),
    '422': refused(422, code('unprocessable', 'invalid_request_error')),
    '401': keyRefused,
    '402': unavailable(`The operator’s key of the provider ${provider} is out of credit`),
    '403': keyRefused,
    '429': {
      status: 429,
      type: 'rate_limit_error',
      code: 'upstream_rate_limited',
      message: `The provider ${provider} takes no more requests for now`,
      shouldRetry: 'false',
    },
    ...Object.fromEntries(
      [405, 408, 409, 418, 451, 500, 501, 502, 503, 504, 529].map((status) => [`${status}`, answered(status)]),
    ),
    // If a message contains the key, the whole message is hidden.
    'quotes-key': refused(
      400,
      code('invalid_value', 'invalid_request_error'),
      `The provider ${provider} refused the request with 400`,
    ),
    'quotes-key-422': refused(
      422,
      code('unprocessable', 'invalid_request_error'),
      `The provider ${provider} refused the request with 422`,
    ),
    'quotes-key-401': keyRefused,
    'quotes-key-500': failed(`The provider ${provider} answered 500`),
    redirect: failed(`The provider ${provider} answered 302`),
    'reset-before': failed(`The provider ${provider} closed the connection`),
  }
}
/** Documents in place of an answer. Among byte answers, only documents can be told from audio. */
const inPlaceOfTheAnswer = ({ provider, answer }: AiAsk): Record<string, Told> => {
  const unreadable = failed(`The provider ${provider} sent an answer that cannot be read`)
  const inWords = failed(`The provider ${provider} answered with an error: The model failed midway`)
  return { 'bad-sse': unreadable, ...(answer !== 'events' && { 'error-mid': inWords }) }
}
/** Answers that end too early. */
const inTheAnswer = ({ provider, answer }: AiAsk): Record<string, Told> => {
  const unreadable = failed(`The provider ${provider} sent an answer that cannot be read`)
  const cutOff = failed(`The provider ${provider} cut its answer off`)
  switch (answer) {
    case 'whole':
      return {
        'cut-mid': cutOff,
        'end-mid': cutOff,
        'bad-json': unreadable,
        'no-done': unreadable,
      }
    case 'events':
      return {
        'cut-mid': cutOff,
        'end-mid': unreadable,
        'bad-json': unreadable,
        'error-mid': failed(`The provider ${provider} failed in the middle of its answer: The model failed midway`),
      }
    case 'bytes':
      return {}
  }
}
const onTime = ({ provider }: AiAsk): Told => timedOut(`The provider ${provider} did not answer in time`)

let mock: MockUpstream
let platform: TestPlatform
let owner: Owner
/** Makes a model per protocol, so that the failures of one open no circuit for the next. */
const modelOf = ({ path, answer }: AiAsk, steering: string) =>
  `${path.slice(1).replaceAll('/', '-')}-${answer}/${steering}`
const steerings = [
  ...Object.keys(beforeTheAnswer(aiAsks.chat)),
  ...Object.keys(inPlaceOfTheAnswer(aiAsks.chat)),
  ...Object.keys(inTheAnswer(aiAsks.chat)),
  'huge',
  'hang-headers',
  'stall-mid',
]
beforeAll(async () => {
  mock = await startMockUpstream({ hugeBytes: 65 * 1_048_576 })
  const away = { baseUrl: `http://127.0.0.1:${await freePort()}/v1` }
  const aiProviders = {
    providers: [...aiProvidersOf(mock), mockProvider(away, 'away')],
    models: [
      ...Object.values<AiAsk>(aiAsks).flatMap((options) =>
        steerings.map((steering) => aiModel(options.provider, modelOf(options, steering))),
      ),
      aiModel('away', modelOf(aiAsks.chat, 'plain')),
    ],
  }
  platform = await startPlatform({ aiProviders, env: aiKeys, aiTimings: { retryMs: 1, retryAfterMaxMs: 0 } })
  owner = await newEntitledOwner(platform)
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})

const bodyOf = (options: AiAsk, steering: string) => ({
  ...options.body,
  model: `${options.provider}/${modelOf(options, steering)}`,
})
const ask = (options: AiAsk, steering: string) => askAi(platform, owner.token, options.path, bodyOf(options, steering))
const askAll = (all: readonly [string, AiAsk][], steering: string, timings: Parameters<typeof hurryAi>[1]) =>
  hurryAi(platform, timings, () => Promise.all(all.map(([, options]) => ask(options, steering))))
const askHanging = (all: readonly [string, AiAsk][]) =>
  askAll(all, 'hang-headers', { streamFirstByteMs: 500, wholeFirstByteMs: 500 })
const askStalling = (all: readonly [string, AiAsk][]) => askAll(all, 'stall-mid', { idleMs: 500 })

const uuidV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

function expectOwnHeaders({ headers }: AiAnswer): void {
  expect(Object.keys(headers).filter((name) => !ownHeaders.has(name))).toEqual([])
  expect(headers['x-request-id']).toMatch(uuidV7)
  expect(headers['x-service-request-id']).toBe(headers['x-request-id'])
}

/** Returns the failure that came instead of an answer. */
function toldInstead(answer: AiAnswer): Told {
  expectOwnHeaders(answer)
  expect(answer.headers['content-type']).toBe('application/json; charset=UTF-8')
  const { error } = answer.body as { error: Omit<Told, 'status'> & { param: null } }
  const { param, ...told } = error
  expect(param).toBeNull()
  const shouldRetry = answer.headers['x-should-retry']
  return { status: answer.status, ...told, ...(shouldRetry !== undefined && { shouldRetry: shouldRetry as 'false' }) }
}

/** Returns the data of each event of a stream that consists of whole events. */
function eventsOf({ bytes }: AiAnswer): unknown[] {
  const text = bytes.toString()
  expect(text.endsWith('\n\n')).toBe(true)
  return text
    .slice(0, -2)
    .split('\n\n')
    .map((event) => {
      const data = /^(?:event: [\w.]+\n)?data: (.+)$/.exec(event)?.[1] ?? ''
      return data === '[DONE]' ? data : (JSON.parse(data) as unknown)
    })
}

interface ErrorFrame {
  type?: 'error'
  sequence_number?: number
  error: Omit<Told, 'status'> & { param: null }
}

/** Returns the failure in the last event of a stream. No event claims that the answer is complete. */
function toldMidway(answer: AiAnswer, { path }: AiAsk): Told {
  expectOwnHeaders(answer)
  expect(answer).toMatchObject({
    status: 200,
    isCut: false,
    headers: { 'content-type': 'text/event-stream; charset=utf-8' },
  })
  const events = eventsOf(answer)
  expect(events).not.toContain('[DONE]')
  expect(answer.bytes.toString()).not.toMatch(/"type":"(response.completed|speech.audio.done|transcript.text.done)"/)
  const { error, ...rest } = events.at(-1) as ErrorFrame
  const { param, ...told } = error
  expect(param).toBeNull()
  // In chat completions an error is recognized by its member alone, in the others by a type.
  const { code, message } = told
  const typed = { type: 'error', sequence_number: events.length - 1, code, message, param }
  expect(rest).toEqual(path === '/chat/completions' ? {} : typed)
  return { status: 503, ...told }
}

const asks = Object.entries(aiAsks) as [string, AiAsk][]
const streams = asks.filter(([, { answer }]) => answer === 'events')
const documents = asks.filter(([, { answer }]) => answer === 'whole')
const bytes = asks.filter(([, { answer }]) => answer === 'bytes')

describe('a failure before the answer is the failure of the table', () => {
  test.each(asks)('%s', async (_, options) => {
    const expected = beforeTheAnswer(options)
    const told = Object.keys(expected).map(async (steering) => [steering, toldInstead(await ask(options, steering))])
    expect(Object.fromEntries(await Promise.all(told))).toEqual(expected)
  })

  test('of a provider that hangs', async () => {
    const told = (await askHanging(asks)).map(toldInstead)
    expect(told).toEqual(asks.map(([, options]) => onTime(options)))
  })

  test('of a provider that cannot be reached', async () => {
    const answer = await ask({ ...aiAsks.chat, provider: 'away' as 'compat' }, 'plain')
    expect(toldInstead(answer)).toEqual(failed('The provider away could not be reached'))
  })
})

describe('a document that is none is a failure', () => {
  test.each(asks)('%s', async (_, options) => {
    const expected = { ...inPlaceOfTheAnswer(options), ...(options.answer !== 'events' && inTheAnswer(options)) }
    const told = Object.keys(expected).map(async (steering) => [steering, toldInstead(await ask(options, steering))])
    expect(Object.fromEntries(await Promise.all(told))).toEqual(expected)
  })

  test('one that stalls', async () => {
    const told = (await askStalling(documents)).map(toldInstead)
    expect(told).toEqual(documents.map(([, options]) => onTime(options)))
  })

  test('one that is larger than any answer', async () => {
    const told = toldInstead(await ask(aiAsks.chat, 'huge'))
    expect(told).toEqual(failed('The provider compat sent an answer that is too large'))
  })
})

describe('a stream that fails ends with an event that says so', () => {
  test.each(streams)('%s', async (_, options) => {
    const expected = inTheAnswer(options)
    const told = Object.keys(expected).map(async (steering) => [
      steering,
      toldMidway(await ask(options, steering), options),
    ])
    expect(Object.fromEntries(await Promise.all(told))).toEqual(expected)
  })

  test('one that stalls', async () => {
    const answers = await askStalling(streams)
    const told = streams.map(([, options], n) => toldMidway(answers[n]!, options))
    expect(told).toEqual(streams.map(([, options]) => onTime(options)))
  })

  test('one with an event that is larger than any', async () => {
    const told = toldInstead(await ask(aiAsks['chat stream'], 'huge'))
    expect(told).toEqual(failed('The provider compat sent an answer that cannot be read'))
  })
})

describe('bytes that fail midway are cut, so that nobody takes them for whole', () => {
  test('by a reset', async () => {
    const answer = await ask(aiAsks.speech, 'cut-mid')
    expect(answer.isCut).toBe(true)
    if (answer.status > 0) expectOwnHeaders(answer)
  })

  test('by a stall, after the bytes that came', async () => {
    const [answer] = (await askStalling(bytes)) as [AiAnswer]
    expectOwnHeaders(answer)
    expect(answer).toMatchObject({ status: 200, isCut: true, headers: { 'content-type': 'audio/mpeg' } })
    expect(answer.bytes.length).toBeGreaterThan(0)
  })
})
