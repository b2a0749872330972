import { count, flag, list, origin, port, readConfig } from '@platform/runtime/config'
import { masterKeys } from '@platform/runtime/seal'
import { z } from 'zod'

const schema = z.object({
  PUBLIC_URL: origin.describe('the origin that clients reach this service by, such as https://api.example.com'),
  HOST: z.string().default('127.0.0.1').describe('an address to listen on, such as 0.0.0.0'),
  PORT: port.default(4000).describe('a TCP port, such as 4000'),
  EDGE_PORT: port.default(4002).describe('a TCP port for hostnames, such as 4002'),
  APPS_DOMAIN: z
    .string()
    .regex(/^[a-z0-9.-]+(:\d{1,5})?$/)
    .optional()
    .describe('the domain that hostnames of applications end in, such as apps.example.com'),
  HEALTH_HOST: z.string().default('127.0.0.1').describe('an address for health and metrics, such as 0.0.0.0'),
  HEALTH_PORT: port.default(9400).describe('a TCP port for health and metrics, such as 9400; 0 for any'),
  DATABASE_URL: z
    .url({ protocol: /^postgres(ql)?$/ })
    .describe('a Postgres URL, such as postgres://user:password@host:5432/api'),
  DATABASE_POOL: count.default(10).describe('how many connections this process may hold, such as 10'),
  DATABASE_PREPARE: flag.default(true).describe('true, or false behind a transaction-mode pooler'),
  OBJECTS_URL: z
    .url({ protocol: /^(file|s3)$/ })
    .describe(
      'where objects are kept, such as file:///var/lib/platform/objects or s3://bucket?endpoint=https://s3.example.com',
    ),
  OBJECTS_DOMAIN: z
    .string()
    .regex(/^[a-z0-9.-]+(:\d{1,5})?$/)
    .optional()
    .describe('the domain that objects are delivered below, such as objects.example.com'),
  S3_PORT: port.default(4004).describe('a TCP port that has S3 at its root, such as 4004; 0 for any'),
  S3_DOMAIN: z
    .string()
    .regex(/^[a-z0-9.-]+(:\d{1,5})?$/)
    .optional()
    .describe('the domain of S3, whose buckets are hosts below it, such as s3.example.com'),
  S3_REGION: z
    .string()
    .regex(/^[a-z0-9-]{1,64}$/)
    .default('us-east-1')
    .describe('the region that S3 clients are told, such as eu-central-1; they may sign for any'),
  MIGRATE_ON_START: flag.default(true).describe('true, or false where `cli.ts migrate` runs before the services'),
  REDIS_URL: z
    .url({ protocol: /^rediss?$/ })
    .optional()
    .describe('a Redis URL, such as redis://host:6379; without it limits are counted in this process'),
  IDP_URL: origin.describe('the issuer of user tokens, such as https://id.example.com'),
  IDP_INTERNAL_URL: origin
    .optional()
    .describe('an origin to fetch the issuer’s documents from, such as http://idp:4001'),
  MASTER_KEYS: masterKeys.describe('id:base64 of 32 bytes, newest first, such as k1:…= (openssl rand -base64 32)'),
  CONSOLE_CLIENT_IDS: list.describe('client ids of the console, with commas'),
  CORS_ORIGINS: list
    .pipe(z.array(origin))
    .describe('origins of pages that may call this API, with commas, such as https://console.example.com'),
  TRUSTED_PROXIES: list.describe('addresses or ranges of proxies, with commas, such as 10.0.0.0/8'),
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .default('info')
    .describe('one of fatal, error, warn, info, debug, trace, silent'),
  PLATFORM_PARENT_PIPE: z.literal('1').optional().describe('1 where a launcher holds this process by its stdin'),
})

export type Config = z.output<typeof schema>

/** Reads the environment, once. Throws ConfigError. */
export const loadConfig = (env: Record<string, string | undefined>): Config => readConfig(schema, env)
