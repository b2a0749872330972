import {
  answerMockChat,
  answerMockResponse,
  answerMockSpeech,
  answerMockTranscription,
  type MockAnswer,
  type MockQuestion,
} from '@platform/testing/mock-ai-answers'
import { type MockRequest, type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AiAnswer, type AiAsk, aiAsks, aiModel, aiProvidersOf, askAi } from '../../../../test/ai-asks.ts'
import { aiKeys, newEntitledOwner } from '../../../../test/ai-providers.ts'
import { type Owner, unique } from '../../../../test/scenario.ts'

/** Successful answers of every kind that the mock has. */
const steerings = [
  'plain',
  'split-utf8',
  'comments',
  'crlf',
  'slow-30',
  'set-cookie',
  'cached',
  'reasoning',
  'tools',
  'json-schema',
  'no-usage',
  'zero-usage',
]

let mock: MockUpstream
let platform: TestPlatform
let owner: Owner
beforeAll(async () => {
  mock = await startMockUpstream({ slowChunkMs: 1 })
  const models = [...steerings, 'no-done', 'end-mid', 'error-mid', 'bad-json'].map((each) => aiModel('compat', each))
  platform = await startPlatform({
    aiProviders: { providers: aiProvidersOf(mock), models },
    env: aiKeys,
  })
  owner = await newEntitledOwner(platform)
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})

/** Returns what the mock wrote for a request, before its steering split it or inserted comments. */
function writtenFor({ id, path, model = '', body = {}, startedAt, file }: MockRequest): MockAnswer {
  const steering = model.slice(model.lastIndexOf('/') + 1)
  const question: MockQuestion = { steering, model, body, created: Math.floor(startedAt.getTime() / 1_000), id }
  switch (path) {
    case '/v1/chat/completions':
      return answerMockChat(question)
    case '/v1/responses':
      return answerMockResponse(question)
    case '/v1/audio/speech':
      return answerMockSpeech(question)
    default:
      return answerMockTranscription(question, { name: file?.name ?? '', bytes: file?.bytes.length ?? 0 })
  }
}

/** Sends a request, and returns the answer with the mock's frames for it. */
async function askBoth(
  { path, body }: AiAsk,
  steering: string,
  more: object = {},
): Promise<AiAnswer & { frames: string[]; contentType: string }> {
  const user = unique()
  const sent = path.startsWith('/audio') ? { prompt: user } : { user }
  const answer = await askAi(platform, owner.token, path, { ...body, ...sent, ...more, model: `compat/${steering}` })
  const request = await mock.waitFor((each) => Object.values(each.body ?? {}).includes(user))
  const { frames, contentType } = writtenFor(request)
  return { ...answer, contentType, frames: frames.map(({ bytes }) => Buffer.from(bytes).toString('latin1')) }
}
const asLatin1 = ({ bytes }: AiAnswer): string => bytes.toString('latin1')
const isUsageAlone = (frame: string): boolean => frame.includes('"choices":[]')

const asks = (Object.entries(aiAsks) as [string, AiAsk][]).filter(([, { isTranslated }]) => !isTranslated)

describe('an answer is the provider’s, byte by byte', () => {
  // Answers other than events have neither comments nor lines.
  const isOfEvents = (steering: string) => steering === 'comments' || steering === 'crlf'
  const cases = asks.flatMap(([name, options]) =>
    steerings
      .filter((steering) => options.answer !== 'bytes' || !isOfEvents(steering))
      .map((steering) => [name, steering, options] as const),
  )
  test.each(cases)('%s, %s', async (_, steering, options) => {
    const answer = await askBoth(options, steering)
    expect(answer).toMatchObject({ status: 200, isCut: false, headers: { 'content-type': answer.contentType } })
    const written = answer.frames.filter((frame) => !isUsageAlone(frame)).join('')
    const isCrlf = steering === 'crlf' && options.answer !== 'whole'
    expect(asLatin1(answer)).toBe(isCrlf ? written.replaceAll('\n', '\r\n') : written)
  })
})

test('who asks for the usage of a stream gets its chunk', async () => {
  const answer = await askBoth(aiAsks['chat stream'], 'plain', { stream_options: { include_usage: true } })
  expect(answer.frames.some(isUsageAlone)).toBe(true)
  expect(asLatin1(answer)).toBe(answer.frames.join(''))
})

test('a chat that has said why it ends gets the [DONE] that its provider leaves out', async () => {
  const answer = await askBoth(aiAsks['chat stream'], 'no-done')
  expect(answer.isCut).toBe(false)
  expect(asLatin1(answer)).toBe(answer.frames.filter((frame) => !isUsageAlone(frame)).join(''))
})

describe('what came before a failure is passed on whole', () => {
  const streams = asks.filter(([, { answer }]) => answer === 'events')
  test.each(
    streams.flatMap(([name, options]) =>
      ['end-mid', 'error-mid', 'bad-json'].map((steering) => [name, steering, options] as const),
    ),
  )('%s, %s', async (_, steering, options) => {
    const answer = await askBoth(options, steering)
    const before = answer.frames.slice(0, Math.ceil(answer.frames.length / 2)).join('')
    expect(asLatin1(answer).slice(0, before.length)).toBe(before)
    expect(asLatin1(answer).slice(before.length)).toMatch(/^(event: error\n)?data: .*"code":"upstream_error".*\n\n$/)
  })
})
