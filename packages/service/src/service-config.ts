import { isAddressOrRange } from '@platform/ratelimit/client-address'
import { count, days, findMisspelled, flag, list, origin, port, readConfig } from '@platform/runtime/config'
import { masterKeys } from '@platform/runtime/seal'
import { z } from 'zod'

/** Whether user and password of a URL are percent-encoded, as the driver decodes them. */
function isDecodable(url: string): boolean {
  try {
    const { username, password } = new URL(url)
    return decodeURIComponent(username + password) !== undefined
  } catch {
    return false
  }
}

/**
 * The variables that every service reads, for `readConfig`'s schema. service: its name, as used in example database names;
 * port, healthPort: the defaults.
 */
export const serviceVariables = (service: { name: string; port: number; healthPort: number }) => ({
  PUBLIC_URL: origin.describe(
    `the origin that clients reach this service by, such as https://${service.name}.example.com`,
  ),
  HOST: z.string().default('127.0.0.1').describe('an address to listen on, such as 0.0.0.0'),
  PORT: port.default(service.port).describe(`a TCP port, such as ${service.port}; 0 for any`),
  HEALTH_HOST: z.string().default('127.0.0.1').describe('an address for health and metrics, such as 0.0.0.0'),
  HEALTH_PORT: port
    .default(service.healthPort)
    .describe(`a TCP port for health and metrics, such as ${service.healthPort}; 0 for any`),
  DATABASE_URL: z
    .url({ protocol: /^postgres(ql)?$/ })
    .refine(isDecodable, 'a % in the user or password is not written as %25')
    .describe(`a Postgres URL, such as postgres://user:password@host:5432/${service.name}`),
  DATABASE_POOL: count.default(10).describe('how many connections this process may hold, such as 10'),
  DATABASE_IDLE_MS: count
    .default(60_000)
    .describe('after how many milliseconds without a query a connection is closed, such as 60000'),
  DATABASE_PREPARE: flag.default(true).describe('true, or false behind a transaction-mode pooler'),
  MIGRATE_ON_START: flag.default(true).describe('true, or false where `cli.ts migrate` runs before the services'),
  MIGRATION_PATIENCE_MS: count
    .default(60_000)
    .describe('for how many milliseconds a migration that waits for a lock is tried again, such as 60000'),
  REDIS_URL: z
    .url({ protocol: /^rediss?$/ })
    .optional()
    .describe('a Redis URL, such as redis://host:6379; without it limits are counted in this process'),
  MASTER_KEYS: masterKeys.describe('id:base64 of 32 bytes, newest first, such as k1:…= (openssl rand -base64 32)'),
  TRUSTED_PROXIES: list
    .refine((entries) => entries.every(isAddressOrRange), 'an entry is neither an address nor a range')
    .describe('addresses or ranges of proxies, with commas, such as 10.0.0.0/8'),
  STOP_NOTICE_MS: count
    .default(5_000)
    .describe('for how many milliseconds a process that stops says so before it accepts no more, such as 5000'),
  AUDIT_RETENTION_DAYS: days.default(365).describe('for how many days audit events are kept, such as 365; 0 for ever'),
  BUILD_COMMIT: z
    .string()
    .regex(/^[\w.-]{1,64}$/)
    .optional()
    .describe('the commit that the process was built from; without it that of the checkout is told'),
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .default('info')
    .describe('one of fatal, error, warn, info, debug, trace, silent'),
  PLATFORM_PARENT_PIPE: z.enum(['0', '1']).default('0').describe('1 where a launcher holds this process by its stdin'),
})

/** The parsed variables. */
export type ServiceConfig = z.output<z.ZodObject<ReturnType<typeof serviceVariables>>> & ReadConfig

interface ReadConfig {
  /** Sentences about variables that are probably misspelled, for the log. */
  warnings: readonly string[]
}

/** Reads a service's configuration as `readConfig` does, and looks for misspelled variables. Throws ConfigError. */
export const readServiceConfig = <S extends z.ZodObject>(
  schema: S,
  env: Record<string, string | undefined>,
  retired: Readonly<Record<string, string>>,
): z.output<S> & ReadConfig => ({
  ...readConfig(schema, env, retired),
  warnings: findMisspelled(Object.keys(schema.shape), env),
})
