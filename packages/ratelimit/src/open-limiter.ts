import { createMemoryLimiter } from './memory.ts'
import type { RateLimiter } from './rate-limiter.ts'

interface LimiterOptions {
  /** If omitted, hits are counted in this process, which is correct for a single process only. */
  redisUrl: string | undefined
  /** Separates this limiter's keys from others in a shared Redis. */
  prefix: string
  now: () => Date
  logger: { warn: (details: object, message: string) => void; info: (message: string) => void }
  /** Called whenever counting falls back to this process. */
  onFallback?: () => void
}

/** Opens the configured limiter. Does not wait for Redis. */
export async function openLimiter({ redisUrl, prefix, now, logger, onFallback }: LimiterOptions): Promise<RateLimiter> {
  if (redisUrl === undefined) return createMemoryLimiter(now)
  // Loaded only if used: the client takes 10 MB.
  const { createRedisLimiter } = await import('./redis.ts')
  return createRedisLimiter(redisUrl, {
    prefix,
    now,
    onFallback(error) {
      onFallback?.()
      logger.warn({ err: error }, 'Redis is away; limits are counted in this process')
    },
    onRecovery: () => logger.info('Redis is back; limits are counted there'),
  })
}
