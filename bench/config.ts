import { z } from 'zod'

const schema = z.object({
  BENCH_DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }).optional(),
  TEST_DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }).optional(),
  BENCH_REDIS_URL: z.url({ protocol: /^rediss?$/ }).optional(),
  TEST_REDIS_URL: z.url({ protocol: /^rediss?$/ }).optional(),
  BENCH_S3_URL: z.url({ protocol: /^s3$/ }).optional(),
  BENCH_FRAMEWORKS: z.string().optional(),
})

export interface Config {
  /** undefined: an embedded Postgres is started for the run, with every write synced as in production. */
  databaseUrl: string | undefined
  redisUrl: string
  /** An S3 server to measure beside ours, as `.ci/start-s3` prints it; undefined: there is none. */
  s3Url: string | undefined
  /** Absolute: a folder of the fixtures' projects, built. undefined: there are none. */
  frameworks: string | undefined
}

const REDIS_DEFAULT = 'redis://127.0.0.1:6379'

/** Where the run's Postgres and Redis are. Throws ZodError for a URL that is none. */
export function readBenchConfig(env: Record<string, string | undefined>): Config {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''))
  const read = schema.parse(set)
  return {
    databaseUrl: read.BENCH_DATABASE_URL ?? read.TEST_DATABASE_URL,
    redisUrl: read.BENCH_REDIS_URL ?? read.TEST_REDIS_URL ?? REDIS_DEFAULT,
    s3Url: read.BENCH_S3_URL,
    frameworks: read.BENCH_FRAMEWORKS,
  }
}

/** What a measured process inherits; everything else it needs is said to it. */
export const inheritedEnvironment = (env: Record<string, string | undefined>): Record<string, string> =>
  Object.fromEntries(
    ['PATH', 'HOME', 'TZ', 'LANG', 'NODE_COMPILE_CACHE'].flatMap((name) => {
      const value = env[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )
