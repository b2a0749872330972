import { hash } from 'node:crypto'
import { normalizePath } from '@platform/build-output/normalize-path'
import type { Signer } from '@platform/runtime/seal'

/** Methods that a sticky URL can be limited to. */
export const stickyMethods = ['GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH'] as const
export type StickyMethod = (typeof stickyMethods)[number]

const KEY_HASH_BYTES = 16
/** 108 characters at most. Of its parts, only the id of a master key may contain dots. */
const TOKEN = /^([\w.-]{1,32})\.([1-9a-z][0-9a-z]{0,7})\.([\w-]{22})\.([\w-]{43})$/

/** What a valid token selects: the slot of a key, until the token expires. */
export interface StickyPin {
  /** 16 bytes, derived from deployment and key. */
  keyHash: Buffer
  expiresAt: Date
}

/** allowed: the Allow header, if only the method is wrong. */
type StickyReading = { isValid: true; pin: StickyPin } | { isValid: false; allowed?: string }

/** Signs and verifies `{kid}.{exp36}.{keyhash}.{mac}`, the credential in a sticky URL (D12, D87). */
export interface StickyTokens {
  /** expiresAt: rounded up to a whole second. method: if omitted, every method passes. path: without the query. */
  mint(sticky: { deploymentId: string; key: string; path: string; method?: StickyMethod; expiresAt: Date }): string
  /** Never throws, whatever the token. path: as in the request, without the query. */
  read(token: string, request: { deploymentId: string; path: string; method: string; now: Date }): StickyReading
}

/** The methods that a token for one of them allows: preflights always, and HEAD with GET (D87). */
const methodsPassing = (method: StickyMethod): string[] => [
  ...new Set([method, ...(method === 'GET' ? ['HEAD'] : []), 'OPTIONS']),
]

/** Signs what a sticky URL is valid for: deployment, key, expiry, method and path, but not the rest of its query (D87). */
export function createStickyTokens(signer: Signer): StickyTokens {
  // Clients and proxies spell a path differently: `^` is `%5E` in a browser and stays `^` in Node.
  const messageOf = (deploymentId: string, keyHash: string, expires: string, method: string, path: string): string =>
    JSON.stringify([deploymentId, keyHash, expires, method, normalizePath(path)])

  return {
    mint({ deploymentId, key, path, method = '', expiresAt }) {
      const expires = Math.ceil(expiresAt.getTime() / 1_000).toString(36)
      const keyHash = hash('sha256', `${deploymentId}\n${key}`, 'buffer').toString('base64url', 0, KEY_HASH_BYTES)
      const signature = signer.sign(messageOf(deploymentId, keyHash, expires, method, path))
      const dot = signature.lastIndexOf('.')
      return `${signature.slice(0, dot)}.${expires}.${keyHash}${signature.slice(dot)}`
    },
    read(token, { deploymentId, path, method, now }) {
      const [, kid, expires = '', keyHash = '', mac] = TOKEN.exec(token) ?? []
      const expiresAt = new Date(Number.parseInt(expires, 36) * 1_000)
      // Also refuses a token that does not match: its expiry is NaN.
      if (!(expiresAt > now)) return { isValid: false }
      // The signature covers each part's text, so no other spelling of the same expiry or hash passes.
      const isFor = (signed: string): boolean =>
        signer.verify(messageOf(deploymentId, keyHash, expires, signed, path), `${kid}.${mac}`)
      const passing = (signed: StickyMethod): boolean => methodsPassing(signed).includes(method)
      if (['', ...stickyMethods.filter(passing)].some(isFor))
        return { isValid: true, pin: { keyHash: Buffer.from(keyHash, 'base64url'), expiresAt } }
      const signed = stickyMethods.find((other) => !passing(other) && isFor(other))
      return signed === undefined ? { isValid: false } : { isValid: false, allowed: methodsPassing(signed).join(', ') }
    },
  }
}
