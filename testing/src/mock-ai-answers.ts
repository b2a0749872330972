import { cutToMockTokens, mockCostMicros, mockTokens, type MockUsage } from './mock-ai-usage.ts'

/** A piece of an answer, as it is written to the socket, and the text of the model that it carries. */
export interface MockFrame {
  bytes: Uint8Array
  text: string
}

/** An answer before its steering has had a hand in it. */
export interface MockAnswer {
  status: number
  contentType: string
  headers?: Record<string, string>
  isStream: boolean
  frames: MockFrame[]
  /** Of the whole answer; undefined for a refusal, which costs nothing. */
  usage: MockUsage | undefined
  /** The frame that a failure in the middle of a stream has here. */
  errorFrame: Uint8Array
}

/** What a request asks of the model, whatever the protocol. */
export interface MockQuestion {
  /** The last segment of the model's name. */
  steering: string
  model: string
  body: Record<string, unknown>
  created: number
  id: string
}

type Fields = Record<string, unknown>

/** A member of parsed JSON that is an object; an empty one else. */
export const objectIn = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}

const arrayIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as unknown[]) : [])
const textIn = (value: unknown): string => (typeof value === 'string' ? value : '')

/** All text of messages, items and parts, in their order. */
function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (Array.isArray(value)) return value.flatMap(textsOf)
  const { content, text, output, arguments: called } = objectIn(value)
  return [content, text, output, called].flatMap((each) => (each === undefined || each === null ? [] : textsOf(each)))
}

/** The text that the mock counts as input: of system, instructions, messages and input, joined. */
export function mockInputText(body: Readonly<Record<string, unknown>>): string {
  return ['system', 'instructions', 'messages', 'input', 'prompt'].flatMap((name) => textsOf(body[name])).join('')
}

/** What the last user said. */
function lastUserText(body: Fields): string {
  const list = body['messages'] ?? body['input']
  if (typeof list === 'string') return list
  return textsOf(arrayIn(list).findLast((each) => objectIn(each)['role'] === 'user')).join('')
}

/** The answer to a text: an echo with characters of two, three and four bytes. */
export function mockEcho(text: string): string {
  return `Écho: ${text} — 漢字 🎉 done.`
}

const encode = (text: string): Uint8Array => Buffer.from(text)
const data = (value: unknown): Uint8Array => encode(`data: ${JSON.stringify(value)}\n\n`)
const typed = (value: { type: string; [member: string]: unknown }): Uint8Array =>
  encode(`event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`)

/** Cuts a text into so many pieces of whole characters, fewer if it has fewer. */
export function cutIntoPieces(text: string, count: number): string[] {
  const characters = Array.from(text)
  return Array.from({ length: count }, (_, index) =>
    characters
      .slice(Math.floor((index * characters.length) / count), Math.floor(((index + 1) * characters.length) / count))
      .join(''),
  ).filter((piece) => piece !== '')
}

const PIECES = 20
const REASONING = 'First I repeat it — 考え中.'

/** What the model says: its text or the call of a tool, cut at the cap of the request. */
interface Said {
  tool: { name: string; arguments: string } | undefined
  text: string
  reasoning: string
  isCut: boolean
  pieces: string[]
  choices: number
  usage: MockUsage
  /** What the answer claims: the usage, zeros or nothing. */
  claimed: MockUsage | undefined
}

function say({ steering, body }: MockQuestion): Said {
  const echo = mockEcho(lastUserText(body))
  const offered = objectIn(arrayIn(body['tools'])[0])
  const name = textIn(objectIn(offered['function'])['name'] ?? offered['name']) || 'mock_tool'
  const tool = steering === 'tools' ? { name, arguments: JSON.stringify({ echo }) } : undefined
  const slow = /^slow-(\d+)$/.exec(steering)?.[1]
  const pieceCount = slow === undefined ? PIECES : Number(slow)
  const plain = steering === 'json-schema' ? JSON.stringify({ echo }) : echo
  const whole = tool ? tool.arguments : plain.repeat(Math.max(1, Math.ceil(pieceCount / Array.from(plain).length)))
  const cap = body['max_completion_tokens'] ?? body['max_tokens'] ?? body['max_output_tokens']
  const text = typeof cap === 'number' ? cutToMockTokens(whole, cap) : whole
  const reasoning = steering === 'reasoning' ? REASONING : ''
  const choices = typeof body['n'] === 'number' ? body['n'] : 1
  const inputTokens = mockTokens(mockInputText(body))
  const reasoningTokens = mockTokens(reasoning) * choices
  const outputTokens = mockTokens(text) * choices + reasoningTokens
  const usage: MockUsage = {
    inputTokens,
    cachedInputTokens: steering === 'cached' ? Math.floor(inputTokens / 2) : 0,
    outputTokens,
    reasoningTokens,
    costMicros: mockCostMicros(inputTokens, outputTokens),
  }
  const zero = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, reasoningTokens: 0, costMicros: 0 }
  const claimed = steering === 'no-usage' ? undefined : steering === 'zero-usage' ? zero : usage
  return {
    tool: tool && { name, arguments: text },
    text,
    reasoning,
    isCut: text.length < whole.length,
    pieces: cutIntoPieces(text, pieceCount),
    choices,
    usage,
    claimed,
  }
}

