import type Anthropic from '@anthropic-ai/sdk'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { createResponseEventTranslator, type ResponseNames } from './chat-to-responses.ts'
import { createChatChunkTranslator } from './messages-to-chat.ts'
import { createSseScanner } from './sse-scanner.ts'

/** How an upstream may write one event. */
interface Framing {
  isNamed: boolean
  hasComment: boolean
  /** JSON over several `data` lines. */
  isSpread: boolean
  separator: '' | ' '
}

const framing = fc.record<Framing>({
  isNamed: fc.boolean(),
  hasComment: fc.boolean(),
  isSpread: fc.boolean(),
  separator: fc.constantFrom('', ' '),
})
const transport = fc.record({
  lineEnd: fc.constantFrom('\n', '\r\n', '\r'),
  hasMark: fc.boolean(),
  framings: fc.array(framing, { minLength: 1, maxLength: 5 }),
  cuts: fc.array(fc.nat()),
})
type Transport = typeof transport extends fc.Arbitrary<infer T> ? T : never

/** An event is JSON, or a string to send literally. */
const jsonOf = (event: unknown, space?: number): string =>
  typeof event === 'string' ? event : JSON.stringify(event, null, space)

function linesOf(event: unknown, { isNamed, hasComment, isSpread, separator }: Framing): string[] {
  const data = jsonOf(event, isSpread ? 1 : undefined).split('\n')
  return [
    ...(hasComment ? [': ping', 'id: 1'] : []),
    ...(isNamed ? ['event: any'] : []),
    ...data.map((line) => `data:${separator}${line}`),
    '',
  ]
}

/** Splits the events into the chunks in which they arrive. */
function send(events: readonly unknown[], { lineEnd, hasMark, framings, cuts }: Transport): Buffer[] {
  const lines = events.flatMap((event, index) => linesOf(event, framings[index % framings.length] as Framing))
  const bytes = Buffer.from(`${hasMark ? '\uFEFF' : ''}${lines.map((line) => line + lineEnd).join('')}`)
  const places = cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b)
  return [...places, bytes.length].map((place, index) => bytes.subarray(places[index - 1] ?? 0, place))
}

type Data = { data: string | undefined }
type Push = (event: Data) => readonly unknown[]

/** Scans the chunks, translates the events, writes them as the gateway does, and reads the output back. */
function pass(chunks: readonly Buffer[], push: Push): unknown[] {
  const scanner = createSseScanner({ eventBytesMax: 1e6 })
  const written = chunks
    .flatMap((chunk) => scanner.push(chunk))
    .flatMap((event) => push(event))
    .map((event) => `event: x\ndata: ${JSON.stringify(event)}\n\n`)
  const reader = createSseScanner({ eventBytesMax: 1e6 })
  return reader.push(Buffer.from(written.join(''))).map(({ data }) => JSON.parse(data ?? '') as unknown)
}

const text = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('\r', '\u2028\n', 'é€🎈', '\uFEFF', 'data: x\n\n'))

/** A message as Anthropic's events: blocks one after another. */
const block = fc.oneof(
  fc.record({ type: fc.constant('text' as const), pieces: fc.array(text) }),
  fc.record({ type: fc.constant('thinking' as const), pieces: fc.array(text) }),
  fc.record({ type: fc.constant('tool_use' as const), pieces: fc.array(text) }),
)
type Block = typeof block extends fc.Arbitrary<infer T> ? T : never

function blockEvents({ type, pieces }: Block, index: number): Anthropic.RawMessageStreamEvent[] {
  const starts = {
    text: { type: 'text', text: '', citations: null },
    thinking: { type: 'thinking', thinking: '', signature: '' },
    tool_use: { type: 'tool_use', id: `toolu_${index}`, name: 'f', input: {}, caller: { type: 'direct' } },
  } as const
  const deltas = {
    text: (piece: string) => ({ type: 'text_delta', text: piece }) as const,
    thinking: (piece: string) => ({ type: 'thinking_delta', thinking: piece }) as const,
    tool_use: (piece: string) => ({ type: 'input_json_delta', partial_json: piece }) as const,
  }
  return [
    { type: 'content_block_start', index, content_block: starts[type] },
    ...pieces.map((piece) => ({ type: 'content_block_delta', index, delta: deltas[type](piece) }) as const),
    { type: 'content_block_stop', index },
  ]
}

