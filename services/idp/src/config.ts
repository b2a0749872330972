import { platformName } from '@platform/look/name'
import { ConfigError, list, origin, readConfig } from '@platform/runtime/config'
import { serviceVariables } from '@platform/service/service-config'
import { z } from 'zod'

const schema = z.object({
  ...serviceVariables({ name: 'id', port: 4001, healthPort: 9401 }),
  PUBLIC_URL: origin.describe('the issuer, an origin such as https://id.example.com'),
  ACCOUNT_URL: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('the account site on the same origin as PUBLIC_URL, such as https://id.example.com/account'),
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
})

/** The service's configuration from the environment; every other file gets it from here. */
export type Config = z.output<typeof schema> & { accountUrl: string; mailFrom: string }

/**
 * Reads the environment, once. Throws ConfigError with a sentence for every invalid variable. The account site has to share
 * the issuer's origin: otherwise authorize could not see its session.
 */
export function loadConfig(env: Record<string, string | undefined>): Config {
  const config = readConfig(schema, env)
  const account = new URL(config.ACCOUNT_URL ?? config.PUBLIC_URL)
  if (account.origin !== config.PUBLIC_URL || account.search || account.hash || account.username)
    throw new ConfigError(`ACCOUNT_URL is not valid: expected ${schema.shape.ACCOUNT_URL.description}`)
  return {
    ...config,
    accountUrl: account.href.replace(/\/+$/, ''),
    mailFrom: config.MAIL_FROM ?? `${platformName} <no-reply@${account.hostname}>`,
  }
}