const whole = (value: unknown, { text, reasoning, choices, usage }: Said, errorFrame: Uint8Array): MockAnswer => ({
  status: 200,
  contentType: 'application/json',
  isStream: false,
  frames: [{ bytes: encode(JSON.stringify(value)), text: (reasoning + text).repeat(choices) }],
  usage,
  errorFrame,
})

const stream = (frames: MockFrame[], usage: MockUsage | undefined, errorFrame: Uint8Array): MockAnswer => ({
  status: 200,
  contentType: 'text/event-stream; charset=utf-8',
  isStream: true,
  frames,
  usage,
  errorFrame,
})

const MIDWAY = { message: 'The model failed midway', type: 'server_error', param: null, code: 'server_error' }

function chatUsage(usage: MockUsage) {
  return {
    prompt_tokens: usage.inputTokens,
    completion_tokens: usage.outputTokens,
    total_tokens: usage.inputTokens + usage.outputTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedInputTokens, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: usage.reasoningTokens, audio_tokens: 0 },
  }
}

/** Answers `POST /chat/completions`: a document, or 20 chunks of content between a first that names the role and a last. */
export function answerMockChat(question: MockQuestion): MockAnswer {
  const said = say(question)
  const { tool, text, reasoning, isCut, pieces, choices, usage, claimed } = said
  const { id, created, model, body } = question
  const finish = isCut ? 'length' : tool ? 'tool_calls' : 'stop'
  const errorFrame = data({ error: MIDWAY })
  const callOf = (index: number) => ({ id: `call_${id}_${index}`, type: 'function' })
  const head = { id: `chatcmpl-${id}`, created, model, system_fingerprint: 'fp_mock' }
  if (body['stream'] !== true) {
    const messageOf = (index: number) => ({
      role: 'assistant',
      content: tool ? null : text,
      refusal: null,
      ...(reasoning && { reasoning_content: reasoning }),
      ...(tool && { tool_calls: [{ ...callOf(index), function: tool }] }),
    })
    const all = Array.from({ length: choices }, (_, index) => ({
      index,
      message: messageOf(index),
      logprobs: null,
      finish_reason: finish,
    }))
    const document = { ...head, object: 'chat.completion', choices: all, ...(claimed && { usage: chatUsage(claimed) }) }
    return whole(document, said, errorFrame)
  }
  const wantsUsage = claimed !== undefined && objectIn(body['stream_options'])['include_usage'] === true
  const base = { ...head, object: 'chat.completion.chunk' }
  const frame = (index: number, delta: unknown, carried = '', finishReason: string | null = null): MockFrame => {
    const choice = { index, delta, logprobs: null, finish_reason: finishReason }
    return { bytes: data({ ...base, choices: [choice], ...(wantsUsage && { usage: null }) }), text: carried }
  }
  const framesOf = (index: number): MockFrame[] => [
    frame(
      index,
      tool
        ? {
            role: 'assistant',
            content: null,
            tool_calls: [{ index: 0, ...callOf(index), function: { name: tool.name, arguments: '' } }],
          }
        : { role: 'assistant', content: '' },
    ),
    ...(reasoning ? [frame(index, { reasoning_content: reasoning }, reasoning)] : []),
    ...pieces.map((piece) =>
      frame(index, tool ? { tool_calls: [{ index: 0, function: { arguments: piece } }] } : { content: piece }, piece),
    ),
    frame(index, {}, '', finish),
  ]
  const frames = Array.from({ length: choices }, (_, index) => framesOf(index)).flat()
  if (wantsUsage) frames.push({ bytes: data({ ...base, choices: [], usage: chatUsage(claimed) }), text: '' })
  frames.push({ bytes: encode('data: [DONE]\n\n'), text: '' })
  return stream(frames, usage, errorFrame)
}

