import type { UploadedAudio } from '../requests/uploaded-audio.ts'

/** A local model's answer. An iterable body is generated while it is sent: Server-Sent Events and tones. */
export interface LocalAnswer {
  status: number
  contentType: string
  body: Buffer | AsyncIterable<Uint8Array>
}

/** Context of a call besides its request. */
export interface LocalCall {
  /** Part of the answer's id. */
  requestId: string
  now: Date
  /** When aborted, an iterable body fails with its reason. */
  signal: AbortSignal
  /** The audio of a transcription. */
  file?: Pick<UploadedAudio, 'name' | 'bytes' | 'read'>
}
