import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import OpenAI, {
  APIError,
  AuthenticationError,
  type ClientOptions,
  NotFoundError,
  toFile,
  UnprocessableEntityError,
  type Uploadable,
} from 'openai'
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { echoOf, usageOf } from './ai.ts'
import { newKey, newOwner, type Owner, tokenOf, unique } from './scenario.ts'

const model = 'local/echo'
const messages = [{ role: 'user' as const, content: 'Hello there' }]
const answer = echoOf('Hello there')
/** A schema that local/echo makes a small instance of. */
const Weather = z.object({ city: z.string(), degrees: z.number(), isRaining: z.boolean() })
const weather = { city: '', degrees: 0, isRaining: false }

let platform: TestPlatform
let ana: Owner
let openai: OpenAI
const clientOf = (options: ClientOptions) =>
  new OpenAI({ baseURL: `${platform.apiUrl}/ai/v1`, maxRetries: 0, ...options })
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
  openai = clientOf({ apiKey: ana.token })
})
afterAll(() => platform.close())

async function collect<T>(events: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const event of events) all.push(event)
  return all
}

/** Rejects with the failure of a call, for a look at its members. */
async function failureOf<E extends Error>(
  call: Promise<unknown>,
  kind: abstract new (...args: never) => E,
): Promise<E> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof kind) return error
  throw new Error(`Expected ${kind.name}`, { cause: error })
}

test('a chat is completed', async () => {
  const completion = await openai.chat.completions.create({ model, messages })
  expect(completion).toMatchObject({ object: 'chat.completion', model })
  expect(completion.choices).toMatchObject([{ message: { role: 'assistant', content: answer }, finish_reason: 'stop' }])
  const { prompt_tokens: prompt = 0, completion_tokens: output = 0, total_tokens: total } = completion.usage ?? {}
  expect([prompt, output, total]).toStrictEqual([3, Math.ceil(answer.length / 4), prompt + output])
})

test('a chat is streamed in pieces, with usage for those who ask', async () => {
  const chunks = await collect(await openai.chat.completions.create({ model, messages, stream: true }))
  const pieces = chunks.map(({ choices }) => choices[0]?.delta.content ?? '')
  expect(pieces.filter((piece) => piece !== '')).toHaveLength(answer.split(' ').length)
  expect(pieces.join('')).toBe(answer)
  expect(chunks.every(({ usage }) => usage == null)).toBe(true)

  const options = { model, messages, stream: true as const, stream_options: { include_usage: true } }
  const last = (await collect(await openai.chat.completions.create(options))).at(-1)
  expect(last).toMatchObject({ choices: [], usage: { prompt_tokens: 3 } })
})

test('the helper for streams of chats collects the message', async () => {
  const stream = openai.chat.completions.stream({ model, messages })
  const deltas: string[] = []
  stream.on('content', (delta) => void deltas.push(delta))
  const completion = await stream.finalChatCompletion()
  expect(deltas.join('')).toBe(answer)
  expect(completion.choices[0]).toMatchObject({ message: { content: answer }, finish_reason: 'stop' })
})

test('a tool is called, whole and in a stream', async () => {
  const options = {
    model,
    messages,
    tool_choice: 'required' as const,
    tools: [{ type: 'function' as const, function: { name: 'look_up', parameters: z.toJSONSchema(Weather) } }],
  }
  const [choice] = (await openai.chat.completions.create(options)).choices
  expect(choice).toMatchObject({
    message: { content: null, tool_calls: [{ type: 'function', function: { name: 'look_up' } }] },
    finish_reason: 'tool_calls',
  })
  const [call] = choice?.message.tool_calls ?? []
  expect(JSON.parse(call?.type === 'function' ? call.function.arguments : '')).toStrictEqual(weather)

  const streamed = await openai.chat.completions.stream(options).finalMessage()
  expect(streamed.tool_calls).toMatchObject([{ function: { name: 'look_up', arguments: JSON.stringify(weather) } }])
})

