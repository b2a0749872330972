import { Redis } from 'ioredis'

const WINDOW_MS = 60_000

const script = `
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return count`

/** The limit as one writes it by hand: one call of Redis for each request, counting in fixed windows of a minute. */
export function openCounter(redisUrl: string, prefix: string): (key: string) => Promise<number> {
  const redis = new Redis(redisUrl)
  redis.defineCommand('hit', { numberOfKeys: 1, lua: script })
  const hit = (redis as unknown as { hit(key: string, windowMs: number): Promise<number> }).hit.bind(redis)
  return (key) => hit(prefix + key, WINDOW_MS)
}
