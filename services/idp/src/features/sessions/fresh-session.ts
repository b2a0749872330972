import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { redirectToSignIn } from '../authorize/redirects.ts'
import { returnToPage } from '../authorize/return-to.ts'
import { findSession, type Session } from './sessions.ts'

/** How long after signing in a new way to sign in may be added: a browser that was left open is not enough for it. */
const FRESH_MS = 15 * 60_000

/** The session of a browser that signed in just now, or the way to sign in, which leads back to the page. */
export async function requireFreshSession(
  c: Ctx,
  deps: Deps,
  page: Parameters<typeof returnToPage>[1],
): Promise<{ session: Session } | { redirect: Response }> {
  const session = await findSession(c, deps)
  if (session && deps.now().getTime() - session.authTime.getTime() < FRESH_MS) return { session }
  return { redirect: redirectToSignIn(c, deps, returnToPage(deps, page)) }
}