test('structured output is parsed, of chats and of responses', async () => {
  const completion = await openai.chat.completions.parse({
    model,
    messages,
    response_format: zodResponseFormat(Weather, 'weather'),
  })
  expect(completion.choices[0]?.message.parsed).toStrictEqual(weather)
  const response = await openai.responses.parse({
    model,
    input: 'Hello',
    text: { format: zodTextFormat(Weather, 'weather') },
  })
  expect(response.output_parsed).toStrictEqual(weather)
})

test('a response is created; it is not stored', async () => {
  const response = await openai.responses.create({ model, input: 'Hello there', instructions: 'Be brief' })
  expect(response).toMatchObject({ object: 'response', status: 'completed', model, store: false, error: null })
  expect(response.output_text).toBe(answer)
  expect(response.usage).toMatchObject({ output_tokens: Math.ceil(answer.length / 4) })

  const next = openai.responses.create({ model, input: 'And now?', previous_response_id: response.id })
  const failure = await failureOf(next, NotFoundError)
  expect([failure.code, failure.param]).toStrictEqual(['previous_response_not_found', 'previous_response_id'])
})

test('a response is streamed in typed events', async () => {
  const events = await collect(await openai.responses.create({ model, input: 'Hello there', stream: true }))
  const types = events.map(({ type }) => type)
  expect(types.slice(0, 4)).toStrictEqual([
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
  ])
  expect(types.at(-1)).toBe('response.completed')
  expect(events.map(({ sequence_number: number }) => number)).toStrictEqual(events.map((_, n) => n))
  const deltas = events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : ''))
  expect(deltas.join('')).toBe(answer)
})

test('the helper for streams of responses collects the response', async () => {
  const stream = openai.responses.stream({ model, input: 'Hello there' })
  const deltas: string[] = []
  stream.on('response.output_text.delta', ({ delta }) => void deltas.push(delta))
  const response = await stream.finalResponse()
  expect([deltas.join(''), response.output_text]).toStrictEqual([answer, answer])
})

test('a response calls a tool', async () => {
  const response = await openai.responses.create({
    model,
    input: 'Hello',
    tool_choice: 'required',
    tools: [{ type: 'function', name: 'look_up', parameters: z.toJSONSchema(Weather), strict: true }],
  })
  expect(response.output).toMatchObject([
    { type: 'function_call', name: 'look_up', arguments: JSON.stringify(weather), status: 'completed' },
  ])
})

test('models are listed, and found by an id with a slash', async () => {
  const ids = (await collect(openai.models.list())).map(({ id }) => id)
  expect(ids).toStrictEqual(['local/echo', 'local/echo-speech', 'local/echo-transcribe', 'local/echo-video'])
  expect(await openai.models.retrieve(model)).toMatchObject({ id: model, object: 'model', owned_by: 'local' })
  const failure = await failureOf(openai.models.retrieve('local/none'), NotFoundError)
  expect(failure.code).toBe('model_not_found')
})

async function speak(client = openai): Promise<Uploadable> {
  const speech = await client.audio.speech.create({
    model: 'local/echo-speech',
    voice: 'alloy',
    input: 'Good morning',
    response_format: 'wav',
  })
  expect(speech.headers.get('content-type')).toBe('audio/wav')
  const bytes = Buffer.from(await speech.arrayBuffer())
  expect([bytes.toString('latin1', 0, 4), bytes.toString('latin1', 8, 12)]).toStrictEqual(['RIFF', 'WAVE'])
  return toFile(bytes, 'morning.wav', { type: 'audio/wav' })
}

