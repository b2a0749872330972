import { hash } from 'node:crypto'
import { ApiError, InvalidToken } from '@platform/errors/api-error'
import { entriesMax } from '@platform/runtime/entries-max'
import { decodeJwt, errors, type JWTPayload, jwtVerify } from 'jose'
import { LRUCache } from 'lru-cache'
import type { IssuerKeys } from './issuer-keys.ts'
import type { SigningAlgorithm } from './key-set.ts'

/** The claims of a verified access token (RFC 9068, D5). Times are Unix seconds. */
export interface AccessToken {
  issuer: string
  subject: string
  clientId: string
  scopes: ReadonlySet<string>
  /** As granted, in the order of the claim. */
  scope: string
  expiresAt: number
  authTime: number | undefined
  claims: JWTPayload
}

interface TrustedIssuer {
  issuer: string
  audience: string
  alg: SigningAlgorithm
  keys: IssuerKeys
}

export interface TokenVerifier {
  /** Throws InvalidToken, or Unavailable if the issuer's keys cannot be read. */
  verify(token: string): Promise<AccessToken>
  /** Returns the token if it was verified before and is still valid; costs a hash and no signature check. */
  peek(token: string): AccessToken | undefined
}

const CACHED_MAX = 20_000
/**
 * `exp` is 300 s after an `iat` that was rounded down, because third-party verifiers reject an `iat` in the future. The second
 * lost by rounding is added back here, so that a token lives as long as `expires_in` says (D93).
 */
const ROUNDED_SECONDS = 1
/** Our JWTs have about 1,000 characters; anything far longer is not one of ours. */
const TOKEN_LENGTH_MAX = 8_192

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

function issuerOf(token: string): string | undefined {
  try {
    return decodeJwt(token).iss
  } catch {
    return undefined // not a JWT; the caller rejects it
  }
}

/** Explains jose's error in words that help the holder of the token and nobody else. */
function refusal(error: unknown): Error {
  if (error instanceof ApiError) return error
  if (error instanceof errors.JWTExpired) return new InvalidToken('The token has expired')
  if (error instanceof errors.JWSSignatureVerificationFailed)
    return new InvalidToken('The token signature is not valid')
  if (error instanceof errors.JWTClaimValidationFailed)
    return new InvalidToken(`The token is not an access token for this service (${error.claim})`)
  return new InvalidToken('The token is not valid')
}

/**
 * Verifies access tokens of the given issuers. Algorithm, typ, issuer and audience are pinned; exp, iat, sub and kid are
 * required; keys named by the token itself (jku, x5u, jwk) are ignored. A verified token is cached by its hash until it expires
 * or the issuer's keys change, so a signature is checked once.
 */
export function createTokenVerifier(issuers: readonly TrustedIssuer[], now: () => Date): TokenVerifier {
  const byIssuer = new Map(issuers.map((trusted) => [trusted.issuer, trusted]))
  const verified = new LRUCache<string, { token: AccessToken; keys: IssuerKeys; version: string }>({
    ...entriesMax(CACHED_MAX),
  })

  async function verify(raw: string): Promise<{ token: AccessToken; keys: IssuerKeys; version: string }> {
    const trusted = byIssuer.get(issuerOf(raw) ?? '')
    if (!trusted) throw new InvalidToken('The token is not valid')
    let version = ''
    const { payload, protectedHeader } = await jwtVerify(
      raw,
      async (header) => {
        if (!header.kid) throw new InvalidToken('The token names no key')
        // The version before the key lookup: if the keys change while the signature is checked, the cached entry is outdated.
        // Before the very first load there is no version yet; then this lookup loads the keys.
        const before = trusted.keys.version()
        const key = await trusted.keys.find(header)
        version = before === '' ? trusted.keys.version() : before
        return key
      },
      {
        algorithms: [trusted.alg],
        typ: 'at+jwt',
        issuer: trusted.issuer,
        audience: trusted.audience,
        requiredClaims: ['exp', 'iat', 'sub', 'client_id'],
        currentDate: now(),
        clockTolerance: ROUNDED_SECONDS,
      },
    ).catch((error: unknown) => {
      throw refusal(error)
    })
    const clientId = text(payload.client_id)
    if (!clientId || !payload.sub || payload.exp === undefined || !protectedHeader.kid)
      throw new InvalidToken('The token is not valid')
    const scope = text(payload.scope) ?? ''
    return {
      token: {
        issuer: trusted.issuer,
        subject: payload.sub,
        clientId,
        scopes: new Set(scope.split(' ').filter((name) => name !== '')),
        scope,
        expiresAt: payload.exp,
        authTime: typeof payload.auth_time === 'number' ? payload.auth_time : undefined,
        claims: payload,
      },
      keys: trusted.keys,
      version,
    }
  }

  function peek(raw: string): AccessToken | undefined {
    const entry = verified.get(hash('sha256', raw, 'base64url'))
    if (!entry || entry.version !== entry.keys.version() || !entry.keys.isFresh()) return undefined
    return (entry.token.expiresAt + ROUNDED_SECONDS) * 1_000 > now().getTime() ? entry.token : undefined
  }

  return {
    peek,
    async verify(raw) {
      if (raw.length > TOKEN_LENGTH_MAX) throw new InvalidToken('The token is not valid')
      const known = peek(raw)
      if (known) return known
      const entry = await verify(raw)
      verified.set(hash('sha256', raw, 'base64url'), entry)
      return entry.token
    },
  }
}
