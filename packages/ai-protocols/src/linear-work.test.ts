import { expect, test } from 'vitest'
import { checkChatRequest, type ChatRequest } from './chat-request.ts'
import { toMessagesRequest } from './chat-to-messages.ts'
import { createResponseEventTranslator, type ResponseNames, toResponse } from './chat-to-responses.ts'
import { createChatChunkTranslator, toChatCompletion } from './messages-to-chat.ts'
import { checkResponsesRequest, type ResponsesRequest } from './responses-request.ts'
import { toChatRequest } from './responses-to-chat.ts'
import { createSseScanner } from './sse-scanner.ts'
import { completionTextBytes, requestTextBytes, responseTextBytes } from './text-bytes.ts'

const COUNT = 1_000
const TIMES = 50
/**
 * The time for TIMES as many items at once, relative to the time for the items TIMES times: about 1 for linear work, about TIMES
 * for quadratic work. The limit lies in between, since collecting garbage of a larger heap takes longer.
 */
const RATIO_MAX = TIMES / 3
/** Below this the thread's clock, which counts ticks on a busy machine, is meaningless. */
const MICROS_MIN = 10_000
const ATTEMPTS = 4

/** Prepares `count` items, and returns the work to measure. */
type Work = (count: number) => () => void

/** CPU time of this thread alone, so that a busy machine changes little. */
function cpuMicros(works: readonly (() => void)[]): number {
  const start = process.threadCpuUsage()
  for (const work of works) work()
  const { user, system } = process.threadCpuUsage(start)
  return user + system
}

/** The best of several attempts: the compiler and the garbage collector disturb single ones. */
function ratioOf(work: Work): number {
  let best = Infinity
  for (let attempt = 0; attempt < ATTEMPTS && best > RATIO_MAX; attempt += 1) {
    const apart = cpuMicros(Array.from({ length: TIMES }, () => work(COUNT)))
    const atOnce = cpuMicros([work(TIMES * COUNT)])
    best = Math.min(best, atOnce / Math.max(apart, MICROS_MIN))
  }
  return best
}

const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, n) => make(n))

const user = { role: 'user', content: 'a' } as const
const assistant = { role: 'assistant', content: 'a' } as const
const callOf = (index: number) => ({ id: `c${index}`, type: 'function', function: { name: 'f', arguments: '{}' } })
const calling = { role: 'assistant', content: null, tool_calls: [callOf(0)] } as const

const chats: Record<string, (count: number) => object> = {
  'messages of an assistant after a call': (n) => ({ messages: [user, calling, ...many(n, () => assistant)] }),
  'messages of a user': (n) => ({ messages: many(n, () => user) }),
  'messages by turns': (n) => ({ messages: many(n, (index) => (index % 2 === 0 ? user : assistant)) }),
  instructions: (n) => ({ messages: [user, ...many(n, () => ({ role: 'system', content: 'a' }))] }),
  parts: (n) => ({ messages: [{ role: 'user', content: many(n, () => ({ type: 'text', text: 'a' })) }] }),
  'calls and their results': (n) => ({
    messages: [
      { role: 'assistant', tool_calls: many(n, callOf) },
      ...many(n, (index) => ({ role: 'tool', tool_call_id: `c${index}`, content: 'a' })),
    ],
  }),
  tools: (n) => ({
    messages: [user],
    tools: many(n, (index) => ({ type: 'function', function: { name: `f${index}` } })),
  }),
}

test.each(Object.entries(chats))(
  'a chat of many %s is checked, counted and sent to Anthropic in linear time',
  (_, make) => {
    const work: Work = (count) => {
      const chat = { model: 'm', ...make(count) } as ChatRequest
      return () => {
        expect(checkChatRequest(chat)).toBeUndefined()
        requestTextBytes('chat', chat)
        toMessagesRequest(chat, { model: 'c', maxTokensDefault: 1 })
      }
    }
    expect(ratioOf(work)).toBeLessThan(RATIO_MAX)
  },
)

const called = (index: number) => ({ type: 'function_call', call_id: `c${index}`, name: 'f', arguments: '{}' })
const result = (index: number) => ({ type: 'function_call_output', call_id: `c${index}`, output: 'a' })
const inputs: Record<string, (count: number) => object[]> = {
  'messages of an assistant after a call': (n) => [user, called(0), ...many(n, () => assistant)],
  'calls between messages of an assistant': (n) => many(n, (index) => (index % 2 === 0 ? called(index) : assistant)),
  calls: (n) => [...many(n, called), ...many(n, result)],
  parts: (n) => [{ role: 'user', content: many(n, () => ({ type: 'input_text', text: 'a' })) }],
}

test.each(Object.entries(inputs))('a request of many %s becomes a chat, and messages, in linear time', (_, make) => {
  const work: Work = (count) => {
    const request = { model: 'm', input: make(count) } as ResponsesRequest
    return () => {
      expect(checkResponsesRequest(request)).toBeUndefined()
      requestTextBytes('responses', request)
      toMessagesRequest(toChatRequest(request), { model: 'c', maxTokensDefault: 1 })
    }
  }
  expect(ratioOf(work)).toBeLessThan(RATIO_MAX)
})

function named(): ResponseNames {
  let count = 0
  return {
    id: 'resp_1',
    createdAt: 1,
    newItemId: (prefix) => {
      count += 1
      return `${prefix}_${count}`
    },
  }
}
const request: ResponsesRequest = { model: 'm', input: 'a' }
const names = { id: 'c', created: 1, model: 'm' }
const citation = { type: 'url_citation', url_citation: { url: 'https://a.example' } }

