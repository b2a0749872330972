import { mailVariables } from '@platform/mail/mail-variables'
import { ConfigError, count, days, flag, hasFolderIfFile, list, months, origin, port } from '@platform/runtime/config'
import { readServiceConfig, serviceVariables } from '@platform/service/service-config'
import { createRequire } from 'node:module'
import type * as Tldts from 'tldts'
import { z } from 'zod'

/** A domain, with a port if it is not the scheme's default. */
const domain = z.string().regex(/^[a-z0-9.-]+(:\d{1,5})?$/)

/** A name that request logs show. */
const place = z
  .string()
  .regex(/^[A-Za-z0-9-]{1,32}$/)
  .optional()

const schema = z.object({
  ...serviceVariables({ name: 'api', port: 4000, healthPort: 9400 }),
  EDGE_PORT: port.default(4002).describe('a TCP port for hostnames, such as 4002'),
  EDGE_INTERNAL_PORT: port
    .default(0)
    .describe('a TCP port for the other edges, such as 4005; 0 for any. Not one that visitors reach'),
  EDGE_INTERNAL_URL: origin
    .refine((url) => url.startsWith('http:'), 'not http')
    .optional()
    .describe(
      'the origin at which the other edges reach this one, such as http://10.0.3.7:4005; without it they are on the same machine',
    ),
  APPS_URL: origin
    .optional()
    .describe(
      'the origin that applications are served below, such as https://apps.example.net; not on the domain of the API or sign-in',
    ),
  EDGE_REGION: place.describe('the region that request logs name, such as eu-central'),
  EDGE_LOCATION: place.describe('the location that request logs name, such as fra1'),
  COUNTRY_HEADER: z
    .string()
    .regex(/^[A-Za-z0-9-]{1,64}$/)
    .transform((name) => name.toLowerCase())
    .optional()
    .describe('the header in which a trusted proxy names the visitor’s country, such as CF-IPCountry'),
  OBJECTS_URL: z
    .url({ protocol: /^(file|s3)$/ })
    .refine(hasFolderIfFile, 'file: takes three slashes and a folder')
    .describe(
      'where objects are kept, such as file:///var/lib/platform/objects or s3://bucket?endpoint=https://s3.example.com',
    ),
  OBJECTS_DOMAIN: domain
    .optional()
    .describe(
      'the domain that objects are delivered below, such as objects.example.net; not one that the API or sign-in share',
    ),
  CONSOLE_PORT: port.default(4003).describe('a TCP port for the web console, such as 4003; 0 for any'),
  S3_PORT: port.default(4004).describe('a TCP port that has S3 at its root, such as 4004; 0 for any'),
  S3_DOMAIN: domain.optional().describe('the domain of S3, whose buckets are hosts below it, such as s3.example.net'),
  S3_REGION: z
    .string()
    .regex(/^[a-z0-9-]{1,64}$/)
    .default('us-east-1')
    .describe('the region that S3 clients are told, such as eu-central-1; they may sign for any'),
  API_INTERNAL_URL: origin
    .optional()
    .describe('an origin that Functions reach this API by, such as http://api:4000; the public one if it is not set'),
  FUNCTION_SANDBOX: z
    .enum(['required', 'auto', 'none'])
    .default('required')
    .describe(
      'how Functions are walled in: required (bubblewrap, or they are refused), auto (plain processes where it is missing) or none',
    ),
  FUNCTION_EGRESS: z
    .enum(['public', 'none', 'host'])
    .default('public')
    .describe('what Functions may reach: public addresses alone, none, or whatever the host reaches'),
  FUNCTION_EGRESS_ALLOW: list.describe(
    'private hosts that Functions may reach all the same, with commas, such as 10.1.2.3:5432 or 10.2.0.0/16',
  ),
  FUNCTION_NETWORK: z
    .enum(['pasta', 'veth'])
    .default('pasta')
    .describe(
      'what carries the network of Functions and builds: pasta (a program, which wants /dev/net/tun) or veth (a link and rules in the network namespace of this process, which must not be the machine’s, such as a pod’s)',
    ),
  MACHINE_ADDRESSES: list
    .pipe(z.array(z.union([z.ipv4(), z.ipv6()])))
    .describe(
      'addresses of the machine that are no interface’s of this process, with commas, such as 203.0.113.7: closed to Functions and builds',
    ),
  REQUIRE_USER_NAMESPACE: flag
    .default(false)
    .describe('true to refuse to start where root is the machine’s root, such as in a pod with hostUsers: false'),
  FUNCTIONS_FOLDER: z
    .string()
    .regex(/^\/.{1,40}$/)
    .optional()
    .describe(
      'an absolute folder of at most 41 characters for the files and sockets of Functions, such as /var/cache/fn',
    ),
  BUILD_EGRESS: z
    .enum(['public', 'registry', 'none'])
    .default('public')
    .describe('what builds may reach: public addresses, the registries of BUILD_REGISTRIES alone, or none'),
  BUILD_REGISTRIES: list
    .default(['https://registry.npmjs.org', 'https://registry.yarnpkg.com'])
    .pipe(z.array(origin).min(1))
    .describe(
      'origins of package registries that BUILD_EGRESS=registry lets builds reach, with commas, such as https://npm.example.net',
    ),
  FUNCTION_FIRST_BYTE_MS: count
    .default(60_000)
    .describe('how many milliseconds a Function may take to begin its answer, such as 60000'),
  FUNCTION_SILENT_MS: count
    .default(300_000)
    .describe('how many milliseconds an answer of a Function may be silent, such as 300000'),
  AI_PROVIDERS: z
    .string()
    .min(1)
    .optional()
    .describe(
      'a JSON file of the AI providers and models, such as /etc/platform/ai-providers.json; `ai check` looks at it',
    ),
  DEFAULT_PLAN: z
    .enum(['free', 'pro'])
    .default('free')
    .describe('the plan that new organizations begin with, free or pro'),
  TRASH_RETENTION_DAYS: days
    .default(30)
    .describe('for how many days deleted objects can be restored, such as 30; 0 until somebody empties the trash'),
  DEPLOYMENT_RETENTION_DAYS: days
    .default(365)
    .describe('for how many days deployments are kept that were retired or have failed, such as 365; 0 for ever'),
  AI_USAGE_RETENTION_MONTHS: months
    .default(13)
    .describe('for how many months AI usage events are kept, such as 13; 0 for ever. Their sums stay'),
  ...mailVariables,
  JOBS_EVERY_MS: count
    .default(600_000)
    .describe('how many milliseconds apart the worker starts its jobs, such as 600000'),
  IDP_URL: origin.describe('the issuer of user tokens, such as https://id.example.com'),
  IDP_INTERNAL_URL: origin
    .optional()
    .describe('an origin to fetch the issuer’s documents from, such as http://idp:4001'),
  CONSOLE_CLIENT_IDS: list.describe('client ids of the console, with commas'),
  DOCS_CLIENT_ID: z
    .guid()
    .optional()
    .describe(
      'the public client that people sign in with at /docs, whose redirect URI is PUBLIC_URL/docs; without it they paste a token',
    ),
  CLIENTS_FOLDER: z
    .string()
    .startsWith('/')
    .optional()
    .describe('an absolute folder of the clients that /docs/clients serves, such as /srv/clients; without it none'),
  CONSOLE_URL: origin
    .optional()
    .describe('the origin of the web console, such as https://console.example.com; without it there is none'),
  ALLOW_SHARED_DOMAIN: flag
    .default(false)
    .describe('true to serve what tenants upload below the domain that the platform itself is on'),
  CORS_ORIGINS: list
    .pipe(z.array(origin))
    .describe('origins of pages that may call this API, with commas, such as https://console.example.com'),
})

