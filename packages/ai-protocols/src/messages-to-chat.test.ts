import type Anthropic from '@anthropic-ai/sdk'
import * as fc from 'fast-check'
import type OpenAI from 'openai'
import { expect, test } from 'vitest'
import type { ChatMessage } from './chat-request.ts'
import { toMessagesRequest } from './chat-to-messages.ts'
import { type ChatChunk, createChatChunkTranslator, toChatCompletion } from './messages-to-chat.ts'
import { createSseScanner } from './sse-scanner.ts'
import { noUsage } from './usage.ts'

const names = { id: 'chatcmpl-1', created: 1_700_000_000, model: 'anthropic/claude' }

const usage = {
  input_tokens: 25,
  cache_read_input_tokens: 100,
  cache_creation_input_tokens: 10,
  output_tokens: 1,
  output_tokens_details: null,
  cache_creation: null,
  inference_geo: null,
  server_tool_use: null,
  service_tier: 'standard',
  speed: null,
} satisfies Anthropic.Usage

const message = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude',
  content: [],
  container: null,
  diagnostics: null,
  stop_reason: null,
  stop_details: null,
  stop_sequence: null,
  usage,
} satisfies Anthropic.Message

const direct = { type: 'direct' } as const

test('a message becomes a completion', () => {
  const completion = toChatCompletion(
    {
      ...message,
      content: [
        { type: 'thinking', thinking: 'Hm', signature: 's' },
        { type: 'redacted_thinking', data: 'x' },
        { type: 'text', text: 'Let me ', citations: null },
        { type: 'text', text: 'look', citations: null },
        { type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: 'é' }, caller: direct },
        { type: 'tool_use', id: 'toolu_2', name: 'g', input: {}, caller: direct },
      ],
      stop_reason: 'tool_use',
      usage: { ...usage, output_tokens: 30, output_tokens_details: { thinking_tokens: 10 } },
    } satisfies Anthropic.Message,
    names,
  ) satisfies OpenAI.ChatCompletion | undefined
  expect(completion).toEqual({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_700_000_000,
    model: 'anthropic/claude',
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: 'Let me look',
          refusal: null,
          reasoning_content: 'Hm',
          tool_calls: [
            { id: 'toolu_1', type: 'function', function: { name: 'f', arguments: '{"a":"é"}' } },
            { id: 'toolu_2', type: 'function', function: { name: 'g', arguments: '{}' } },
          ],
        },
        logprobs: null,
        finish_reason: 'tool_calls',
      },
    ],
    usage: {
      prompt_tokens: 135,
      completion_tokens: 30,
      total_tokens: 165,
      prompt_tokens_details: { cached_tokens: 100, cache_write_tokens: 10, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 10, audio_tokens: 0 },
    },
  })
})

test.each<[Anthropic.StopReason, string]>([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['pause_turn', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_use', 'tool_calls'],
  ['refusal', 'content_filter'],
])('%s is %s', (stopReason, finishReason) => {
  const completion = toChatCompletion({ ...message, stop_reason: stopReason }, names)
  expect(completion?.choices[0]?.finish_reason).toBe(finishReason)
})

test('a refusal says why', () => {
  const stop_details = { type: 'refusal', category: 'cyber', explanation: 'Too risky' } as const
  const completion = toChatCompletion({ ...message, stop_reason: 'refusal', stop_details }, names)
  expect(completion?.choices[0]?.message).toEqual({ role: 'assistant', content: null, refusal: 'Too risky' })
})

test.each([null, [], 'text', {}, { type: 'error', error: {} }, { type: 'message', content: 'text' }])(
  '%j is no message',
  (value) => {
    expect(toChatCompletion(value, names)).toBeUndefined()
  },
)

const start = { type: 'message_start', message } satisfies Anthropic.RawMessageStartEvent
const deltaUsage = {
  output_tokens: 15,
  output_tokens_details: { thinking_tokens: 5 },
  input_tokens: null,
  cache_creation_input_tokens: null,
  cache_read_input_tokens: null,
  server_tool_use: null,
} satisfies Anthropic.MessageDeltaUsage
const end = (stop_reason: Anthropic.StopReason): Anthropic.RawMessageStreamEvent[] => [
  {
    type: 'message_delta',
    delta: { stop_reason, stop_sequence: null, stop_details: null, container: null },
    usage: deltaUsage,
  },
  { type: 'message_stop' },
]
const textStart = {
  type: 'content_block_start',
  index: 0,
  content_block: { type: 'text', text: '', citations: null },
} satisfies Anthropic.RawMessageStreamEvent
const textDelta = (text: string): Anthropic.RawMessageStreamEvent => ({
  type: 'content_block_delta',
  index: 0,
  delta: { type: 'text_delta', text },
})

const translator = (includeUsage = false) => createChatChunkTranslator({ ...names, includeUsage })
const say = (event: unknown) => ({ data: JSON.stringify(event) })

function translate(events: readonly unknown[], includeUsage = false): ChatChunk[] {
  const { push } = translator(includeUsage)
  return events.flatMap((event) => push(say(event)))
}

const deltas = (chunks: readonly ChatChunk[]): unknown[] =>
  chunks.map(({ choices: [choice] }) => choice && [choice.delta, choice.finish_reason])

const greeting = [
  start,
  textStart,
  { type: 'ping' },
  textDelta('Hello'),
  textDelta('!'),
  { type: 'content_block_stop', index: 0 },
  ...end('end_turn'),
]

test('a stream of text becomes chunks that the SDK knows', () => {
  const chunks: OpenAI.ChatCompletionChunk[] = translate(greeting)
  expect(chunks).toHaveLength(4)
  expect(chunks[0]).toEqual({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1_700_000_000,
    model: 'anthropic/claude',
    choices: [{ index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }],
  })
  expect(deltas(translate(greeting))).toEqual([
    [{ role: 'assistant', content: '' }, null],
    [{ content: 'Hello' }, null],
    [{ content: '!' }, null],
    [{}, 'stop'],
  ])
})

test('usage comes last, for who asked for it', () => {
  const chunks = translate(greeting, true)
  expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true)
  expect(chunks.at(-1)).toMatchObject({
    choices: [],
    usage: { prompt_tokens: 135, completion_tokens: 15, completion_tokens_details: { reasoning_tokens: 5 } },
  })
})

