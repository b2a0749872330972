import { InvalidToken, Unavailable } from '@platform/errors/api-error'
import { type CryptoKey, createRemoteJWKSet, errors, type JWTHeaderParameters } from 'jose'
import type { KeyObject } from 'node:crypto'
import type { KeySet } from './key-set.ts'

/** Where a verifier finds an issuer's public keys. */
export interface IssuerKeys {
  /** Throws InvalidToken for a kid the issuer does not have, Unavailable when it cannot be asked. */
  find(header: JWTHeaderParameters): Promise<CryptoKey | KeyObject>
  /** Changes when the published keys do, so that what was verified by a withdrawn key is verified again. */
  version(): string
  /** False once the keys are older than their issuer lets them be kept: then `find`, which reads them again, decides. */
  isFresh(): boolean
}

const FETCH_TIMEOUT_MS = 5_000
/** max-age of the discovery document and the JWKS (B §2). A key that was withdrawn is taken no longer than this. */
const FRESH_MS = 300_000
/** From this age on the JWKS is read again in the background, so that no request waits for it. */
const RENEWED_FROM_MS = 240_000
/** How long an issuer that could not be read is left alone. */
const RETRY_MS = 10_000
/** How soon an unknown kid may ask again: the first token of a new key should not wait, a flood of forged ones may. */
const COOLDOWN_MS = 1_000

const unknownKey = () => new InvalidToken('The token is signed by an unknown key')

/** The keys of this very process. */
export const ownKeys = (keySet: KeySet): IssuerKeys => ({
  async find({ kid }) {
    const key = kid === undefined ? undefined : keySet.publicKey(kid)
    if (!key) throw unknownKey()
    return key
  },
  version: () => keySet.version(),
  isFresh: () => true,
})

/** Another issuer, known through its discovery document and JWKS alone. */
export interface DiscoveredIssuer extends IssuerKeys {
  /** Where one of its endpoints is reached from here. Throws Unavailable while the document cannot be had. */
  endpoint(name: 'userinfo_endpoint'): Promise<URL>
}

interface Discovery {
  jwks_uri: string
  userinfo_endpoint: string
}

/**
 * Reads an issuer's discovery document and JWKS, both at first use. The JWKS is read again in the background from an age of
 * 4 minutes on, before anything else at 5 minutes, and at once for an unknown kid, at most every second. While the issuer is
 * away the known keys go on.
 *
 * issuer: compared with the document's `issuer`. fetchFrom: the origin to fetch from, where it differs (an internal one).
 */
export function discoverIssuer(issuer: string, fetchFrom: string, now: () => Date): DiscoveredIssuer {
  type Remote = ReturnType<typeof createRemoteJWKSet>
  let discovery: Promise<{ document: Discovery; remote: Remote }> | undefined
  let kids = ''
  /** When the JWKS was last read; 0 before that. */
  let readAt = 0
  /** When the last attempt to read it failed; 0 if it succeeded. */
  let failedAt = 0
  let renewing: Promise<void> | undefined

  /** The issuer's own origin is spelled as clients see it; from here it may be another. */
  function reachable(url: string): URL {
    const location = new URL(url)
    return location.origin === new URL(issuer).origin
      ? new URL(location.pathname + location.search, fetchFrom)
      : location
  }

  async function discover(): Promise<{ document: Discovery; remote: Remote }> {
    const answer = await fetch(`${fetchFrom}/.well-known/openid-configuration`, {
      redirect: 'error',
      signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
    })
    if (!answer.ok) throw new Error(`discovery answered ${answer.status}`)
    const document = (await answer.json()) as Discovery & { issuer?: unknown }
    if (document.issuer !== issuer) throw new Error(`discovery names another issuer than ${issuer}`)
    const remote = createRemoteJWKSet(reachable(document.jwks_uri), {
      timeoutDuration: FETCH_TIMEOUT_MS,
      cooldownDuration: COOLDOWN_MS,
      cacheMaxAge: Number.POSITIVE_INFINITY,
      // A cache on the way would add its own 300 s to ours.
      headers: { 'cache-control': 'no-cache' },
    })
    return { document, remote }
  }

  async function getIssuer(): Promise<{ document: Discovery; remote: Remote }> {
    discovery ??= discover()
    try {
      return await discovery
    } catch (cause) {
      discovery = undefined
      throw new Unavailable('The identity provider cannot be reached; try again later', cause)
    }
  }

  function note(keys: Remote): void {
    kids =
      keys
        .jwks()
        ?.keys.map(({ kid }) => kid)
        .join() ?? ''
  }

  async function readAgain(): Promise<void> {
    try {
      const { remote } = await getIssuer()
      await remote.reload()
      note(remote)
      readAt = now().getTime()
      failedAt = 0
    } catch {
      failedAt = now().getTime() // the issuer is away: what is known stays
    }
  }
  /** Reads the JWKS again. Requests that come meanwhile share the reading. */
  const renew = (): Promise<void> => (renewing ??= readAgain().finally(() => (renewing = undefined)))

  const age = (): number => now().getTime() - readAt
  const isRetryDue = (): boolean => now().getTime() - failedAt >= RETRY_MS
  /** While the issuer is away nobody waits for it: the known keys count as fresh, and it is asked again in the background. */
  function isFresh(): boolean {
    if (readAt === 0 || age() < FRESH_MS) return true
    if (failedAt === 0) return false
    if (isRetryDue()) void renew()
    return true
  }

  async function refresh(): Promise<void> {
    if (!isFresh()) await renew()
    else if (readAt > 0 && age() >= RENEWED_FROM_MS && isRetryDue()) void renew()
  }

  return {
    endpoint: async (name) => reachable((await getIssuer()).document[name]),
    isFresh,
    async find(header) {
      const { remote: keys } = await getIssuer()
      await refresh()
      try {
        const key = await keys(header)
        readAt ||= now().getTime()
        note(keys)
        return key
      } catch (error) {
        if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys)
          throw unknownKey()
        if (error instanceof errors.JOSENotSupported) throw unknownKey()
        throw new Unavailable('The identity provider cannot be reached; try again later', error)
      }
    },
    version: () => kids,
  }
}
