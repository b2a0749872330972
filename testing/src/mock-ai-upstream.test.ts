import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cutIntoPieces, mockEcho, mockInputText, mockTranscript } from './mock-ai-answers.ts'
import { mockCostMicros, mockPrice, mockTokens } from './mock-ai-usage.ts'
import { type MockRequest, type MockUpstream, mockVideo, startMockUpstream } from './mock-ai-upstream.ts'
import { startUnansweredPort } from './unanswered-port.ts'

type Fields = Record<string, any> // oxlint-disable-line typescript/no-explicit-any -- documents of tests

let mock: MockUpstream
beforeAll(async () => {
  mock = await startMockUpstream({ hugeBytes: 1_000_000, slowChunkMs: 1 })
})
afterAll(() => mock.close())

const TEXT = 'Grüße an 世界 🎉 und an alle, die es lesen'
const messages = [{ role: 'user', content: TEXT }]
const openai = { authorization: 'Bearer key-1', 'content-type': 'application/json' }
const anthropic = { 'x-api-key': 'key-2', 'anthropic-version': '2023-06-01', 'content-type': 'application/json' }

const post = (path: string, body: object, { headers = openai, ...init }: RequestInit = {}) =>
  fetch(`${mock.baseUrl}${path}`, { method: 'POST', headers, body: JSON.stringify(body), redirect: 'manual', ...init })
const chat = (model: string, more: object = {}, init?: RequestInit) =>
  post('/chat/completions', { model, messages, ...more }, init)
const say = (model: string, more: object = {}) =>
  post('/messages', { model, messages, max_tokens: 1_000, ...more }, { headers: anthropic })
const respond = (model: string, more: object = {}) => post('/responses', { model, input: messages, ...more })
const get = (path: string) => fetch(`${mock.baseUrl}${path}`, { headers: openai, redirect: 'manual' })

const jsonOf = async (response: Promise<Response>) => (await (await response).json()) as Fields
const last = () => mock.ledger.at(-1)
const entryOf = (model: string) => mock.ledger.findLast((request) => request.model === model)

const eventsIn = (text: string): Fields[] =>
  text.split(/(?:\r?\n){2}/).flatMap((frame) => {
    const line = frame.split(/\r?\n/).find((each) => each.startsWith('data: ') && each !== 'data: [DONE]')
    return line === undefined ? [] : [JSON.parse(line.slice('data: '.length)) as Fields]
  })
const eventsOf = async (response: Promise<Response>) => eventsIn(await (await response).text())
const contentOf = (chunks: Fields[]) =>
  chunks.map(({ choices }) => (choices as Fields[])[0]?.['delta'].content ?? '').join('')

const inputTokens = mockTokens(TEXT)
const outputTokens = mockTokens(mockEcho(TEXT))

