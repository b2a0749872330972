import { discoverIssuer } from '@platform/auth/issuer-keys'
import { InvalidToken } from '@platform/errors/api-error'
import { readMailAddress } from '@platform/mail/mail-address'
import { decodeJwt, errors, jwtVerify } from 'jose'
import { z } from 'zod'

const claims = z.object({
  iss: z.string(),
  jti: z.guid().toLowerCase(),
  email: z.string().refine((email) => readMailAddress(email) === email),
  role: z.enum(['OWNER', 'ADMIN', 'MEMBER']),
  organization: z.string().min(1).max(255),
  inviter: z.string().min(1).max(255),
  console: z.url({ protocol: /^https?$/ }).optional(),
})

/** Who is invited to which organization, as an API that we trust asserts it (D112). */
export interface Invitation {
  /** The API. */
  issuer: string
  id: string
  /** As readMailAddress reads it. */
  email: string
  role: 'OWNER' | 'ADMIN' | 'MEMBER'
  organization: string
  /** A name or an address. */
  inviter: string
  /** The web console of that API, if it has one. */
  console: string | undefined
}

/**
 * Reads an assertion: undefined if it is forged, expired, for another provider or no assertion at all. Throws Unavailable if the
 * keys of its issuer cannot be read.
 */
export type VerifyInvitation = (assertion: string) => Promise<Invitation | undefined>

/** An assertion has about 800 characters. */
const ASSERTION_LENGTH_MAX = 4_096

function issuerOf(assertion: string): string | undefined {
  try {
    return decodeJwt(assertion).iss
  } catch {
    return undefined // not a JWT
  }
}

/**
 * Verifies invitations of the given APIs by the keys that they publish. Type, algorithm, issuer and audience are pinned.
 *
 * issuers: each API's origin, and the one to fetch its metadata from if that differs. audience: this provider's issuer.
 */
export function createInvitationVerifier(
  issuers: readonly (readonly [issuer: string, fetchFrom?: string])[],
  audience: string,
  now: () => Date,
): VerifyInvitation {
  const keys = new Map(
    issuers.map(([issuer, fetchFrom = issuer]) => [
      issuer,
      discoverIssuer(issuer, fetchFrom, now, '/.well-known/oauth-authorization-server'),
    ]),
  )
  return async (assertion) => {
    if (assertion.length > ASSERTION_LENGTH_MAX) return undefined
    const issuer = issuerOf(assertion)
    const trusted = keys.get(issuer ?? '')
    if (issuer === undefined || !trusted) return undefined
    try {
      const { payload } = await jwtVerify(assertion, (header) => trusted.find(header), {
        algorithms: ['ES256'],
        typ: 'invitation+jwt',
        issuer,
        audience,
        requiredClaims: ['exp', 'iat', 'jti'],
        currentDate: now(),
      })
      const { data } = claims.safeParse(payload)
      return data && { ...data, issuer, id: data.jti, console: data.console }
    } catch (error) {
      // An unknown key is InvalidToken.
      if (error instanceof errors.JOSEError || error instanceof InvalidToken) return undefined
      throw error
    }
  }
}