function responseUsage(usage: MockUsage) {
  return {
    input_tokens: usage.inputTokens,
    input_tokens_details: { cached_tokens: usage.cachedInputTokens },
    output_tokens: usage.outputTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    total_tokens: usage.inputTokens + usage.outputTokens,
  }
}

/** Answers `POST /responses`: a response, or the events of one. */
export function answerMockResponse(question: MockQuestion): MockAnswer {
  const said = say(question)
  const { tool, text, reasoning, isCut, pieces, usage, claimed } = said
  const { id, created, model, body } = question
  const status = isCut ? 'incomplete' : 'completed'
  const main = tool
    ? { id: `fc_${id}`, type: 'function_call', call_id: `call_${id}`, name: tool.name, arguments: text, status }
    : {
        id: `msg_${id}`,
        type: 'message',
        role: 'assistant',
        status,
        content: [{ type: 'output_text', text, annotations: [], logprobs: [] }],
      }
  const thought = { id: `rs_${id}`, type: 'reasoning', summary: [{ type: 'summary_text', text: reasoning }] }
  const output = [...(reasoning ? [thought] : []), main]
  const responseOf = (state: string, items: unknown[], more: Fields = {}) => ({
    id: `resp_${id}`,
    object: 'response',
    created_at: created,
    status: state,
    error: null,
    incomplete_details: state === 'incomplete' ? { reason: 'max_output_tokens' } : null,
    instructions: body['instructions'] ?? null,
    max_output_tokens: body['max_output_tokens'] ?? null,
    metadata: body['metadata'] ?? {},
    model,
    output: items,
    parallel_tool_calls: true,
    previous_response_id: body['previous_response_id'] ?? null,
    store: body['store'] ?? true,
    temperature: body['temperature'] ?? 1,
    tool_choice: body['tool_choice'] ?? 'auto',
    tools: body['tools'] ?? [],
    top_p: body['top_p'] ?? 1,
    usage: null,
    ...more,
  })
  const finished = responseOf(status, output, { usage: claimed ? responseUsage(claimed) : null })
  if (body['stream'] !== true) return whole(finished, said, typed({ type: 'error' }))
  const events: { event: { type: string; [member: string]: unknown }; text: string }[] = []
  const emit = (type: string, members: Fields, carried = '') =>
    void events.push({ event: { type, sequence_number: events.length, ...members }, text: carried })
  emit('response.created', { response: responseOf('in_progress', []) })
  emit('response.in_progress', { response: responseOf('in_progress', []) })
  if (reasoning) {
    const place = { item_id: thought.id, output_index: 0, summary_index: 0 }
    emit('response.output_item.added', { output_index: 0, item: { ...thought, summary: [] } })
    emit('response.reasoning_summary_part.added', { ...place, part: { type: 'summary_text', text: '' } })
    emit('response.reasoning_summary_text.delta', { ...place, delta: reasoning }, reasoning)
    emit('response.reasoning_summary_text.done', { ...place, text: reasoning })
    emit('response.reasoning_summary_part.done', { ...place, part: thought.summary[0] })
    emit('response.output_item.done', { output_index: 0, item: thought })
  }
  const index = output.length - 1
  const messagePlace = { item_id: main.id, output_index: index }
  if (tool) {
    emit('response.output_item.added', { output_index: index, item: { ...main, arguments: '', status: 'in_progress' } })
    for (const delta of pieces) emit('response.function_call_arguments.delta', { ...messagePlace, delta }, delta)
    emit('response.function_call_arguments.done', { ...messagePlace, name: tool.name, arguments: text })
  } else {
    const inContent = { ...messagePlace, content_index: 0 }
    const part = { type: 'output_text', annotations: [], logprobs: [] }
    emit('response.output_item.added', { output_index: index, item: { ...main, content: [], status: 'in_progress' } })
    emit('response.content_part.added', { ...inContent, part: { ...part, text: '' } })
    for (const delta of pieces) emit('response.output_text.delta', { ...inContent, delta, logprobs: [] }, delta)
    emit('response.output_text.done', { ...inContent, text, logprobs: [] })
    emit('response.content_part.done', { ...inContent, part: { ...part, text } })
  }
  emit('response.output_item.done', { output_index: index, item: main })
  emit(`response.${status}`, { response: finished })
  const failure = { type: 'error', sequence_number: 4, code: MIDWAY.code, message: MIDWAY.message, param: null }
  return stream(
    events.map(({ event, text: carried }) => ({ bytes: typed(event), text: carried })),
    usage,
    typed(failure),
  )
}

function messagesUsage(usage: MockUsage) {
  return {
    // Unlike in OpenAI's API cached tokens are not among these.
    input_tokens: usage.inputTokens - usage.cachedInputTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: usage.cachedInputTokens,
    output_tokens: usage.outputTokens,
  }
}