describe('a model without steering', () => {
  test('answers a chat with a document', async () => {
    const { choices, usage, model } = await jsonOf(chat('mock/plain'))
    expect(choices).toMatchObject([{ message: { role: 'assistant', content: mockEcho(TEXT) }, finish_reason: 'stop' }])
    expect(usage).toMatchObject({ prompt_tokens: inputTokens, completion_tokens: outputTokens })
    expect(model).toBe('mock/plain')
    expect(last()).toMatchObject({
      path: '/v1/chat/completions',
      method: 'POST',
      model: 'mock/plain',
      headers: { authorization: 'Bearer key-1' },
      body: { messages },
      status: 200,
      aborted: false,
      framesSent: 1,
      usage: { inputTokens, outputTokens, costMicros: mockCostMicros(inputTokens, outputTokens) },
    })
  })

  test('streams 20 pieces of content, and usage only where it is asked for', async () => {
    const text = await (await chat('mock/plain', { stream: true })).text()
    const chunks = eventsIn(text)
    expect(text).toMatch(/\n\ndata: \[DONE\]\n\n$/)
    expect(text).not.toContain('"usage"')
    expect(contentOf(chunks)).toBe(mockEcho(TEXT))
    expect(chunks.length).toBe(22)
    const withUsage = await eventsOf(chat('mock/plain', { stream: true, stream_options: { include_usage: true } }))
    expect(withUsage.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: outputTokens } })
    expect(withUsage.slice(0, -1).every(({ usage }) => usage === null)).toBe(true)
  })

  test('keeps to the cap and counts each of n answers', async () => {
    const { choices, usage } = await jsonOf(chat('mock/plain', { max_completion_tokens: 2, n: 3 }))
    expect(choices.length).toBe(3)
    expect(choices[2]).toMatchObject({ message: { content: 'Écho: G' }, finish_reason: 'length' })
    expect(usage.completion_tokens).toBe(6)
  })

  test('answers /responses with a document and with events', async () => {
    const { output, usage, status } = await jsonOf(respond('mock/plain'))
    expect(output).toMatchObject([{ type: 'message', content: [{ type: 'output_text', text: mockEcho(TEXT) }] }])
    expect([status, usage.input_tokens, usage.output_tokens]).toEqual(['completed', inputTokens, outputTokens])
    const events = await eventsOf(respond('mock/plain', { stream: true }))
    expect(events.map(({ sequence_number: number }) => number as number)).toEqual(events.map((_, index) => index))
    const deltas = events.filter(({ type }) => type === 'response.output_text.delta')
    expect(deltas.map(({ delta }) => delta as string).join('')).toBe(mockEcho(TEXT))
    expect(events[0]?.['type']).toBe('response.created')
    expect(events.at(-1)).toMatchObject({
      type: 'response.completed',
      response: { usage: { output_tokens: outputTokens } },
    })
    expect((await eventsOf(respond('mock/plain', { stream: true, max_output_tokens: 1 }))).at(-1)).toMatchObject({
      type: 'response.incomplete',
      response: { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
    })
  })

  test('answers /messages with a message and with events', async () => {
    expect(await jsonOf(say('mock/plain', { system: 'Be brief' }))).toMatchObject({
      type: 'message',
      content: [{ type: 'text', text: mockEcho(TEXT) }],
      stop_reason: 'end_turn',
      usage: { input_tokens: mockTokens(`Be brief${TEXT}`), output_tokens: outputTokens },
    })
    const events = await eventsOf(say('mock/plain', { stream: true }))
    expect(events.slice(0, 3).map(({ type }) => type as string)).toEqual([
      'message_start',
      'ping',
      'content_block_start',
    ])
    expect(events.slice(-3)).toMatchObject([
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: outputTokens } },
      { type: 'message_stop' },
    ])
    expect(events.map(({ delta }) => (delta as Fields | undefined)?.['text'] ?? '').join('')).toBe(mockEcho(TEXT))
  })

  test('answers speech with bytes and with events', async () => {
    const speech = { model: 'mock/plain', input: 'Grüße', voice: 'alloy' }
    const wav = await post('/audio/speech', { ...speech, response_format: 'wav' })
    const bytes = Buffer.from(await wav.arrayBuffer())
    expect([wav.headers.get('content-type'), bytes.toString('latin1', 0, 4)]).toEqual(['audio/wav', 'RIFF'])
    expect(bytes.readUInt32LE(4)).toBe(bytes.length - 8)
    const mp3 = await post('/audio/speech', speech)
    expect([mp3.headers.get('content-type'), Buffer.from(await mp3.arrayBuffer()).readUInt16BE()]).toEqual([
      'audio/mpeg',
      0xfffb,
    ])
    const events = await eventsOf(post('/audio/speech', { ...speech, response_format: 'wav', stream_format: 'sse' }))
    expect(Buffer.concat(events.map(({ audio }) => Buffer.from((audio ?? '') as string, 'base64')))).toEqual(bytes)
    expect(events.at(-1)).toMatchObject({ type: 'speech.audio.done', usage: { input_tokens: 2, output_tokens: 5 } })
  })

  const upload = (more: Record<string, string>) => {
    const form = new FormData()
    form.append('model', 'mock/plain')
    form.append('file', new Blob(['x'.repeat(10)], { type: 'audio/wav' }), 'ä.wav')
    for (const [name, value] of Object.entries(more)) form.append(name, value)
    const headers = { authorization: 'Bearer key-1' }
    return fetch(`${mock.baseUrl}/audio/transcriptions`, { method: 'POST', headers, body: form })
  }
  const transcript = mockTranscript({ name: 'ä.wav', bytes: 10 })

  test('transcribes forms and JSON', async () => {
    expect(await jsonOf(upload({}))).toMatchObject({ text: transcript, usage: { type: 'tokens', input_tokens: 3 } })
    expect(last()).toMatchObject({ body: { model: 'mock/plain' }, file: { name: 'ä.wav', type: 'audio/wav' } })
    expect(last()?.file?.bytes.toString()).toBe('x'.repeat(10))
    const sound = { data: Buffer.from('12345').toString('base64'), format: 'mp3' }
    const { text } = await jsonOf(post('/audio/transcriptions', { model: 'mock/plain', input_audio: sound }))
    expect(text).toBe(mockTranscript({ name: 'audio.mp3', bytes: 5 }))
  })

  test.each([
    ['text', `${transcript}\n`],
    ['srt', `1\n00:00:00,000 --> 00:00:02,000\n${transcript}\n\n`],
    ['vtt', `WEBVTT\n\n00:00:00.000 --> 00:00:02.000\n${transcript}\n\n`],
  ])('transcribes as %s', async (format, text) => {
    expect(await (await upload({ response_format: format })).text()).toBe(text)
  })

  test('transcribes with segments, and as events', async () => {
    expect(await jsonOf(upload({ response_format: 'verbose_json' }))).toMatchObject({
      segments: [{ text: transcript }],
      usage: { type: 'duration', seconds: 2 },
    })
    expect(await jsonOf(upload({ response_format: 'diarized_json' }))).toMatchObject({ segments: [{ speaker: 'A' }] })
    const events = await eventsOf(upload({ stream: 'true' }))
    expect(events.map(({ delta }) => (delta ?? '') as string).join('')).toBe(transcript)
    expect(events.at(-1)).toMatchObject({ type: 'transcript.text.done', text: transcript, usage: { input_tokens: 3 } })
  })

  test('lists models', async () => {
    expect((await jsonOf(get('/models')))['data']).toMatchObject([{ id: 'mock/plain', object: 'model' }])
    expect((await jsonOf(get('/videos/models')))['data']).toMatchObject([{ id: 'mock/video' }])
  })

  test('refuses what lacks a credential, a model or a path', async () => {
    expect((await chat('mock/plain', {}, { headers: { 'x-api-key': 'k' } })).status).toBe(401)
    const { status } = await post('/messages', { model: 'mock/plain', messages }, { headers: { 'x-api-key': 'k' } })
    expect(status).toBe(400)
    expect((await post('/chat/completions', {})).status).toBe(400)
    expect((await post('/elsewhere', { model: 'mock/plain' })).status).toBe(404)
    const strict = await startMockUpstream({ apiKey: 'right' })
    const statusWith = async (key: string) =>
      (await fetch(`${strict.baseUrl}/models`, { headers: { authorization: `Bearer ${key}` } })).status
    expect([await statusWith('wrong'), await statusWith('right')]).toEqual([401, 200])
    await strict.close()
  })
})

