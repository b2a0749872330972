import { buffer } from 'node:stream/consumers'
import { checkChatRequest } from '@platform/ai-protocols/chat-request'
import { describe, expect, test } from 'vitest'
import type { LocalCall } from './local-answer.ts'
import { answerLocally } from './local-driver.ts'
import { readWav } from './wav.ts'

const call: LocalCall = {
  requestId: 'r1',
  now: new Date('2026-01-02T03:04:05.678Z'),
  signal: new AbortController().signal,
}
const question = { model: 'local/echo', messages: [{ role: 'user', content: 'Grüße, 世界 🎉' }] }
const echo = 'local/echo is no language model; it repeats: Grüße, 世界 🎉'

const bytesOf = async (...[operation, request, more]: Parameters<typeof answerLocally>) => {
  const { body, ...answer } = await answerLocally(operation, request, more)
  return { ...answer, bytes: Buffer.isBuffer(body) ? body : await buffer(body) }
}
const json = async (...options: Parameters<typeof answerLocally>) =>
  JSON.parse((await bytesOf(...options)).bytes.toString()) as Record<string, any> // oxlint-disable-line typescript/no-explicit-any -- documents of tests
const eventsOf = (bytes: Buffer) =>
  bytes
    .toString()
    .split('\n\n')
    .filter((frame) => frame !== '' && frame !== 'data: [DONE]')
    .map((frame) => JSON.parse(frame.slice('data: '.length)) as Record<string, any>) // oxlint-disable-line typescript/no-explicit-any -- events of tests

const chat = (more: object = {}) => {
  const request = { ...question, ...more }
  expect(checkChatRequest(request)).toBeUndefined()
  return json('chat', request, call)
}

