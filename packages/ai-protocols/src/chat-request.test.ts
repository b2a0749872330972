import * as fc from 'fast-check'
import type OpenAI from 'openai'
import { expect, test } from 'vitest'
import { checkChatRequest } from './chat-request.ts'

const hello = [{ role: 'user', content: 'Hello' }]
const chat = (members: object): unknown => ({ model: 'm', messages: hello, ...members })

const full = {
  model: 'gpt-5',
  messages: [
    { role: 'developer', content: 'Be brief' },
    { role: 'system', content: [{ type: 'text', text: 'Be kind' }] },
    {
      role: 'user',
      name: 'ada',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } },
        { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' } },
        { type: 'file', file: { file_id: 'file-1' } },
      ],
    },
    {
      role: 'assistant',
      content: null,
      tool_calls: [
        { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } },
        { id: 'call_2', type: 'custom', custom: { name: 'g', input: 'x' } },
      ],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'ok' },
    { role: 'tool', tool_call_id: 'call_2', content: [{ type: 'text', text: 'ok' }] },
    { role: 'assistant', refusal: 'No', content: [{ type: 'refusal', refusal: 'No' }] },
    { role: 'assistant' },
    { role: 'function', name: 'f', content: null },
  ],
  stream: true,
  stream_options: { include_usage: true },
  max_tokens: 1,
  max_completion_tokens: 1,
  n: 128,
  temperature: 2,
  top_p: 1,
  frequency_penalty: -2,
  presence_penalty: 2,
  stop: ['a', 'b'],
  tools: [
    { type: 'function', function: { name: 'f', description: 'd', parameters: {}, strict: true } },
    { type: 'function', function: { name: 'g' } },
    { type: 'custom', custom: { name: 'g' } },
  ],
  tool_choice: { type: 'function', function: { name: 'f' } },
  parallel_tool_calls: false,
  response_format: { type: 'json_schema', json_schema: { name: 's', schema: {}, strict: true } },
  reasoning_effort: 'high',
  metadata: { a: 'b' },
  user: 'u',
  safety_identifier: 's',
  service_tier: 'flex',
  logit_bias: { 1: 2 },
} satisfies OpenAI.ChatCompletionCreateParams

const nulls = {
  model: 'm',
  messages: [{ role: 'assistant', content: null, refusal: null }],
  frequency_penalty: null,
  presence_penalty: null,
  max_tokens: null,
  max_completion_tokens: null,
  n: null,
  temperature: null,
  top_p: null,
  stop: null,
  stream: null,
  stream_options: null,
  metadata: null,
  reasoning_effort: null,
  safety_identifier: null,
} satisfies OpenAI.ChatCompletionCreateParams

test.each([
  ['with every member', full],
  ['with nulls', nulls],
  ['with null for user and tools', chat({ user: null, tools: null, provider: null })],
  ['with members that nobody knows', chat({ top_k: 4, reasoning: { max_tokens: 3 } })],
  ['with a tool and a part of an unknown type', chat({ tools: [{ type: 'web' }] })],
  ['with wishes about the route', chat({ provider: { order: ['a'], allow_fallbacks: false, require_zdr: true } })],
  ['with an empty metadata text', chat({ metadata: { a: '' } })],
  ['with metadata of the most characters', chat({ metadata: { ['k'.repeat(64)]: '🎉'.repeat(512) } })],
])('a request %s passes', (_, body) => {
  expect(checkChatRequest(body)).toBeUndefined()
})

const message = (members: object): unknown => chat({ messages: [...hello, members] })

