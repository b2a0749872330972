import type OpenAI from 'openai'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Fault } from './fault.ts'
import { checkResponsesRequest } from './responses-request.ts'
import { checkSpeechRequest } from './speech-request.ts'
import { checkTranscriptionFields, checkTranscriptionRequest, providerChoiceOf } from './transcription-request.ts'
import { checkVideoRequest } from './video-request.ts'

const response = {
  model: 'gpt-5',
  input: [
    { role: 'user', content: 'Hello' },
    { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Be brief' }] },
    {
      role: 'user',
      content: [
        { type: 'input_image', detail: 'auto', image_url: 'data:image/png;base64,AAAA' },
        { type: 'input_file', file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' },
      ],
    },
    { type: 'reasoning', id: 'rs_1', summary: [] },
    { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: 'ok' }] },
    {
      type: 'message',
      id: 'msg_1',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Hi', annotations: [] }],
    },
  ],
  instructions: 'Be kind',
  stream: true,
  max_output_tokens: 1,
  temperature: 0,
  top_p: 0,
  tools: [
    { type: 'function', name: 'f', parameters: {}, strict: true },
    { type: 'function', name: 'g', parameters: null, strict: null },
    { type: 'web_search' },
  ],
  tool_choice: { type: 'function', name: 'f' },
  text: { format: { type: 'json_schema', name: 's', schema: {} } },
  reasoning: { effort: 'low', summary: 'auto' },
  metadata: { a: 'b' },
  user: 'u',
} satisfies OpenAI.Responses.ResponseCreateParams

const responseNulls = {
  model: 'm',
  input: 'Hello',
  instructions: null,
  stream: null,
  max_output_tokens: null,
  temperature: null,
  metadata: null,
  previous_response_id: null,
  conversation: null,
  prompt: null,
  reasoning: null,
} satisfies OpenAI.Responses.ResponseCreateParams

const speech = {
  model: 'tts-1',
  input: 'Hello',
  voice: { id: 'voice_1' },
  response_format: 'pcm',
  speed: 0.25,
  stream_format: 'sse',
  instructions: 'Softly',
} satisfies OpenAI.Audio.SpeechCreateParams

const sound = { data: 'AAAA', format: 'wav' }
const transcription = { model: 'w', input_audio: sound }
const video = { model: 'sora-2', prompt: 'A cat', seconds: '8', size: '1280x720' } satisfies OpenAI.VideoCreateParams

type CheckOf = (body: never) => Fault | undefined

test.each<[string, CheckOf, unknown]>([
  ['a response', checkResponsesRequest, response],
  ['a response of nulls', checkResponsesRequest, responseNulls],
  ['a continued response without input', checkResponsesRequest, { model: 'm', previous_response_id: 'resp_1' }],
  ['speech', checkSpeechRequest, speech],
  ['speech of a named voice', checkSpeechRequest, { model: 'm', input: 'a'.repeat(5000), voice: 'alloy', speed: 4 }],
  ['a transcription', checkTranscriptionRequest, { ...transcription, response_format: 'diarized_json', stream: true }],
  ['a form', checkTranscriptionFields, { model: 'w', stream: 'true', temperature: '.5', 'include[]': ['a', 'b'] }],
  ['a form of empty fields', checkTranscriptionFields, { model: 'w', response_format: '', language: '', provider: '' }],
  [
    'a form that chooses a provider',
    checkTranscriptionFields,
    { model: 'w', provider: '{"order":["a"],"require_zdr":null}' },
  ],
  ['a video', checkVideoRequest, video],
  [
    'a video of a resolution',
    checkVideoRequest,
    { model: 'v', prompt: 'p', duration: 600, resolution: '720p', seed: -1 },
  ],
])('%s passes', (_, check, body) => {
  expect(check(body as never)).toBeUndefined()
})

