import type { Deps } from '../../deps.ts'
import { findAuthenticator } from '../authenticator/authenticator.ts'
import { listPasskeys } from '../passkeys/passkeys.ts'

/** The second factors that a user has. */
export async function findHeldFactors(
  deps: Pick<Deps, 'db'>,
  userId: string,
): Promise<{ hasApp: boolean; hasPasskey: boolean }> {
  const [app, passkeys] = await Promise.all([findAuthenticator(deps, userId), listPasskeys(deps, userId)])
  return { hasApp: app !== undefined, hasPasskey: passkeys.length > 0 }
}