describe('a video', () => {
  const start = async (model: string) => {
    const response = await post('/videos', { model, prompt: 'A bird', duration: 8 })
    expect(response.status).toBe(202)
    return (await response.json()) as { id: string; status: string }
  }
  const poll = (id: string) => jsonOf(get(`/videos/${id}`))

  test('is pending, then in progress, then complete and has content', async () => {
    const { id, status } = await start('mock/video')
    expect(status).toBe('pending')
    expect(last()?.usage?.costMicros).toBe(mockPrice.perVideo)
    expect((await get(`/videos/${id}/content`)).status).toBe(400)
    expect(await poll(id)).toMatchObject({ id, status: 'in_progress' })
    const { unsigned_urls: urls, ...job } = await poll(id)
    expect(job).toMatchObject({ status: 'completed', duration: 8, usage: { cost: 0.5 } })
    expect(last()?.model).toBe('mock/video')
    const content = await fetch((urls as string[])[0] ?? '', { headers: openai })
    expect(content.headers.get('content-type')).toBe('video/mp4')
    expect(Buffer.from(await content.arrayBuffer())).toEqual(mockVideo(id))
    expect((await get('/videos/other')).status).toBe(404)
  })

  test.each([
    ['mock/video-fails', 'failed'],
    ['mock/video-cancelled', 'cancelled'],
    ['mock/video-expired', 'expired'],
  ])('%s ends %s', async (model, status) => {
    const { id } = await start(model)
    await poll(id)
    expect((await poll(id))['status']).toBe(status)
  })

  test('may fail to be looked at once', async () => {
    const { id } = await start('mock/video-poll-503')
    expect((await get(`/videos/${id}`)).status).toBe(503)
    expect((await poll(id))['status']).toBe('in_progress')
  })

  test('may lie at another origin, or lead there', async () => {
    const { id } = await start('mock/video-elsewhere')
    await poll(id)
    const [url = ''] = (await poll(id))['unsigned_urls'] as string[]
    expect(url).toBe(`${mock.elsewhere.origin}/files/${id}.mp4`)
    expect(Buffer.from(await (await fetch(url)).arrayBuffer())).toEqual(mockVideo(id))
    expect(mock.elsewhere.requests.at(-1)).toMatchObject({ path: `/files/${id}.mp4` })
    const other = await start('mock/video-redirect')
    await poll(other.id)
    await poll(other.id)
    const { status, headers } = await get(`/videos/${other.id}/content`)
    expect([status, headers.get('location')]).toEqual([302, `${mock.elsewhere.origin}/files/${other.id}.mp4`])
  })
})

