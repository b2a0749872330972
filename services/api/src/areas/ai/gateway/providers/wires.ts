import { Readable } from 'node:stream'
import type { ChatRequest } from '@platform/ai-protocols/chat-request'
import { toMessagesRequest } from '@platform/ai-protocols/chat-to-messages'
import { createResponseEventTranslator, type ResponseNames, toResponse } from '@platform/ai-protocols/chat-to-responses'
import { createChatChunkTranslator, toChatCompletion } from '@platform/ai-protocols/messages-to-chat'
import { textOf } from '@platform/ai-protocols/record'
import type { ResponsesRequest } from '@platform/ai-protocols/responses-request'
import { toChatRequest } from '@platform/ai-protocols/responses-to-chat'
import { completionTextBytes, responseTextBytes } from '@platform/ai-protocols/text-bytes'
import type { VideoRequest } from '@platform/ai-protocols/video-request'
import { UnsupportedMember } from '@platform/ai-protocols/unsupported-member'
import { type Usage, usageOfChat, usageOfResponse, usageOfTranscription } from '@platform/ai-protocols/usage'
import { newId } from '@platform/runtime/new-id'
import { AiError } from '@platform/errors/ai-error'
import { isExcessive } from './is-excessive.ts'
import type { SentForm } from '../requests/audio-form.ts'
import type { ItemReference } from '../requests/item-references.ts'
import { type Model, type Provider, routeName } from './model.ts'
import type { KeyedRoute } from './choose-routes.ts'
import { findAccountParam, unsupportedParameter } from '../requests/inspect-request.ts'
import { answerLocally } from '../local/local-driver.ts'
import { startLocalVideo } from '../local/echo-video.ts'
import type { InferenceRequest } from '../operations.ts'
import { readUpstreamJob } from '../videos/video-status.ts'
import {
  chatStream,
  itemIdsOf,
  openStreamReader,
  responseStream,
  type Source,
  speechStream,
  type StreamProtocol,
  type StreamReader,
  type Target,
  transcriptionStream,
} from './stream-reader.ts'
import type { UpstreamAnswer, UpstreamClient, UpstreamRequest } from './upstream-client.ts'
import { isFilled, readFailure } from './upstream-words.ts'

/** Output cap for a model without a limit of its own, if a protocol requires one. */
const OUTPUT_TOKENS_DEFAULT = 4_096
const JSON_TYPE = 'application/json'
const TEXT_TYPE = 'text/plain; charset=utf-8'
const ANTHROPIC_VERSION = '2023-06-01'

/** A document answer in the caller's protocol. */
export interface WholeAnswer {
  bytes: Buffer
  contentType: string
  usage: Usage | undefined
  outputBytes: number
  responseId: string | undefined
  /** Ids of a response's items. */
  itemIds: readonly string[]
}

/** A protocol to call a provider with, and to read its answers. */
export interface Wire {
  /** True if the provider stores its answers under ids of its own. */
  readonly keepsAnswers: boolean
  /** Rejects as `UpstreamClient.ask` does. */
  ask(client: UpstreamClient, signal: AbortSignal): Promise<UpstreamAnswer>
  /** Throws SyntaxError or TypeError for an answer that violates the protocol. */
  readWhole(body: Buffer): WholeAnswer
  openReader(): StreamReader
}

const paths = {
  'chat.completions': '/chat/completions',
  responses: '/responses',
  'audio.speech': '/audio/speech',
  'audio.transcriptions': '/audio/transcriptions',
  videos: '/videos',
} as const

/** The stream protocol of each operation; videos have none. */
const protocols: Readonly<Partial<Record<InferenceRequest['operation'], StreamProtocol>>> = {
  'chat.completions': chatStream,
  responses: responseStream,
  'audio.speech': speechStream,
  'audio.transcriptions': transcriptionStream,
}

/** Returns the protocol of a request's stream. */
export function protocolOf({ operation }: Pick<InferenceRequest, 'operation'>): StreamProtocol {
  const protocol = protocols[operation]
  if (!protocol) throw new Error(`${operation} has no streams`)
  return protocol
}

type Fields = Record<string, unknown>

/** Returns the URL of a path at a provider. */
export const urlAt = (baseUrl: URL | undefined, path: string): URL =>
  new URL(`${(baseUrl?.href ?? '').replace(/\/$/, '')}${path}`)