/** Answers `POST /messages` of Anthropic's API: a message, or the events of one, a ping among them. */
export function answerMockMessages(question: MockQuestion): MockAnswer {
  const said = say(question)
  const { tool, text, reasoning, isCut, pieces, usage, claimed } = said
  const { id, model, body } = question
  const stopReason = isCut ? 'max_tokens' : tool ? 'tool_use' : 'end_turn'
  const input = tool && !isCut ? objectIn(JSON.parse(text)) : {}
  const main = tool
    ? { type: 'tool_use', id: `toolu_${id}`, name: tool.name, input }
    : { type: 'text', text, citations: null }
  const thought = { type: 'thinking', thinking: reasoning, signature: 'bW9jaw==' }
  const content = [...(reasoning ? [thought] : []), main]
  const messageOf = (more: Fields) => ({
    id: `msg_${id}`,
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    ...more,
  })
  const errorFrame = typed({ type: 'error', error: { type: 'overloaded_error', message: MIDWAY.message } })
  if (body['stream'] !== true) {
    const claim = claimed && { usage: messagesUsage(claimed) }
    return whole(messageOf({ content, stop_reason: stopReason, ...claim }), said, errorFrame)
  }
  const frame = (event: { type: string; [member: string]: unknown }, carried = ''): MockFrame => ({
    bytes: typed(event),
    text: carried,
  })
  const index = content.length - 1
  const opened = claimed && { usage: { ...messagesUsage(claimed), output_tokens: 1 } }
  const frames = [
    frame({ type: 'message_start', message: messageOf({ ...opened }) }),
    frame({ type: 'ping' }),
    ...(reasoning
      ? [
          frame({ type: 'content_block_start', index: 0, content_block: { ...thought, thinking: '', signature: '' } }),
          frame(
            { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: reasoning } },
            reasoning,
          ),
          frame({
            type: 'content_block_delta',
            index: 0,
            delta: { type: 'signature_delta', signature: thought.signature },
          }),
          frame({ type: 'content_block_stop', index: 0 }),
        ]
      : []),
    frame({
      type: 'content_block_start',
      index,
      content_block: tool ? { ...main, input: {} } : { ...main, text: '' },
    }),
    ...pieces.map((piece) =>
      frame(
        {
          type: 'content_block_delta',
          index,
          delta: tool ? { type: 'input_json_delta', partial_json: piece } : { type: 'text_delta', text: piece },
        },
        piece,
      ),
    ),
    frame({ type: 'content_block_stop', index }),
    frame({
      type: 'message_delta',
      delta: { stop_reason: stopReason, stop_sequence: null },
      ...(claimed && { usage: { output_tokens: claimed.outputTokens } }),
    }),
    frame({ type: 'message_stop' }),
  ]
  return stream(frames, usage, errorFrame)
}