describe('a refusal', () => {
  test.each([400, 401, 402, 403, 404, 413, 422, 429, 500, 502, 503, 504])(
    'of mock/%i has the shape of its API',
    async (status) => {
      const response = await chat(`mock/${status}`)
      const error = { message: `Mock answers ${status}`, type: expect.any(String) as string, param: null }
      const code = status < 500 ? (expect.any(String) as string) : null
      expect([response.status, await response.json()]).toEqual([status, { error: { ...error, code } }])
      expect(entryOf(`mock/${status}`)).toMatchObject({ status, usage: undefined })
      const message = await say(`mock/${status}`)
      expect([message.status, await message.json()]).toMatchObject([
        status,
        {
          type: 'error',
          error: { type: expect.stringMatching(/_error$|^request_too_large$/), message: `Mock answers ${status}` },
        },
      ])
    },
  )

  test('may come once, and say when to try again', async () => {
    const statuses = [await chat('mock/503-once'), await chat('mock/503-once'), await chat('other/503-once')]
    expect(statuses.map(({ status }) => status)).toEqual([503, 200, 503])
    const waits = await chat('mock/429-retry-after-1')
    expect([waits.status, waits.headers.get('retry-after')]).toEqual([429, '1'])
    const once = await chat('mock/429-once-retry-after-2')
    expect([once.status, once.headers.get('retry-after')]).toEqual([429, '2'])
    expect((await chat('mock/429-once-retry-after-2')).status).toBe(200)
  })

  test('may quote the credential and the prompt', async () => {
    expect(await jsonOf(chat('mock/quotes-key'))).toMatchObject({
      error: { message: `Incorrect API key Bearer key-1 for the prompt ${TEXT}` },
    })
    const message = await say('mock/quotes-key-401')
    expect([message.status, await message.json()]).toMatchObject([
      401,
      { error: { message: expect.stringContaining('key-2') } },
    ])
    const prompt = await chat('mock/quotes-prompt-422')
    expect([prompt.status, await prompt.json()]).toMatchObject([422, { error: { message: `Not allowed: ${TEXT}` } }])
  })

  test('of /responses alone leaves chat working', async () => {
    expect((await respond('mock/no-responses')).status).toBe(404)
    expect((await chat('mock/no-responses')).status).toBe(200)
  })

  test('may redirect to another origin', async () => {
    const { status, headers } = await chat('mock/redirect')
    expect([status, headers.get('location')]).toEqual([302, `${mock.elsewhere.origin}/v1/chat/completions`])
  })
})