const ending = fc.constantFrom<unknown[]>(
  [
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 9 } },
    { type: 'message_stop' },
  ],
  [{ type: 'message_delta', delta: { stop_reason: 'refusal', stop_details: { explanation: 'No' } } }],
  [{ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, { type: 'message_stop' }],
  ['{"type":', { type: 'message_stop' }],
  [],
)
const messageEvents = fc
  .tuple(fc.array(block, { maxLength: 5 }), ending)
  .map(([blocks, end]): unknown[] => [
    { type: 'message_start', message: { usage: { input_tokens: 3, output_tokens: 1 } } },
    { type: 'ping' },
    ...blocks.flatMap(blockEvents),
    ...end,
  ])

/** The chunks of a chat, with interleaved pieces of calls. */
const chatDelta = fc.oneof(
  fc.record({ content: text }),
  fc.record({ reasoning_content: text }),
  fc.record({ refusal: text }),
  fc.record({
    tool_calls: fc.array(
      fc.record(
        { index: fc.nat(2), id: fc.constantFrom('a', 'b'), function: fc.record({ name: text, arguments: text }) },
        { requiredKeys: ['index', 'function'] },
      ),
      { maxLength: 3 },
    ),
  }),
)
const chatEnding = fc.constantFrom<unknown[]>(
  [{ choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }, '[DONE]'],
  [{ choices: [{ index: 0, delta: {}, finish_reason: 'content_filter' }], usage: { prompt_tokens: 1 } }, '[DONE]'],
  [{ error: { message: 'Failed' } }, '[DONE]'],
  ['{'],
  [],
)
const chatEvents = fc
  .tuple(fc.array(chatDelta), chatEnding)
  .map(([deltas, end]): unknown[] => [
    ...deltas.map((delta) => ({ choices: [{ index: 0, delta, finish_reason: null }], usage: null })),
    ...end,
  ])

function named(): ResponseNames {
  let count = 0
  return { id: 'resp_1', createdAt: 1, newItemId: (prefix) => `${prefix}_${(count += 1)}` }
}

function toChat(): Push {
  const translator = createChatChunkTranslator({ id: 'c', created: 1, model: 'm', includeUsage: true })
  return (event) => translator.push(event)
}

function toResponses(): Push {
  const translator = createResponseEventTranslator({ model: 'm', input: 'Hello' }, named())
  return (event) => translator.push(event)
}

function toChatToResponses(): Push {
  const [first, second] = [toChat(), toResponses()]
  return (event) => first(event).flatMap((chunk) => second({ data: JSON.stringify(chunk) }))
}

test.each<[string, fc.Arbitrary<unknown[]>, () => Push]>([
  ['messages into chats', messageEvents, toChat],
  ['chats into responses', chatEvents, toResponses],
  ['messages into responses', messageEvents, toChatToResponses],
])('however the bytes arrive, the pipeline of %s gives the same events', (_, arbitrary, open) => {
  fc.assert(
    fc.property(arbitrary, transport, (events, way) => {
      const push = open()
      const direct = events.flatMap((event) => push({ data: jsonOf(event) }))
      expect(pass(send(events, way), open())).toEqual(JSON.parse(JSON.stringify(direct)))
      const single = { ...way, cuts: Array.from({ length: 3_000 }, (_, place) => place) }
      expect(pass(send(events, single), open())).toEqual(JSON.parse(JSON.stringify(direct)))
    }),
    { numRuns: 100 },
  )
})
