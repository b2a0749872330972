import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setImmediate as nextTick, setTimeout as sleep } from 'node:timers/promises'
import {
  answerMockChat,
  answerMockMessages,
  answerMockResponse,
  answerMockSpeech,
  answerMockTranscription,
  type MockAnswer,
  type MockFrame,
  mockInputText,
  type MockQuestion,
  objectIn,
} from './mock-ai-answers.ts'
import { mockCostMicros, mockPrice, mockTokens, type MockUsage } from './mock-ai-usage.ts'

/** A request as the mock received it. Its members change until it is completed. */
export interface MockRequest {
  readonly id: string
  readonly method: string
  /** With the query, such as `/v1/chat/completions`. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** Of a JSON body its `model`, of a form the field, of a video that is asked for again that of its job. */
  model: string | undefined
  /** A JSON body or the texts of a form; of one that is sent several times, an array. undefined: no or another body. */
  body: Record<string, unknown> | undefined
  raw: Buffer
  /** Of a form. */
  file: { name: string; type: string; bytes: Buffer } | undefined
  readonly startedAt: Date
  /** When the answer was written whole, or the connection ended. */
  completedAt: Date | undefined
  /** undefined: no status line was sent. */
  status: number | undefined
  /** Frames of the answer that were written; a document is one. */
  framesSent: number
  /** True if the client left before the whole answer was written. */
  aborted: boolean
  abortedAfterMs: number | undefined
  /** What is charged: the input, and the output as far as it was sent. undefined: nothing, as for a refusal. */
  usage: MockUsage | undefined
}

/** Keeps the answers of a model from going on. */
interface MockHold {
  /** Resolves to the held requests once so many wait; without a number, one. */
  reached(count?: number): Promise<MockRequest[]>
  /** Lets those go on that wait, and all later ones pass. */
  release(): void
}

/** A server that plays providers of models. */
export interface MockUpstream {
  /** Of the OpenAI-compatible API and, with `/messages`, of Anthropic's: `http://127.0.0.1:<port>/v1`. */
  baseUrl: string
  /** Every request in the order of arrival. */
  ledger: readonly MockRequest[]
  /** Requests whose client left before the whole answer was written. */
  readonly aborts: MockRequest[]
  /** Another origin, to which redirects and the addresses of some videos lead, and what arrived there. */
  elsewhere: { origin: string; requests: readonly MockRequest[] }
  /** Resolves to the first request of the ledger that the predicate takes, at once or when it changes so. */
  waitFor(predicate: (request: MockRequest) => boolean): Promise<MockRequest>
  /** Resolves to the first request whose client left. */
  waitForAbort(predicate?: (request: MockRequest) => boolean): Promise<MockRequest>
  /**
   * Holds every answer to a model, the whole name, once so many frames were written. frames: default 1; 0 holds the status line
   * as well. The first frame of a stream holds no text.
   */
  hold(model: string, frames?: number): MockHold
  close(): Promise<void>
}

export interface MockUpstreamOptions {
  /** The only key that is taken; without it every key is. */
  apiKey?: string
  /** How often a video is looked at until it is complete; default 2. */
  videoPolls?: number
  /** Length of the answers of `huge`; default 70 MiB. */
  hugeBytes?: number
  /** Between the chunks of `slow`; default 50. */
  slowChunkMs?: number
}

interface VideoJob {
  id: string
  model: string
  polls: number
  /** Seconds. */
  duration: number
}

type Protocol = 'openai' | 'anthropic'

const HTML = '<!doctype html><title>Maintenance</title><p>Back soon'
/** Headers that providers send and no caller of a gateway should see. */
const revealing = {
  'set-cookie': 'session=mock; Path=/',
  'openai-organization': 'org-mock',
  'openai-processing-ms': '7',
  'x-request-id': 'req_mock',
  'x-ratelimit-remaining-requests': '41',
  'x-should-retry': 'true',
  'retry-after': '7',
  'www-authenticate': 'Bearer realm="mock"',
  'access-control-allow-origin': 'https://mock.example',
  'content-disposition': 'attachment; filename="mock"',
  'clear-site-data': '"*"',
  server: 'mock',
  via: '1.1 mock',
}

