import { type RateLimiter, WINDOW_MS } from './rate-limiter.ts'

/** Beyond this many keys the oldest windows are dropped, so that a flood of addresses cannot fill the memory. */
const KEYS_MAX = 200_000

/** Counts in this process; correct for a single process only. */
export function createMemoryLimiter(now: () => Date): RateLimiter {
  const windows = new Map<string, { count: number; endsAt: number }>()
  // Insertion order is the order of opening, so expired windows come first.
  const forget = (nowMs: number) => {
    for (const [key, { endsAt }] of windows) {
      if (endsAt > nowMs && windows.size <= KEYS_MAX) break
      windows.delete(key)
    }
  }
  const hitOne = (key: string, nowMs: number): number => {
    const window = windows.get(key)
    if (window && window.endsAt > nowMs) return ++window.count
    windows.delete(key)
    windows.set(key, { count: 1, endsAt: nowMs + WINDOW_MS })
    return 1
  }
  return {
    async hit(keys) {
      const nowMs = now().getTime()
      forget(nowMs)
      return keys.map((key) => hitOne(key, nowMs))
    },
    async close() {
      windows.clear()
    },
  }
}
