/** The window of every limit (A §8). It opens with a key's first hit, so a burst never falls across a boundary. */
export const WINDOW_MS = 60_000

/** Counts hits per key in fixed windows. The caller decides how many are too many: one counter may have several limits. */
export interface RateLimiter {
  /**
   * Adds one hit to each key, in one step, and returns each key's count in its current window, including this hit.
   * Never rejects: a driver whose store is unavailable counts in this process until the store is back.
   */
  hit(keys: readonly string[]): Promise<number[]>
  /** Rejects if the store does not answer. Absent where there is none: then this process counts alone. */
  check?: () => Promise<void>
  close(): Promise<void>
}
