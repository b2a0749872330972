import type Anthropic from '@anthropic-ai/sdk'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { type ChatMessage, type ChatRequest, checkChatRequest } from './chat-request.ts'
import { toMessagesRequest } from './chat-to-messages.ts'
import { memberOf } from './record.ts'
import { UnsupportedMember } from './unsupported-member.ts'

const hello: ChatMessage = { role: 'user', content: 'Hello' }
const chat = (members: Partial<ChatRequest>): ChatRequest => ({ model: 'm', messages: [hello], ...members })
const names = { model: 'claude', maxTokensDefault: 4096 }
/** Typed with the SDK's type, so that the compiler checks the translation against it. */
const translate = (members: Partial<ChatRequest>): Anthropic.MessageCreateParams =>
  toMessagesRequest(chat(members), names)

test('a greeting becomes a message with the default cap', () => {
  expect(translate({})).toEqual({
    model: 'claude',
    max_tokens: 4096,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
  })
})

test('system and developer messages become the system prompt', () => {
  const messages: ChatMessage[] = [
    { role: 'system', content: 'Be kind' },
    { role: 'developer', content: [{ type: 'text', text: 'Be brief' }] },
    hello,
  ]
  expect(translate({ messages })).toMatchObject({
    system: [
      { type: 'text', text: 'Be kind' },
      { type: 'text', text: 'Be brief' },
    ],
    messages: [{ role: 'user' }],
  })
})

test('pictures and documents keep their place', () => {
  const content = [
    { type: 'text', text: 'Look' },
    { type: 'image_url', image_url: { url: 'data:image/PNG;base64,AAAA', detail: 'high' } },
    { type: 'image_url', image_url: { url: 'https://a.example/b.jpg' } },
    { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBE', filename: 'a.pdf' } },
    { type: 'file', file: { file_data: 'JVBE', filename: 'b.PDF' } },
    { type: 'file', file: { file_data: 'data:text/plain;charset=utf-8;base64,w6k=' } },
    { type: 'file', file: { file_data: 'https://a.example/c.pdf', filename: 'c.pdf' } },
  ]
  expect(translate({ messages: [{ role: 'user', content }] }).messages).toEqual([
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Look' },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
        { type: 'image', source: { type: 'url', url: 'https://a.example/b.jpg' } },
        {
          type: 'document',
          source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' },
          title: 'a.pdf',
        },
        {
          type: 'document',
          source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' },
          title: 'b.PDF',
        },
        { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'é' } },
        { type: 'document', source: { type: 'url', url: 'https://a.example/c.pdf' }, title: 'c.pdf' },
      ],
    },
  ])
})

test.each([
  ['image/jpeg', 'image/jpeg'],
  ['image/jpg', 'image/jpeg'],
  ['image/png', 'image/png'],
  ['IMAGE/GIF', 'image/gif'],
  ['image/webp;charset=binary', 'image/webp'],
])('a picture of type %s is sent as %s', (type, media_type) => {
  const content = [{ type: 'image_url', image_url: { url: `data:${type};base64,AAAA` } }]
  expect(translate({ messages: [{ role: 'user', content }] }).messages[0]?.content).toEqual([
    { type: 'image', source: { type: 'base64', media_type, data: 'AAAA' } },
  ])
})

test('results of tools and the words after them become one message', () => {
  const call = (id: string, text: string) => ({ id, type: 'function', function: { name: 'f', arguments: text } })
  const messages: ChatMessage[] = [
    hello,
    { role: 'assistant', content: 'Wait', tool_calls: [call('a', '{"x":1}'), call('b', '')] },
    { role: 'tool', tool_call_id: 'a', content: 'one' },
    { role: 'tool', tool_call_id: 'b', content: [{ type: 'text', text: 'two' }] },
    { role: 'user', content: 'And?' },
    { role: 'assistant', content: null, refusal: 'No' },
    { role: 'assistant', content: '' },
    { role: 'user', content: 'Why?' },
  ]
  expect(translate({ messages }).messages).toEqual([
    { role: 'user', content: [{ type: 'text', text: 'Hello' }] },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Wait' },
        { type: 'tool_use', id: 'a', name: 'f', input: { x: 1 } },
        { type: 'tool_use', id: 'b', name: 'f', input: {} },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'one' }] },
        { type: 'tool_result', tool_use_id: 'b', content: [{ type: 'text', text: 'two' }] },
        { type: 'text', text: 'And?' },
      ],
    },
    { role: 'assistant', content: [{ type: 'text', text: 'No' }] },
    { role: 'user', content: [{ type: 'text', text: 'Why?' }] },
  ])
})