test('usage is known without being asked for', () => {
  const { push, usage } = translator()
  expect(usage()).toBeUndefined()
  push(say(start))
  expect(usage()).toEqual({
    ...noUsage,
    inputTokens: 25,
    cacheReadTokens: 100,
    cacheWriteTokens: 10,
    outputTokens: 1,
  })
  push(say(end('end_turn')[0]))
  expect(usage()).toMatchObject({ inputTokens: 25, outputTokens: 10, reasoningTokens: 5 })
})

test.each([
  { input_tokens: -1, output_tokens: 1e300, output_tokens_details: { thinking_tokens: 'many' } },
  { input_tokens: '30', output_tokens: 1.5, cache_read_input_tokens: {}, cache_creation_input_tokens: -0.1 },
  'usage',
])('figures that are no counts hide none that were: %j', (absurd) => {
  const { push, usage } = translator()
  push(say(start))
  push(say(end('end_turn')[0]))
  const told = usage()
  push(say({ type: 'message_delta', delta: {}, usage: absurd }))
  expect(told).toMatchObject({ inputTokens: 25, outputTokens: 10 })
  expect(usage()).toEqual(told)
})

test('later figures are cumulative: they replace earlier ones, zeros too', () => {
  const { push, usage } = translator()
  push(say(start))
  push(say({ type: 'message_delta', delta: {}, usage: { output_tokens: 5, cache_read_input_tokens: 0 } }))
  push(say({ type: 'message_delta', delta: {}, usage: { output_tokens: 7, input_tokens: 125 } }))
  expect(usage()).toEqual({ ...noUsage, inputTokens: 125, cacheWriteTokens: 10, outputTokens: 7 })
})