/** Parses a JSON object. Throws SyntaxError or TypeError for anything else. */
function parseObject(body: Buffer): Fields {
  if (isExcessive(body)) throw new TypeError('Too much')
  const value = JSON.parse(body.toString('utf8')) as unknown
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new TypeError('Not an object')
  return value as Fields
}

/** For an answer without ids. */
const unnamed = { responseId: undefined, itemIds: [] }

/** Reads usage and text from an operation's document. Throws TypeError if it is invalid. */
function readDocument(
  operation: InferenceRequest['operation'],
  value: Fields,
): Omit<WholeAnswer, 'bytes' | 'contentType'> {
  const { usage } = value
  switch (operation) {
    case 'chat.completions':
      if (!Array.isArray(value['choices'])) throw new TypeError('No choices')
      if (value['choices'].length === 0 && isFilled(value['error'])) throw new TypeError('An error')
      return { ...unnamed, usage: usageOfChat(usage), outputBytes: completionTextBytes(value) }
    case 'responses': {
      if (!Array.isArray(value['output'])) throw new TypeError('No output')
      if (value['output'].length === 0 && value['status'] === 'failed') throw new TypeError('An error')
      const names = { responseId: textOf(value, 'id'), itemIds: itemIdsOf(value) }
      return { ...names, usage: usageOfResponse(usage), outputBytes: responseTextBytes(value) }
    }
    case 'audio.transcriptions': {
      const text = textOf(value, 'text')
      if (text === undefined) throw new TypeError('No text')
      return { ...unnamed, usage: usageOfTranscription(usage), outputBytes: Buffer.byteLength(text) }
    }
    case 'audio.speech':
    case 'videos':
      throw new TypeError('Neither is a document')
  }
}

/** True for a transcription in plain text: subtitles, or only the words. */
const isPlainText = ({ operation, body }: InferenceRequest): boolean =>
  operation === 'audio.transcriptions' && ['text', 'srt', 'vtt'].includes(String(body['response_format']))

/** What may stand before the first tag of a page. Found one at a time: a pattern for all of them would try each way to part them. */
const BEFORE_TAG = /^(?:[\ufeff\s]+|<!--.*?-->|<\?.*?\?>)/s
const PAGE_START_BYTES = 1_024

/** True for an HTML page. */
function isPage(body: Buffer): boolean {
  let text = body.toString('utf8', 0, PAGE_START_BYTES)
  for (let before = BEFORE_TAG.exec(text); before; before = BEFORE_TAG.exec(text)) text = text.slice(before[0].length)
  return /^<(!doctype|html|head|body|title)\b/i.test(text)
}

function readAsItIs(request: InferenceRequest, body: Buffer): WholeAnswer {
  if (isPlainText(request) && (readFailure(body) !== undefined || isPage(body))) throw new TypeError('Not the words')
  if (isPlainText(request))
    return { ...unnamed, bytes: body, contentType: TEXT_TYPE, usage: undefined, outputBytes: body.length }
  return { bytes: body, contentType: JSON_TYPE, ...readDocument(request.operation, parseObject(body)) }
}

/** True if the caller requested the usage of a stream of chunks. */
const wantsUsage = ({ operation, body }: InferenceRequest): boolean => {
  const options = body['stream_options'] as Fields | null | undefined
  return operation !== 'chat.completions' || options?.['include_usage'] === true
}

const readerFor = (request: InferenceRequest, translation: { source?: Source; target?: Target } = {}): StreamReader =>
  openStreamReader({ protocol: protocolOf(request), ...translation, dropsUsage: !wantsUsage(request) })

/** At OpenAI a request without a tier is charged by that of the account, which may be dearer than the known price. */
const tierOf = ({ operation, body, serviceTier }: InferenceRequest, { id }: Provider): Fields =>
  id === 'openai' && serviceTier !== undefined && (operation === 'chat.completions' || operation === 'responses')
    ? { service_tier: body['service_tier'] ?? serviceTier }
    : {}