test('ids of calls that Anthropic refuses become others, the same for call and result', () => {
  const ids = ['toolu_1', 'functions.f:0', 'functions.f:1', 'é', '']
  const messages: ChatMessage[] = [
    {
      role: 'assistant',
      tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '' } })),
    },
    ...ids.map((tool_call_id): ChatMessage => ({ role: 'tool', tool_call_id, content: 'ok' })),
  ]
  const [calls, results] = translate({ messages }).messages.map(({ content }) => content as object[])
  const sent = calls?.map((block) => memberOf(block, 'id'))
  expect(results?.map((block) => memberOf(block, 'tool_use_id'))).toEqual(sent)
  expect(new Set(sent).size).toBe(ids.length)
  expect(sent).toMatchObject([
    'toolu_1',
    ...ids.slice(1).map(() => expect.stringMatching(/^[a-zA-Z0-9_-]+$/) as unknown),
  ])
})

test('text that is only space is left out', () => {
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '' } }
  const messages: ChatMessage[] = [
    { role: 'system', content: ' ' },
    {
      role: 'user',
      content: [
        { type: 'text', text: '\t' },
        { type: 'text', text: ' Hello\n' },
      ],
    },
    { role: 'assistant', content: '\n\n', tool_calls: [call] },
    { role: 'tool', tool_call_id: 'a', content: ' \n' },
  ]
  expect(translate({ messages })).toMatchObject({
    messages: [
      { role: 'user', content: [{ type: 'text', text: ' Hello\n' }] },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a' }] },
    ],
  })
  expect(translate({ messages })).not.toHaveProperty('system')
})

test('the result of a tool may have pictures and documents', () => {
  const content = [
    { type: 'text', text: 'A plot' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' }, cache_control: { type: 'ephemeral' } },
    { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBE' } },
  ]
  expect(translate({ messages: [{ role: 'tool', tool_call_id: 'a', content }] }).messages[0]?.content).toEqual([
    {
      type: 'tool_result',
      tool_use_id: 'a',
      content: [
        { type: 'text', text: 'A plot' },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
        { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' } },
      ],
      cache_control: { type: 'ephemeral' },
    },
  ])
})

const cache_control = { type: 'ephemeral' } as const
const cachedFor5m = { type: 'ephemeral', ttl: '5m' } as const

test('parts, messages and tools that ask for a cache become blocks that do', () => {
  const messages: ChatMessage[] = [
    { role: 'system', content: [{ type: 'text', text: 'Be kind', cache_control }] },
    { role: 'system', content: 'Be brief', cache_control },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Look', cache_control: cachedFor5m },
        { type: 'image_url', image_url: { url: 'https://a.example/b.jpg' }, cache_control },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBE' }, cache_control },
        { type: 'text', text: 'Please', cache_control: null },
      ],
    },
    { role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '' } }] },
    {
      role: 'tool',
      tool_call_id: 'a',
      content: [
        { type: 'text', text: 'one', cache_control },
        { type: 'text', text: 'two' },
      ],
    },
    { role: 'tool', tool_call_id: 'b', content: 'three', cache_control },
  ]
  const offered = [
    { type: 'function', function: { name: 'f' }, cache_control },
    { type: 'function', function: { name: 'g', cache_control } },
  ]
  const sent = translate({ messages, tools: offered })
  expect(sent.system).toEqual([
    { type: 'text', text: 'Be kind', cache_control },
    { type: 'text', text: 'Be brief', cache_control },
  ])
  expect(sent.messages[0]?.content).toEqual([
    { type: 'text', text: 'Look', cache_control: cachedFor5m },
    { type: 'image', source: { type: 'url', url: 'https://a.example/b.jpg' }, cache_control },
    { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' }, cache_control },
    { type: 'text', text: 'Please' },
  ])
  expect(sent.messages[2]?.content).toEqual([
    {
      type: 'tool_result',
      tool_use_id: 'a',
      content: [
        { type: 'text', text: 'one' },
        { type: 'text', text: 'two' },
      ],
      cache_control,
    },
    { type: 'tool_result', tool_use_id: 'b', content: [{ type: 'text', text: 'three' }], cache_control },
  ])
  expect(sent.tools).toMatchObject([{ cache_control }, { cache_control }])
})