test('what is spoken is transcribed, in each format', async () => {
  const options = { model: 'local/echo-transcribe', file: await speak() }
  const text = /^local\/echo-transcribe is no speech recognition; .* 0\.48 seconds of WAV, 1 channel at 24000 Hz\.$/
  const { transcriptions } = openai.audio
  expect((await transcriptions.create(options)).text).toMatch(text)

  const verbose = await transcriptions.create({ ...options, response_format: 'verbose_json' })
  expect(verbose).toMatchObject({ duration: 0.48, segments: [{ start: 0, end: 0.48 }] })
  expect(verbose.text).toMatch(text)

  const plain = await transcriptions.create({ ...options, response_format: 'text' })
  expect(plain.trim()).toMatch(text)
  expect(await transcriptions.create({ ...options, response_format: 'vtt' })).toMatch(/^WEBVTT\n\n00:00:00\.000 -->/)

  const events = await collect(await transcriptions.create({ ...options, stream: true }))
  const deltas = events.map((event) => (event.type === 'transcript.text.delta' ? event.delta : ''))
  expect(deltas.join('')).toMatch(text)
  expect(events.at(-1)).toMatchObject({ type: 'transcript.text.done', text: deltas.join('') })
})

test('failures are those of the client, with the id of the request', async () => {
  const wrongModel = await failureOf(openai.chat.completions.create({ model: 'local/none', messages }), NotFoundError)
  expect(wrongModel).toMatchObject({ code: 'model_not_found', param: 'model', type: 'invalid_request_error' })

  const wrongToken = clientOf({ apiKey: 'wrong' }).chat.completions.create({ model, messages })
  expect(await failureOf(wrongToken, AuthenticationError)).toMatchObject({
    code: 'invalid_token',
    type: 'authentication_error',
  })

  const wrongShape = openai.chat.completions.create({ model, messages, temperature: 3 })
  const refused = await failureOf(wrongShape, UnprocessableEntityError)
  expect(refused).toMatchObject({ code: 'invalid_value', param: 'temperature' })

  for (const { requestID, headers } of [wrongModel, refused]) {
    expect(requestID).toBe(headers.get('x-service-request-id'))
    const events = await usageOf(platform, ana.organizationId)
    expect(events.find(({ id }) => id === requestID)).toMatchObject({ status: 'error', usageSource: 'none' })
  }
})

test('a file and a chat that are too large are refused as such, once they are sent', async () => {
  const large = 'x'.repeat(33 * 1_048_576)
  const file = await toFile(Buffer.from(large), 'long.wav', { type: 'audio/wav' })
  const tooLarge = { status: 413, code: 'request_too_large', type: 'invalid_request_error' }
  const transcribed = openai.audio.transcriptions.create({ model: 'local/echo-transcribe', file })
  expect(await failureOf(transcribed, APIError)).toMatchObject(tooLarge)
  const chatted = openai.chat.completions.create({ model, messages: [{ role: 'user', content: large }] })
  expect(await failureOf(chatted, APIError)).toMatchObject(tooLarge)
})

test('an answer has the id of its usage event', async () => {
  const { data, request_id: id, response } = await openai.chat.completions.create({ model, messages }).withResponse()
  expect(response.headers.get('x-request-id')).toBe(id)
  expect(response.headers.get('x-service-request-id')).toBe(id)
  const event = (await usageOf(platform, ana.organizationId)).find((each) => each.id === id)
  expect(event).toMatchObject({
    operation: 'chat.completions',
    modelServed: model,
    provider: 'local',
    status: 'success',
    inputTokens: data.usage?.prompt_tokens,
    outputTokens: data.usage?.completion_tokens,
    usageSource: 'provider',
    billableCostNanos: 0n,
    streaming: false,
  })
})

test('a stream that is left behind is a cancelled call', async () => {
  const bea = await newOwner(platform)
  // So much that neither side's buffers hold it: the answer cannot be over before the client leaves.
  const long = [{ role: 'user' as const, content: 'a '.repeat(200_000) }]
  const stream = await clientOf({ apiKey: bea.token }).chat.completions.create({
    model,
    messages: long,
    stream: true,
    max_completion_tokens: 100_000,
  })
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break
  const events = () => usageOf(platform, bea.organizationId)
  await expect.poll(events).toMatchObject([{ status: 'cancelled', statusCode: 499, usageSource: 'estimated' }])
  const [event] = await events()
  expect(event?.outputTokens).toBeLessThan(100_000)
})

