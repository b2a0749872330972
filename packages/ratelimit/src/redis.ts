import { Redis } from 'ioredis'
import { createMemoryLimiter } from './memory.ts'
import { type RateLimiter, WINDOW_MS } from './rate-limiter.ts'

const COMMAND_TIMEOUT_MS = 250
/** After a failure Redis is not used for this long, so that an outage costs one slow request per second, not all of them. */
const REST_MS = 1_000

// One call counts a whole tick of the event loop. KEYS: counters. ARGV[1]: window in ms; ARGV[i + 1]: hits to add to KEYS[i].
// A counter without an expiry (its PEXPIRE was lost between two failures) would never end, so it gets a new one.
const script = `
local counts = {}
for i, key in ipairs(KEYS) do
  local added = tonumber(ARGV[i + 1])
  local count = redis.call('INCRBY', key, added)
  if count == added or redis.call('PTTL', key) == -1 then redis.call('PEXPIRE', key, ARGV[1]) end
  counts[i] = count
end
return counts`

type HitCommand = (keyCount: number, ...keysAndArgs: (string | number)[]) => Promise<number[]>

interface RedisLimiterOptions {
  /** Separates this limiter's keys from others in a shared Redis. */
  prefix: string
  now: () => Date
  /** Called when counting falls back to this process, and when it returns to Redis. */
  onFallback: (error: Error) => void
  onRecovery: () => void
}

/**
 * Counts in Redis for all processes together. All hits of one tick of the event loop go out as one command. While Redis is
 * unavailable this process counts by itself, so limits loosen by the number of processes and no request waits over 250 ms;
 * hits that arrive before the first connection is established wait for it up to the same limit.
 */
export function createRedisLimiter(
  url: string,
  { prefix, now, onFallback, onRecovery }: RedisLimiterOptions,
): RateLimiter {
  const redis = new Redis(url, {
    commandTimeout: COMMAND_TIMEOUT_MS,
    connectTimeout: 2_000,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 1,
    retryStrategy: (times) => Math.min(times * 100, 1_000),
  })
  // Why the last connection failed: a command that finds none says only that. Without a listener it would end the process.
  let connectionError: Error | undefined
  redis.on('error', (error) => void (connectionError = error)).on('ready', () => void (connectionError = undefined))
  redis.defineCommand('hitWindows', { lua: script })
  const hitWindows = (redis as unknown as { hitWindows: HitCommand }).hitWindows.bind(redis)
  const local = createMemoryLimiter(now)
  const firstConnection = new Promise<void>((resolve) => {
    redis.once('ready', resolve).once('close', resolve)
    setTimeout(resolve, COMMAND_TIMEOUT_MS).unref()
  })

  let tick: { hits: Map<string, number>; counts: Promise<Map<string, number>> } | undefined
  let isLocal = false
  let restUntil = 0

  async function countInRedis(hits: Map<string, number>): Promise<Map<string, number>> {
    const keys = [...hits.keys()]
    const counts = await hitWindows(keys.length, ...keys.map((key) => prefix + key), WINDOW_MS, ...hits.values())
    return new Map(keys.map((key, i) => [key, counts[i] ?? 0]))
  }

  async function countHere(hits: Map<string, number>): Promise<Map<string, number>> {
    const keys = [...hits].flatMap(([key, times]) => Array<string>(times).fill(key))
    const counts = await local.hit(keys)
    return new Map(keys.map((key, i) => [key, counts[i] ?? 0]))
  }

  async function flush(hits: Map<string, number>): Promise<Map<string, number>> {
    await firstConnection
    if (Date.now() < restUntil) return countHere(hits)
    try {
      const counts = await countInRedis(hits)
      if (isLocal) onRecovery()
      isLocal = false
      return counts
    } catch (error) {
      restUntil = Date.now() + REST_MS
      if (!isLocal) onFallback(error as Error)
      isLocal = true
      return countHere(hits)
    }
  }

  function join(): NonNullable<typeof tick> {
    if (tick) return tick
    const hits = new Map<string, number>()
    const counts = new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
      tick = undefined
      return flush(hits)
    })
    tick = { hits, counts }
    return tick
  }

  return {
    async hit(keys) {
      const { hits, counts } = join()
      // This hit's position among equal keys of the tick: the merged count comes back as the last one's.
      const places = keys.map((key) => {
        const place = (hits.get(key) ?? 0) + 1
        hits.set(key, place)
        return place
      })
      const totals = await counts
      return keys.map((key, i) => (totals.get(key) ?? 0) - (hits.get(key) ?? 0) + (places[i] ?? 0))
    },
    async check() {
      await firstConnection
      await redis.ping().catch((error: unknown) => {
        throw connectionError ?? error
      })
    },
    async close() {
      redis.disconnect()
      await local.close()
    },
  }
}