const kinds: Record<number, readonly [type: string, code: string | null]> = {
  400: ['invalid_request_error', 'invalid_value'],
  401: ['invalid_request_error', 'invalid_api_key'],
  402: ['insufficient_quota', 'insufficient_credits'],
  403: ['permission_error', 'country_not_supported'],
  404: ['invalid_request_error', 'model_not_found'],
  413: ['invalid_request_error', 'request_too_large'],
  422: ['invalid_request_error', 'unprocessable'],
  429: ['requests', 'rate_limit_exceeded'],
}
const anthropicKinds: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  422: 'invalid_request_error',
  429: 'rate_limit_error',
  503: 'overloaded_error',
}

const documentOf = (status: number, value: unknown, headers: Record<string, string> = {}): MockAnswer => ({
  status,
  contentType: 'application/json',
  headers,
  isStream: false,
  frames: [{ bytes: Buffer.from(JSON.stringify(value)), text: '' }],
  usage: undefined,
  errorFrame: Buffer.alloc(0),
})

function refusal(
  protocol: Protocol,
  status: number,
  message = `Mock answers ${status}`,
  { headers = {}, code: ownCode }: { headers?: Record<string, string>; code?: string | undefined } = {},
): MockAnswer {
  const [type, codeOfStatus] = kinds[status] ?? ['server_error', null]
  // OpenAI's own answer to a path that it does not have has no code.
  const code = ownCode ?? (message.startsWith('Invalid URL') ? null : codeOfStatus)
  const error = { type: ownCode ?? anthropicKinds[status] ?? 'api_error', message }
  return protocol === 'anthropic'
    ? documentOf(status, { type: 'error', error, request_id: 'req_mock' }, headers)
    : documentOf(status, { error: { message, type, param: null, code } }, headers)
}

/** The texts and the file of a form. */
async function readForm(raw: Buffer, contentType: string): Promise<Pick<MockRequest, 'body' | 'file'>> {
  const form = await new Response(new Uint8Array(raw), { headers: { 'content-type': contentType } }).formData()
  const body: Record<string, unknown> = {}
  let file: MockRequest['file']
  for (const [name, value] of form.entries()) {
    if (typeof value === 'string') {
      const before = body[name]
      body[name] = before === undefined ? value : [before, value].flat()
    } else file = { name: value.name, type: value.type, bytes: Buffer.from(await value.arrayBuffer()) }
  }
  return { body, file }
}

async function readBody(request: MockRequest, raw: Buffer): Promise<void> {
  request.raw = raw
  const contentType = request.headers['content-type'] ?? ''
  try {
    if (contentType.startsWith('multipart/form-data')) Object.assign(request, await readForm(raw, contentType))
    else if (raw.length > 0) request.body = objectIn(JSON.parse(raw.toString('utf8')))
  } catch {
    // What is no JSON and no form stays bytes, and is refused.
  }
  const { model } = request.body ?? {}
  request.model = typeof model === 'string' ? model : undefined
}

/** Resolves when the bytes are on their way or the connection is gone. */
const write = (outgoing: ServerResponse, bytes: Uint8Array): Promise<void> =>
  new Promise((resolve) => void outgoing.write(bytes, () => resolve()))

/** Pieces that end within characters and between the line ends of a frame. */
function cutWithinCharacters(bytes: Uint8Array): Uint8Array[] {
  const cuts: number[] = [0]
  for (const [index, byte] of bytes.entries())
    if ((byte & 0xc0) === 0x80 || (byte === 0x0a && bytes[index - 1] === 0x0a)) cuts.push(index)
  return cuts.map((start, index) => bytes.subarray(start, cuts[index + 1]))
}

const withBytes = (frame: MockFrame, text: string): MockFrame => ({ ...frame, bytes: Buffer.from(text) })
const midOf = (frames: readonly unknown[]): number => Math.ceil(frames.length / 2)

