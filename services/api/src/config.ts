import { ConfigError, count, flag, list, origin, port, readConfig } from '@platform/runtime/config'
import { masterKeys } from '@platform/runtime/seal'
import { getDomain } from 'tldts'
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
    .describe(
      'the domain that hostnames of applications end in, such as apps.example.net; not one that the API or sign-in share',
    ),
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
    .describe(
      'the domain that objects are delivered below, such as objects.example.net; not one that the API or sign-in share',
    ),
  S3_PORT: port.default(4004).describe('a TCP port that has S3 at its root, such as 4004; 0 for any'),
  S3_DOMAIN: z
    .string()
    .regex(/^[a-z0-9.-]+(:\d{1,5})?$/)
    .optional()
    .describe('the domain of S3, whose buckets are hosts below it, such as s3.example.net'),
  S3_REGION: z
    .string()
    .regex(/^[a-z0-9-]{1,64}$/)
    .default('us-east-1')
    .describe('the region that S3 clients are told, such as eu-central-1; they may sign for any'),
  STOP_NOTICE_MS: count
    .default(5_000)
    .describe('for how many milliseconds a process that stops says so before it accepts no more, such as 5000'),
  JOBS_EVERY_MS: count
    .default(600_000)
    .describe('how many milliseconds apart the worker starts its jobs, such as 600000'),
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
  CONSOLE_URL: origin.optional().describe('the origin of the web console, such as https://console.example.com'),
  ALLOW_SHARED_DOMAIN: flag
    .default(false)
    .describe('true to serve what tenants upload below the domain that the platform itself is on'),
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

/** The domain that browsers count as one site with this host: cookies can be set for all of it. */
function siteOf(host: string): string {
  const hostname = host.replace(/:\d+$/, '')
  return getDomain(hostname, { allowPrivateDomains: true, validateHostname: false }) ?? hostname
}

const isLocal = (host: string): boolean => /(^|\.)localhost(:\d+)?$/.test(host)

/**
 * Tenants' pages on a sibling of the platform's own host could set cookies for it and count as the same site (D98). Throws
 * ConfigError.
 */
function refuseSharedSites(config: Config): void {
  if (config.ALLOW_SHARED_DOMAIN) return
  const { APPS_DOMAIN, OBJECTS_DOMAIN, S3_DOMAIN, PUBLIC_URL, IDP_URL, CONSOLE_URL } = config
  for (const [name, domain] of Object.entries({ APPS_DOMAIN, OBJECTS_DOMAIN, S3_DOMAIN })) {
    if (domain === undefined || isLocal(domain)) continue
    for (const [own, url] of Object.entries({ PUBLIC_URL, IDP_URL, CONSOLE_URL }))
      if (url !== undefined && siteOf(new URL(url).hostname) === siteOf(domain))
        throw new ConfigError(
          `${name} and ${own} share the domain ${siteOf(domain)}, so pages of tenants could set cookies for the platform: ` +
            `choose a domain of its own for ${name}, or set ALLOW_SHARED_DOMAIN=true`,
        )
  }
}

/** Reads the environment, once. Throws ConfigError. */
export function loadConfig(env: Record<string, string | undefined>): Config {
  const config = readConfig(schema, env)
  refuseSharedSites(config)
  return config
}
