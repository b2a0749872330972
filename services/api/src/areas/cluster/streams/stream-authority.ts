import type { Actor } from '../../../http/actor.ts'
import type { ClusterDeps } from '../deps.ts'

/**
 * Throws once a stream may no longer be followed (D86). `reach` decides whether the actor still reaches the resource. A token
 * keeps its authority until it expires, as for every other request (D1); after that the API key or credential behind it must be
 * live.
 *
 * Throws the errors of `reach`, and InvalidToken.
 */
export async function requireStreamAuthority(
  { deps, actor }: { deps: Pick<ClusterDeps, 'now' | 'requireLiveKey'>; actor: Actor },
  reach: () => Promise<unknown>,
): Promise<void> {
  await reach()
  const isExpired = actor.tokenExpiresAt === undefined || actor.tokenExpiresAt <= deps.now()
  if (actor.kind !== 'user' && isExpired) await deps.requireLiveKey(actor.keyId)
}
