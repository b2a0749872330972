import type { ProviderChoice } from '@platform/ai-protocols/fault'
import type { SentForm } from './requests/audio-form.ts'
import type { UploadedAudio } from './requests/uploaded-audio.ts'

/** What the gateway can be asked to do, as usage events name it. */
export type InferenceOperation = 'chat.completions' | 'responses' | 'audio.speech' | 'audio.transcriptions' | 'videos'

/** How an answer comes: as one document, as events, or as bytes. */
export type AnswerKind = 'whole' | 'events' | 'bytes'

/** A checked request: what it asks for, and what the gateway has to know of it. */
export interface InferenceRequest {
  operation: InferenceOperation
  model: string
  /** Members as they came, without `provider`, which is the gateway's own; of a form its texts. */
  body: Readonly<Record<string, unknown>>
  /** Of a transcription: the file, and the form for a provider. */
  audio: { file: UploadedAudio; formFor(model: string): SentForm } | undefined
  answer: AnswerKind
  preferences: ProviderChoice | undefined
  /** Whose cap of the answer the gateway wrote into the body (output-cap.ts); absent: it is as it came. */
  capFrom?: 'caller' | 'policy' | 'budget'
  /** Bytes of the text that it sends. */
  textBytes: number
}
