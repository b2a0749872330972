import { randomBytes } from 'node:crypto'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { MockUpstream } from '@platform/testing/mock-ai-upstream'
import type { TestPlatform } from '@platform/testing/platform'
import { vi } from 'vitest'
import { eventOf, mockModel, mockProvider } from './ai-providers.ts'

/** What came of an answer, byte by byte. */
export interface AiAnswer {
  /** 0 where the connection ended before any. */
  status: number
  headers: Record<string, string>
  bytes: Buffer
  /** True if the connection ended before the answer did. */
  isCut: boolean
  /** The parsed bytes where they are JSON, else undefined. */
  body: unknown
}

/** A request to the AI gateway that is under way. */
export interface AiRequest {
  /** Resolves when the connection is done with, whoever ended it. */
  answer: Promise<AiAnswer>
  /** Resolves once the text that arrived is what the predicate takes, or the connection has ended. */
  until(predicate: (text: string) => boolean): Promise<void>
  /** Ends the connection, as a client that leaves does. */
  leave(): void
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString()) as unknown
  } catch {
    return undefined
  }
}

/** Starts a request to the AI gateway. path: below `/ai/v1`. body: sent as JSON, or a text as it is; without one it is a GET. */
export function openAiRequest(
  { apiUrl }: Pick<TestPlatform, 'apiUrl'>,
  token: string,
  path: string,
  body?: object | string,
  headers: Record<string, string> = {},
): AiRequest {
  const chunks: Buffer[] = []
  const watchers = new Set<() => void>()
  let hasEnded = false
  let outgoing: ClientRequest
  const answer = new Promise<AiAnswer>((resolve) => {
    let head: IncomingMessage | undefined
    outgoing = request(`${apiUrl}/ai/v1${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      agent: false,
      headers: {
        // An address of its own, since files that run at the same time count in one place.
        'x-forwarded-for': `100.${[...randomBytes(3)].join('.')}`,
        authorization: `Bearer ${token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
    })
    outgoing.on('error', () => {})
    outgoing.on('response', (incoming) => {
      head = incoming
      incoming.on('error', () => {})
      incoming.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        for (const look of watchers) look()
      })
    })
    outgoing.on('close', () => {
      hasEnded = true
      for (const look of watchers) look()
      const bytes = Buffer.concat(chunks)
      resolve({
        status: head?.statusCode ?? 0,
        headers: (head?.headers ?? {}) as Record<string, string>,
        bytes,
        isCut: head?.complete !== true,
        body: parsed(bytes),
      })
    })
    outgoing.end(typeof body === 'object' ? JSON.stringify(body) : body)
  })
  const until = (predicate: (text: string) => boolean) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (!hasEnded && !predicate(Buffer.concat(chunks).toString())) return
        watchers.delete(look)
        resolve()
      }
      watchers.add(look)
      look()
    })
  return { answer, until, leave: () => void outgoing.destroy() }
}

/** Asks the AI gateway, and waits for the whole answer. */
export const askAi = (...request: Parameters<typeof openAiRequest>): Promise<AiAnswer> =>
  openAiRequest(...request).answer

/** Providers of an operator's file, each of which the mock plays: `compat` with /responses, `plain` without, and `anthropic`. */
export const aiProvidersOf = (mock: MockUpstream) => [
  mockProvider(mock, 'compat', { responses: true }),
  mockProvider(mock, 'plain', { responses: false }),
  mockProvider(mock, 'anthropic', { driver: 'anthropic' }),
]

/** A model `<provider>/<steering>` of an operator's file, whose only route leads to the mock's `mock/<steering>`. */
export const aiModel = (provider: string, steering: string, price?: Record<string, number>) =>
  mockModel(`${provider}/${steering}`, { price }, provider, `mock/${steering}`)

/** Headers that answers of the gateway may have, whatever the provider's had. */
export const ownHeaders: ReadonlySet<string> = new Set([
  'cache-control',
  'connection',
  'content-length',
  'content-type',
  'date',
  'keep-alive',
  'transfer-encoding',
  'x-accel-buffering',
  'x-content-type-options',
  'x-request-id',
  'x-service-request-id',
  'x-should-retry',
])

/** The usage event of a request, once it is stored: that may be after the answer. */
export const usageEventOf = (platform: Pick<TestPlatform, 'api'>, requestId: string | undefined) =>
  vi.waitUntil(() => eventOf(platform, requestId), { timeout: 60_000, interval: 20 })

/** The text of all `aiAsks`; characters of one to four bytes. */
const PROMPT = 'Sag „Grüße“ 🎈'

const chat = { messages: [{ role: 'user', content: PROMPT }] }
const responses = { input: PROMPT }
const speech = { input: PROMPT, voice: 'alloy' }
const transcription = { input_audio: { data: Buffer.from('RIFF sound').toString('base64'), format: 'wav' } }

/**
 * Every way to ask the providers of `aiProvidersOf`, without the model. answer: how it comes. isTranslated: the provider speaks
 * another protocol than the caller.
 */
export const aiAsks = {
  chat: { provider: 'compat', path: '/chat/completions', body: chat, answer: 'whole', isTranslated: false },
  'chat stream': {
    provider: 'compat',
    path: '/chat/completions',
    body: { ...chat, stream: true },
    answer: 'events',
    isTranslated: false,
  },
  response: { provider: 'compat', path: '/responses', body: responses, answer: 'whole', isTranslated: false },
  'response stream': {
    provider: 'compat',
    path: '/responses',
    body: { ...responses, stream: true },
    answer: 'events',
    isTranslated: false,
  },
  speech: { provider: 'compat', path: '/audio/speech', body: speech, answer: 'bytes', isTranslated: false },
  'speech stream': {
    provider: 'compat',
    path: '/audio/speech',
    body: { ...speech, stream_format: 'sse' },
    answer: 'events',
    isTranslated: false,
  },
  transcription: {
    provider: 'compat',
    path: '/audio/transcriptions',
    body: transcription,
    answer: 'whole',
    isTranslated: false,
  },
  'transcription stream': {
    provider: 'compat',
    path: '/audio/transcriptions',
    body: { ...transcription, stream: true },
    answer: 'events',
    isTranslated: false,
  },
  'chat of Anthropic': {
    provider: 'anthropic',
    path: '/chat/completions',
    body: chat,
    answer: 'whole',
    isTranslated: true,
  },
  'chat stream of Anthropic': {
    provider: 'anthropic',
    path: '/chat/completions',
    body: { ...chat, stream: true },
    answer: 'events',
    isTranslated: true,
  },
  'response over chat': {
    provider: 'plain',
    path: '/responses',
    body: responses,
    answer: 'whole',
    isTranslated: true,
  },
  'response stream over chat': {
    provider: 'plain',
    path: '/responses',
    body: { ...responses, stream: true },
    answer: 'events',
    isTranslated: true,
  },
  'response of Anthropic': {
    provider: 'anthropic',
    path: '/responses',
    body: responses,
    answer: 'whole',
    isTranslated: true,
  },
  'response stream of Anthropic': {
    provider: 'anthropic',
    path: '/responses',
    body: { ...responses, stream: true },
    answer: 'events',
    isTranslated: true,
  },
} as const satisfies Record<string, AiAsk>

/** One of `aiAsks`. */
export interface AiAsk {
  provider: 'compat' | 'plain' | 'anthropic'
  path: string
  body: Readonly<Record<string, unknown>>
  answer: 'whole' | 'events' | 'bytes'
  isTranslated: boolean
}