const completions: Record<string, (count: number) => object> = {
  calls: (n) => ({ tool_calls: many(n, callOf) }),
  parts: (n) => ({ content: many(n, () => ({ type: 'text', text: 'a' })), annotations: many(n, () => citation) }),
}

test.each(Object.entries(completions))('a completion of many %s becomes a response in linear time', (_, make) => {
  const work: Work = (count) => {
    const completion = { choices: [{ index: 0, message: make(count), finish_reason: 'stop' }] }
    return () => {
      completionTextBytes(completion)
      responseTextBytes(toResponse(completion, request, named()))
    }
  }
  expect(ratioOf(work)).toBeLessThan(RATIO_MAX)
})

test('a message of many blocks becomes a completion in linear time', () => {
  const blocks = [
    { type: 'text', text: 'a' },
    { type: 'thinking', thinking: 'a' },
    { type: 'tool_use', id: 'a', name: 'f', input: {} },
  ]
  const work: Work = (count) => {
    const message = { type: 'message', content: many(count, (index) => blocks[index % blocks.length]) }
    return () => toChatCompletion(message, names)
  }
  expect(ratioOf(work)).toBeLessThan(RATIO_MAX)
})

const deltaOf = (delta: object, index = 0) => ({ choices: [{ index, delta, finish_reason: null }] })
const pieceOf = (index: number, id: string) =>
  deltaOf({ tool_calls: [{ index, id, function: { name: 'f', arguments: '{' } }] })
const turns =
  (...deltas: readonly object[]) =>
  (count: number) =>
    many(count, (index) => deltaOf(deltas[index % deltas.length] ?? {}))

const chunks: Record<string, (count: number) => unknown[]> = {
  'deltas of text': turns({ content: 'a' }),
  'deltas of text, refusal and reasoning': turns({ content: 'a' }, { refusal: 'a' }, { reasoning_content: 'a' }),
  'pieces of one call': (n) => many(n, () => pieceOf(0, 'a')),
  calls: (n) => many(n, (index) => pieceOf(index, `c${index}`)),
  'calls under one index': (n) => many(n, (index) => pieceOf(0, `c${index}`)),
  'citations that wait': (n) => [...turns({ annotations: [citation] })(n), deltaOf({ content: 'a' })],
  'calls in one chunk': (n) => [deltaOf({ tool_calls: many(n, (index) => ({ index, ...callOf(index) })) })],
  'choices in one chunk': (n) => [
    { choices: many(n, (index) => ({ index, delta: { content: 'a' }, finish_reason: null })) },
  ],
  'chunks with usage': (n) =>
    many(n, (index) => ({ ...deltaOf({ content: 'a' }), usage: { prompt_tokens: 1, completion_tokens: index } })),
}

test.each(Object.entries(chunks))('a streamed chat of many %s becomes a response in linear time', (_, make) => {
  const work: Work = (count) => {
    const events = make(count).map((chunk) => ({ data: JSON.stringify(chunk) }))
    return () => {
      const { push, end } = createResponseEventTranslator(request, named())
      for (const event of events) push(event)
      end()
    }
  }
  expect(ratioOf(work)).toBeLessThan(RATIO_MAX)
})

const messageEvents: Record<string, (index: number) => object> = {
  'pieces of text': () => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'a' } }),
  calls: (index) => ({ type: 'content_block_start', index, content_block: { type: 'tool_use', id: 'a', name: 'f' } }),
  'figures of usage': (index) => ({ type: 'message_delta', delta: {}, usage: { input_tokens: 1, [`x${index}`]: 1 } }),
}

test.each(Object.entries(messageEvents))('a streamed message of many %s becomes a chat in linear time', (_, make) => {
  const work: Work = (count) => {
    const events = many(count, (index) => ({ data: JSON.stringify(make(index)) }))
    return () => {
      const { push, usage } = createChatChunkTranslator({ ...names, includeUsage: true })
      for (const event of events) push(event)
      usage()
    }
  }
  expect(ratioOf(work)).toBeLessThan(RATIO_MAX)
})

const streams: Record<string, (count: number) => Buffer[]> = {
  'single bytes of one event': (n) => many(n, () => Buffer.from('a')),
  'lines of one event, one a chunk': (n) => many(n, () => Buffer.from('data: a\n')),
  'events, one a chunk': (n) => many(n, () => Buffer.from('data: a\n\n')),
  'events in one chunk': (n) => [Buffer.from('data: a\n\n'.repeat(n))],
  'lines of data': (n) => [Buffer.from(`${'data\n'.repeat(n)}\n`)],
  'blank lines': (n) => [Buffer.from('\n'.repeat(n))],
  CRs: (n) => [Buffer.from('\r'.repeat(n))],
  CRLFs: (n) => [Buffer.from('\r\n'.repeat(n))],
  'lines that end in CR or LF': (n) => [Buffer.from('a\ra\n'.repeat(n))],
  'LFs before one CR': (n) => [Buffer.from(`${'a\n'.repeat(n)}\r\r`)],
}

test.each(Object.entries(streams))('a stream of many %s is scanned in linear time', (_, make) => {
  const work: Work = (count) => {
    const pieces = make(10 * count)
    return () => {
      const { push } = createSseScanner({ eventBytesMax: 1e8 })
      for (const piece of pieces) push(piece)
    }
  }
  expect(ratioOf(work)).toBeLessThan(RATIO_MAX)
})