test('tools and thinking arrive in pieces, calls numbered among themselves', () => {
  const call = (index: number, id: string): Anthropic.RawMessageStreamEvent => ({
    type: 'content_block_start',
    index,
    content_block: { type: 'tool_use', id, name: 'f', input: {}, caller: direct },
  })
  const piece = (index: number, partial_json: string): Anthropic.RawMessageStreamEvent => ({
    type: 'content_block_delta',
    index,
    delta: { type: 'input_json_delta', partial_json },
  })
  const events: Anthropic.RawMessageStreamEvent[] = [
    start,
    { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Hm' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 's' } },
    { type: 'content_block_stop', index: 0 },
    call(1, 'toolu_1'),
    piece(1, ''),
    piece(1, '{"a":'),
    piece(1, '1}'),
    { type: 'content_block_stop', index: 1 },
    call(3, 'toolu_2'),
    { type: 'content_block_stop', index: 3 },
    ...end('tool_use'),
  ]
  expect(deltas(translate(events))).toEqual([
    [{ role: 'assistant', content: '' }, null],
    [{ reasoning_content: 'Hm' }, null],
    [{ tool_calls: [{ index: 0, id: 'toolu_1', type: 'function', function: { name: 'f', arguments: '' } }] }, null],
    [{ tool_calls: [{ index: 0, function: { arguments: '{"a":' } }] }, null],
    [{ tool_calls: [{ index: 0, function: { arguments: '1}' } }] }, null],
    [{ tool_calls: [{ index: 1, id: 'toolu_2', type: 'function', function: { name: 'f', arguments: '' } }] }, null],
    [{ tool_calls: [{ index: 1, function: { arguments: '{}' } }] }, null],
    [{}, 'tool_calls'],
  ])
})

test('an error of the upstream is seen, and ends the chunks', () => {
  const { push, failure, isComplete } = translator()
  push(say(start))
  expect(failure()).toBeUndefined()
  expect(push(say({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }))).toEqual([])
  expect(failure()).toEqual({ type: 'overloaded_error', message: 'Overloaded', isUnreadable: false })
  expect(push(say(textDelta('a')))).toEqual([])
  expect(isComplete()).toBe(false)
})

test('an event that is no JSON is a failure', () => {
  const { push, failure } = translator()
  expect(push({ data: '{"type":' })).toEqual([])
  expect(failure()).toMatchObject({ type: 'api_error', isUnreadable: true })
})

test('a stream is complete with its last event only', () => {
  const { push, isComplete } = translator()
  for (const event of greeting.slice(0, -1)) push(say(event))
  expect(isComplete()).toBe(false)
  push(say({ type: 'message_stop' }))
  expect(isComplete()).toBe(true)
})

test('any split of the bytes gives the same chunks', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'binary' })), fc.array(fc.nat()), (texts, cuts) => {
      const events = [start, textStart, ...texts.map(textDelta), ...end('end_turn')]
      const bytes = Buffer.from(
        events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(''),
      )
      const positions = cuts.map((cut) => cut % bytes.length).toSorted((a, b) => a - b)
      const { push } = createSseScanner({ eventBytesMax: 1e6 })
      const { push: translatePart } = translator(true)
      const chunks = [...positions, bytes.length]
        .flatMap((end, index) => push(bytes.subarray(positions[index - 1] ?? 0, end)))
        .flatMap((event) => translatePart(event))
      expect(chunks).toEqual(translate(events, true))
      expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe(
        texts.map((text) => text.toWellFormed()).join(''),
      )
    }),
  )
})

const eventType = fc.constantFrom(
  'message_start',
  'content_block_start',
  'content_block_delta',
  'content_block_stop',
  'message_delta',
  'message_stop',
  'other',
)
const blockType = fc.constantFrom('text', 'thinking', 'tool_use', 'text_delta', 'thinking_delta', 'input_json_delta')
const loose = fc.oneof(fc.jsonValue(), fc.string())
const block = fc.record(
  { type: blockType, text: loose, thinking: loose, id: loose, name: loose, input: loose, partial_json: loose },
  { requiredKeys: ['type'] },
)
const anyEvent = fc.oneof(
  fc.jsonValue(),
  fc.record(
    {
      type: eventType,
      index: fc.oneof(fc.nat(3), loose),
      content_block: block,
      delta: block,
      message: loose,
      usage: loose,
    },
    { requiredKeys: ['type'] },
  ),
)

test('any JSON events become valid chunks, with at most one end', () => {
  fc.assert(
    fc.property(fc.array(anyEvent), (events) => {
      const chunks = translate(events, true)
      const seen = new Set<number>()
      for (const { choices, usage } of chunks) {
        expect(choices.length === 1 || usage != null).toBe(true)
        for (const { delta } of choices) {
          for (const text of [delta.content ?? '', delta.reasoning_content ?? '']) expect(typeof text).toBe('string')
          for (const call of delta.tool_calls ?? []) {
            expect(typeof call.function.arguments).toBe('string')
            expect(seen.has(call.index)).toBe(call.id === undefined)
            seen.add(call.index)
          }
        }
      }
      expect([...seen]).toEqual([...seen.keys()].map((_, index) => index))
      expect(chunks.filter(({ choices }) => choices[0]?.finish_reason != null).length).toBeLessThanOrEqual(1)
      for (const event of events) toChatCompletion(event, names)
    }),
    { numRuns: 500 },
  )
})

test('an answer survives the way into the next request and back', () => {
  const id = fc.stringMatching(/^[a-zA-Z0-9_-]+$/)
  const call = fc.record({ id, name: fc.string(), input: fc.dictionary(fc.string(), fc.jsonValue()) })
  // Whitespace-only text is left out of requests.
  const said = fc.string({ unit: 'binary' }).map((text) => `${text}.`)
  fc.assert(
    fc.property(said, fc.array(call), (text, calls) => {
      const toolCalls = calls.map(({ id, name, input }) => ({
        id,
        type: 'function',
        function: { name, arguments: JSON.stringify(input) },
      }))
      const answer: ChatMessage = { role: 'assistant', content: text, tool_calls: toolCalls }
      const request = toMessagesRequest({ model: 'm', messages: [answer] }, { model: 'c', maxTokensDefault: 1 })
      const completion = toChatCompletion({ ...message, content: request.messages[0]?.content }, names)
      expect(completion?.choices[0]?.message).toEqual({
        role: 'assistant',
        content: text,
        refusal: null,
        ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
      })
    }),
  )
})