/** A document in two halves, so that something can happen in the middle; streams have a middle already. */
function withMiddle({ frames, ...answer }: MockAnswer): MockAnswer {
  const [first] = frames
  if (!first || frames.length > 1) return { ...answer, frames }
  const half = Math.floor(first.bytes.length / 2)
  const halves = [
    { bytes: first.bytes.subarray(0, half), text: first.text },
    { bytes: first.bytes.subarray(half), text: '' },
  ]
  return { ...answer, frames: halves }
}

function brokenJson({ frames, isStream, ...answer }: MockAnswer): MockAnswer {
  const broken = frames.map((frame, index) =>
    isStream
      ? index === midOf(frames)
        ? withBytes(frame, 'data: {"id":"chatcmpl-\n\n')
        : frame
      : { ...frame, bytes: frame.bytes.subarray(0, Math.floor(frame.bytes.length / 2)) },
  )
  return { ...answer, isStream, frames: broken }
}

/** An answer as its model's name bends it. */
function bend(answer: MockAnswer, steering: string): MockAnswer {
  const { frames, isStream } = answer
  const isEvents = isStream && !answer.contentType.startsWith('audio/')
  switch (steering) {
    case 'stall-mid':
    case 'cut-mid':
    case 'end-mid':
      return withMiddle(answer)
    case 'bad-json':
      return brokenJson(answer)
    case 'bad-sse': {
      const html = [{ bytes: Buffer.from(`${HTML}\xff`, 'latin1'), text: '' }]
      return { ...answer, contentType: isEvents ? answer.contentType : 'text/html', frames: html }
    }
    case 'error-mid': {
      if (!isEvents) {
        const error = { message: 'The model failed midway', type: 'server_error', param: null, code: 'server_error' }
        return documentOf(200, { error })
      }
      return { ...answer, frames: [...frames.slice(0, midOf(frames)), { bytes: answer.errorFrame, text: '' }] }
    }
    case 'no-done':
      return { ...answer, frames: frames.slice(0, -1) }
    case 'comments':
      return isStream
        ? { ...answer, frames: frames.flatMap((frame) => [{ bytes: Buffer.from(': mock\n\n'), text: '' }, frame]) }
        : answer
    case 'crlf':
      return isStream
        ? {
            ...answer,
            frames: frames.map((frame) =>
              withBytes(frame, Buffer.from(frame.bytes).toString().replaceAll('\n', '\r\n')),
            ),
          }
        : answer
    case 'set-cookie':
      return { ...answer, headers: { ...answer.headers, ...revealing } }
    default:
      return answer
  }
}

/** A file that begins as MP4 does; there is nothing to see in it. */
export function mockVideo(id: string): Buffer {
  const kind = Buffer.from('\0\0\0\x18ftypisom\0\0\x02\0isommp42', 'latin1')
  const content = Buffer.from(`\0\0\0\0mdat${id}`, 'latin1')
  content.writeUInt32BE(content.length, 0)
  return Buffer.concat([kind, content])
}

/**
 * Starts a server on 127.0.0.1 that plays an OpenAI-compatible provider and, at `/messages`, Anthropic's API. Answers echo the
 * last text of the user (mock-ai-answers.ts); tokens follow the rule of mock-ai-usage.ts.
 *
 * The last segment of the model's name steers it, as in `mock/429`:
 * - a status from 400 on, with `-once` for the first request of that name only and with `-retry-after-<seconds>`;
 * - `quotes-key` and `quotes-prompt`: 400, or the status behind them (`quotes-key-401`), whose message holds the credential or the
 *   text, which is the code too;
 * - `hang-headers`, `reset-before`: no answer; `stall-mid`, `cut-mid` (a reset), `end-mid` (a clean end), `error-mid`: half of one;
 * - `bad-json`, `bad-sse`, `no-done`, `no-usage`, `zero-usage`, `huge`: an answer that is not what it should be;
 * - `split-utf8`, `comments`, `crlf`, `slow` and `slow-<chunks>`, `set-cookie`, `cached`, `reasoning`, `tools`, `json-schema`: a good
 *   one of a special kind; `no-responses`: 404 for `/responses`; `redirect`: 302 to the other origin;
 * - of videos, `video-fails`, `video-cancelled`, `video-expired`, `video-poll-<status>` (once), `video-gone` (a page with 404 when it
 *   is polled), `video-content-<status>`, `video-elsewhere` (its address is at the other origin) and `video-redirect` (its content
 *   leads there).
 * Anything else works. Requests without a key of the protocol get 401.
 */