/** Makes the body for a provider that speaks the caller's protocol. */
function bodyFor(request: InferenceRequest, { provider, upstreamModel }: KeyedRoute): Fields {
  const { operation, body, answer } = request
  const own = { ...body, model: upstreamModel, ...tierOf(request, provider) }
  if (operation !== 'chat.completions' || answer !== 'events' || provider.streamUsage !== 'include') return own
  return { ...own, stream_options: { ...(body['stream_options'] as Fields | null | undefined), include_usage: true } }
}

/** Returns the headers of a request to a provider, with the credential in its driver's form. */
export function providerHeaders({ driver }: Provider, key: string): Record<string, string> {
  const common = { accept: '*/*', 'accept-encoding': 'identity' }
  return driver === 'anthropic'
    ? { ...common, 'x-api-key': key, 'anthropic-version': ANTHROPIC_VERSION }
    : { ...common, authorization: `Bearer ${key}` }
}

const postJson = (route: KeyedRoute, path: string, body: unknown): UpstreamRequest => {
  const bytes = Buffer.from(JSON.stringify(body))
  return {
    method: 'POST',
    url: urlAt(route.provider.baseUrl, path),
    headers: {
      ...providerHeaders(route.provider, route.key),
      'content-type': 'application/json',
      'content-length': String(bytes.length),
    },
    body: bytes,
  }
}

const postForm = (route: KeyedRoute, path: string, form: SentForm): UpstreamRequest => ({
  method: 'POST',
  url: urlAt(route.provider.baseUrl, path),
  headers: {
    ...providerHeaders(route.provider, route.key),
    'content-type': form.contentType,
    'content-length': String(form.bytes),
  },
  body: Readable.from(form.body()),
})

/** Makes the wire for a provider that speaks the caller's protocol: the bytes of its answers stay unchanged. */
function sameWire(request: InferenceRequest, route: KeyedRoute): Wire {
  const path = paths[request.operation]
  return {
    keepsAnswers: request.operation === 'responses',
    ask(client, signal) {
      const form = request.audio?.formFor(route.upstreamModel)
      const body = bodyFor(request, route)
      const isRenamed = request.capFrom !== undefined && request.operation === 'chat.completions'
      const sent = form ? postForm(route, path, form) : postJson(route, path, isRenamed ? withCapOf(route, body) : body)
      return client.ask(sent, signal)
    },
    readWhole: (body) => readAsItIs(request, body),
    openReader: () => readerFor(request),
  }
}

/** Context of a call for answers that are written here. */
export interface WireContext {
  requestId: string
  now: Date
  model: Model
  /** By `routeName`. */
  lacksResponses: ReadonlySet<string>
  /** Input items that a provider has to know. */
  references: readonly ItemReference[]
  /** Those that each provider stores for the caller, by provider. */
  storedItems: ReadonlyMap<string, ReadonlySet<string>>
}

/** Chat completions with a provider, for callers of any protocol. */
interface ChatWire {
  ask: Wire['ask']
  /** Returns the completion in an answer. Throws SyntaxError and TypeError. */
  readCompletion(body: Buffer): Fields
  openSource(): Source | undefined
}

const createdOf = ({ now }: WireContext): number => Math.floor(now.getTime() / 1_000)

/** Renames a cap that the caller did not write to the provider's name for it. */
function withCapOf({ capParameter }: KeyedRoute, { max_completion_tokens: cap, ...body }: Fields): Fields {
  if (cap == null) return body
  return { ...body, [capParameter === 'max_tokens' ? 'max_tokens' : 'max_completion_tokens']: cap }
}

/** Makes a chat for a caller of /responses, with a provider that speaks chat completions. */
const plainChat = (chat: InferenceRequest, route: KeyedRoute): ChatWire => ({
  ask: (client, signal) =>
    client.ask(postJson(route, paths['chat.completions'], withCapOf(route, bodyFor(chat, route))), signal),
  readCompletion: parseObject,
  openSource: () => undefined,
})

/** Makes a chat with a provider that speaks Anthropic's Messages API. */
function messagesChat(chat: InferenceRequest, route: KeyedRoute, context: WireContext): ChatWire {
  const names = { id: `chatcmpl-${context.requestId}`, created: createdOf(context), model: chat.model }
  const maxTokensDefault = context.model.maxOutputTokens ?? OUTPUT_TOKENS_DEFAULT
  const sent = translated(() =>
    toMessagesRequest(chat.body as ChatRequest, { model: route.upstreamModel, maxTokensDefault }),
  )
  return {
    ask: (client, signal) => client.ask(postJson(route, '/messages', sent), signal),
    readCompletion(body) {
      const completion = toChatCompletion(parseObject(body), names)
      if (!completion) throw new TypeError('Not a message')
      return { ...completion }
    },
    openSource: () => createChatChunkTranslator({ ...names, includeUsage: true }),
  }
}

