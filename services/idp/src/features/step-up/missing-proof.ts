import type { Deps } from '../../deps.ts'
import type { Session } from '../../site/session.ts'
import { hasSecondFactor } from '../accounts/authentication-level.ts'
import { findHeldFactors } from './held-factors.ts'

/** How long after signing in a new way to sign in may be added: a browser that was left open must not suffice. */
const FRESH_MS = 15 * 60_000

/**
 * The page that has to come before a change of how a user signs in; undefined if the session suffices. Users with a second
 * factor must have used it: otherwise a stolen password could enrol its own factor and pass for two. Adding a factor also
 * needs a sign-in or a second factor within the last 15 minutes.
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
