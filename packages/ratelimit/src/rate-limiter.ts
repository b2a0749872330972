/** The window of every limit (A §8). It opens with a key's first hit, so a burst never falls across a boundary. */
export const WINDOW_MS = 60_000

/** Counts hits per key in fixed windows. Deciding what is too many is the caller's: one counter may have several caps. */
export interface RateLimiter {
  /**
   * Adds one hit to each key, in one step, and answers each key's count in its current window, this hit included.
   * Never rejects: a driver whose store is away counts in this process until it is back.
   */
  hit(keys: readonly string[]): Promise<number[]>
  close(): Promise<void>
}