test('a refusal beside text is kept', () => {
  const messages: ChatMessage[] = [hello, { role: 'assistant', content: 'Well', refusal: 'No' }]
  expect(translate({ messages }).messages[1]?.content).toEqual([
    { type: 'text', text: 'Well' },
    { type: 'text', text: 'No' },
  ])
})

test('names, and members that only an answer needs, are left out', () => {
  const answer = { role: 'assistant', content: 'Hi', annotations: [], reasoning_details: [{ type: 'x' }] } as const
  expect(
    translate({
      messages: [
        { ...hello, name: 'ada' },
        { ...answer, annotations: [] },
      ],
    }).messages,
  ).toEqual([
    { role: 'user', content: [{ type: 'text', text: 'Hello' }] },
    { role: 'assistant', content: [{ type: 'text', text: 'Hi' }] },
  ])
})

test('a system message may have half a million parts', () => {
  const content = Array.from({ length: 500_000 }, () => ({ type: 'text', text: 'a' }))
  expect(translate({ messages: [{ role: 'system', content }, hello] }).system).toHaveLength(500_000)
})

const parameters = { type: 'object', properties: { a: { type: 'string' } } }
const tools = [
  { type: 'function', function: { name: 'f', description: 'd', parameters, strict: true } },
  { type: 'function', function: { name: 'g' } },
]

test('functions become tools', () => {
  expect(translate({ tools }).tools).toEqual([
    { name: 'f', description: 'd', input_schema: parameters, strict: true },
    { name: 'g', input_schema: { type: 'object', properties: {} } },
  ])
})

test.each<[string, Partial<ChatRequest>, unknown]>([
  ['nothing', {}, undefined],
  ['auto', { tool_choice: 'auto' }, { type: 'auto' }],
  ['none', { tool_choice: 'none', parallel_tool_calls: false }, { type: 'none' }],
  ['required', { tool_choice: 'required' }, { type: 'any' }],
  [
    'a function',
    { tool_choice: { type: 'function', function: { name: 'f' } }, parallel_tool_calls: false },
    { type: 'tool', name: 'f', disable_parallel_tool_use: true },
  ],
  ['one call at a time', { parallel_tool_calls: false }, { type: 'auto', disable_parallel_tool_use: true }],
  ['calls in parallel', { parallel_tool_calls: true }, undefined],
])('a choice of %s is kept', (_, members, choice) => {
  expect(translate({ tools, ...members }).tool_choice).toEqual(choice)
})

const among = (mode: string, ...names: string[]): Partial<ChatRequest> => ({
  tool_choice: {
    type: 'allowed_tools',
    allowed_tools: { mode, tools: names.map((name) => ({ type: 'function', function: { name } })) },
  },
})

test.each([
  ['auto', 'auto'],
  ['required', 'any'],
])('of a choice among some tools, %s, these are offered', (mode, type) => {
  const sent = translate({ tools, ...among(mode, 'g'), parallel_tool_calls: false })
  expect(sent.tools?.map((tool) => memberOf(tool, 'name'))).toEqual(['g'])
  expect(sent.tool_choice).toEqual({ type, disable_parallel_tool_use: true })
})

test.each<Partial<ChatRequest>>([
  { tool_choice: 'auto' },
  { tool_choice: 'none' },
  { parallel_tool_calls: false, tools: [] },
])('%j says nothing without tools', (members) => {
  expect(translate(members)).toEqual(translate({}))
})

test('caps, sampling, stops, stream, effort, format and user are passed on', () => {
  const schema = { type: 'object' }
  expect(
    translate({
      max_tokens: 5,
      max_completion_tokens: 7,
      temperature: 1,
      top_p: 0.5,
      stop: 'x',
      stream: true,
      stream_options: { include_usage: true },
      reasoning_effort: 'high',
      response_format: { type: 'json_schema', json_schema: { name: 's', schema } },
      user: 'u',
      safety_identifier: 's',
      metadata: { a: 'b' },
      provider: { order: ['anthropic'] },
      service_tier: 'default',
    }),
  ).toEqual({
    model: 'claude',
    max_tokens: 7,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
    stream: true,
    stop_sequences: ['x'],
    temperature: 1,
    top_p: 0.5,
    output_config: { effort: 'high', format: { type: 'json_schema', schema } },
    metadata: { user_id: 's' },
    service_tier: 'standard_only',
  })
  expect(translate({ max_tokens: 5, user: 'u', stop: ['a', 'b'] })).toMatchObject({
    max_tokens: 5,
    metadata: { user_id: 'u' },
    stop_sequences: ['a', 'b'],
  })
})