/** Makes a chat with one of the platform's own models. */
const localChat = (chat: InferenceRequest, route: KeyedRoute, context: WireContext): ChatWire => ({
  ask: (_, signal) => askLocally('chat', { ...chat, body: bodyFor(chat, route) }, context, signal),
  readCompletion: parseObject,
  openSource: () => undefined,
})

/** Runs a translation. Throws AiError for a member that the other protocol cannot express. */
function translated<T>(translate: () => T): T {
  try {
    return translate()
  } catch (error) {
    if (!(error instanceof UnsupportedMember)) throw error
    throw unsupportedParameter(error.param, error.message)
  }
}

const jsonOf = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

/** Makes the wire for a caller that speaks chat completions and a provider that does not. */
const chatWire = (request: InferenceRequest, chat: ChatWire): Wire => ({
  keepsAnswers: false,
  ask: chat.ask,
  readWhole(body) {
    const completion = chat.readCompletion(body)
    return { bytes: jsonOf(completion), contentType: JSON_TYPE, ...readDocument('chat.completions', completion) }
  },
  openReader: () => readerFor(request, { source: chat.openSource() }),
})

function responseEvents(request: ResponsesRequest, names: ResponseNames): Target {
  const translator = createResponseEventTranslator(request, names)
  return { push: (chunk) => translator.pushChunk(chunk), end: () => translator.end() }
}

/** Makes the wire for a caller that speaks /responses and a provider of chats. */
function responsesWire(
  request: InferenceRequest,
  context: WireContext,
  openChat: (chat: InferenceRequest) => ChatWire,
): Wire {
  const responsesRequest = request.body as unknown as ResponsesRequest
  const body: Fields = { ...translated(() => toChatRequest(responsesRequest)) }
  const chat = openChat({ ...request, operation: 'chat.completions', body })
  const names = {
    id: `resp_${context.requestId}`,
    createdAt: createdOf(context),
    newItemId: (prefix: string) => `${prefix}_${newId()}`,
  }
  return {
    keepsAnswers: false,
    ask: chat.ask,
    readWhole(bytes) {
      const response = toResponse(chat.readCompletion(bytes), responsesRequest, names)
      if (!response) throw new TypeError('Not a completion')
      const value: Fields = { ...response }
      return { bytes: jsonOf(value), contentType: JSON_TYPE, ...readDocument('responses', value) }
    },
    openReader: () =>
      readerFor(request, { source: chat.openSource(), target: responseEvents(responsesRequest, names) }),
  }
}

/** Calls one of the platform's own models in the protocol that it speaks. */
async function askLocally(
  kind: 'chat' | 'speech' | 'transcription',
  request: InferenceRequest,
  { requestId, now }: WireContext,
  signal: AbortSignal,
): Promise<UpstreamAnswer> {
  const file = request.audio?.file
  const { status, contentType, body } = await answerLocally(kind, request.body, {
    requestId,
    now,
    signal,
    ...(file && { file }),
  })
  return localAnswer(status, contentType, Buffer.isBuffer(body) ? Readable.from([body]) : body)
}

const localAnswer = (status: number, contentType: string, body: AsyncIterable<Uint8Array>): UpstreamAnswer => ({
  status,
  contentType,
  retryAfterSeconds: undefined,
  isEncoded: false,
  body,
})

function localWire(request: InferenceRequest, context: WireContext): Wire {
  const kind = request.operation === 'audio.speech' ? 'speech' : 'transcription'
  return {
    keepsAnswers: false,
    ask: (_, signal) => askLocally(kind, request, context, signal),
    readWhole: (body) => readAsItIs(request, body),
    openReader: () => readerFor(request),
  }
}

/** Throws AiError if the model does not have the operation. */
function requireOperation({ operation, model }: InferenceRequest, operations: readonly string[]): void {
  if (!operations.includes(operation)) throw unsupportedParameter('model', `The model ${model} has no ${operation}`)
}