describe('an answer that is not what it should be', () => {
  const stream = { stream: true }
  const readAll = async (response: Response) => {
    let text = ''
    for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString('latin1')
    return text
  }

  test.each(['mock/hang-headers', 'mock/stall-mid'])(
    '%s: the ledger sees at once that the client left',
    async (model) => {
      const controller = new AbortController()
      const answer = chat(model, stream, { signal: controller.signal }).then(readAll)
      await mock.waitFor((each) => each.model === model && (model === 'mock/hang-headers' || each.framesSent === 12))
      controller.abort()
      await expect(answer).rejects.toThrow('aborted')
      const request = await mock.waitForAbort((each) => each.model === model)
      expect(mock.aborts).toContain(request)
      expect(request.completedAt).toBeInstanceOf(Date)
      expect(request.abortedAfterMs).toBeGreaterThan(0)
      // It charges the input, and the output that was sent.
      const sent = cutIntoPieces(mockEcho(TEXT), 20)
        .slice(0, Math.max(0, request.framesSent - 1))
        .join('')
      expect(request.usage).toMatchObject({ inputTokens, outputTokens: mockTokens(sent) })
    },
  )

  test.each([{}, stream])('cut-mid resets the connection after half of the answer %o', async (more) => {
    const response = await chat('mock/cut-mid', more)
    expect(response.status).toBe(200)
    await expect(readAll(response)).rejects.toThrow('terminated')
    expect(entryOf('mock/cut-mid')).toMatchObject({ aborted: false, framesSent: more === stream ? 12 : 1 })
  })

  test('end-mid ends it', async () => {
    const text = await (await chat('mock/end-mid', stream)).text()
    expect(text).not.toContain('[DONE]')
    expect(eventsIn(text).length).toBe(12)
    await expect(chat('mock/end-mid').then(readAll)).rejects.toThrow('terminated')
  })

  test('reset-before resets the connection before the answer', async () => {
    await expect(chat('mock/reset-before')).rejects.toThrow('fetch failed')
    expect(entryOf('mock/reset-before')).toMatchObject({ status: undefined, usage: { inputTokens, outputTokens: 0 } })
  })

  test('error-mid has an error in the middle', async () => {
    const text = await (await chat('mock/error-mid', stream)).text()
    expect(eventsIn(text).at(-1)).toMatchObject({ error: { code: 'server_error' } })
    expect(text).not.toContain('[DONE]')
    expect(await jsonOf(chat('mock/error-mid'))).toMatchObject({ error: { code: 'server_error' } })
    expect((await eventsOf(respond('mock/error-mid', stream))).at(-1)).toMatchObject({ type: 'error' })
    expect((await eventsOf(say('mock/error-mid', stream))).at(-1)).toMatchObject({
      type: 'error',
      error: { type: 'overloaded_error' },
    })
  })

  test('bad-json and bad-sse cannot be read', async () => {
    await expect(jsonOf(chat('mock/bad-json'))).rejects.toThrow(SyntaxError)
    await expect(eventsOf(chat('mock/bad-json', stream))).rejects.toThrow(SyntaxError)
    const page = await chat('mock/bad-sse')
    expect([page.headers.get('content-type'), await page.text()]).toEqual([
      'text/html',
      expect.stringMatching(/^<!doctype/),
    ])
    const events = await chat('mock/bad-sse', stream)
    expect(events.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(await events.text()).toMatch(/^<!doctype/)
  })

  test('no-done lacks its end, no-usage and zero-usage their counts', async () => {
    expect(await (await chat('mock/no-done', stream)).text()).not.toContain('[DONE]')
    expect(await jsonOf(chat('mock/no-usage'))).not.toHaveProperty('usage')
    expect(
      await (await chat('mock/no-usage', { ...stream, stream_options: { include_usage: true } })).text(),
    ).not.toContain('"usage"')
    expect((await jsonOf(respond('mock/no-usage')))['usage']).toBeNull()
    expect(await (await say('mock/no-usage', stream)).text()).not.toContain('"usage"')
    expect((await jsonOf(chat('mock/zero-usage')))['usage']).toMatchObject({ prompt_tokens: 0, completion_tokens: 0 })
    expect(last()?.usage).toMatchObject({ inputTokens, outputTokens })
  })

  test('huge is larger than its limit', async () => {
    expect((await readAll(await chat('mock/huge'))).length).toBeGreaterThan(1_000_000)
    const event = await readAll(await chat('mock/huge', stream))
    expect(event.indexOf('\n')).toBeGreaterThan(1_000_000)
  })
})

describe('a good answer of a special kind', () => {
  const stream = { stream: true }

  test('split-utf8 writes characters in pieces', async () => {
    const response = await chat('mock/split-utf8', stream)
    const chunks: Buffer[] = []
    for await (const chunk of response.body ?? []) chunks.push(Buffer.from(chunk))
    expect(chunks.some((chunk) => chunk.toString().includes('\ufffd'))).toBe(true)
    expect(contentOf(eventsIn(Buffer.concat(chunks).toString()))).toBe(mockEcho(TEXT))
  })

  test('comments and crlf change lines, not events', async () => {
    const comments = await (await chat('mock/comments', stream)).text()
    expect(comments).toMatch(/^: mock\n\ndata: /)
    const crlf = await (await chat('mock/crlf', stream)).text()
    expect(crlf).not.toMatch(/[^\r]\n/)
    expect(contentOf(eventsIn(comments))).toBe(mockEcho(TEXT))
    expect(contentOf(eventsIn(crlf))).toBe(mockEcho(TEXT))
  })

  test('slow sends as many pieces as its name says', async () => {
    const chunks = await eventsOf(chat('mock/slow-200', stream))
    expect(chunks.length).toBe(202)
    expect(contentOf(chunks).startsWith(mockEcho(TEXT))).toBe(true)
    expect((await eventsOf(chat('mock/slow', stream))).length).toBe(22)
  })

  test('set-cookie has headers that callers should not see', async () => {
    const { headers } = await chat('mock/set-cookie')
    expect([headers.get('set-cookie'), headers.get('openai-organization')]).toEqual([
      'session=mock; Path=/',
      'org-mock',
    ])
  })

  test('tools calls the first tool in each protocol', async () => {
    const called = JSON.stringify({ echo: mockEcho(TEXT) })
    const parameters = { type: 'object' }
    const tools = [{ type: 'function', function: { name: 'look', parameters } }]
    expect((await jsonOf(chat('mock/tools', { tools })))['choices']).toMatchObject([
      {
        message: { content: null, tool_calls: [{ function: { name: 'look', arguments: called } }] },
        finish_reason: 'tool_calls',
      },
    ])
    const chunks = await eventsOf(chat('mock/tools', { tools, stream: true }))
    const calls = chunks.flatMap(({ choices: [choice] }) => (choice.delta.tool_calls ?? []) as Fields[])
    expect(calls[0]).toMatchObject({ type: 'function', function: { name: 'look' } })
    expect(calls.map((each) => each['function'].arguments as string).join('')).toBe(called)
    const flat = [{ type: 'function', name: 'look', parameters }]
    expect((await jsonOf(respond('mock/tools', { tools: flat })))['output']).toMatchObject([
      { type: 'function_call', name: 'look', arguments: called },
    ])
    const deltas = await eventsOf(respond('mock/tools', { tools: flat, stream: true }))
    expect(deltas.find(({ type }) => type === 'response.function_call_arguments.done')).toMatchObject({
      arguments: called,
    })
    const theirs = [{ name: 'look', input_schema: parameters }]
    expect(await jsonOf(say('mock/tools', { tools: theirs }))).toMatchObject({
      content: [{ type: 'tool_use', name: 'look', input: { echo: mockEcho(TEXT) } }],
      stop_reason: 'tool_use',
    })
    const pieces = await eventsOf(say('mock/tools', { tools: theirs, stream: true }))
    expect(pieces.map(({ delta }) => (delta as Fields | undefined)?.['partial_json'] ?? '').join('')).toBe(called)
  })

  test('reasoning thinks first in each protocol', async () => {
    const { choices, usage } = await jsonOf(chat('mock/reasoning'))
    const { reasoning_content: thought } = choices[0].message as { reasoning_content: string }
    expect(usage).toMatchObject({
      completion_tokens: outputTokens + mockTokens(thought),
      completion_tokens_details: { reasoning_tokens: mockTokens(thought) },
    })
    expect((await eventsOf(chat('mock/reasoning', stream)))[1]).toMatchObject({
      choices: [{ delta: { reasoning_content: thought } }],
    })
    expect((await jsonOf(respond('mock/reasoning')))['output']).toMatchObject([
      { type: 'reasoning', summary: [{ text: thought }] },
      { type: 'message' },
    ])
    const events = await eventsOf(respond('mock/reasoning', stream))
    expect(events.find(({ type }) => type === 'response.reasoning_summary_text.delta')).toMatchObject({
      delta: thought,
    })
    expect((await jsonOf(say('mock/reasoning')))['content']).toMatchObject([
      { type: 'thinking', thinking: thought },
      { type: 'text' },
    ])
    const blocks = await eventsOf(say('mock/reasoning', stream))
    expect(blocks.filter(({ type }) => type === 'content_block_start').map(({ index }) => index as number)).toEqual([
      0, 1,
    ])
  })

  test('cached counts half of the input as cached', async () => {
    const cached = Math.floor(inputTokens / 2)
    expect((await jsonOf(chat('mock/cached')))['usage']).toMatchObject({
      prompt_tokens: inputTokens,
      prompt_tokens_details: { cached_tokens: cached },
    })
    expect((await jsonOf(say('mock/cached')))['usage']).toMatchObject({
      input_tokens: inputTokens - cached,
      cache_read_input_tokens: cached,
    })
  })

  test('json-schema answers an object', async () => {
    const { choices } = await jsonOf(chat('mock/json-schema'))
    expect(JSON.parse(choices[0].message.content as string)).toEqual({ echo: mockEcho(TEXT) })
  })
})

describe('a hold', () => {
  test('keeps streams after their k-th frame until it is released', async () => {
    const hold = mock.hold('mock/held', 3)
    const answers = [1, 2].map(() => chat('mock/held', { stream: true }).then((response) => response.text()))
    const held = await hold.reached(2)
    expect(held.map(({ framesSent, completedAt }) => [framesSent, completedAt])).toEqual([
      [3, undefined],
      [3, undefined],
    ])
    hold.release()
    for (const text of await Promise.all(answers)) expect(contentOf(eventsIn(text))).toBe(mockEcho(TEXT))
    expect((await chat('mock/held', { stream: true })).status).toBe(200)
  })

  test('keeps the status line where it holds after no frame, and lets go of a client that leaves', async () => {
    const hold = mock.hold('mock/held-whole', 0)
    const controller = new AbortController()
    const answer = chat('mock/held-whole', {}, { signal: controller.signal })
    const [request] = (await hold.reached()) as [MockRequest]
    expect(request.status).toBeUndefined()
    controller.abort()
    await expect(answer).rejects.toThrow('aborted')
    expect(await mock.waitForAbort((each) => each === request)).toMatchObject({ status: undefined, framesSent: 0 })
    hold.release()
  })
})

test('the input is all text of messages, parts and instructions', () => {
  const parts = [
    { type: 'text', text: 'b' },
    { type: 'image_url', image_url: { url: 'https://no.example' } },
  ]
  expect(mockInputText({ instructions: 'a', input: [{ role: 'user', content: parts }, 'c'] })).toBe('abc')
  expect([mockTokens(''), mockTokens('abcd'), mockTokens('abcdé')]).toEqual([0, 1, 2])
})

test('a connection to an unanswered port neither opens nor fails', async () => {
  const unanswered = await startUnansweredPort()
  const socket = connect(unanswered.port, '127.0.0.1')
  const failures: Error[] = []
  socket.on('error', (error) => failures.push(error))
  // Other connections of this machine have opened and were answered by then.
  for (let index = 0; index < 20; index += 1)
    await chat('mock/plain', {}, { headers: { ...openai, connection: 'close' } })
  expect([socket.connecting, failures]).toEqual([true, []])
  socket.destroy()
  await unanswered.close()
})