/** The variables that the service reads. */
export const variables: readonly string[] = Object.keys(schema.shape)

/** Variables of earlier releases, and those to set in their place. */
export const retired = { APPS_DOMAIN: 'APPS_URL' }

export type Config = ReturnType<typeof readServiceConfig<typeof schema>> & {
  /** Reads an environment variable that the AI_PROVIDERS file names: a provider's key. */
  readVariable: (name: string) => string | undefined
}

/** The domain that browsers treat as one site with this host: cookies can be set for all of it. */
function siteOf(host: string): string {
  // Loaded here, since it takes 2 MB and hosts below localhost have no need of it.
  const { getDomain } = createRequire(import.meta.url)('tldts') as typeof Tldts
  const hostname = host.replace(/:\d+$/, '')
  return getDomain(hostname, { allowPrivateDomains: true, validateHostname: false }) ?? hostname
}

const isLocal = (host: string): boolean => /(^|\.)localhost(:\d+)?$/.test(host)

/**
 * Refuses to serve tenants' pages on a sibling of the platform's own host, where they could set cookies for it and count as the
 * same site (D98). Throws ConfigError.
 */
function refuseSharedSites(config: Config): void {
  if (config.ALLOW_SHARED_DOMAIN) return
  const { APPS_URL, OBJECTS_DOMAIN, S3_DOMAIN, PUBLIC_URL, IDP_URL, CONSOLE_URL } = config
  const appsHost = APPS_URL && new URL(APPS_URL).host
  for (const [name, domain] of Object.entries({ APPS_URL: appsHost, OBJECTS_DOMAIN, S3_DOMAIN })) {
    if (domain === undefined || isLocal(domain)) continue
    for (const [own, url] of Object.entries({ PUBLIC_URL, IDP_URL, CONSOLE_URL }))
      if (url !== undefined && siteOf(new URL(url).hostname) === siteOf(domain))
        throw new ConfigError(
          `${name} and ${own} share the domain ${siteOf(domain)}, so pages of tenants could set cookies for the platform: ` +
            `choose a domain of its own for ${name}, or set ALLOW_SHARED_DOMAIN=true`,
        )
  }
}

/** Parses the environment, once. Throws ConfigError. */
export function loadConfig(env: Record<string, string | undefined>): Config {
  const config = { ...readServiceConfig(schema, env, retired), readVariable: (name: string) => env[name] }
  refuseSharedSites(config)
  if (config.EDGE_INTERNAL_URL !== undefined && config.EDGE_INTERNAL_PORT === 0)
    throw new ConfigError(
      'EDGE_INTERNAL_URL names a port: set EDGE_INTERNAL_PORT to the one that it leads to, such as 4005',
    )
  return config
}
