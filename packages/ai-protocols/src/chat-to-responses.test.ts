import * as fc from 'fast-check'
import OpenAI from 'openai'
import { expect, test } from 'vitest'
import {
  createResponseEventTranslator,
  type ResponseEvent,
  type ResponseNames,
  toResponse,
} from './chat-to-responses.ts'
import { createChatChunkTranslator } from './messages-to-chat.ts'
import { memberOf } from './record.ts'
import { checkResponsesRequest, type ResponsesRequest } from './responses-request.ts'
import { createSseScanner } from './sse-scanner.ts'

const request: ResponsesRequest = { model: 'm', input: 'Hello' }

function named(): ResponseNames {
  let count = 0
  return {
    id: 'resp_1',
    createdAt: 1_700_000_000,
    newItemId: (prefix) => {
      count += 1
      return `${prefix}_${count}`
    },
  }
}

const usage = {
  prompt_tokens: 10,
  completion_tokens: 5,
  total_tokens: 15,
  prompt_tokens_details: { cached_tokens: 4 },
  completion_tokens_details: { reasoning_tokens: 2 },
} satisfies OpenAI.CompletionUsage

function completion(message: object, finish_reason = 'stop'): unknown {
  return {
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason }],
    usage,
    service_tier: 'default',
  }
}

test('a completion becomes a response with all that the SDK asks for', () => {
  const tool_calls = [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }]
  const response = toResponse(
    completion({ content: 'Hi', refusal: 'No', reasoning_content: 'Hm', tool_calls }, 'tool_calls'),
    { ...request, instructions: 'Be kind', temperature: 0, metadata: { a: 'b' }, user: 'u', store: true },
    named(),
  )
  const typed:
    | Omit<
        OpenAI.Responses.Response,
        'output_text' | 'text' | 'tool_choice' | 'tools' | 'reasoning' | 'service_tier' | 'usage'
      >
    | undefined = response
  expect(typed).toEqual({
    id: 'resp_1',
    object: 'response',
    created_at: 1_700_000_000,
    status: 'completed',
    access_programs: null,
    background: false,
    error: null,
    incomplete_details: null,
    instructions: 'Be kind',
    max_output_tokens: null,
    max_tool_calls: null,
    metadata: { a: 'b' },
    model: 'm',
    output: [
      {
        type: 'reasoning',
        id: 'rs_1',
        status: 'completed',
        summary: [],
        content: [{ type: 'reasoning_text', text: 'Hm' }],
      },
      {
        type: 'message',
        id: 'msg_2',
        role: 'assistant',
        status: 'completed',
        content: [
          { type: 'output_text', text: 'Hi', annotations: [], logprobs: [] },
          { type: 'refusal', refusal: 'No' },
        ],
      },
      { type: 'function_call', id: 'fc_3', call_id: 'call_1', name: 'f', arguments: '{}', status: 'completed' },
    ],
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    safety_identifier: null,
    service_tier: 'default',
    store: false,
    temperature: 0,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_logprobs: 0,
    top_p: null,
    truncation: 'disabled',
    usage: {
      input_tokens: 10,
      input_tokens_details: { cached_tokens: 4, cache_write_tokens: 0 },
      output_tokens: 5,
      output_tokens_details: { reasoning_tokens: 2 },
      total_tokens: 15,
    },
    user: 'u',
  })
})

test.each([
  ['stop', 'completed', null],
  ['length', 'incomplete', { reason: 'max_output_tokens' }],
  ['content_filter', 'incomplete', { reason: 'content_filter' }],
])('a completion that ended by %s is %s', (finishReason, status, details) => {
  const response = toResponse(completion({ content: 'Hi' }, finishReason), request, named())
  expect(response).toMatchObject({ status, incomplete_details: details, output: [{ status }] })
})

test.each([null, {}, { choices: [] }, { choices: [{}] }, completion({ tool_calls: [{ id: 'a' }] })])(
  '%j is no completion',
  (value) => {
    expect(toResponse(value, request, named())).toBeUndefined()
  },
)

