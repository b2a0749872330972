import { compactVerify, decodeProtectedHeader } from 'jose'
import type { Deps } from '../../deps.ts'

/** The claims of an ID token of ours about a sign-in. */
export interface IdTokenHint {
  userId: string
  clientId: string
  /** The session it was issued in. */
  sid: string
}

/**
 * Reads an ID token of this issuer, expired or not: its user, session and client; undefined for anything else. Keys that left
 * the JWKS still count, since a hint may be old.
 */
export async function readIdTokenHint(
  { issuer, keySet }: Pick<Deps, 'issuer' | 'keySet'>,
  token: string,
): Promise<IdTokenHint | undefined> {
  try {
    const { kid } = decodeProtectedHeader(token)
    const key = kid === undefined ? undefined : keySet.publicKey(kid, 'retired')
    if (!key) return undefined
    const { payload, protectedHeader } = await compactVerify(token, key, { algorithms: [keySet.alg] })
    const claims = JSON.parse(new TextDecoder().decode(payload)) as Record<string, unknown>
    const { iss, sub, aud, sid } = claims
    if (protectedHeader.typ !== 'JWT' || iss !== issuer) return undefined
    if (typeof sub !== 'string' || typeof aud !== 'string' || typeof sid !== 'string') return undefined
    return { userId: sub, clientId: aud, sid }
  } catch {
    return undefined // not a JWS, or not signed by us: the caller refuses it
  }
}
