import type { UploadedAudio } from '../requests/uploaded-audio.ts'

/** What a local model answers. A body that is iterated is made while it is sent; Server-Sent Events and tones come so. */
export interface LocalAnswer {
  status: number
  contentType: string
  body: Buffer | AsyncIterable<Uint8Array>
}

/** What a local model knows of a call besides its request. */
export interface LocalCall {
  /** Part of the answer's id. */
  requestId: string
  now: Date
  /** Once it is aborted a body that is iterated fails with its reason. */
  signal: AbortSignal
  /** The sound of a transcription. */
  file?: Pick<UploadedAudio, 'name' | 'bytes' | 'read'>
}