test.each<[string, unknown, (string | number)[], string]>([
  ['no object', [], [], 'must be an object'],
  ['no model', { messages: hello }, ['model'], 'must be a string that is not empty'],
  ['an empty model', chat({ model: '' }), ['model'], 'must be a string that is not empty'],
  ['a long model', chat({ model: 'm'.repeat(257) }), ['model'], 'must have at most 256 characters'],
  ['no messages', { model: 'm' }, ['messages'], 'must be an array'],
  ['an empty list of messages', chat({ messages: [] }), ['messages'], 'must have at least one element'],
  ['a message that is text', chat({ messages: ['Hi'] }), ['messages', 0], 'must be an object'],
  [
    'an unknown role',
    message({ role: 'bot', content: '' }),
    ['messages', 1, 'role'],
    'must be one of system, developer, user, assistant, tool, function',
  ],
  ['a role of Object', message({ role: 'constructor' }), ['messages', 1, 'role'], 'must be one of'],
  ['no content', message({ role: 'user' }), ['messages', 1, 'content'], 'must be a string or an array of parts'],
  ['null content', message({ role: 'tool', tool_call_id: 'a', content: null }), ['messages', 1, 'content'], 'must be'],
  [
    'a number as content',
    message({ role: 'assistant', content: 1 }),
    ['messages', 1, 'content'],
    'must be a string or',
  ],
  [
    'a part without a type',
    message({ role: 'user', content: [{ text: 'a' }] }),
    ['messages', 1, 'content', 0, 'type'],
    'must be a string that is not empty',
  ],
  [
    'a text part without text',
    message({ role: 'user', content: [{ type: 'text' }] }),
    ['messages', 1, 'content', 0, 'text'],
    'must be a string',
  ],
  [
    'a picture without an address',
    message({ role: 'user', content: [{ type: 'image_url', image_url: 'https://a.example' }] }),
    ['messages', 1, 'content', 0, 'image_url'],
    'must be an object',
  ],
  [
    'a tool result of no call',
    message({ role: 'tool', content: 'a' }),
    ['messages', 1, 'tool_call_id'],
    'must be a string',
  ],
  [
    'arguments that are no text',
    message({ role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: {} } }] }),
    ['messages', 1, 'tool_calls', 0, 'function', 'arguments'],
    'must be a string',
  ],
  ['a stream that is text', chat({ stream: 'true' }), ['stream'], 'must be true or false'],
  ['stream options as text', chat({ stream_options: 'a' }), ['stream_options'], 'must be an object'],
  ['no tokens', chat({ max_tokens: 0 }), ['max_tokens'], 'must be an integer of at least 1'],
  ['half tokens', chat({ max_completion_tokens: 1.5 }), ['max_completion_tokens'], 'must be an integer of at least 1'],
  ['n 0', chat({ n: 0 }), ['n'], 'must be an integer from 1 to 128'],
  ['n 129', chat({ n: 129 }), ['n'], 'must be an integer from 1 to 128'],
  ['a temperature above 2', chat({ temperature: 2.01 }), ['temperature'], 'must be a number from 0 to 2'],
  ['a temperature of text', chat({ temperature: '1' }), ['temperature'], 'must be a number from 0 to 2'],
  ['top_p above 1', chat({ top_p: 1.1 }), ['top_p'], 'must be a number from 0 to 1'],
  ['a penalty below -2', chat({ presence_penalty: -2.1 }), ['presence_penalty'], 'must be a number from -2 to 2'],
  ['a penalty above 2', chat({ frequency_penalty: 2.1 }), ['frequency_penalty'], 'must be a number from -2 to 2'],
  ['a stop of numbers', chat({ stop: [1] }), ['stop', 0], 'must be a string'],
  ['tools as an object', chat({ tools: {} }), ['tools'], 'must be an array'],
  ['a tool without a type', chat({ tools: [{}] }), ['tools', 0, 'type'], 'must be a string that is not empty'],
  [
    'a function without a name',
    chat({ tools: [{ type: 'function', function: {} }] }),
    ['tools', 0, 'function', 'name'],
    'must be a string that is not empty',
  ],
  ['a user that is a number', chat({ user: 1 }), ['user'], 'must be a string'],
  [
    'metadata of 17 members',
    chat({ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, key) => [key, ''])) }),
    ['metadata'],
    'must have at most 16 members',
  ],
  ['a metadata number', chat({ metadata: { a: 1 } }), ['metadata', 'a'], 'must be a string'],
  [
    'a long metadata text',
    chat({ metadata: { a: 'a'.repeat(513) } }),
    ['metadata', 'a'],
    'must have at most 512 characters',
  ],
  [
    'a long metadata key',
    chat({ metadata: { ['k'.repeat(65)]: '' } }),
    ['metadata', 'k'.repeat(65)],
    'must have a name',
  ],
  ['a provider that is text', chat({ provider: 'a' }), ['provider'], 'must be an object'],
  ['an order of numbers', chat({ provider: { order: [1] } }), ['provider', 'order', 0], 'must be a string'],
  ['a wish that is text', chat({ provider: { require_zdr: 'yes' } }), ['provider', 'require_zdr'], 'must be true or'],
])('a request with %s has a fault', (_, body, path, message) => {
  expect(checkChatRequest(body)).toEqual({ path, message: expect.stringContaining(message) as unknown })
})

test('the first fault is reported', () => {
  expect(checkChatRequest({ model: '', messages: [], n: 0 })?.path).toEqual(['model'])
})

test('no JSON value makes the check throw', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), fc.constantFrom(...Object.keys(full)), (value, other, name) => {
      const fault = checkChatRequest({ ...full, [name]: value, metadata: other })
      expect([undefined, name, 'metadata']).toContain(fault?.path[0])
    }),
  )
})