test('no effort turns thinking off', () => {
  const request = translate({ reasoning_effort: 'none' })
  expect(request.thinking).toEqual({ type: 'disabled' })
  expect(request.output_config).toBeUndefined()
})

test('members that say what happens anyway, and nulls, pass', () => {
  const harmless = {
    n: 1,
    logprobs: false,
    top_logprobs: 0,
    presence_penalty: 0,
    frequency_penalty: 0,
    logit_bias: {},
    modalities: ['text'],
    service_tier: 'auto',
    store: false,
    functions: [],
    verbosity: 'medium',
    response_format: { type: 'text' },
    seed: null,
    audio: null,
    temperature: null,
    prompt_cache_key: 'k',
  }
  expect(translate(harmless)).toEqual(translate({}))
})

const user = (part: { type: string; [member: string]: unknown }): Partial<ChatRequest> => ({
  messages: [hello, { role: 'user', content: [{ type: 'text', text: '' }, part] }],
})
const assistant = (members: object): Partial<ChatRequest> => ({ messages: [{ role: 'assistant', ...members }] })
const calling = (text: string): Partial<ChatRequest> =>
  assistant({ tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: text } }] })
/** A tool call with 600,000 elements. */
const manyElements: ChatMessage = {
  role: 'assistant',
  tool_calls: [
    { id: 'a', type: 'function', function: { name: 'f', arguments: `{"[\\",":[${'[],'.repeat(299_999)}"a,b"]}` } },
  ],
}

test('brackets and commas in the text of arguments are no elements', () => {
  const text = JSON.stringify({ a: '[,"\\'.repeat(600_000) })
  expect(() => translate(calling(text))).not.toThrow()
  expect(() => translate({ messages: [manyElements] })).not.toThrow()
})

/** JSON of objects nested to the given depth. */
const nested = (depth: number): string => `${'{"a":'.repeat(depth - 1)}{}${'}'.repeat(depth - 1)}`

test('arguments may be nested 500 deep, and can be written', () => {
  expect(JSON.stringify(translate(calling(nested(500))))).toContain(nested(500))
})

