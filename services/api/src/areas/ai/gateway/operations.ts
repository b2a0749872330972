import type { ProviderChoice } from '@platform/ai-protocols/fault'
import type { SentForm } from './requests/audio-form.ts'
import type { UploadedAudio } from './requests/uploaded-audio.ts'

/** The gateway's inference operations, as usage events name them. */
export type InferenceOperation = 'chat.completions' | 'responses' | 'audio.speech' | 'audio.transcriptions' | 'videos'

/** The form of an answer: one document, events, or bytes. */
export type AnswerKind = 'whole' | 'events' | 'bytes'

/** A checked request, and what the gateway has to know about it. */
export interface InferenceRequest {
  operation: InferenceOperation
  model: string
  /** The received members, without `provider`, which is the gateway's own; for a form, its texts. */
  body: Readonly<Record<string, unknown>>
  /** For a transcription: the file, and the form for a provider. */
  audio: { file: Pick<UploadedAudio, 'name' | 'type' | 'bytes' | 'read'>; formFor(model: string): SentForm } | undefined
  answer: AnswerKind
  preferences: ProviderChoice | undefined
  /** Origin of the output cap that the gateway wrote into the body (output-cap.ts); absent: the body is unchanged. */
  capFrom?: 'caller' | 'policy' | 'budget'
  /** The tier that its cost was bounded for; absent: no budget limits that. */
  serviceTier?: 'default'
  /** Bytes of text in it. */
  textBytes: number
}
