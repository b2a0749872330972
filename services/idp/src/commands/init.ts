import { platformName } from '@platform/look/name'
import { type Command, requireOption, UsageError } from '@platform/service/cli'
import type { Deps } from '../deps.ts'
import { createUser, findUserByEmail } from '../features/accounts/accounts.ts'
import { ensureClient, type NewClient } from '../features/clients/clients.ts'
import { makeResetLink } from '../features/password/reset-password.ts'

const ordinary = { kind: 'public', scopes: '*', isFirstParty: true } as const
const webGrants = ['authorization_code', 'refresh_token']

/** The command line's client. Its id is that of the embedded platform, so that it is the same at every installation. */
export const commandLineClient: NewClient & { id: string } = {
  ...ordinary,
  id: '0198c0de-0000-7000-8000-0000000000c1',
  name: `${platformName} CLI`,
  grants: [...webGrants, 'urn:ietf:params:oauth:grant-type:device_code'],
  // On loopback the port is free (RFC 8252 §7.3).
  redirectUris: ['http://127.0.0.1/callback'],
}

/** No device flow: it asks users to sign in again before they manage keys, which a device cannot do (D6). */
const consoleAt = (origin: string): NewClient & { id: string } => ({
  ...ordinary,
  id: '0198c0de-0000-7000-8000-0000000000c2',
  name: `${platformName} console`,
  grants: webGrants,
  redirectUris: [`${origin}/callback`],
  postLogoutRedirectUris: [`${origin}/`],
})

function readConsoleUrl(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || url.pathname !== '/' || url.search !== '' || url.hash !== '')
    throw new UsageError('--console-url is an origin, such as https://console.example.com')
  return url.origin
}

export const initCommand: Command<Deps> = {
  name: 'init',
  usage: 'init --email EMAIL [--given-name NAME] [--family-name NAME] [--console-url ORIGIN]',
  summary:
    'the first start in production: make the platform’s own clients and the first user, and print a link with which they set their password, good once and for 30 minutes; safe to repeat',
  options: { email: 'value', 'given-name': 'value', 'family-name': 'value', 'console-url': 'value' },
  async run(deps, args) {
    const email = requireOption(args, 'email')
    const consoleUrl = readConsoleUrl(args.option('console-url'))
    const clients = []
    for (const client of [commandLineClient, ...(consoleUrl === undefined ? [] : [consoleAt(consoleUrl)])]) {
      const { isNew } = await ensureClient(deps, client)
      clients.push({ id: client.id, name: client.name, isNew })
    }
    const before = await findUserByEmail(deps, email)
    const user =
      before ??
      (await createUser(deps, { email, givenName: args.option('given-name'), familyName: args.option('family-name') }))
    const link = user.passwordHash === null ? await makeResetLink(deps, user.id) : null
    const lines = [
      ...clients.map(({ id, name, isNew }) => `client  ${id}  ${isNew ? 'made' : 'kept'}  ${name}`),
      `user    ${user.id}  ${before ? 'kept' : 'made'}  ${user.email}`,
      link === null ? 'The user has a password; `user reset` makes a link for another' : `link    ${link}`,
    ]
    return {
      json: { clients, user: { id: user.id, email: user.email, isNew: !before }, link },
      text: lines.join('\n'),
    }
  },
}