test.each<[string, Partial<ChatRequest>]>([
  ['n', { n: 2 }],
  ['logprobs', { logprobs: true }],
  ['top_logprobs', { top_logprobs: 1 }],
  ['presence_penalty', { presence_penalty: 0.1 }],
  ['frequency_penalty', { frequency_penalty: -0.1 }],
  ['logit_bias', { logit_bias: { 1: 1 } }],
  ['modalities', { modalities: ['text', 'audio'] }],
  ['audio', { audio: { voice: 'alloy', format: 'mp3' } }],
  ['prediction', { prediction: { type: 'content', content: '' } }],
  ['seed', { seed: 0 }],
  ['web_search_options', { web_search_options: {} }],
  ['service_tier', { service_tier: 'flex' }],
  ['store', { store: true }],
  ['functions', { functions: [{ name: 'f' }] }],
  ['verbosity', { verbosity: 'low' }],
  ['top_k', { top_k: 4 }],
  ['constructor', { constructor: 1 }],
  ['temperature', { temperature: 1.1 }],
  ['reasoning_effort', { reasoning_effort: 'minimal' }],
  ['response_format', { response_format: { type: 'json_object' } }],
  ['response_format', { response_format: { type: 'json_schema', json_schema: { name: 's' } } }],
  ['tool_choice', { tool_choice: { type: 'custom', custom: { name: 'f' } } }],
  ['tool_choice', { tool_choice: 'required' }],
  ['tool_choice', { tools, ...among('some', 'f') }],
  ['tool_choice', { tools, ...among('required', 'h') }],
  [
    'tool_choice',
    { tools, tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{ type: 'custom' }] } } },
  ],
  ['tool_choice', { tool_choice: { type: 'function', function: { name: 'f' } }, tools: [] }],
  ['tools[0]', { tools: [{ type: 'custom', custom: { name: 'f' } }] }],
  ['messages[1].content[1]', user({ type: 'input_audio', input_audio: { data: '', format: 'wav' } })],
  ['messages[1].content[1].file', user({ type: 'file', file: { file_id: 'file-1' } })],
  ...['http://a.example/c.pdf', 'data:application/pdf,JVBE', ''].map((file_data): [string, Partial<ChatRequest>] => [
    'messages[1].content[1].file',
    user({ type: 'file', file: { file_data, filename: 'c.pdf' } }),
  ]),
  ['messages[1].content[1].image_url.url', user({ type: 'image_url', image_url: { url: 'http://a.example' } })],
  [
    'messages[1].content[1].image_url.url',
    user({ type: 'image_url', image_url: { url: 'data:image/svg+xml,<svg/>' } }),
  ],
  ['messages[1].content[1].image_url.url', user({ type: 'image_url', image_url: { url: 'data:image/tiff;base64,A' } })],
  [
    'messages[1].content[1].image_url.url',
    user({ type: 'image_url', image_url: { url: `data:image/png;${'a=b;'.repeat(300)}base64,AAAA` } }),
  ],
  ['messages[1].content[1].cache_control', user({ type: 'text', text: 'a', cache_control: { type: 'eternal' } })],
  [
    'messages[1].content[1].cache_control.ttl',
    user({ type: 'text', text: 'a', cache_control: { type: 'ephemeral', ttl: '1h' } }),
  ],
  ['messages[0].cache_control', { messages: [{ ...hello, cache_control: true }] }],
  ['tools[0].cache_control', { tools: [{ type: 'function', function: { name: 'f' }, cache_control: 'yes' }] }],
  ['messages[0].content[0]', assistant({ content: [{ type: 'image_url', image_url: { url: 'https://a.example' } }] })],
  ['messages[0].tool_calls[0].function.arguments', calling('{"a":')],
  ['messages[0].tool_calls[0].function.arguments', calling('[]')],
  ['messages', { messages: [manyElements, manyElements] }],
  ['messages', { messages: [{ role: 'system', content: 'Be kind' }] }],
  ['messages', { messages: [{ role: 'user', content: '' }] }],
  ['messages[0].tool_calls[0].function.arguments', calling(nested(501))],
  ['messages[0].tool_calls[0].function.arguments', calling(nested(100_000))],
  [
    'messages[0].tool_calls[0]',
    assistant({ tool_calls: [{ id: 'a', type: 'custom', custom: { name: 'f', input: '' } }] }),
  ],
  ['messages[0].function_call', assistant({ function_call: { name: 'f', arguments: '' } })],
  ['messages[0].audio', assistant({ audio: { id: 'a' } })],
  ['messages[0].role', { messages: [{ role: 'function', name: 'f', content: null }] }],
])('%s is refused by name', (param, members) => {
  expect(checkChatRequest(chat(members))).toBeUndefined()
  let refusal: unknown
  try {
    translate(members)
  } catch (error) {
    refusal = error
  }
  expect(refusal).toBeInstanceOf(UnsupportedMember)
  expect(refusal).toMatchObject({ param, message: expect.stringMatching(/ (is|must) /) as unknown })
})

const part = fc.oneof(
  fc.record({ type: fc.constant('text'), text: fc.string() }),
  fc.record({ type: fc.constant('image_url'), image_url: fc.record({ url: fc.string({ minLength: 1 }) }) }),
  fc.record({ type: fc.string({ minLength: 1 }), text: fc.jsonValue() }),
)
const content = fc.oneof(fc.string(), fc.array(part, { maxLength: 3 }), fc.constant(null))
const message = fc.record(
  {
    role: fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool', 'function'),
    content,
    name: fc.string(),
    tool_call_id: fc.string(),
    tool_calls: fc.array(
      fc.record({
        id: fc.string(),
        type: fc.constantFrom('function', 'custom'),
        function: fc.record({ name: fc.string(), arguments: fc.oneof(fc.json(), fc.string()) }),
      }),
      { maxLength: 2 },
    ),
  },
  { requiredKeys: ['role'] },
)
const anyMembers = fc.dictionary(
  fc.constantFrom('stop', 'tools', 'tool_choice', 'response_format', 'reasoning_effort', 'seed', 'n', 'temperature'),
  fc.oneof(fc.jsonValue(), fc.constant(null)),
  { maxKeys: 2 },
)

test('a checked request is translated or refused by name, and no two turns in a row have one role', () => {
  let translated = 0
  fc.assert(
    fc.property(fc.array(message, { minLength: 1, maxLength: 6 }), anyMembers, (messages, members) => {
      const body: unknown = { model: 'm', messages, ...members }
      fc.pre(checkChatRequest(body) === undefined)
      try {
        const turns = toMessagesRequest(body as ChatRequest, names).messages
        expect(turns.every((turn, index) => turn.role !== turns[index + 1]?.role && turn.content.length > 0)).toBe(true)
        translated += 1
      } catch (error) {
        expect(error).toBeInstanceOf(UnsupportedMember)
      }
    }),
    { numRuns: 500 },
  )
  expect(translated).toBeGreaterThan(0)
})
