import { type Command, requireWord } from '@platform/service/cli'
import type { Deps } from '../deps.ts'
import { getUser, listWithdrawnProducts } from '../features/accounts/accounts.ts'
import { listSessions } from '../features/sessions/sessions.ts'
import { listApplications } from '../features/applications/applications.ts'
import { findAuthenticator } from '../features/authenticator/authenticator.ts'
import { countRecoveryCodes } from '../features/authenticator/recovery-codes.ts'
import { listPasskeys } from '../features/passkeys/passkeys.ts'
import { describeBrowser } from '../site/describe-browser.ts'
import { requireUserId } from './find-user.ts'

/** What there is about a user, without anything secret. Throws NotFound. */
async function describeUser(deps: Deps, userId: string) {
  const { passwordHash, joined, ...user } = await getUser(deps, userId)
  const [passkeys, authenticator, recoveryCodesLeft, sessions, applications, withdrawnProducts] = await Promise.all([
    listPasskeys(deps, userId),
    findAuthenticator(deps, userId),
    countRecoveryCodes(deps, userId),
    listSessions(deps, userId),
    listApplications(deps, userId),
    listWithdrawnProducts(deps, userId),
  ])
  return {
    ...user,
    hasPassword: passwordHash !== null,
    passkeys,
    authenticator: authenticator ?? null,
    recoveryCodesLeft,
    sessions,
    clients: applications.map(({ clientId, name, scopes, since, lastUsedAt, connectionCount }) => ({
      clientId,
      name,
      scopes,
      since,
      lastUsedAt: lastUsedAt ?? null,
      connectionCount,
    })),
    withdrawnProducts,
    joined: joined ?? [],
  }
}

function linesOf(user: Awaited<ReturnType<typeof describeUser>>): string[] {
  const names = [user.givenName, user.familyName].filter((name) => name !== null).join(' ')
  const isShutOut = !user.hasPassword && user.passkeys.length === 0
  const lines: [string, string][] = [
    ['id', user.id],
    ['email', `${user.email}  ${user.emailVerified ? 'proven' : 'not proven'}`],
    ['names', names || '-'],
    ['state', user.suspendedAt ? `suspended since ${user.suspendedAt.toISOString()}` : 'active'],
    ['made', user.createdAt.toISOString()],
    ['changed', user.updatedAt.toISOString()],
    ['password', user.hasPassword ? 'set' : `none${isShutOut ? ': nobody can sign in; see user invite' : ''}`],
    ...user.passkeys.map(({ name, createdAt, lastUsedAt }): [string, string] => [
      'passkey',
      `${name}  since ${createdAt.toISOString()}  ${lastUsedAt ? `last used ${lastUsedAt.toISOString()}` : 'never used'}`,
    ]),
    ['authenticator', user.authenticator ? `since ${user.authenticator.createdAt.toISOString()}` : '-'],
    ['recovery codes', String(user.recoveryCodesLeft)],
    ...user.sessions.map(({ userAgent, address, createdAt, lastSeenAt }): [string, string] => [
      'session',
      `since ${createdAt.toISOString()}  seen ${lastSeenAt.toISOString()}  ${address ?? '-'}  ${describeBrowser(userAgent)}`,
    ]),
    ...user.clients.map(({ clientId, name, since, connectionCount }): [string, string] => [
      'client',
      `${clientId}  since ${since.toISOString()}  ${connectionCount} connected  ${name}`,
    ]),
    ...user.withdrawnProducts.map((product): [string, string] => ['withdrawn', product]),
    ...user.joined.map(({ id, issuer, until }): [string, string] => [
      'invitation',
      `${issuer}#${id}  told until ${until}`,
    ]),
  ]
  return lines.map(([name, value]) => `${name.padEnd(14)}  ${value}`)
}

export const userShowCommand: Command<Deps> = {
  name: 'user show',
  usage: 'user show EMAIL|ID',
  summary: 'show an account: its ways to sign in, sessions, clients, withdrawn products and the invitations it took',
  async run(deps, args) {
    const userId = await requireUserId(deps, requireWord(args, 0, 'the email or id of a user'))
    const user = await describeUser(deps, userId)
    return { json: user, text: linesOf(user).join('\n') }
  },
}
