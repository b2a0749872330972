import { SignInTooOld } from '@platform/errors/api-error'
import type { UserActor } from './actor.ts'

const PROVEN_WITHIN_MS = 15 * 60_000

/**
 * Requires that the user has authenticated within 15 minutes (A §4 rule 6, D6). what: what needs it, as a phrase such as `managing
 * API keys`. Throws SignInTooOld.
 */
export function requireFreshSignIn(by: UserActor, time: Date, what: string): void {
  const provenAt = by.authenticatedAt?.getTime() ?? 0
  if (time.getTime() - provenAt > PROVEN_WITHIN_MS)
    throw new SignInTooOld(
      `Sign in again: ${what} needs credentials proven within the last 15 minutes`,
      PROVEN_WITHIN_MS / 1_000,
    )
}
