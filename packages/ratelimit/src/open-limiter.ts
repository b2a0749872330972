import { createMemoryLimiter } from './memory.ts'
import type { RateLimiter } from './rate-limiter.ts'

interface LimiterOptions {
  /** Without it hits are counted in this process, which is right for a single one only. */
  redisUrl: string | undefined
  /** Sets apart what shares one Redis. */
  prefix: string
  now: () => Date
  logger: { warn: (details: object, message: string) => void; info: (message: string) => void }
  /** Called each time that counting moves into this process. */
  onFallback?: () => void
}

/** Opens the limiter that the configuration asks for. Nothing waits for Redis to be there. */
export async function openLimiter({ redisUrl, prefix, now, logger, onFallback }: LimiterOptions): Promise<RateLimiter> {
  if (redisUrl === undefined) return createMemoryLimiter(now)
  // Loaded only where it is used: the client takes 10 MB.
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