/** Every kind of call that the package is used for here. */
const calls: Record<string, (client: OpenAI) => Promise<unknown>> = {
  'a chat': async (client) => {
    const completion = await client.chat.completions.create({ model, messages })
    expect(completion.choices[0]?.message.content).toBe(answer)
  },
  'a chat stream': async (client) => {
    const chunks = await collect(await client.chat.completions.create({ model, messages, stream: true }))
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(answer)
  },
  'a tool': async (client) => {
    const tools = [{ type: 'function' as const, function: { name: 'look_up', parameters: z.toJSONSchema(Weather) } }]
    const completion = await client.chat.completions.create({ model, messages, tools, tool_choice: 'required' })
    expect(completion.choices[0]?.finish_reason).toBe('tool_calls')
  },
  'a response': async (client) => {
    expect((await client.responses.create({ model, input: 'Hello there' })).output_text).toBe(answer)
  },
  'a response stream': async (client) => {
    const events = await collect(await client.responses.create({ model, input: 'Hello there', stream: true }))
    expect(events.at(-1)?.type).toBe('response.completed')
  },
  'the models': async (client) => {
    expect((await collect(client.models.list())).map(({ id }) => id)).toContain(model)
  },
  'speech and its transcription': async (client) => {
    const file = await speak(client)
    const { text } = await client.audio.transcriptions.create({ model: 'local/echo-transcribe', file })
    expect(text).toContain('0.48 seconds')
  },
}

test('an API key is exchanged for a token as often as one is over', async () => {
  // Its clock moves on: tokens of the other tests would be over.
  const later = await startPlatform()
  try {
    const dora = await newOwner(later)
    const key = await newKey(later, dora, ['network:ai_gateway:chat', 'network:ai_gateway:models'])
    const tokens: string[] = []
    let renewAt = 0
    async function tokenOfKey(): Promise<string> {
      const now = later.clock.now().getTime()
      if (now >= renewAt) {
        tokens.push(await tokenOf(later, key.id, key.secret))
        renewAt = now + 270_000
      }
      return tokens.at(-1) ?? ''
    }
    const baseURL = `${later.apiUrl}/ai/v1`
    const client = clientOf({ baseURL, apiKey: tokenOfKey })
    for (const waitMs of [0, 100_000, 200_000, 100_000, 200_000]) {
      later.clock.advance(waitMs)
      for (const call of Object.values(calls)) await call(client)
    }
    expect(new Set(tokens).size).toBe(3)
    // The first one would not have done.
    const first = clientOf({ baseURL, apiKey: tokens[0] })
    for (const call of Object.values(calls)) await failureOf(call(first), AuthenticationError)

    const events = await usageOf(later, dora.organizationId)
    // Lists of models leave none; speech and its transcription are two.
    expect(events).toHaveLength(5 * Object.keys(calls).length)
    for (const event of events)
      expect(event).toMatchObject({
        applicationId: dora.applicationId,
        actorType: 'key',
        actorId: key.id,
        apiKeyId: key.id,
        authenticatedUserId: null,
        status: 'success',
      })
  } finally {
    await later.close()
  }
})

test('the organization, the application and the end user of a call stand in its usage event', async () => {
  const eva = await newOwner(platform)
  const { organizationId, applicationId } = await newOwner(platform, eva.person)
  const unplaced = clientOf({ apiKey: eva.token }).chat.completions.create({ model, messages })
  await expect(unplaced).rejects.toMatchObject({ status: 400, message: expect.stringContaining('X-Organization-Id') })

  const placed = clientOf({
    apiKey: eva.token,
    organization: organizationId,
    defaultHeaders: { 'X-Application-Id': applicationId },
  })
  const endUser = unique()
  await placed.responses.create({ model, input: 'Hello', safety_identifier: endUser, metadata: { team: 'blue' } })
  expect(await usageOf(platform, organizationId)).toMatchObject([
    {
      organizationId,
      applicationId,
      actorType: 'user',
      actorId: eva.person.userId,
      authenticatedUserId: eva.person.userId,
      apiKeyId: null,
      callerEndUserId: endUser,
      operation: 'responses',
      metadata: { team: 'blue' },
    },
  ])
  expect(await usageOf(platform, eva.organizationId)).toStrictEqual([])
})