describe('local/echo', () => {
  test('repeats the last message of the user and says what it is', async () => {
    const parts = [
      { type: 'text', text: 'Grüße, ' },
      { type: 'image_url', image_url: { url: 'data:,' } },
    ]
    const messages = [
      { role: 'user', content: 'First' },
      { role: 'assistant', content: 'Second' },
      { role: 'user', content: [...parts, { type: 'text', text: '世界 🎉' }] },
      { role: 'assistant', content: 'Third' },
    ]
    const bytes = Buffer.byteLength('FirstSecondGrüße, 世界 🎉Third')
    const output = Math.ceil(Buffer.byteLength(echo) / 4)
    expect(await chat({ messages })).toEqual({
      id: 'chatcmpl-r1',
      object: 'chat.completion',
      created: 1_767_323_045,
      model: 'local/echo',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: echo, refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: Math.ceil(bytes / 4),
        completion_tokens: output,
        total_tokens: Math.ceil(bytes / 4) + output,
      },
    })
  })

  test.each([
    ['max_tokens', { max_tokens: 14 }],
    ['max_completion_tokens before max_tokens', { max_tokens: 1, max_completion_tokens: 14 }],
  ])('ends between characters at %s', async (_, cap) => {
    const { choices, usage } = await chat(cap)
    // The 56th byte is within the first character of 世界.
    expect(choices[0]).toMatchObject({
      message: { content: echo.slice(0, echo.indexOf('世')) },
      finish_reason: 'length',
    })
    expect(usage.completion_tokens).toBe(14)
  })

  test('ends at 4,096 tokens without a cap', async () => {
    const messages = [{ role: 'user', content: 'a'.repeat(20_000) }]
    const { choices, usage } = await chat({ messages })
    expect(usage.completion_tokens).toBe(4_096)
    expect(choices[0].finish_reason).toBe('length')
  })

  test('ends before the first sequence of stop', async () => {
    const { choices } = await chat({ stop: ['🎉', ', 世', ''] })
    expect(choices[0]).toMatchObject({
      message: { content: 'local/echo is no language model; it repeats: Grüße' },
      finish_reason: 'stop',
    })
  })

  test('answers n times and counts each answer', async () => {
    const { choices, usage } = await chat({ n: 3 })
    expect(choices.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2])
    expect(usage.completion_tokens).toBe(3 * Math.ceil(Buffer.byteLength(echo) / 4))
  })

  const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
  const tools = [
    { type: 'function', function: { name: 'first' } },
    { type: 'function', function: { name: 'second', parameters } },
  ]
  test.each([
    ['required', 'first', '{}'],
    [{ type: 'function', function: { name: 'second' } }, 'second', '{"city":""}'],
  ])('calls a tool where tool_choice is %o', async (toolChoice, name, called) => {
    const { choices } = await chat({ tools, tool_choice: toolChoice })
    expect(choices[0]).toMatchObject({
      message: { content: null, tool_calls: [{ type: 'function', function: { name, arguments: called } }] },
      finish_reason: 'tool_calls',
    })
  })

  test.each(['auto', 'none', undefined])('calls no tool where tool_choice is %s', async (toolChoice) => {
    expect((await chat({ tools, tool_choice: toolChoice })).choices[0].message).toEqual({
      role: 'assistant',
      content: echo,
      refusal: null,
    })
  })

  test('answers JSON where response_format asks for it', async () => {
    const content = async (format: object) =>
      JSON.parse((await chat({ response_format: format })).choices[0].message.content) as unknown
    expect(await content({ type: 'json_object' })).toEqual({ echo })
    expect(await content({ type: 'json_schema', json_schema: { name: 'x', schema: parameters } })).toEqual({ city: '' })
  })

  test('streams a chunk for each word, and usage where it is asked for', async () => {
    const request = { ...question, stream: true, n: 2, stream_options: { include_usage: true } }
    const { contentType, bytes } = await bytesOf('chat', request, call)
    expect(contentType).toBe('text/event-stream; charset=utf-8')
    expect(bytes.toString()).toMatch(/\n\ndata: \[DONE\]\n\n$/)
    const chunks = eventsOf(bytes)
    const last = chunks.pop()
    expect(last).toMatchObject({
      choices: [],
      usage: { completion_tokens: 2 * Math.ceil(Buffer.byteLength(echo) / 4) },
    })
    for (const index of [0, 1]) {
      const choices = chunks.map(({ choices: [choice] }) => choice).filter((choice) => choice.index === index)
      expect(choices[0].delta).toEqual({ role: 'assistant', content: '', refusal: null })
      expect(choices.map(({ delta }) => delta.content ?? '').join('')).toBe(echo)
      expect(choices.length).toBe(echo.split(' ').length + 2)
      expect(choices.at(-1)).toMatchObject({ delta: {}, finish_reason: 'stop' })
    }
    const without = await bytesOf('chat', { ...request, stream_options: undefined }, call)
    expect(without.bytes.toString()).not.toContain('usage')
  })

  test('streams the call of a tool', async () => {
    const request = { ...question, stream: true, tools, tool_choice: 'required' }
    const chunks = eventsOf((await bytesOf('chat', request, call)).bytes).map(({ choices: [choice] }) => choice)
    expect(chunks[0].delta.tool_calls[0]).toMatchObject({ index: 0, type: 'function', function: { name: 'first' } })
    expect(chunks[1].delta.tool_calls[0].function.arguments).toBe('{}')
    expect(chunks.at(-1)).toMatchObject({ delta: {}, finish_reason: 'tool_calls' })
  })

  test('stops a stream whose reader has left, and lets others work between its chunks', async () => {
    const controller = new AbortController()
    const { body } = await answerLocally('chat', { ...question, stream: true }, { ...call, signal: controller.signal })
    const read: string[] = []
    setImmediate(() => controller.abort(new Error('left')))
    const reading = (async () => {
      for await (const chunk of body as AsyncIterable<Uint8Array>) read.push(Buffer.from(chunk).toString())
    })()
    await expect(reading).rejects.toThrow('left')
    expect(read.length).toBeLessThan(3)
  })
})

describe('local/echo-speech', () => {
  const speech = { model: 'local/echo-speech', input: 'Hello you', voice: 'any' }

  test.each([
    [{}, 0.36],
    [{ speed: 2 }, 0.18],
    [{ input: 'Hello' }, 0.2],
    [{ input: 'x'.repeat(1_000_000) }, 60],
  ])('makes WAV of %o as long as the text', async (more, seconds) => {
    const { contentType, bytes } = await bytesOf('speech', { ...speech, ...more }, call)
    expect(contentType).toBe('audio/wav')
    expect(readWav(bytes, bytes.length)).toEqual({ channels: 1, sampleRate: 24_000, bitsPerSample: 16, seconds })
    expect(bytes.readUInt32LE(4)).toBe(bytes.length - 8)
    expect(bytes.includes('local/echo-speech is no speech synthesis')).toBe(true)
  })

  test('makes tones of letters and silence of spaces', async () => {
    const { contentType, bytes } = await bytesOf('speech', { ...speech, input: 'a b', response_format: 'pcm' }, call)
    expect(contentType).toBe('audio/pcm')
    const isSilent = [0, 1, 2].map((index) => bytes.subarray(index * 1_920, (index + 1) * 1_920).every((byte) => !byte))
    expect([bytes.length, isSilent]).toEqual([5_760, [false, true, false]])
  })

  test('streams its sound as events', async () => {
    const events = eventsOf((await bytesOf('speech', { ...speech, stream_format: 'sse' }, call)).bytes)
    const sound = Buffer.concat(events.map(({ audio }) => Buffer.from((audio as string | undefined) ?? '', 'base64')))
    expect(sound).toEqual((await bytesOf('speech', speech, call)).bytes)
    expect(events.at(-1)).toEqual({
      type: 'speech.audio.done',
      usage: { input_tokens: 3, output_tokens: 0, total_tokens: 3 },
    })
  })

  test.each(['mp3', 'opus', 'aac', 'flac'])('refuses %s', async (format) => {
    await expect(bytesOf('speech', { ...speech, response_format: format }, call)).rejects.toMatchObject({
      status: 400,
      code: 'unsupported_parameter',
      param: 'response_format',
    })
  })
})

