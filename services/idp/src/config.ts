import { platformName } from '@platform/look/name'
import { ConfigError, count, hasFolderIfFile, list, origin } from '@platform/runtime/config'
import { readServiceConfig, serviceVariables } from '@platform/service/service-config'
import { z } from 'zod'

const schema = z.object({
  ...serviceVariables({ name: 'id', port: 4001, healthPort: 9401 }),
  PUBLIC_URL: origin.describe('the issuer, an origin such as https://id.example.com'),
  ACCOUNT_URL: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('the account site on the same origin as PUBLIC_URL, such as https://id.example.com/account'),
  // Kept as written: a token's audience is compared letter by letter.
  AUDIENCES: list
    .pipe(z.array(z.url({ protocol: /^https?$/ })))
    .describe('URLs of the services that take access tokens, with commas, such as https://api.example.com'),
  MAIL_URL: z
    .url({ protocol: /^(smtps?|file)$/ })
    .refine((url) => url.startsWith('file:') || URL.parse(url)?.hostname !== '', 'it names no host')
    .refine(hasFolderIfFile, 'file: takes three slashes and a folder')
    .optional()
    .describe('a URL for mail, such as smtps://user:password@mail.example.com or file:///var/mail'),
  MAIL_FROM: z
    .string()
    .regex(/^(?:[^\p{Cc}<>]+ <[^\s@<>]+@[^\s@<>]+>|[^\s@<>]+@[^\s@<>]+)$/u)
    .optional()
    .describe('the sender of mail, such as Accounts <no-reply@example.com>'),
  HASHING_IDLE_MS: count
    .default(60_000)
    .describe('after how many milliseconds without a password the process that hashes them ends, such as 60000'),
})

/** The variables that the service reads. */
export const variables: readonly string[] = Object.keys(schema.shape)

/** Variables of earlier releases, and those to set in their place: none yet. */
export const retired: Readonly<Record<string, string>> = {}

/** The service's configuration from the environment; every other file gets it from here. */
export type Config = ReturnType<typeof readServiceConfig<typeof schema>> & { accountUrl: string; mailFrom: string }

/**
 * Reads the environment, once. Throws ConfigError with a sentence for every invalid variable. The account site has to share
 * the issuer's origin: otherwise authorize could not see its session.
 */
export function loadConfig(env: Record<string, string | undefined>): Config {
  const config = readServiceConfig(schema, env, retired)
  const account = new URL(config.ACCOUNT_URL ?? config.PUBLIC_URL)
  if (account.origin !== config.PUBLIC_URL || account.search || account.hash || account.username)
    throw new ConfigError(`ACCOUNT_URL is not valid: expected ${schema.shape.ACCOUNT_URL.description}`)
  return {
    ...config,
    accountUrl: account.href.replace(/\/+$/, ''),
    mailFrom: config.MAIL_FROM ?? `${platformName} <no-reply@${account.hostname}>`,
  }
}
