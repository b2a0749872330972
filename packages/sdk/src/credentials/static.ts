import { fail } from '../fail.ts'
import type { Credential } from './credential.ts'

/** The claims of a JWT; undefined if it is none. */
function claimsOf(token: string): { aud?: string | string[] } | undefined {
  try {
    const [, payload = ''] = token.split('.')
    return Object(JSON.parse(atob(payload.replaceAll('-', '+').replaceAll('_', '/')))) as { aud?: string | string[] }
  } catch {
    return undefined
  }
}

/**
 * An access token that somebody else renews. A 401 is final.
 *
 * Throws TypeError for what is no access token; a Platform refuses one that was made for another platform.
 */
export function staticToken(token: string): Credential {
  const claims = claimsOf(token)
  if (!claims) fail('staticToken needs an access token; a key’s secret goes to apiKey({ id, secret })')
  return {
    bind({ baseUrl }) {
      const audience = [claims.aud ?? []].flat()
      if (!audience.includes(baseUrl)) fail(`The token is for ${audience.join(' and ')}, not for ${baseUrl}`)
      return () => Promise.resolve(token)
    },
  }
}
