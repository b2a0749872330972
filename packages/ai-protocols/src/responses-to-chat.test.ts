import * as fc from 'fast-check'
import type OpenAI from 'openai'
import { expect, test } from 'vitest'
import { checkChatRequest } from './chat-request.ts'
import { checkResponsesRequest, type ResponsesRequest } from './responses-request.ts'
import { toChatRequest } from './responses-to-chat.ts'
import { UnsupportedMember } from './unsupported-member.ts'

const request = (members: Partial<ResponsesRequest>): ResponsesRequest => ({ model: 'm', input: 'Hello', ...members })

test('text and instructions become messages', () => {
  expect(
    toChatRequest(request({ instructions: 'Be kind', store: true, stream_options: {}, truncation: 'disabled' })),
  ).toEqual({
    model: 'm',
    messages: [
      { role: 'system', content: 'Be kind' },
      { role: 'user', content: 'Hello' },
    ],
  })
})

test('items become messages, and the calls of a turn one message', () => {
  const input: ResponsesRequest['input'] = [
    { role: 'developer', content: 'Be brief' },
    {
      role: 'user',
      content: [
        { type: 'input_text', text: 'Look' },
        { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'low' },
        { type: 'input_file', file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' },
        { type: 'input_file', file_id: 'file-1' },
      ],
    },
    { type: 'reasoning', id: 'rs_1', summary: [] },
    {
      type: 'message',
      role: 'assistant',
      content: [
        { type: 'output_text', text: 'Wait' },
        { type: 'refusal', refusal: 'No' },
      ],
    },
    { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' },
    { type: 'function_call', call_id: 'b', name: 'g', arguments: '{"x":1}' },
    { type: 'function_call_output', call_id: 'a', output: 'one' },
    { type: 'function_call_output', call_id: 'b', output: [{ type: 'input_text', text: 'two' }] },
    { type: 'function_call', call_id: 'c', name: 'f', arguments: '' },
  ]
  const call = (id: string, name: string, text: string) => ({
    id,
    type: 'function',
    function: { name, arguments: text },
  })
  expect(toChatRequest(request({ input })).messages).toEqual([
    { role: 'system', content: 'Be brief' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Look' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' } },
        { type: 'file', file: { file_id: 'file-1' } },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Wait' },
        { type: 'refusal', refusal: 'No' },
      ],
      tool_calls: [call('a', 'f', '{}'), call('b', 'g', '{"x":1}')],
    },
    { role: 'tool', tool_call_id: 'a', content: 'one' },
    { role: 'tool', tool_call_id: 'b', content: 'two' },
    { role: 'assistant', content: null, tool_calls: [call('c', 'f', '')] },
  ])
})

test('what an assistant says between a call and its result stands in the message of the call', () => {
  const says = (text: string) => ({ role: 'assistant', content: text })
  const calls = (call_id: string) => ({ type: 'function_call', call_id, name: 'f', arguments: '{}' })
  const result = (call_id: string) => ({ type: 'function_call_output', call_id, output: 'ok' })
  const input = [calls('a'), says('Wait'), calls('b'), says('More'), result('a'), result('b'), says('Done')]
  const call = (id: string) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })
  expect(toChatRequest(request({ input })).messages).toEqual([
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Wait' },
        { type: 'text', text: 'More' },
      ],
      tool_calls: [call('a'), call('b')],
    },
    { role: 'tool', tool_call_id: 'a', content: 'ok' },
    { role: 'tool', tool_call_id: 'b', content: 'ok' },
    { role: 'assistant', content: 'Done' },
  ])
})

test('caps, sampling, tools, format and effort are passed on', () => {
  const members = {
    max_output_tokens: 7,
    temperature: 0,
    top_p: 0.5,
    stream: true,
    parallel_tool_calls: false,
    tools: [
      { type: 'function', name: 'f', description: 'd', parameters: { type: 'object' }, strict: true },
      { type: 'function', name: 'g', parameters: null, strict: null },
    ],
    tool_choice: { type: 'function', name: 'f' },
    text: { format: { type: 'json_schema', name: 's', schema: { type: 'object' }, strict: true }, verbosity: 'low' },
    reasoning: { effort: 'low', summary: 'auto' },
    metadata: { a: 'b' },
    user: 'u',
    safety_identifier: 's',
    previous_response_id: null,
    include: [],
    background: false,
  } satisfies Partial<OpenAI.Responses.ResponseCreateParams>
  const expected = {
    model: 'm',
    messages: [{ role: 'user', content: 'Hello' }],
    max_completion_tokens: 7,
    temperature: 0,
    top_p: 0.5,
    stream: true,
    parallel_tool_calls: false,
    tools: [
      { type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object' }, strict: true } },
      { type: 'function', function: { name: 'g' } },
    ],
    tool_choice: { type: 'function', function: { name: 'f' } },
    response_format: { type: 'json_schema', json_schema: { name: 's', schema: { type: 'object' }, strict: true } },
    verbosity: 'low',
    reasoning_effort: 'low',
    metadata: { a: 'b' },
    user: 'u',
    safety_identifier: 's',
  } satisfies OpenAI.ChatCompletionCreateParams
  expect(toChatRequest(request(members))).toEqual(expected)
})

test('a choice among some tools is nested', () => {
  const choice = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'f' }] }
  expect(toChatRequest(request({ tools: [{ type: 'function', name: 'f' }], tool_choice: choice })).tool_choice).toEqual(
    {
      type: 'allowed_tools',
      allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'f' } }] },
    },
  )
})