/** Sound of 16-bit samples, 24 kHz: silence of 10 ms for each character, at least one. */
function mockSound(format: string, text: string): Buffer {
  const samples = Buffer.alloc(480 * Math.max(1, Array.from(text).length))
  if (format === 'pcm') return samples
  // What tells the formats apart is at their start; players would find nothing behind it but in wav and mp3.
  const starts: Record<string, Buffer> = {
    mp3: Buffer.from('fffb9000', 'hex'),
    opus: Buffer.from('OggS'),
    aac: Buffer.from('fff15080', 'hex'),
    flac: Buffer.from('fLaC'),
  }
  const start = starts[format]
  if (start) return Buffer.concat([start, Buffer.alloc(413)])
  const head = Buffer.alloc(44)
  head.write('RIFF', 0)
  head.writeUInt32LE(36 + samples.length, 4)
  head.write('WAVEfmt ', 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(24_000, 24)
  head.writeUInt32LE(48_000, 28)
  head.writeUInt16LE(2, 32)
  head.writeUInt16LE(16, 34)
  head.write('data', 36)
  head.writeUInt32LE(samples.length, 40)
  return Buffer.concat([head, samples])
}

const speechTypes: Record<string, string> = {
  mp3: 'audio/mpeg',
  opus: 'audio/opus',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
}

/** Answers `POST /audio/speech`: bytes, or events with `stream_format: sse`. Output tokens are one for each character. */
export function answerMockSpeech({ body, steering }: MockQuestion): MockAnswer {
  const input = textIn(body['input'])
  const format = textIn(body['response_format']) || 'mp3'
  const sound = mockSound(format, input)
  const inputTokens = mockTokens(input)
  const outputTokens = Array.from(input).length
  const usage: MockUsage = {
    inputTokens,
    cachedInputTokens: 0,
    outputTokens,
    reasoningTokens: 0,
    costMicros: mockCostMicros(inputTokens, outputTokens),
  }
  const errorFrame = data({ error: MIDWAY })
  const step = Math.ceil(sound.length / PIECES)
  const slices = Array.from({ length: Math.ceil(sound.length / step) }, (_, index) =>
    sound.subarray(index * step, (index + 1) * step),
  )
  const carried = cutIntoPieces(input, slices.length)
  if (body['stream_format'] !== 'sse')
    return {
      ...stream(
        slices.map((bytes, index) => ({ bytes, text: carried[index] ?? '' })),
        usage,
        errorFrame,
      ),
      contentType: speechTypes[format] ?? 'application/octet-stream',
    }
  const done = {
    type: 'speech.audio.done',
    ...(steering !== 'no-usage' && {
      usage: {
        input_tokens: inputTokens,
        output_tokens: outputTokens,
        total_tokens: inputTokens + outputTokens,
      },
    }),
  }
  const deltas = slices.map((slice, index) => ({
    bytes: data({ type: 'speech.audio.delta', audio: slice.toString('base64') }),
    text: carried[index] ?? '',
  }))
  return stream([...deltas, { bytes: data(done), text: '' }], usage, errorFrame)
}

/** What was uploaded for a transcription. */
export interface MockSound {
  name: string
  bytes: number
}

const timed = (point: string, seconds: number): string => `00:00:${String(seconds).padStart(2, '0')}${point}000`

/** The transcript of a file. */
export function mockTranscript({ name, bytes }: MockSound): string {
  return `Überschrift: ${bytes} bytes of ${name} — 音声 🎧`
}

/** Answers `POST /audio/transcriptions` in each format, or as events. Input tokens are those of the file's bytes. */
export function answerMockTranscription({ body, steering }: MockQuestion, sound: MockSound): MockAnswer {
  const text = mockTranscript(sound)
  const inputTokens = Math.ceil(sound.bytes / 4)
  const outputTokens = mockTokens(text)
  const usage: MockUsage = {
    inputTokens,
    cachedInputTokens: 0,
    outputTokens,
    reasoningTokens: 0,
    costMicros: mockCostMicros(inputTokens, outputTokens),
  }
  const claimed = {
    type: 'tokens',
    input_tokens: inputTokens,
    input_token_details: { text_tokens: 0, audio_tokens: inputTokens },
    output_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
  }
  const claim = steering === 'no-usage' ? {} : { usage: claimed }
  const errorFrame = data({ error: MIDWAY })
  if (body['stream'] === true || body['stream'] === 'true') {
    const deltas = cutIntoPieces(text, PIECES).map((delta) => ({
      bytes: data({ type: 'transcript.text.delta', delta }),
      text: delta,
    }))
    return stream(
      [...deltas, { bytes: data({ type: 'transcript.text.done', text, ...claim }), text: '' }],
      usage,
      errorFrame,
    )
  }
  const answer = (contentType: string, content: string): MockAnswer => ({
    status: 200,
    contentType,
    isStream: false,
    frames: [{ bytes: encode(content), text }],
    usage,
    errorFrame,
  })
  const json = (value: unknown) => answer('application/json', JSON.stringify(value))
  const duration = steering === 'no-usage' ? {} : { usage: { type: 'duration', seconds: 2 } }
  switch (body['response_format']) {
    case 'text':
      return answer('text/plain; charset=utf-8', `${text}\n`)
    case 'srt':
      return answer('text/plain; charset=utf-8', `1\n${timed(',', 0)} --> ${timed(',', 2)}\n${text}\n\n`)
    case 'vtt':
      return answer('text/plain; charset=utf-8', `WEBVTT\n\n${timed('.', 0)} --> ${timed('.', 2)}\n${text}\n\n`)
    case 'verbose_json': {
      const segment = { id: 0, seek: 0, start: 0, end: 2, text, tokens: [], temperature: 0 }
      const figures = { avg_logprob: 0, compression_ratio: 1, no_speech_prob: 0 }
      const segments = [{ ...segment, ...figures }]
      return json({ task: 'transcribe', language: 'german', duration: 2, text, segments, ...duration })
    }
    case 'diarized_json': {
      const segments = [{ type: 'transcript.text.segment', id: 'seg_0', start: 0, end: 2, speaker: 'A', text }]
      return json({ task: 'transcribe', duration: 2, text, segments, ...duration })
    }
    default:
      return json({ text, ...claim })
  }
}
