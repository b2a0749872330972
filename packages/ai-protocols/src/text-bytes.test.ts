import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  chatChunkTextBytes,
  completionTextBytes,
  requestTextBytes,
  responseEventTextBytes,
  responseTextBytes,
} from './text-bytes.ts'

const media = `data:image/png;base64,${'A'.repeat(1000)}`

test('a chat counts the text of its messages, in UTF-8', () => {
  const messages = [
    { role: 'system', content: 'é' },
    { role: 'user', name: 'ada', content: [{ type: 'text', text: '🎉' }] },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'ok' },
  ]
  expect(requestTextBytes('chat', { model: 'model', messages })).toBe(2 + 3 + 4 + 1 + 2 + 2)
})

test('encoded and addressed media count nothing', () => {
  const content = [
    { type: 'image_url', image_url: { url: media, detail: 'low' } },
    { type: 'image_url', image_url: { url: 'https://a.example/b.png' } },
    { type: 'input_audio', input_audio: { data: media, format: 'wav' } },
    { type: 'file', file: { file_data: media } },
  ]
  expect(requestTextBytes('chat', { messages: [{ role: 'user', content }] })).toBe(0)
  const parts = [
    { type: 'input_image', image_url: media },
    { type: 'input_file', file_data: media, file_url: media },
  ]
  expect(requestTextBytes('responses', { input: [{ role: 'user', content: parts }] })).toBe(0)
})

test('text that looks like a data: URL counts', () => {
  expect(requestTextBytes('chat', { messages: [{ role: 'user', content: media }] })).toBe(media.length)
})

test('tools and schemas count as JSON', () => {
  const tools = [
    { type: 'function', function: { name: 'f', description: 'é"\n', parameters: { a: [1, true, null, []] } } },
  ]
  const schema = { type: 'json_schema', json_schema: { name: 's', schema: {} } }
  expect(requestTextBytes('chat', { tools, response_format: schema })).toBe(
    Buffer.byteLength(JSON.stringify(tools) + JSON.stringify(schema)),
  )
})

test('the size of JSON is that of its text', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(requestTextBytes('chat', { tools: [value] })).toBe(Buffer.byteLength(JSON.stringify([value])))
    }),
  )
})

test('a response counts instructions, input, calls and results', () => {
  const input = [
    { role: 'user', content: 'a' },
    { role: 'user', content: [{ type: 'input_text', text: 'bb' }] },
    { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: 'four' },
  ]
  expect(requestTextBytes('responses', { instructions: 'i', input })).toBe(1 + 1 + 2 + 1 + 2 + 4)
  expect(requestTextBytes('responses', { input: 'é' })).toBe(2)
})

test('speech, transcriptions and videos count their words', () => {
  expect(requestTextBytes('speech', { model: 'm', input: 'é', instructions: 'i', voice: 'alloy' })).toBe(3)
  expect(requestTextBytes('transcription', { prompt: 'é', input_audio: { data: media } })).toBe(2)
  expect(requestTextBytes('video', { prompt: 'é', size: '1x1' })).toBe(2)
})

test('a body that is nested a million deep is counted', () => {
  const nested: unknown = JSON.parse(`${'['.repeat(1e6)}"é"${']'.repeat(1e6)}`)
  expect(requestTextBytes('chat', { messages: nested })).toBe(2)
  expect(requestTextBytes('chat', { tools: nested })).toBe(2e6 + 4)
})

const message = {
  content: 'é',
  refusal: 'no',
  reasoning_content: 'why',
  reasoning: 'why',
  tool_calls: [
    { index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } },
    { index: 1, custom: { name: 'g', input: 'abc' } },
  ],
}
const messageBytes = 2 + 2 + 3 + 1 + 2 + 1 + 3

test('an answer counts text, reasoning and calls of all choices', () => {
  expect(completionTextBytes({ choices: [{ message }, { message: { content: 'b' } }] })).toBe(messageBytes + 1)
  expect(chatChunkTextBytes({ choices: [{ delta: message }, { delta: { reasoning: 'b' } }] })).toBe(messageBytes + 1)
})

test('an answer counts the text of parts, thinking included', () => {
  const content = [
    { type: 'thinking', thinking: [{ type: 'text', text: 'why' }] },
    { type: 'text', text: 'é' },
    { type: 'image_url', image_url: { url: media } },
  ]
  expect(completionTextBytes({ choices: [{ message: { content } }] })).toBe(5)
  expect(chatChunkTextBytes({ choices: [{ delta: { content, reasoning_content: '', reasoning: 'b' } }] })).toBe(6)
})

test('the events of a response count as much as the response', () => {
  const events = [
    { type: 'response.output_item.added', item: { type: 'message', content: [] } },
    { type: 'response.output_text.delta', delta: 'é' },
    { type: 'response.output_text.done', text: 'é' },
    { type: 'response.refusal.delta', delta: 'no' },
    { type: 'response.reasoning_text.delta', delta: 'why' },
    { type: 'response.output_item.added', item: { type: 'function_call', name: 'f', arguments: '' } },
    { type: 'response.function_call_arguments.delta', delta: '{}' },
    { type: 'response.function_call_arguments.done', arguments: '{}' },
    { type: 'response.audio.delta', delta: media },
  ]
  const output = [
    {
      type: 'message',
      content: [
        { type: 'output_text', text: 'é' },
        { type: 'refusal', refusal: 'no' },
      ],
    },
    { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'why' }] },
    { type: 'function_call', name: 'f', arguments: '{}' },
  ]
  expect(events.reduce((sum, event) => sum + responseEventTextBytes(event), 0)).toBe(10)
  expect(responseTextBytes({ output })).toBe(10)
})

test('any JSON is counted', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const counts = [
        requestTextBytes('chat', value),
        requestTextBytes('responses', value),
        completionTextBytes(value),
        chatChunkTextBytes({ choices: value }),
        responseTextBytes({ output: value }),
        responseEventTextBytes(value),
      ]
      expect(counts.every((bytes) => Number.isInteger(bytes) && bytes >= 0)).toBe(true)
    }),
  )
})