describe('local/echo-transcribe', () => {
  const model = 'local/echo-transcribe'
  const fileOf = (bytes: Buffer) => ({
    name: 'a.wav',
    bytes: bytes.length,
    async *read() {
      for (let offset = 0; offset < bytes.length; offset += 1_000) yield bytes.subarray(offset, offset + 1_000)
    },
  })
  const wav = async () => (await bytesOf('speech', { model, input: 'x'.repeat(30), voice: 'any' }, call)).bytes
  const transcribe = async (request: object, bytes: Buffer) =>
    bytesOf('transcription', { model, ...request }, { ...call, file: fileOf(bytes) })
  const said =
    'local/echo-transcribe is no speech recognition; it received 57732 bytes, 1.2 seconds of WAV, 1 channel at 24000 Hz.'

  test('says how long a WAV file is', async () => {
    const answer = await transcribe({}, await wav())
    expect(answer.contentType).toBe('application/json')
    expect(JSON.parse(answer.bytes.toString())).toEqual({
      text: said,
      usage: { type: 'tokens', input_tokens: 0, output_tokens: 29, total_tokens: 29 },
    })
  })

  test.each([
    ['text that is no sound', Buffer.from('x')],
    ['a head without sound', Buffer.from('RIFF\x04\0\0\0WAVE')],
    [
      'a format of no bytes',
      Buffer.concat([Buffer.from('RIFF\0\0\0\0WAVEfmt \x10\0\0\0'), Buffer.alloc(16), Buffer.from('data\0\0\0\0')]),
    ],
  ])('takes %s for no WAV file', async (_, bytes) => {
    const { text } = JSON.parse((await transcribe({}, bytes)).bytes.toString()) as { text: string }
    expect(text).toMatch(/it received \d+ bytes?, which are no WAV file\.$/)
  })

  test.each([
    ['text', 'text/plain; charset=utf-8', `${said}\n`],
    ['srt', 'application/x-subrip; charset=utf-8', `1\n00:00:00,000 --> 00:00:01,200\n${said}\n\n`],
    ['vtt', 'text/vtt; charset=utf-8', `WEBVTT\n\n00:00:00.000 --> 00:00:01.200\n${said}\n\n`],
  ])('answers as %s', async (format, contentType, content) => {
    const answer = await transcribe({ response_format: format }, await wav())
    expect([answer.contentType, answer.bytes.toString()]).toEqual([contentType, content])
  })

  test('answers as verbose_json', async () => {
    const { bytes } = await transcribe({ response_format: 'verbose_json' }, await wav())
    expect(JSON.parse(bytes.toString())).toMatchObject({
      duration: 1.2,
      text: said,
      segments: [{ id: 0, start: 0, end: 1.2, text: said }],
      usage: { type: 'duration', seconds: 2 },
    })
  })

  test.each([true, 'true'])('streams events where stream is %o', async (stream) => {
    const events = eventsOf((await transcribe({ stream }, await wav())).bytes)
    const deltas = events.filter(({ type }) => type === 'transcript.text.delta')
    expect(deltas.map(({ delta }) => delta as string).join('')).toBe(said)
    expect(deltas.length).toBe(said.split(' ').length)
    expect(events.at(-1)).toMatchObject({ type: 'transcript.text.done', text: said, usage: { output_tokens: 29 } })
  })

  test('refuses diarized_json', async () => {
    await expect(transcribe({ response_format: 'diarized_json' }, await wav())).rejects.toMatchObject({
      status: 400,
      code: 'unsupported_parameter',
      param: 'response_format',
    })
  })
})