const chats = ['chat.completions', 'responses']
const localOperations: Readonly<Record<string, readonly string[]>> = {
  'local/echo': chats,
  'local/echo-speech': ['audio.speech'],
  'local/echo-transcribe': ['audio.transcriptions'],
  'local/echo-video': ['videos'],
}

/** Throws AiError for members that refer to data in an account that many organizations share (D89). */
function refuseSharedAccount({ body }: InferenceRequest, { keyOwner }: KeyedRoute): void {
  const param = keyOwner === 'operator' ? findAccountParam(body) : undefined
  if (param !== undefined)
    throw unsupportedParameter(param, 'What is kept at the provider cannot be used with the operator’s key')
}

/** Returns an input item that the provider does not store for the caller: it may be another organization's (D89). */
function findUnknownItem(
  { provider }: KeyedRoute,
  { references, storedItems }: WireContext,
): ItemReference | undefined {
  const stored = storedItems.get(provider.id)
  return references.find(({ id }) => !stored?.has(id))
}

const itemNotFound = ({ param }: ItemReference): AiError =>
  new AiError(404, 'invalid_request_error', 'item_not_found', 'The item does not exist', { param })

/**
 * Returns the wires for a route, in the order to try them: if it is unknown whether a provider has /responses, chat completions
 * come next.
 *
 * Throws AiError if the request cannot be sent to the provider.
 */
export function wiresFor(
  request: InferenceRequest,
  route: KeyedRoute,
  context: WireContext,
): readonly [Wire, ...Wire[]] {
  const { driver, responses } = route.provider
  refuseSharedAccount(request, route)
  const isResponses = request.operation === 'responses'
  if (driver === 'local') {
    requireOperation(request, localOperations[request.model] ?? [])
    if (isResponses) return [responsesWire(request, context, (chat) => localChat(chat, route, context))]
    if (request.operation === 'chat.completions') return [chatWire(request, localChat(request, route, context))]
    return [localWire(request, context)]
  }
  if (driver === 'anthropic') {
    requireOperation(request, chats)
    if (isResponses) return [responsesWire(request, context, (chat) => messagesChat(chat, route, context))]
    return [chatWire(request, messagesChat(request, route, context))]
  }
  if (!isResponses) return [sameWire(request, route)]
  const byChat = () => responsesWire(request, context, (chat) => plainChat(chat, route))
  if (responses === false || context.lacksResponses.has(routeName(route))) return [byChat()]
  const unknown = findUnknownItem(route, context)
  if (responses === true) {
    if (unknown) throw itemNotFound(unknown)
    return [sameWire(request, route)]
  }
  return unknown ? [byChat()] : [sameWire(request, route), lazily(byChat)]
}

/** Opens a wire only when the first one has failed, since opening throws if it cannot carry the request. */
function lazily(open: () => Wire): Wire {
  let wire: Wire | undefined
  const opened = () => (wire ??= open())
  return {
    keepsAnswers: false,
    ask: async (client, signal) => opened().ask(client, signal),
    readWhole: (body) => opened().readWhole(body),
    openReader: () => opened().openReader(),
  }
}

/** Makes the wire that starts a video. Local videos are started in this process. */
export function videoWire(request: InferenceRequest, route: KeyedRoute): Wire {
  refuseSharedAccount(request, route)
  const { driver } = route.provider
  if (driver === 'local') requireOperation(request, localOperations[request.model] ?? [])
  if (driver === 'anthropic') requireOperation(request, chats)
  return {
    keepsAnswers: false,
    async ask(client, signal) {
      if (driver !== 'local')
        return client.ask(postJson(route, '/videos', { ...request.body, model: route.upstreamModel }), signal)
      const job = startLocalVideo(request.body as unknown as VideoRequest)
      return localAnswer(202, JSON_TYPE, Readable.from([jsonOf(job)]))
    },
    readWhole(bytes) {
      readUpstreamJob(parseObject(bytes), route.provider)
      return { ...unnamed, bytes, contentType: JSON_TYPE, usage: undefined, outputBytes: 0 }
    },
    openReader() {
      throw new Error('A video is no stream')
    },
  }
}
