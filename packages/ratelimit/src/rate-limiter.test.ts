// engines: redis
import { unless } from '@platform/test-runner/task-meta'
import { testKeyPrefix, testRedisUrl } from '@platform/testkit/databases'
import { Redis } from 'ioredis'
import { afterEach, describe, expect, test } from 'vitest'
import { createMemoryLimiter } from './memory.ts'
import { type RateLimiter, WINDOW_MS } from './rate-limiter.ts'
import { createRedisLimiter } from './redis.ts'

const redisUrl = testRedisUrl()
let nowMs = Date.now()
let opened: RateLimiter[] = []
afterEach(async () => {
  for (const limiter of opened) await limiter.close()
  opened = []
})

interface Driver {
  name: string
  open: () => RateLimiter
  /** Lets a window pass for the key. */
  pass: (key: string) => Promise<void>
}

const memory: Driver = {
  name: 'memory',
  open: () => createMemoryLimiter(() => new Date(nowMs)),
  pass: async () => void (nowMs += WINDOW_MS),
}

function redisDriver(url: string): Driver {
  const prefix = testKeyPrefix()
  return {
    name: 'redis',
    open: () =>
      createRedisLimiter(url, {
        prefix,
        now: () => new Date(nowMs),
        onFallback: (error) => {
          throw error
        },
        onRecovery: () => {},
      }),
    async pass(key) {
      const client = new Redis(url)
      const left = await client.pttl(prefix + key)
      expect(left).toBeGreaterThan(0)
      expect(left).toBeLessThanOrEqual(WINDOW_MS)
      await client.pexpire(prefix + key, 0)
      client.disconnect()
    },
  }
}

describe.each([memory, ...(redisUrl ? [redisDriver(redisUrl)] : [])])('the $name limiter', ({ open, pass }) => {
  const limiter = () => {
    const made = open()
    opened.push(made)
    return made
  }
  const key = () => `k${Math.random()}`

  test('counts up from one, each key by itself', async () => {
    const [a, b, counter] = [key(), key(), limiter()]
    expect(await counter.hit([a])).toEqual([1])
    expect(await counter.hit([a, b])).toEqual([2, 1])
  })

  test('gives each of many simultaneous hits a number of its own', async () => {
    const [a, counter] = [key(), limiter()]
    const counts = await Promise.all(Array.from({ length: 500 }, () => counter.hit([a])))
    expect(counts.flat().toSorted((x, y) => x - y)).toEqual(Array.from({ length: 500 }, (_, i) => i + 1))
  })

  test('starts again after a window, which opens with the first hit', async () => {
    const [a, counter] = [key(), limiter()]
    await counter.hit([a])
    expect(await counter.hit([a])).toEqual([2])
    await pass(a)
    expect(await counter.hit([a])).toEqual([1])
  })
})

test('while Redis is away the process counts by itself, at once and without an error', async () => {
  const events: string[] = []
  const limiter = createRedisLimiter('redis://127.0.0.1:1', {
    prefix: testKeyPrefix(),
    now: () => new Date(nowMs),
    onFallback: () => events.push('fallback'),
    onRecovery: () => events.push('recovery'),
  })
  opened.push(limiter)
  expect(await limiter.hit(['a'])).toEqual([1])
  expect(await limiter.hit(['a', 'b'])).toEqual([2, 1])
  expect(await Promise.all([limiter.hit(['a']), limiter.hit(['a'])])).toEqual([[3], [4]])
  expect(events).toEqual(['fallback'])
  await expect(limiter.check?.()).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test(
  'two processes share their counts in Redis',
  unless(redisUrl === undefined ? 'no Redis: TEST_REDIS_URL' : undefined),
  async () => {
    const { open } = redisDriver(redisUrl ?? '')
    const [one, two] = [open(), open()]
    opened.push(one, two)
    await one.check?.()
    await one.hit(['shared'])
    expect(await two.hit(['shared'])).toEqual([2])
  },
)
