/** Time limits and intervals of the AI gateway, in milliseconds. */
export interface AiTimings {
  /** To open a connection to a provider. */
  connectMs: number
  /** From the start of an attempt, connecting and uploading included, to the headers of a stream. */
  streamFirstByteMs: number
  /** The same for an answer in one document, which is sent once complete. */
  wholeFirstByteMs: number
  /** Maximum silence of the provider, once an answer has begun. */
  idleMs: number
  totalMs: number
  /** Maximum silence of a stream towards the client. */
  pingMs: number
  /** How long an answer is still read after the client has left, so that it is settled exactly. */
  leftMs: number
  /** How long, in total, a slow reader may block a stream; beyond that the provider may have sent more than was read. */
  stalledMs: number
  /** The longest `Retry-After` to wait for. */
  retryAfterMaxMs: number
  /** Maximum wait before the first retry; it doubles with each further one. */
  retryMs: number
  /** To poll a video job. */
  pollMs: number
}

export const aiTimings: AiTimings = {
  connectMs: 5_000,
  streamFirstByteMs: 120_000,
  wholeFirstByteMs: 600_000,
  idleMs: 60_000,
  totalMs: 1_800_000,
  pingMs: 15_000,
  leftMs: 60_000,
  stalledMs: 1_000,
  retryAfterMaxMs: 2_000,
  retryMs: 250,
  pollMs: 30_000,
}
