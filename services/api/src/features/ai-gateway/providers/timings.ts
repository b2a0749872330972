/** How long things may take at the AI gateway, in milliseconds. */
export interface AiTimings {
  /** To open a connection to a provider. */
  connectMs: number
  /** From the start of an attempt, connecting and uploading included, to the headers of a stream. */
  streamFirstByteMs: number
  /** The same of an answer that comes at once, when it is whole. */
  wholeFirstByteMs: number
  /** Without a byte, once an answer began. */
  idleMs: number
  totalMs: number
  /** A stream is silent for so long at most. */
  pingMs: number
  /** How long an answer that nobody waits for is still read, so that it is settled exactly. */
  leftMs: number
  /** How long, in all, a reader may keep a stream waiting before more may have come from the provider than was looked at. */
  stalledMs: number
  /** The longest `Retry-After` that is waited for. */
  retryAfterMaxMs: number
  /** The first wait before a repeat lasts up to this long, each further one up to twice that. */
  retryMs: number
  /** To look at a video job. */
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
