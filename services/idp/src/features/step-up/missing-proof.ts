import type { Deps } from '../../deps.ts'
import type { Session } from '../../site/session.ts'
import { hasSecondFactor } from '../accounts/authentication-level.ts'
import { findHeldFactors } from './held-factors.ts'

/** How long after signing in a new way to sign in may be added: a browser that was left open is not enough for it. */
const FRESH_MS = 15 * 60_000

/**
 * The page that has to come before a change of how its user signs in; undefined when the session may make it. A user who has a
 * second factor must have shown it: otherwise a stolen password could enrol a factor of its own and pass for two. Adding one
 * takes a browser that signed in, or showed a second factor, just now besides.
 */
export async function findMissingProof(
  deps: Pick<Deps, 'db' | 'now'>,
  session: Session,
  need: 'proven' | 'fresh',
): Promise<'sign-in' | 'second-factor' | undefined> {
  if (!hasSecondFactor(session.amr)) {
    const { hasApp, hasPasskey } = await findHeldFactors(deps, session.user.id)
    if (hasApp || hasPasskey) return 'second-factor'
  }
  if (need === 'proven' || deps.now().getTime() - session.authTime.getTime() < FRESH_MS) return undefined
  return 'sign-in'
}
