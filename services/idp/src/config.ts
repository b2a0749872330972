import { ConfigError, count, flag, list, origin, port, readConfig } from '@platform/runtime/config'
import { masterKeys } from '@platform/runtime/seal'
import { z } from 'zod'

const schema = z.object({
  PUBLIC_URL: origin.describe('the issuer, an origin such as https://id.example.com'),
  ACCOUNT_URL: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('the account site on the same origin as PUBLIC_URL, such as https://id.example.com/account'),
  HOST: z.string().default('127.0.0.1').describe('an address to listen on, such as 0.0.0.0'),
  PORT: port.default(4001).describe('a port, such as 4001'),
  HEALTH_HOST: z.string().default('127.0.0.1').describe('an address for the internal listener, such as 0.0.0.0'),
  HEALTH_PORT: port.default(9401).describe('a port for the internal listener, such as 9401; 0 takes any free one'),
  DATABASE_URL: z
    .url({ protocol: /^postgres(ql)?$/ })
    .describe('a Postgres URL, such as postgres://user:password@db:5432/idp'),
  DATABASE_POOL: count.default(10).describe('a number of connections, such as 10'),
  DATABASE_PREPARE: flag.default(true).describe('true, or false behind a pooler in transaction mode'),
  REDIS_URL: z
    .url({ protocol: /^rediss?$/ })
    .optional()
    .describe('a Redis URL, such as redis://redis:6379'),
  MASTER_KEYS: masterKeys.describe('id:base64 of 32 bytes, newest first, such as 2026a:…='),
  AUDIENCES: list.describe('the services that take access tokens, such as https://api.example.com'),
  MAIL_URL: z
    .url({ protocol: /^(smtps?|file)$/ })
    .optional()
    .describe('a URL for mail, such as smtps://user:password@mail.example.com or file:///var/mail'),
  MAIL_FROM: z
    .string()
    .regex(/^(?:[^\p{Cc}<>]+ <[^\s@<>]+@[^\s@<>]+>|[^\s@<>]+@[^\s@<>]+)$/u)
    .optional()
    .describe('the sender of mail, such as Accounts <no-reply@example.com>'),
  TRUSTED_PROXIES: list.describe('addresses or CIDR ranges of proxies, such as 10.0.0.0/8'),
  STOP_NOTICE_MS: count
    .default(5_000)
    .describe('for how many milliseconds a process that stops says so before it accepts no more, such as 5000'),
  MIGRATE_ON_START: flag.default(true).describe('true, or false where `cli.ts migrate` runs before the services'),
  LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
    .default('info')
    .describe('a log level, such as info'),
  PLATFORM_PARENT_PIPE: z.enum(['0', '1']).default('0').describe('1 when a launcher holds a pipe on stdin'),
})

/** What the service is told by its environment; every other file gets it from here. */
export type Config = z.output<typeof schema> & { accountUrl: string; mailFrom: string }

/**
 * Reads the environment, once. Throws ConfigError with a sentence for every wrong variable.
 * The account site has to share the issuer's origin: authorize could not see its session otherwise.
 */
export function loadConfig(env: Record<string, string | undefined>): Config {
  const config = readConfig(schema, env)
  const account = new URL(config.ACCOUNT_URL ?? config.PUBLIC_URL)
  if (account.origin !== config.PUBLIC_URL || account.search || account.hash || account.username)
    throw new ConfigError(`ACCOUNT_URL is not valid: expected ${schema.shape.ACCOUNT_URL.description}`)
  return {
    ...config,
    accountUrl: account.href.replace(/\/+$/, ''),
    mailFrom: config.MAIL_FROM ?? `Platform account <no-reply@${account.hostname}>`,
  }
}