const chunk = (delta: object, finish_reason: string | null = null): unknown => ({
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta, finish_reason }],
})
const call = (index: number, members: object): unknown => chunk({ tool_calls: [{ index, ...members }] })
const say = (value: unknown) => ({ data: typeof value === 'string' ? value : JSON.stringify(value) })
const DONE = '[DONE]'

function translate(chunks: readonly unknown[]): ResponseEvent[] {
  const { push } = createResponseEventTranslator(request, named())
  return chunks.flatMap((each) => push(say(each)))
}

const everything = [
  chunk({ role: 'assistant', content: '' }),
  chunk({ reasoning_content: 'Hm' }),
  chunk({ content: 'Hel' }),
  chunk({ content: 'lo' }),
  chunk({ refusal: 'No' }),
  call(0, { id: 'call_a', type: 'function', function: { name: 'f', arguments: '' } }),
  call(1, { id: 'call_b', type: 'function', function: { name: 'g', arguments: '{' } }),
  call(0, { function: { arguments: '{}' } }),
  call(1, { function: { arguments: '}' } }),
  chunk({}, 'tool_calls'),
  { choices: [], usage },
  DONE,
]

test('events come in their order, numbered', () => {
  const events = translate(everything)
  expect(events.map(({ type }) => type)).toEqual([
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
    'response.reasoning_text.delta',
    'response.reasoning_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.output_item.added',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.delta',
    'response.output_text.done',
    'response.content_part.done',
    'response.content_part.added',
    'response.refusal.delta',
    'response.refusal.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.output_item.added',
    'response.output_item.added',
    'response.function_call_arguments.delta',
    'response.function_call_arguments.delta',
    'response.function_call_arguments.delta',
    'response.function_call_arguments.done',
    'response.output_item.done',
    'response.function_call_arguments.done',
    'response.output_item.done',
    'response.completed',
  ])
  expect(events.map((event) => event.sequence_number)).toEqual([...events.keys()])
})

test('the last event holds what the completion in one piece becomes', () => {
  const tool_calls = [
    { id: 'call_a', type: 'function', function: { name: 'f', arguments: '{}' } },
    { id: 'call_b', type: 'function', function: { name: 'g', arguments: '{}' } },
  ]
  const message = { content: 'Hello', refusal: 'No', reasoning_content: 'Hm', tool_calls }
  const whole = toResponse({ choices: [{ message, finish_reason: 'tool_calls' }], usage }, request, named())
  expect(translate(everything).at(-1)?.['response']).toEqual(whole)
})

async function readWithSdk(events: readonly ResponseEvent[]): Promise<unknown> {
  const body = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
  const client = new OpenAI({
    apiKey: 'none',
    fetch: () => Promise.resolve(new Response(body, { headers: { 'content-type': 'text/event-stream' } })),
  })
  return await client.responses.stream({ model: 'm', input: 'Hello' }).finalResponse()
}

test('the SDK puts the events together', async () => {
  expect(await readWithSdk(translate(everything))).toMatchObject({
    status: 'completed',
    output_text: 'Hello',
    output: [
      { type: 'reasoning', content: [{ text: 'Hm' }] },
      { type: 'message', content: [{ text: 'Hello' }, { refusal: 'No' }] },
      { type: 'function_call', call_id: 'call_a', arguments: '{}' },
      { type: 'function_call', call_id: 'call_b', arguments: '{}' },
    ],
    usage: { total_tokens: 15 },
  })
})

const last = (events: readonly ResponseEvent[]): unknown => events.at(-1)

test('a stream that was cut short by the cap is incomplete', () => {
  expect(last(translate([chunk({ content: 'a' }), chunk({}, 'length'), DONE]))).toMatchObject({
    type: 'response.incomplete',
    response: { incomplete_details: { reason: 'max_output_tokens' }, output: [{ status: 'incomplete' }] },
  })
})

test.each([
  ['an error', [chunk({ content: 'a' }), { error: { message: 'key sk-1 failed' } }]],
  ['an event that is no JSON', [chunk({ content: 'a' }), '{']],
  ['an end without a finish reason', [chunk({ content: 'a' }), DONE]],
  [
    'arguments of a call without a name',
    [call(0, { id: 'a', function: { arguments: '{}' } }), chunk({}, 'tool_calls')],
  ],
  ['an end with empty finish reasons', [chunk({ content: 'a' }, ''), chunk({}, ''), DONE]],
])('%s fails the response, in words of our own', (_, chunks) => {
  const event = last(translate([...chunks, DONE]))
  expect(event).toMatchObject({
    type: 'response.failed',
    response: { status: 'failed', error: { code: 'server_error' } },
  })
  expect(JSON.stringify(event)).not.toContain('sk-1')
})

test('a response ends once', () => {
  const { push, end } = createResponseEventTranslator(request, named())
  push(say(chunk({ content: 'a' }, 'stop')))
  push(say({ choices: [], usage }))
  expect(end().at(-1)?.type).toBe('response.completed')
  expect([...end(), ...push(say(DONE))]).toEqual([])
})

const callPiece = (
  index: number | undefined,
  id: string | undefined,
  name: string | undefined,
  text: string,
): unknown => chunk({ tool_calls: [{ index, id, function: { name, arguments: text } }] })
const callsOf = (chunks: readonly unknown[]): unknown[] =>
  translate([...chunks, DONE])
    .filter(({ type }) => type === 'response.output_item.done')
    .map(({ item }) => [memberOf(item, 'call_id'), memberOf(item, 'arguments')])

test.each([0, undefined])('calls of different ids at index %s are different calls', (index) => {
  const chunks = [
    callPiece(index, 'a', 'f', '{"x":'),
    callPiece(index, undefined, undefined, '1}'),
    callPiece(index, 'b', 'g', '{"y"'),
    callPiece(index, '', undefined, ':'),
    callPiece(index, 'b', 'g', '2}'),
  ]
  expect(callsOf(chunks)).toEqual([
    ['a', '{"x":1}'],
    ['b', '{"y":2}'],
  ])
})

test('pieces that name their call may be mixed at one index', () => {
  const chunks = [
    callPiece(0, 'a', 'f', '{'),
    callPiece(0, 'b', 'g', '['),
    callPiece(0, 'a', 'f', '}'),
    callPiece(0, 'b', undefined, ']'),
  ]
  expect(callsOf(chunks)).toEqual([
    ['a', '{}'],
    ['b', '[]'],
  ])
})

test('a new id without a name continues the call, and one id at two indexes is two calls', () => {
  expect(
    callsOf([callPiece(0, 'a', 'f', '{'), callPiece(0, 'b', undefined, '}'), callPiece(1, 'a', 'f', '1')]),
  ).toEqual([
    ['a', '{}'],
    ['a', '1'],
  ])
})

test.each(['', undefined])('a piece with the id %j that names another function begins a call', (id) => {
  const chunks = [callPiece(0, id, 'f', '{'), callPiece(0, id, 'f', '}'), callPiece(0, id, 'g', '[]')]
  expect(callsOf(chunks)).toEqual([
    ['fc_1', '{}'],
    ['fc_2', '[]'],
  ])
})

test.each(['', undefined, null])('calls whose id is %j get one, under which their results come back', (id) => {
  const tool_calls = ['f', 'g'].map((name, index) => ({ index, id, function: { name, arguments: '{}' } }))
  const whole = toResponse(completion({ content: null, tool_calls }, 'tool_calls'), request, named())
  const streamed = last(translate([chunk({ tool_calls }), chunk({}, 'tool_calls'), DONE]))
  const output = [
    { type: 'function_call', id: 'fc_1', call_id: 'fc_1', name: 'f', arguments: '{}' },
    { type: 'function_call', id: 'fc_2', call_id: 'fc_2', name: 'g', arguments: '{}' },
  ]
  expect([whole, streamed]).toMatchObject([{ output }, { response: { output } }])
  const next = { ...request, input: [...output, { type: 'function_call_output', call_id: 'fc_2', output: 'ok' }] }
  expect(checkResponsesRequest(next)).toBeUndefined()
})

