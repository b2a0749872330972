import { InvalidToken, Unavailable } from '@platform/errors/api-error'
import { type CryptoKey, createRemoteJWKSet, customFetch, errors, type JWTHeaderParameters } from 'jose'
import type { KeyObject } from 'node:crypto'
import { getJson } from './get-json.ts'
import type { KeySet } from './key-set.ts'

/** Provides an issuer's public keys to a verifier. */
export interface IssuerKeys {
  /** Throws InvalidToken if the issuer does not have the kid, Unavailable if its keys cannot be read. */
  find(header: JWTHeaderParameters): Promise<CryptoKey | KeyObject>
  /** Changes with the published keys, so that tokens of a withdrawn key are verified again. */
  version(): string
  /** False once the keys are older than the issuer's max-age: then call `find`, which reloads them. */
  isFresh(): boolean
}

const FETCH_TIMEOUT_MS = 5_000
/** max-age of the discovery document and the JWKS (B §2). A withdrawn key is accepted no longer than this. */
const FRESH_MS = 300_000
/** From this age on the JWKS is reloaded in the background, so that no request waits for it. */
const RENEWED_FROM_MS = 240_000
/** How long to wait before retrying an issuer that could not be read. */
const RETRY_MS = 10_000
/** Minimum interval between reloads for unknown kids: the first token of a new key should not wait, a flood of forged ones may. */
const COOLDOWN_MS = 1_000

const unknownKey = () => new InvalidToken('The token is signed by an unknown key')

/** The keys of this process's own key set. */
export const ownKeys = (keySet: KeySet): IssuerKeys => ({
  async find({ kid }) {
    const key = kid === undefined ? undefined : keySet.publicKey(kid)
    if (!key) throw unknownKey()
    return key
  },
  version: () => keySet.version(),
  isFresh: () => true,
})

/** Another issuer, known only through its discovery document and JWKS. */
export interface DiscoveredIssuer extends IssuerKeys {
  /** Returns the URL by which we reach one of its endpoints. Throws Unavailable if the discovery document cannot be read. */
  endpoint(name: 'userinfo_endpoint'): Promise<URL>
  /**
   * Returns the URL of one of its pages as it is published, for browsers. Throws Unavailable if the discovery document cannot be
   * read, or names no such page.
   */
  page(name: 'invitation_endpoint'): Promise<URL>
  /** Reloads the JWKS. Rejects if that fails; the known keys stay in use. */
  check(): Promise<void>
}

interface Discovery {
  jwks_uri: string
  userinfo_endpoint: string
  invitation_endpoint?: string
}

/**
 * Reads an issuer's discovery document and JWKS, both at first use. The JWKS is reloaded in the background from an age of 4
 * minutes, synchronously from 5 minutes, and at once for an unknown kid, at most every second. While the issuer is unavailable,
 * the known keys stay in use.
 *
 * issuer: compared with the document's `issuer`. fetchFrom: the origin to fetch from, if different (an internal one). path: of the
 * document; that of RFC 8414 for an issuer that signs nobody in.
 */
export function discoverIssuer(
  issuer: string,
  fetchFrom: string,
  now: () => Date,
  path = '/.well-known/openid-configuration',
): DiscoveredIssuer {
  type Remote = ReturnType<typeof createRemoteJWKSet>
  let discovery: Promise<{ document: Discovery; remote: Remote }> | undefined
  let kids = ''
  /** When the JWKS was last read; 0 before that. */
  let readAt = 0
  /** Why and when the last attempt to read it failed; undefined if it succeeded. */
  let failure: { error: unknown; at: number } | undefined
  let renewing: Promise<void> | undefined

  /** Replaces the issuer's public origin by the one that we reach it by. */
  function reachable(url: string): URL {
    const location = new URL(url)
    return location.origin === new URL(issuer).origin
      ? new URL(location.pathname + location.search, fetchFrom)
      : location
  }

  const readDocument = async (): Promise<Discovery> => {
    const document = (await getJson(new URL(path, fetchFrom), {
      signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
    })) as Discovery & { issuer?: unknown }
    if (document.issuer !== issuer) throw new Error(`discovery names another issuer than ${issuer}`)
    return document
  }

  async function discover(): Promise<{ document: Discovery; remote: Remote }> {
    const document = await readDocument()
    const remote = createRemoteJWKSet(reachable(document.jwks_uri), {
      timeoutDuration: FETCH_TIMEOUT_MS,
      cooldownDuration: COOLDOWN_MS,
      cacheMaxAge: Number.POSITIVE_INFINITY,
      // An intermediate cache would add its own 300 s to ours.
      headers: { 'cache-control': 'no-cache' },
      [customFetch]: async (url, { headers, signal }) =>
        Response.json(await getJson(new URL(url), { headers: Object.fromEntries(headers), signal })),
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

  let documentReadAt = 0
  /** The document as it is now, at most every RETRY_MS: an issuer that was upgraded names more than it did. */
  async function readDocumentAgain(): Promise<Discovery> {
    const known = await getIssuer()
    if (now().getTime() - documentReadAt < RETRY_MS) return known.document
    documentReadAt = now().getTime()
    try {
      return Object.assign(known.document, await readDocument())
    } catch (cause) {
      throw new Unavailable('The issuer cannot be reached; try again later', cause)
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
      failure = undefined
    } catch (error) {
      failure = { error, at: now().getTime() } // the issuer is unavailable: keep the known keys
    }
  }
  /** Reloads the JWKS. Concurrent callers share one reload. */
  const renew = (): Promise<void> => (renewing ??= readAgain().finally(() => (renewing = undefined)))

  const age = (): number => now().getTime() - readAt
  const isRetryDue = (): boolean => failure === undefined || now().getTime() - failure.at >= RETRY_MS
  /** While the issuer is unavailable nobody waits for it: the known keys count as fresh, and reloads run in the background. */
  function isFresh(): boolean {
    if (readAt === 0 || age() < FRESH_MS) return true
    if (failure === undefined) return false
    if (isRetryDue()) void renew()
    return true
  }

  async function refresh(): Promise<void> {
    if (!isFresh()) await renew()
    else if (readAt > 0 && age() >= RENEWED_FROM_MS && isRetryDue()) void renew()
  }

  return {
    endpoint: async (name) => reachable((await getIssuer()).document[name]),
    async page(name) {
      const url = (await getIssuer()).document[name] ?? (await readDocumentAgain())[name]
      if (url === undefined) throw new Unavailable(`The identity provider has no ${name}`)
      return new URL(url)
    },
    isFresh,
    async check() {
      await renew()
      if (failure) throw failure.error
    },
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
