import type { Actor, Deps } from '../../deps.ts'

/**
 * Throws once a stream may no longer be followed (D86). `reach` decides whether the actor still reaches what it follows. A
 * token keeps its authority until it expires, as it does for every other request (D1); after that the API key or credential it came from
 * has to be alive.
 *
 * Throws what `reach` throws, and InvalidToken.
 */
export async function requireStreamAuthority(
  { deps, actor }: { deps: Pick<Deps, 'now' | 'requireLiveKey'>; actor: Actor },
  reach: () => Promise<unknown>,
): Promise<void> {
  await reach()
  const isExpired = actor.tokenExpiresAt === undefined || actor.tokenExpiresAt <= deps.now()
  if (actor.kind !== 'user' && isExpired) await deps.requireLiveKey(actor.keyId)
}