const parts = [
  { type: 'thinking', thinking: [{ type: 'text', text: 'Hm' }] },
  { type: 'thinking', thinking: '!' },
  { type: 'text', text: 'Hel' },
  { type: 'reference', reference_ids: [1] },
  { type: 'text', text: 'lo' },
  { type: 'refusal', refusal: 'No' },
]
const annotations = [
  { type: 'url_citation', url_citation: { start_index: 0, end_index: 5, url: 'https://a.example', title: 'A' } },
  { type: 'file', file: { name: 'b' } },
  { type: 'url_citation', url_citation: { start_index: -1, url: 'https://b.example' } },
  { type: 'url_citation', url_citation: { start_index: 0, end_index: 1, title: 'No address' } },
]
const citations = [
  { type: 'url_citation', start_index: 0, end_index: 5, url: 'https://a.example', title: 'A' },
  { type: 'url_citation', start_index: 0, end_index: 0, url: 'https://b.example', title: '' },
]
const cited = [
  { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'Hm!' }] },
  {
    type: 'message',
    content: [
      { type: 'output_text', text: 'Hello', annotations: citations },
      { type: 'refusal', refusal: 'No' },
    ],
  },
]

test('content in parts becomes reasoning, text and refusal, and citations its annotations', () => {
  const response = toResponse(completion({ content: parts, annotations }), request, named())
  expect(response).toMatchObject({ status: 'completed', output: cited })
})

test('a stream of parts becomes the same, and its events tell of the citations', () => {
  const chunks = [
    ...parts.slice(0, 5).map((part) => ({ content: [part] })),
    { annotations },
    { content: parts.slice(5) },
  ]
  const events = translate([...chunks.map((delta) => chunk(delta)), chunk({}, 'stop'), DONE])
  expect(last(events)).toMatchObject({ type: 'response.completed', response: { output: cited } })
  expect(events.filter(({ type }) => type === 'response.output_text.annotation.added')).toMatchObject(
    citations.map((annotation, annotation_index) => ({
      output_index: 1,
      content_index: 0,
      annotation_index,
      annotation,
    })),
  )
  const added = events.find(({ type, part }) => type === 'response.content_part.added' && 'annotations' in Object(part))
  expect(added?.['part']).toMatchObject({ text: '', annotations: [] })
})

test('citations that come before their text wait for it', () => {
  const events = translate([chunk({ annotations }), chunk({ content: 'Hello' }), chunk({}, 'stop'), DONE])
  expect(last(events)).toMatchObject({ response: { output: [{ content: [{ annotations: citations }] }] } })
})

test('reasoning under two names is read once, from the one that is not empty', () => {
  const message = { content: 'Hi', reasoning_content: '', reasoning: 'Hm' }
  expect(toResponse(completion(message), request, named())?.output[0]).toMatchObject({ content: [{ text: 'Hm' }] })
})

test('any split of the bytes gives the same events', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'binary' })), fc.array(fc.nat()), (texts, cuts) => {
      const chunks = [...texts.map((content) => chunk({ content })), ...everything]
      const bytes = Buffer.from(chunks.map((each) => `data: ${say(each).data}\n\n`).join(''))
      const positions = cuts.map((cut) => cut % bytes.length).toSorted((a, b) => a - b)
      const { push } = createSseScanner({ eventBytesMax: 1e6 })
      const translator = createResponseEventTranslator(request, named())
      const events = [...positions, bytes.length]
        .flatMap((end, index) => push(bytes.subarray(positions[index - 1] ?? 0, end)))
        .flatMap((event) => translator.push(event))
      expect(events).toEqual(translate(chunks))
      expect(last(events)).toMatchObject({ type: 'response.completed' })
      const text = events.filter(({ type }) => type === 'response.output_text.delta').map((event) => event['delta'])
      expect(text.join('')).toBe(`${texts.join('')}Hello`)
    }),
    { numRuns: 50 },
  )
})

