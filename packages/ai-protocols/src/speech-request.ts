import {
  type Fault,
  isFilledText,
  isModelId,
  isNumberFrom,
  isObjectWith,
  isOneOf,
  isProviderChoice,
  isText,
  optional,
  type ProviderChoice,
} from './fault.ts'

/** The body of `POST /audio/speech` after `checkSpeechRequest`: members not listed here are unchecked. */
export interface SpeechRequest {
  model: string
  input: string
  voice: string | { id: string }
  instructions?: string | null
  response_format?: 'mp3' | 'opus' | 'aac' | 'flac' | 'wav' | 'pcm' | null
  speed?: number | null
  stream_format?: 'audio' | 'sse' | null
  provider?: ProviderChoice | null
  [member: string]: unknown
}

const isVoiceId = isObjectWith({ id: isFilledText })

const isRequest = isObjectWith({
  model: isModelId,
  input: isFilledText,
  voice: (value) => (typeof value === 'string' ? isFilledText(value) : isVoiceId(value)),
  instructions: optional(isText),
  response_format: optional(isOneOf('mp3', 'opus', 'aac', 'flac', 'wav', 'pcm')),
  speed: optional(isNumberFrom(0.25, 4)),
  stream_format: optional(isOneOf('audio', 'sse')),
  provider: optional(isProviderChoice),
})

/** Checks the body of a speech request. Returns the first fault; if there is none, the body is a SpeechRequest. */
export function checkSpeechRequest(body: unknown): Fault | undefined {
  return isRequest(body)
}
