import { asciiDomain } from '@platform/mail/mail-address'
import { mailVariables } from '@platform/mail/mail-variables'
import { ConfigError, count, flag, list, origin } from '@platform/runtime/config'
import { readServiceConfig, serviceVariables } from '@platform/service/service-config'
import { z } from 'zod'

/** Domains of addresses, in the form in which addresses are read. */
const mailDomains = list.transform((domains, context) =>
  domains.map((domain) => {
    const ascii = asciiDomain(domain)
    if (ascii === undefined) context.addIssue('an entry is no domain')
    return ascii ?? ''
  }),
)

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
  ...mailVariables,
  SHOW_MAIL_FOLDER: flag
    .default(false)
    .describe('true to name the folder of MAIL_URL on pages that promise a letter, where one machine is all there is'),
  SIGN_UP: z
    .enum(['closed', 'domains', 'open'])
    .default('closed')
    .describe('who may create an account: closed (nobody but the invited), domains (those of SIGN_UP_DOMAINS) or open'),
  SIGN_UP_DOMAINS: mailDomains.describe(
    'the domains whose addresses may create an account with SIGN_UP=domains, with commas, such as example.com',
  ),
  INVITATION_ISSUERS: list
    .transform((entries) => entries.map((entry) => entry.split('=')))
    .pipe(z.array(z.union([z.tuple([origin]), z.tuple([origin, origin])])))
    .describe(
      'APIs whose invitations are taken, with commas, such as https://api.example.com, or https://api.example.com=http://api:4000 to fetch its keys from another origin',
    ),
  INVITATION_DOMAINS: mailDomains.describe(
    'the domains whose addresses may create an account by an invitation, with commas, such as example.com; any without it',
  ),
  SUPPORT_URL: z
    .url({ protocol: /^(https?|mailto)$/ })
    .optional()
    .describe('where people ask for an account, such as https://example.com/help or mailto:help@example.com'),
  HASHING_IDLE_MS: count
    .default(60_000)
    .describe('after how many milliseconds without a password the process that hashes them ends, such as 60000'),
})

/** The variables that the service reads. */
export const variables: readonly string[] = Object.keys(schema.shape)

/** Variables of earlier releases, and those to set in their place: none yet. */
export const retired: Readonly<Record<string, string>> = {}

/** The service's configuration from the environment; every other file gets it from here. */
export type Config = ReturnType<typeof readServiceConfig<typeof schema>> & { accountUrl: string }

/** Throws ConfigError if people could begin to sign up and never get a letter, or if no domain is named. */
function requireSignUpVariables({
  SIGN_UP,
  SIGN_UP_DOMAINS,
  MAIL_URL,
}: ReturnType<typeof readServiceConfig<typeof schema>>): void {
  if (SIGN_UP !== 'closed' && MAIL_URL === undefined)
    throw new ConfigError(
      `SIGN_UP=${SIGN_UP} mails a code to everyone who signs up: set MAIL_URL, such as smtps://user:password@mail.example.com, or SIGN_UP=closed`,
    )
  if (SIGN_UP === 'domains' && SIGN_UP_DOMAINS.length === 0)
    throw new ConfigError('SIGN_UP=domains wants SIGN_UP_DOMAINS, such as example.com')
}

/**
 * Reads the environment, once. Throws ConfigError with a sentence for every invalid variable. The account site has to share
 * the issuer's origin: otherwise authorize could not see its session.
 */
export function loadConfig(env: Record<string, string | undefined>): Config {
  const config = readServiceConfig(schema, env, retired)
  const account = new URL(config.ACCOUNT_URL ?? config.PUBLIC_URL)
  if (account.origin !== config.PUBLIC_URL || account.search || account.hash || account.username)
    throw new ConfigError(`ACCOUNT_URL is not valid: expected ${schema.shape.ACCOUNT_URL.description}`)
  requireSignUpVariables(config)
  return {
    ...config,
    accountUrl: account.href.replace(/\/+$/, ''),
  }
}