test.each<[string, CheckOf, unknown, (string | number)[]]>([
  ['a response without input', checkResponsesRequest, { model: 'm' }, ['input']],
  ['a response without a model', checkResponsesRequest, { input: 'a' }, ['model']],
  ['a response to a number', checkResponsesRequest, { model: 'm', input: 1 }, ['input']],
  [
    'an item of an unknown role',
    checkResponsesRequest,
    { model: 'm', input: [{ role: 'x', content: '' }] },
    ['input', 0, 'role'],
  ],
  [
    'a message without content',
    checkResponsesRequest,
    { model: 'm', input: [{ role: 'user' }] },
    ['input', 0, 'content'],
  ],
  [
    'a call without a name',
    checkResponsesRequest,
    { model: 'm', input: [{ type: 'function_call', call_id: 'c', arguments: '' }] },
    ['input', 0, 'name'],
  ],
  ['a response of no tokens', checkResponsesRequest, { ...response, max_output_tokens: 0 }, ['max_output_tokens']],
  [
    'a response of a nested function',
    checkResponsesRequest,
    { ...response, tools: [{ type: 'function', function: { name: 'f' } }] },
    ['tools', 0, 'name'],
  ],
  [
    'a schema without a name',
    checkResponsesRequest,
    { ...response, text: { format: { type: 'json_schema', schema: {} } } },
    ['text', 'format', 'name'],
  ],
  ['silent speech', checkSpeechRequest, { ...speech, input: '' }, ['input']],
  ['speech without a voice', checkSpeechRequest, { model: 'm', input: 'a' }, ['voice']],
  ['speech of a voice without an id', checkSpeechRequest, { ...speech, voice: {} }, ['voice', 'id']],
  ['speech as MIDI', checkSpeechRequest, { ...speech, response_format: 'midi' }, ['response_format']],
  ['slow speech', checkSpeechRequest, { ...speech, speed: 0.24 }, ['speed']],
  ['fast speech', checkSpeechRequest, { ...speech, speed: 4.01 }, ['speed']],
  ['speech over a socket', checkSpeechRequest, { ...speech, stream_format: 'websocket' }, ['stream_format']],
  ['a transcription of nothing', checkTranscriptionRequest, { model: 'w' }, ['input_audio']],
  [
    'a transcription of a silent file',
    checkTranscriptionRequest,
    { model: 'w', input_audio: { data: '', format: 'wav' } },
    ['input_audio', 'data'],
  ],
  [
    'a transcription as PDF',
    checkTranscriptionRequest,
    { ...transcription, response_format: 'pdf' },
    ['response_format'],
  ],
  ['a transcription whose stream is text', checkTranscriptionRequest, { ...transcription, stream: 'true' }, ['stream']],
  ['a form without a model', checkTranscriptionFields, {}, ['model']],
  ['a form with two models', checkTranscriptionFields, { model: ['a', 'b'] }, ['model']],
  [
    'a form with two formats',
    checkTranscriptionFields,
    { model: 'a', response_format: ['json', 'text'] },
    ['response_format'],
  ],
  ['a form whose stream is 1', checkTranscriptionFields, { model: 'a', stream: '1' }, ['stream']],
  [
    'a form whose temperature is hexadecimal',
    checkTranscriptionFields,
    { model: 'a', temperature: '0x1' },
    ['temperature'],
  ],
  ['a form whose temperature is 1.1', checkTranscriptionFields, { model: 'a', temperature: '1.1' }, ['temperature']],
  [
    'a form whose temperature has 33 digits',
    checkTranscriptionFields,
    { model: 'a', temperature: `.${'0'.repeat(32)}` },
    ['temperature'],
  ],
  ['a form whose provider is a name', checkTranscriptionFields, { model: 'a', provider: 'openai' }, ['provider']],
  ['a form whose provider is null', checkTranscriptionFields, { model: 'a', provider: 'null' }, ['provider']],
  ['a form whose provider is an array', checkTranscriptionFields, { model: 'a', provider: '[]' }, ['provider']],
  ['a form with two providers', checkTranscriptionFields, { model: 'a', provider: ['{}', '{}'] }, ['provider']],
  [
    'a form whose order of providers has a number',
    checkTranscriptionFields,
    { model: 'a', provider: '{"order":["a",1]}' },
    ['provider', 'order', 1],
  ],
  ['a video without a prompt', checkVideoRequest, { model: 'v' }, ['prompt']],
  ['a video of no seconds', checkVideoRequest, { ...video, seconds: 0 }, ['seconds']],
  ['a video of 601 seconds', checkVideoRequest, { ...video, duration: '601' }, ['duration']],
  ['a video of some seconds', checkVideoRequest, { ...video, seconds: '1e2' }, ['seconds']],
  ['a video of no size', checkVideoRequest, { ...video, size: '0x720' }, ['size']],
  ['a video of half a seed', checkVideoRequest, { ...video, seed: 0.5 }, ['seed']],
])('%s has a fault', (_, check, body, path) => {
  expect(check(body as never)?.path).toEqual(path)
})

test('a temperature of 65,535 digits is refused before a pattern reads it', () => {
  const temperature = `${'1'.repeat(65_535)}x`
  const patterns = vi.spyOn(RegExp.prototype, 'test')
  onTestFinished(() => patterns.mockRestore())
  expect(checkTranscriptionFields({ model: 'a', temperature: '0.5x' })?.path).toEqual(['temperature'])
  expect(patterns.mock.calls).toContainEqual(['0.5x'])
  expect(checkTranscriptionFields({ model: 'a', temperature })?.path).toEqual(['temperature'])
  expect(patterns.mock.calls.filter(([text]) => text === temperature)).toEqual([])
})

test('the provider of a form is read from its JSON', () => {
  expect(checkTranscriptionFields({ model: 'a', provider: 'x' })?.message).toBe('must be a JSON object')
  expect(providerChoiceOf('{"order":["a"],"allow_fallbacks":false}')).toEqual({ order: ['a'], allow_fallbacks: false })
  for (const field of [undefined, '', 'null', '{"order":1}', ['{}', '{}']])
    expect(providerChoiceOf(field)).toBeUndefined()
})
