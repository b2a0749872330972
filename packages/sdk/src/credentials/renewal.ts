import { abortable } from '../abortable.ts'
import type { TokenRequest } from './credential.ts'

/** A token as a token endpoint answers it. */
export interface IssuedToken {
  access_token: string
  /** Seconds. Counted from when it is received, so that the platform's clock need not be ours. */
  expires_in: number
}

/**
 * Keeps one token alive for all calls that need it, without a timer: a call that finds less than a fifth of its life left has it
 * renewed and goes on with it; one that finds none waits. All share one renewal.
 *
 * renew: makes another token; given the refused one, a different one.
 */
export function renewing(
  renew: (refused: string | undefined) => Promise<IssuedToken>,
): (request: TokenRequest) => Promise<string> {
  let token: string | undefined
  let endsAt = 0
  let lifeMs = 0
  let renewal: Promise<string> | undefined
  const share = (refused?: string): Promise<string> =>
    (renewal ??= renew(refused)
      .then((issued) => {
        lifeMs = issued.expires_in * 1_000
        endsAt = Date.now() + lifeMs
        return (token = issued.access_token)
      })
      .finally(() => (renewal = undefined)))
  return async ({ signal, refused }) => {
    const leftMs = endsAt - Date.now()
    if (!token || token === refused || leftMs <= 0) return abortable(share(refused), signal)
    // A failure shows itself once the token has ended; until then calls succeed.
    if (leftMs < lifeMs / 5) share().catch(() => {})
    return token
  }
}
