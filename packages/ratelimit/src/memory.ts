import { type RateLimiter, WINDOW_MS } from './rate-limiter.ts'

/** Beyond this many keys the oldest windows are dropped, so that a flood of addresses cannot fill the memory. */
const KEYS_MAX = 200_000

/** Counts in this process; right for a single process only. */
export function createMemoryLimiter(now: () => Date): RateLimiter {
  const windows = new Map<string, { count: number; endsAt: number }>()
  // Insertion order is the order of opening, so what is over stands in front.
  const forget = (at: number) => {
    for (const [key, { endsAt }] of windows) {
      if (endsAt > at && windows.size <= KEYS_MAX) break
      windows.delete(key)
    }
  }
  const hitOne = (key: string, at: number): number => {
    const window = windows.get(key)
    if (window && window.endsAt > at) return ++window.count
    windows.delete(key)
    windows.set(key, { count: 1, endsAt: at + WINDOW_MS })
    return 1
  }
  return {
    async hit(keys) {
      const at = now().getTime()
      forget(at)
      return keys.map((key) => hitOne(key, at))
    },
    async close() {
      windows.clear()
    },
  }
}
