import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { hasSecondFactor } from '../accounts/authentication-level.ts'
import { redirectToSignIn, redirectToStepUp } from '../../site/navigation.ts'
import { type ReturnTo, returnToPage } from '../../site/return-to.ts'
import { findHeldFactors } from '../step-up/held-factors.ts'
import { findSession, type Session } from './sessions.ts'

/** How long after signing in a new way to sign in may be added: a browser that was left open is not enough for it. */
const FRESH_MS = 15 * 60_000

type Found = { session: Session } | { redirect: Response }

/** The session, or the way to sign in, which leads back to the page. */
export async function requireSession(
  c: Ctx,
  deps: Deps,
  page: Parameters<typeof returnToPage>[1],
  flow?: ReturnTo,
): Promise<Found> {
  const session = await findSession(c, deps)
  return session ? { session } : { redirect: redirectToSignIn(c, deps, returnToPage(deps, page, flow)) }
}

/**
 * The session, if it may change the second factors of its user; otherwise a redirect to what is missing, which leads back to
 * the page. A user who has a second factor must have shown it: otherwise a stolen password could enrol a factor of its own and
 * pass for two.
 *
 * flow: what the page was opened for.
 */
export async function requireProvenSession(
  c: Ctx,
  deps: Deps,
  page: Parameters<typeof returnToPage>[1],
  flow?: ReturnTo,
): Promise<Found> {
  const found = await requireSession(c, deps, page, flow)
  if ('redirect' in found || hasSecondFactor(found.session.amr)) return found
  const { hasApp, hasPasskey } = await findHeldFactors(deps, found.session.user.id)
  return hasApp || hasPasskey ? { redirect: redirectToStepUp(c, deps, returnToPage(deps, page, flow)) } : found
}

/** The same for adding one, which takes a browser that signed in, or showed a second factor, just now besides. */
export async function requireFreshSession(
  c: Ctx,
  deps: Deps,
  page: Parameters<typeof returnToPage>[1],
  flow?: ReturnTo,
): Promise<Found> {
  const found = await requireProvenSession(c, deps, page, flow)
  if ('redirect' in found) return found
  if (deps.now().getTime() - found.session.authTime.getTime() < FRESH_MS) return found
  return { redirect: redirectToSignIn(c, deps, returnToPage(deps, page, flow)) }
}