test('a message of Anthropic becomes a response by way of chunks', () => {
  const messages = createChatChunkTranslator({ id: 'c', created: 1, model: 'm', includeUsage: true })
  const events = [
    { type: 'message_start', message: { usage: { input_tokens: 3, output_tokens: 1 } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello' } },
    { type: 'message_delta', delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: 2 } },
    { type: 'message_stop' },
  ]
  const chunks = events.flatMap((event) => messages.push(say(event)))
  expect(last(translate([...chunks, DONE]))).toMatchObject({
    type: 'response.incomplete',
    response: { output: [{ content: [{ text: 'Hello' }] }], usage: { input_tokens: 3, output_tokens: 2 } },
  })
})

const loose = fc.oneof(fc.jsonValue(), fc.string())
const piece = fc.record(
  {
    index: fc.oneof(fc.nat(2), loose),
    id: fc.oneof(fc.constantFrom('a', 'b'), loose),
    function: fc.record({ name: loose, arguments: loose }),
  },
  { requiredKeys: [] },
)
const delta = fc.record(
  {
    content: fc.oneof(loose, fc.array(fc.constantFrom(...parts))),
    refusal: loose,
    reasoning_content: loose,
    annotations: fc.oneof(loose, fc.array(fc.constantFrom(...annotations))),
    tool_calls: fc.array(piece),
  },
  { requiredKeys: [] },
)
const anyChunk = fc.oneof(
  fc.jsonValue(),
  fc.constant(DONE),
  fc.record({ choices: fc.array(fc.record({ index: fc.nat(1), delta, finish_reason: loose })), usage: loose }),
)

/** The events of one part of an item, or of the arguments of a call. */
interface Told {
  deltas: string
  whole: unknown
  isDone: boolean
}

/** Assembles the items from their events alone, as a client does. Throws if the events contradict each other. */
function assemble(events: readonly ResponseEvent[]): unknown[] {
  const items: { id: unknown; parts: Told[]; item: unknown; isDone: boolean }[] = []
  const open = new Map<string, Told>()
  for (const { type, output_index, item_id, content_index, item, delta, part, ...event } of events) {
    if (output_index === undefined) continue
    const place = Number(output_index)
    if (type === 'response.output_item.added') {
      expect(place).toBe(items.length)
      items.push({ id: memberOf(item, 'id'), parts: [], item, isDone: false })
      continue
    }
    const told = items[place]
    if (told === undefined) throw new Error(`${type} of an item that was not added`)
    expect(told.isDone).toBe(false)
    expect(item_id ?? memberOf(item, 'id')).toBe(told.id)
    const key = `${place}.${String(content_index)}`
    const spoken = open.get(key) ?? { deltas: '', whole: undefined, isDone: false }
    open.set(key, spoken)
    expect(spoken.isDone).toBe(false)
    switch (type) {
      case 'response.output_item.done':
        told.item = item
        told.isDone = true
        expect(told.parts.every(({ isDone }) => isDone)).toBe(true)
        expect(told.parts.map(({ whole }) => whole)).toEqual(memberOf(item, 'content') ?? [])
        break
      case 'response.content_part.added':
        expect(content_index).toBe(told.parts.length)
        expect(told.parts.every(({ isDone }) => isDone)).toBe(true)
        told.parts.push(spoken)
        break
      case 'response.content_part.done':
        expect(memberOf(part, 'text') ?? memberOf(part, 'refusal')).toBe(spoken.deltas)
        spoken.whole = part
        spoken.isDone = true
        break
      case 'response.function_call_arguments.done':
        expect(event['arguments']).toBe(spoken.deltas)
        break
      default:
        if (type.endsWith('.delta')) spoken.deltas += String(delta)
        if (type.endsWith('.done')) expect(event['text'] ?? event['refusal']).toBe(spoken.deltas)
    }
  }
  expect(items.every(({ isDone }) => isDone)).toBe(true)
  expect(new Set(items.map(({ id }) => id)).size).toBe(items.length)
  return items.map(({ item }) => item)
}

test('any JSON chunks become a well-ordered response', () => {
  fc.assert(
    fc.property(fc.array(anyChunk), (chunks) => {
      const translator = createResponseEventTranslator(request, named())
      const events = [...chunks.flatMap((each) => translator.push(say(each))), ...translator.end()]
      expect(events.map((event) => event.sequence_number)).toEqual([...events.keys()])
      expect(events.filter(({ type }) => /^response\.(completed|incomplete|failed)$/.test(type))).toEqual([
        last(events),
      ])
      expect(assemble(events)).toEqual(memberOf(events.at(-1)?.['response'], 'output'))
      for (const each of chunks) toResponse(each, request, named())
    }),
    { numRuns: 500 },
  )
})

/** Interleaves the lists. */
function byTurns(lists: readonly unknown[][]): unknown[] {
  const most = Math.max(0, ...lists.map(({ length }) => length))
  return Array.from({ length: most }, (_, turn) => lists.flatMap((list) => list.slice(turn, turn + 1))).flat()
}

const answer = fc.record(
  {
    reasoning_content: fc.string({ minLength: 1 }),
    content: fc.string({ minLength: 1 }),
    refusal: fc.string({ minLength: 1 }),
    tool_calls: fc.array(fc.record({ name: fc.string({ minLength: 1 }), arguments: fc.string() }), { maxLength: 3 }),
  },
  { requiredKeys: [] },
)
const finish = fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter')

test('a stream becomes the response that its completion in one piece becomes', () => {
  fc.assert(
    fc.property(answer, finish, fc.boolean(), ({ tool_calls: called = [], ...texts }, reason, isMixed) => {
      const calls = called.map((each, index) => ({ id: `call_${index}`, type: 'function', function: each }))
      const chunks = Object.entries(texts).flatMap(([name, text]) =>
        Array.from(text, (character) => chunk({ [name]: character })),
      )
      const begins = called.map(({ name }, index) => call(index, { id: `call_${index}`, function: { name } }))
      const rests = called.map((each, index) =>
        Array.from(each.arguments, (character) => call(index, { function: { arguments: character } })),
      )
      const pieces = isMixed
        ? [...begins, ...byTurns(rests)]
        : begins.flatMap((begin, index) => [begin, ...(rests[index] ?? [])])
      const events = translate([...chunks, ...pieces, chunk({}, reason), { choices: [], usage }, DONE])
      const message = { ...texts, ...(calls.length > 0 && { tool_calls: calls }) }
      expect(last(events)).toMatchObject({
        response: toResponse({ choices: [{ message, finish_reason: reason }], usage }, request, named()),
      })
      expect(assemble(events)).toEqual(memberOf(events.at(-1)?.['response'], 'output'))
    }),
    { numRuns: 300 },
  )
})

test('a streamed response has a thousand items at most', () => {
  const translator = createResponseEventTranslator(request, named())
  const callOf = (index: number) => ({
    choices: [
      { index: 0, delta: { tool_calls: [{ index, id: `call_${index}`, function: { name: 'f', arguments: '{}' } }] } },
    ],
  })
  for (let n = 0; n < 1_000; n++) expect(translator.pushChunk(callOf(n)).at(-1)?.type).not.toBe('response.failed')
  const last = translator.pushChunk(callOf(1_000)).at(-1)
  expect([last?.type, memberOf(memberOf(last?.['response'], 'error'), 'message')]).toEqual([
    'response.failed',
    'The upstream answered with more than 1000 items',
  ])
})