export async function startMockUpstream(options: MockUpstreamOptions = {}): Promise<MockUpstream> {
  const { apiKey, videoPolls = 2, hugeBytes = 70 * 1_048_576, slowChunkMs = 50 } = options
  const ledger: MockRequest[] = []
  const visits: MockRequest[] = []
  const watchers = new Set<() => void>()
  const holds = new Map<string, { frames: number; waiting: MockRequest[]; released: Promise<void> }[]>()
  const failedOnce = new Set<string>()
  const jobs = new Map<string, VideoJob>()
  /** Ended by the mock itself, so its client did not leave. */
  const cutHere = new WeakSet<MockRequest>()
  let baseUrl = ''
  let elsewhereOrigin = ''

  const changed = () => {
    for (const look of watchers) look()
  }
  const until = <Found>(find: () => Found | undefined): Promise<Found> =>
    new Promise((resolve) => {
      const look = () => {
        const answer = find()
        if (answer === undefined) return
        watchers.delete(look)
        resolve(answer)
      }
      watchers.add(look)
      look()
    })

  function openRequest(list: MockRequest[], incoming: IncomingMessage, outgoing: ServerResponse): MockRequest {
    const startedMs = performance.now()
    const request: MockRequest = {
      id: `${list === visits ? 'visit' : 'req'}_${list.length + 1}`,
      method: incoming.method ?? '',
      path: incoming.url ?? '',
      headers: incoming.headers,
      model: undefined,
      body: undefined,
      raw: Buffer.alloc(0),
      file: undefined,
      startedAt: new Date(),
      completedAt: undefined,
      status: undefined,
      framesSent: 0,
      aborted: false,
      abortedAfterMs: undefined,
      usage: undefined,
    }
    list.push(request)
    outgoing.on('close', () => {
      request.completedAt = new Date()
      if (!outgoing.writableFinished && !cutHere.has(request)) {
        request.aborted = true
        request.abortedAfterMs = performance.now() - startedMs
      }
      changed()
    })
    changed()
    return request
  }

  /** The refusal of a request without the credential of its protocol. */
  function refuseCredential({ headers }: MockRequest, protocol: Protocol): MockAnswer | undefined {
    const key = protocol === 'anthropic' ? headers['x-api-key'] : /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1]
    if (key === undefined || (apiKey !== undefined && key !== apiKey))
      return refusal(protocol, 401, 'Incorrect API key provided')
    if (protocol === 'anthropic' && headers['anthropic-version'] === undefined)
      return refusal(protocol, 400, 'anthropic-version: header is required')
    return undefined
  }

  /** The refusal that the model's name asks for. */
  function refuseBySteering(request: MockRequest, steering: string, protocol: Protocol): MockAnswer | undefined {
    const { headers, body = {} } = request
    const status = /^([45]\d\d)(-once)?(?:-retry-after-(\d+))?$/.exec(steering)
    if (status) {
      const name = request.model ?? ''
      if (status[2] !== undefined && failedOnce.has(name)) return undefined
      failedOnce.add(name)
      const waits: Record<string, string> = status[3] === undefined ? {} : { 'retry-after': status[3] }
      return refusal(protocol, Number(status[1]), undefined, { headers: waits })
    }
    const quote = /^quotes-(key|prompt)(?:-(\d{3}))?$/.exec(steering)
    if (quote) {
      const prompt = mockInputText(body)
      const key = `${headers.authorization ?? ''}${String(headers['x-api-key'] ?? '')}`
      const message =
        quote[1] === 'key' ? `Incorrect API key ${key} for the prompt ${prompt}` : `Not allowed: ${prompt}`
      return refusal(protocol, Number(quote[2] ?? 400), message, { code: quote[1] === 'prompt' ? prompt : undefined })
    }
    if (steering === 'redirect') {
      const location = `${elsewhereOrigin}${request.path}`
      return documentOf(302, {}, { location })
    }
    if (steering === 'no-responses' && request.path === '/v1/responses')
      return refusal(protocol, 404, 'Invalid URL (POST /v1/responses)')
    return undefined
  }

  function startVideo(request: MockRequest, question: MockQuestion): MockAnswer {
    const seconds = Number(question.body['duration'] ?? question.body['seconds'] ?? 4)
    const job = { id: `video_${jobs.size + 1}`, model: question.model, polls: 0, duration: seconds }
    jobs.set(job.id, job)
    request.usage = {
      inputTokens: 0,
      cachedInputTokens: 0,
      outputTokens: 0,
      reasoningTokens: 0,
      costMicros: mockPrice.perVideo,
    }
    return documentOf(202, { id: job.id, polling_url: `${baseUrl}/videos/${job.id}`, status: 'pending' })
  }

  /** What a look at a job tells; each look brings it on. */
  function pollVideo(job: VideoJob, steering: string): MockAnswer {
    const head = { id: job.id, polling_url: `${baseUrl}/videos/${job.id}` }
    const failing = /^video-poll-(\d{3})$/.exec(steering)?.[1]
    if (failing !== undefined && !failedOnce.has(job.id)) {
      failedOnce.add(job.id)
      return refusal('openai', Number(failing))
    }
    job.polls += 1
    if (job.polls < videoPolls) return documentOf(200, { ...head, status: 'in_progress' })
    if (steering === 'video-gone')
      return { ...refusal('openai', 404), contentType: 'text/html', frames: [{ bytes: Buffer.from(HTML), text: '' }] }
    if (steering === 'video-fails')
      return documentOf(200, { ...head, status: 'failed', error: 'The mock makes no such video' })
    if (steering === 'video-cancelled') return documentOf(200, { ...head, status: 'cancelled' })
    if (steering === 'video-expired') return documentOf(200, { ...head, status: 'expired' })
    const url =
      steering === 'video-elsewhere'
        ? `${elsewhereOrigin}/files/${job.id}.mp4`
        : `${baseUrl}/videos/${job.id}/content?index=0`
    return documentOf(200, {
      ...head,
      status: 'completed',
      generation_id: `gen_${job.id}`,
      duration: job.duration,
      unsigned_urls: [url],
      usage: { cost: mockPrice.perVideo / 1_000_000, is_byok: false },
    })
  }

  function answerVideoPath(request: MockRequest, id: string, isContent: boolean): MockAnswer {
    const job = jobs.get(id)
    if (!job) return refusal('openai', 404, 'Video not found')
    request.model = job.model
    const steering = job.model.slice(job.model.lastIndexOf('/') + 1)
    if (!isContent) return pollVideo(job, steering)
    if (job.polls < videoPolls) return refusal('openai', 400, 'The video is not ready')
    const refused = /^video-content-(\d{3})$/.exec(steering)?.[1]
    if (refused !== undefined) return refusal('openai', Number(refused))
    if (steering === 'video-redirect') return documentOf(302, {}, { location: `${elsewhereOrigin}/files/${id}.mp4` })
    return {
      ...bend(documentOf(200, {}), steering),
      contentType: 'video/mp4',
      frames: [{ bytes: mockVideo(id), text: '' }],
    }
  }

  /** The answer of what can be asked with a body. */
  function answerQuestion(request: MockRequest, protocol: Protocol, operation: string): MockAnswer | undefined {
    const { body, model, file } = request
    if (!body || model === undefined) return refusal(protocol, 400, 'The body is no JSON or form with a model')
    const steering = model.slice(model.lastIndexOf('/') + 1)
    const refused = refuseBySteering(request, steering, protocol)
    if (refused) return refused
    const created = Math.floor(request.startedAt.getTime() / 1_000)
    const question: MockQuestion = { steering, model, body, created, id: request.id }
    switch (operation) {
      case '/chat/completions':
        return bend(answerMockChat(question), steering)
      case '/responses':
        return bend(answerMockResponse(question), steering)
      case '/messages':
        if (typeof body['max_tokens'] !== 'number') return refusal(protocol, 400, 'max_tokens: Field required')
        return bend(answerMockMessages(question), steering)
      case '/audio/speech':
        return bend(answerMockSpeech(question), steering)
      case '/audio/transcriptions': {
        const { data, format } = objectIn(body['input_audio'])
        const sound = typeof data === 'string' ? Buffer.from(data, 'base64') : file?.bytes
        if (!sound) return refusal(protocol, 400, 'file: Field required')
        const name = file?.name ?? `audio.${typeof format === 'string' ? format : ''}`
        return bend(answerMockTranscription(question, { name, bytes: sound.length }), steering)
      }
      case '/videos':
        return bend(startVideo(request, question), steering)
      default:
        return undefined
    }
  }

  function answer(request: MockRequest): MockAnswer {
    const path = request.path.replace(/\?.*$/, '').replace(/^\/v1(?=\/)/, '')
    const protocol: Protocol = path === '/messages' ? 'anthropic' : 'openai'
    const refused = refuseCredential(request, protocol)
    if (refused) return refused
    if (request.method === 'POST') {
      const answered = answerQuestion(request, protocol, path)
      if (answered) return answered
    }
    if (request.method === 'GET') {
      const models = [{ id: 'mock/plain', object: 'model', created: 1_700_000_000, owned_by: 'mock' }]
      if (path === '/models') return documentOf(200, { object: 'list', data: models })
      if (path === '/videos/models') return documentOf(200, { data: [{ id: 'mock/video', name: 'Mock video' }] })
      const [, id, content] = /^\/videos\/([^/]+)(\/content)?$/.exec(path) ?? []
      if (id !== undefined) return answerVideoPath(request, id, content !== undefined)
    }
    return refusal(protocol, 404, `Invalid URL (${request.method} ${request.path})`)
  }

  /** Charges what was sent of an answer: of a whole one what it says itself, which for sound is not what its text has. */
  function charge(request: MockRequest, text: string, { usage, frames }: MockAnswer): void {
    if (!usage) return
    const isWhole = request.framesSent === frames.length
    const outputTokens = isWhole ? usage.outputTokens : Math.min(mockTokens(text), usage.outputTokens)
    request.usage = {
      ...usage,
      outputTokens,
      reasoningTokens: Math.min(usage.reasoningTokens, outputTokens),
      costMicros: mockCostMicros(usage.inputTokens, outputTokens),
    }
  }

  async function sendHuge(outgoing: ServerResponse, { isStream, contentType }: MockAnswer): Promise<void> {
    outgoing.writeHead(200, { 'content-type': contentType })
    const filler = Buffer.alloc(65_536, 'a')
    await write(outgoing, Buffer.from(isStream ? 'data: {"text":"' : '{"text":"'))
    for (let sent = 0; sent < hugeBytes && !outgoing.destroyed; sent += filler.length) await write(outgoing, filler)
    outgoing.end(isStream ? '"}\n\n' : '"}')
  }

  /** Waits where a test holds the answer. Returns false once the client has left. */
  async function passHolds(request: MockRequest, frames: number, outgoing: ServerResponse): Promise<boolean> {
    for (const hold of holds.get(request.model ?? '') ?? []) {
      if (hold.frames !== frames) continue
      hold.waiting.push(request)
      changed()
      await Promise.race([hold.released, outgoing.destroyed ? undefined : once(outgoing, 'close')])
    }
    return !outgoing.destroyed
  }

  function cut(request: MockRequest, outgoing: ServerResponse): void {
    cutHere.add(request)
    outgoing.socket?.resetAndDestroy()
  }

  async function send(request: MockRequest, mockAnswer: MockAnswer, outgoing: ServerResponse): Promise<void> {
    const { status, contentType, headers, frames, isStream } = mockAnswer
    const steering = status < 300 ? (request.model?.slice(request.model.lastIndexOf('/') + 1) ?? '') : ''
    charge(request, '', mockAnswer)
    if (steering === 'hang-headers') return
    if (steering === 'reset-before') return cut(request, outgoing)
    if (!(await passHolds(request, 0, outgoing))) return
    request.status = status
    if (steering === 'huge') return sendHuge(outgoing, mockAnswer)
    const length = frames.reduce((sum, { bytes }) => sum + bytes.length, 0)
    outgoing.writeHead(status, {
      ...headers,
      'content-type': contentType,
      ...(!isStream && { 'content-length': length }),
    })
    let text = ''
    for (const frame of frames) {
      if (request.framesSent === midOf(frames)) {
        if (steering === 'stall-mid') return
        if (steering === 'cut-mid') return cut(request, outgoing)
        if (steering === 'end-mid' && isStream) break
        if (steering === 'end-mid') {
          // A document whose length was promised ends early by the end of its connection.
          cutHere.add(request)
          outgoing.socket?.end()
          return
        }
      }
      for (const piece of steering === 'split-utf8' ? cutWithinCharacters(frame.bytes) : [frame.bytes]) {
        await write(outgoing, piece)
        if (steering === 'split-utf8') await nextTick()
      }
      request.framesSent += 1
      text += frame.text
      charge(request, text, mockAnswer)
      changed()
      if (/^slow(-\d+)?$/.test(steering)) await sleep(slowChunkMs)
      if (!(await passHolds(request, request.framesSent, outgoing))) return
    }
    outgoing.end()
  }

  async function receive(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const request = openRequest(ledger, incoming, outgoing)
    outgoing.socket?.setNoDelay()
    await readBody(request, await buffer(incoming))
    changed()
    await send(request, answer(request), outgoing)
  }

  const server = createServer((incoming, outgoing) => {
    // A client may leave while it sends its body; the ledger has it then.
    void receive(incoming, outgoing).catch(() => outgoing.destroy())
  })
  const elsewhere = createServer((incoming, outgoing) => {
    const request = openRequest(visits, incoming, outgoing)
    const id = /^\/files\/(.+)\.mp4$/.exec(request.path)?.[1]
    request.status = 200
    outgoing.writeHead(200, { 'content-type': id === undefined ? 'application/json' : 'video/mp4' })
    outgoing.end(id === undefined ? '{"elsewhere":true}' : mockVideo(id))
  })
  const originOf = async (listener: typeof server): Promise<string> => {
    await once(listener.listen(0, '127.0.0.1'), 'listening')
    return `http://127.0.0.1:${(listener.address() as AddressInfo).port}`
  }
  baseUrl = `${await originOf(server)}/v1`
  elsewhereOrigin = await originOf(elsewhere)

  const waitFor: MockUpstream['waitFor'] = (predicate) => until(() => ledger.find(predicate))
  return {
    baseUrl,
    ledger,
    get aborts() {
      return ledger.filter(({ aborted }) => aborted)
    },
    elsewhere: { origin: elsewhereOrigin, requests: visits },
    waitFor,
    waitForAbort: (predicate = () => true) => waitFor((request) => request.aborted && predicate(request)),
    hold(model, frames = 1) {
      const waiting: MockRequest[] = []
      const { promise, resolve } = Promise.withResolvers<void>()
      const hold = { frames, waiting, released: promise }
      holds.set(model, [...(holds.get(model) ?? []), hold])
      return {
        reached: (count = 1) => until(() => (waiting.length >= count ? [...waiting] : undefined)),
        release() {
          holds.set(
            model,
            (holds.get(model) ?? []).filter((each) => each !== hold),
          )
          resolve()
        },
      }
    },
    async close() {
      for (const each of [server, elsewhere]) {
        const closed = new Promise<void>((resolve) => void each.close(() => resolve()))
        each.closeAllConnections()
        await closed
      }
    },
  }
}
