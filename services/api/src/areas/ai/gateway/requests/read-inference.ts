import { ValidationFailed } from '@platform/errors/api-error'
import { checkChatRequest } from '@platform/ai-protocols/chat-request'
import { type Fault, paramOf, type ProviderChoice } from '@platform/ai-protocols/fault'
import { checkResponsesRequest } from '@platform/ai-protocols/responses-request'
import { checkSpeechRequest } from '@platform/ai-protocols/speech-request'
import { requestTextBytes } from '@platform/ai-protocols/text-bytes'
import type { Call } from '../call.ts'
import type { AnswerKind, InferenceRequest } from '../operations.ts'
import { type HeldBytes, holdBytes } from './byte-budget.ts'
import { parseJson, receiveBody, requireType } from './read-request.ts'

export const BODY_BYTES_MAX = 32 * 1_048_576
/** 25 MB of audio in base64, plus the JSON around it. */
export const AUDIO_JSON_BYTES_MAX = 36 * 1_048_576

export type Fields = Readonly<Record<string, unknown>>

/** The result of reading a request: the request or its failure. Holds its file and memory until disposed of. */
export type Reading = AsyncDisposable & {
  /** Call when the body is not needed any more: its memory no longer counts. */
  release(): void
} & ({ failure: Error } | { failure: undefined; request: InferenceRequest })

export type ReadRequest = (call: Call) => Promise<Reading>

const MESSAGE_LENGTH_MAX = 1_000

/** Makes the 422 of a body without the shape of the operation. */
export function invalidBody({ path, message }: Fault): ValidationFailed {
  const property = path.map((part) => `/${String(part)}`).join('')
  const where = path.length === 0 ? 'The body' : paramOf(path)
  return new ValidationFailed('body', [
    {
      property,
      message: `${where} ${message}`.slice(0, MESSAGE_LENGTH_MAX),
      summary: message,
      expected: message,
      found: null,
    },
  ])
}

/** Runs a function that reads a request; its error becomes the failure of the reading. */
export async function reading(
  release: () => void,
  dispose: () => Promise<void>,
  read: () => Promise<InferenceRequest>,
): Promise<Reading> {
  const rest = {
    release,
    async [Symbol.asyncDispose]() {
      release()
      await dispose()
    },
  }
  try {
    return { ...rest, failure: undefined, request: await read() }
  } catch (error) {
    return { ...rest, failure: error as Error }
  }
}

/** Reserves the memory of a body for its caller. */
export function holdMemory({ actor, exchange: { deps } }: Call): HeldBytes {
  return holdBytes(deps.ai.bodies, actor.kind === 'user' ? actor.userId : actor.keyId)
}

export async function readJsonBody(call: Call, take: (bytes: number) => void, bytesMax: number): Promise<Fields> {
  const { incoming } = call.exchange
  const chunks: Buffer[] = []
  await receiveBody(incoming, bytesMax, (chunk) => {
    try {
      take(chunk.length)
      chunks.push(chunk)
    } catch (error) {
      chunks.length = 0
      throw error
    }
  })
  // Size first, then type (D18).
  requireType(incoming, ['application/json'])
  const value = parseJson(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks))
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalidBody({ path: [], message: 'must be an object' })
  return value as Fields
}

const textKinds = {
  'chat.completions': 'chat',
  responses: 'responses',
  'audio.speech': 'speech',
  'audio.transcriptions': 'transcription',
  videos: 'video',
} as const

/** The caller's preferences, already checked by the operation's check. */
const preferencesOf = (provider: unknown): ProviderChoice | undefined =>
  typeof provider === 'object' && provider !== null ? provider : undefined

/** Makes the request without the gateway's own members. */
export function requestOf(
  operation: InferenceRequest['operation'],
  { provider, ...body }: Fields,
  answer: AnswerKind,
): InferenceRequest {
  return {
    operation,
    model: String(body['model']),
    body,
    audio: undefined,
    answer,
    preferences: preferencesOf(provider),
    textBytes: requestTextBytes(textKinds[operation], body),
  }
}

export const isStream = ({ stream }: Fields): boolean => stream === true || stream === 'true'

/** Reads the JSON body of an operation. check: finds faults in it; answerOf: returns the form of answer that it requests. */
export function readJsonRequest(
  operation: InferenceRequest['operation'],
  check: (body: unknown) => Fault | undefined,
  answerOf: (body: Fields) => AnswerKind,
): ReadRequest {
  return (call) => {
    const { take, release } = holdMemory(call)
    return reading(
      release,
      async () => {},
      async () => {
        const body = await readJsonBody(call, take, BODY_BYTES_MAX)
        call.describe(body)
        const fault = check(body)
        if (fault) throw invalidBody(fault)
        return requestOf(operation, body, answerOf(body))
      },
    )
  }
}

const eventsOrWhole = (body: Fields): AnswerKind => (isStream(body) ? 'events' : 'whole')

export const readChat = readJsonRequest('chat.completions', checkChatRequest, eventsOrWhole)
export const readResponses = readJsonRequest('responses', checkResponsesRequest, eventsOrWhole)
export const readSpeech = readJsonRequest('audio.speech', checkSpeechRequest, ({ stream_format: format }) =>
  format === 'sse' ? 'events' : 'bytes',
)