test.each<[string, Partial<ResponsesRequest>]>([
  ['auto', { tools: [], tool_choice: 'auto', parallel_tool_calls: true }],
  ['none', { tool_choice: 'none', parallel_tool_calls: false }],
])('a choice of %s without tools is left out', (_, members) => {
  expect(toChatRequest(request(members))).toEqual({ model: 'm', messages: [{ role: 'user', content: 'Hello' }] })
})

test.each<[string, Partial<ResponsesRequest>]>([
  ['previous_response_id', { previous_response_id: 'resp_1' }],
  ['conversation', { conversation: 'conv_1' }],
  ['prompt', { prompt: { id: 'p' } }],
  ['background', { background: true }],
  ['truncation', { truncation: 'auto' }],
  ['max_tool_calls', { max_tool_calls: 1 }],
  ['include', { include: ['file_search_call.results'] }],
  ['top_logprobs', { top_logprobs: 1 }],
  ['n', { n: 128 }],
  ['messages', { messages: [] }],
  ['reasoning.mode', { reasoning: { mode: 'pro' } }],
  ['text.format', { text: { format: { type: 'grammar' } } }],
  ['tools[0]', { tools: [{ type: 'web_search' }] }],
  ['tools[0].async', { tools: [{ type: 'function', name: 'f', async: true }] }],
  ['tool_choice', { tool_choice: { type: 'web_search' } }],
  ['tool_choice', { tools: [], tool_choice: 'required' }],
  ['tool_choice', { tool_choice: { type: 'function', name: 'f' } }],
  ['tool_choice', { tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [] } }],
  ['input', { input: [] }],
  ['input[0]', { input: [{ type: 'item_reference', id: 'x' }] }],
  ['input[0].call_id', { input: [{ type: 'function_call_output', output: '' }] }],
  ['input[0].content[0]', { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'f' }] }] }],
  [
    'input[0].content[0].file_url',
    { input: [{ role: 'user', content: [{ type: 'input_file', file_url: 'https://a.example' }] }] },
  ],
  [
    'input[0].content[0]',
    { input: [{ role: 'system', content: [{ type: 'input_image', image_url: 'https://a.example' }] }] },
  ],
])('%s is refused by name', (param, members) => {
  expect(checkResponsesRequest(request(members))).toBeUndefined()
  let refusal: unknown
  try {
    toChatRequest(request(members))
  } catch (error) {
    refusal = error
  }
  expect(refusal).toBeInstanceOf(UnsupportedMember)
  expect(refusal).toMatchObject({ param })
})

const part = fc.record(
  {
    type: fc.constantFrom('input_text', 'output_text', 'refusal', 'input_image', 'input_file', 'input_audio'),
    text: fc.string(),
    refusal: fc.string(),
    image_url: fc.string({ minLength: 1 }),
    file_data: fc.string(),
  },
  { requiredKeys: ['type', 'text', 'refusal'] },
)
const content = fc.oneof(fc.string(), fc.array(part, { maxLength: 2 }))
const item = fc.record(
  {
    type: fc.constantFrom('message', 'function_call', 'function_call_output', 'reasoning', 'other'),
    role: fc.constantFrom('user', 'assistant', 'system', 'developer'),
    content,
    call_id: fc.string({ minLength: 1 }),
    name: fc.string({ minLength: 1 }),
    arguments: fc.string(),
    output: content,
  },
  { requiredKeys: ['role', 'content'] },
)
const anyMembers = fc.dictionary(
  fc.constantFrom('tools', 'tool_choice', 'text', 'reasoning', 'instructions', 'include', 'metadata'),
  fc.oneof(fc.jsonValue(), fc.constant(null)),
  { maxKeys: 2 },
)

test('a checked request becomes a chat that passes its check, or is refused by name', () => {
  let translated = 0
  fc.assert(
    fc.property(fc.array(item, { minLength: 1, maxLength: 5 }), anyMembers, (input, members) => {
      const body: unknown = { model: 'm', input, ...members }
      fc.pre(checkResponsesRequest(body) === undefined)
      try {
        expect(checkChatRequest(toChatRequest(body as ResponsesRequest))).toBeUndefined()
        translated += 1
      } catch (error) {
        if (!(error instanceof UnsupportedMember)) throw error
      }
    }),
    { numRuns: 1000 },
  )
  expect(translated).toBeGreaterThan(0)
})
