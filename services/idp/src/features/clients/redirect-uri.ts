/** Redirect URIs of clients: what may be registered, what matches, and what it says about the client. */

const LOOPBACK = /^(http:\/\/(?:127\.0\.0\.1|\[::1\])):[1-9]\d{0,4}(?=[/?]|$)/
const loopbackHosts = new Set(['127.0.0.1', '[::1]', 'localhost'])

/**
 * True if the URI of a request is registered: equal character for character, except that the port of http://127.0.0.1 and
 * http://[::1] is free, since native apps use whichever port they get (RFC 8252 §7.3).
 */
export function isRegisteredRedirectUri(registered: readonly string[], uri: string): boolean {
  if (registered.includes(uri)) return true
  if (!URL.canParse(uri)) return false // a port beyond 65535
  const withoutPort = uri.replace(LOOPBACK, '$1')
  if (withoutPort === uri && !/^http:\/\/(?:127\.0\.0\.1|\[::1\])(?=[/?]|$)/.test(uri)) return false
  return registered.some((entry) => entry.replace(LOOPBACK, '$1') === withoutPort)
}

/**
 * True for loopback and custom schemes: any program on the machine may receive the redirect (RFC 8252 §8.6). False for
 * http://localhost with an explicit port, of a first-party client: there the operator runs a web page (D110).
 */
export function isNativeRedirectUri(uri: string, { isFirstParty }: { isFirstParty: boolean }): boolean {
  const { protocol, hostname } = new URL(uri)
  if (isFirstParty && /^http:\/\/localhost:\d/.test(uri)) return false
  return protocol !== 'https:' && (protocol !== 'http:' || loopbackHosts.has(hostname))
}

/**
 * Why a URI cannot be registered, or undefined. Allowed: https anywhere; http on loopback; for public clients, a custom
 * scheme made from a domain name (RFC 8252 §7.1), which excludes javascript:, data: and the like.
 */
export function redirectUriFlaw(uri: string, kind: 'public' | 'confidential'): string | undefined {
  // eslint-disable-next-line no-control-regex
  if (!/^[\x21-\x7e]+$/.test(uri) || /[\\"<>*^`{|}]/.test(uri)) return 'holds characters that no URI has'
  if (!URL.canParse(uri)) return 'is not an absolute URI'
  const { protocol, hostname, username, password } = new URL(uri)
  if (uri.includes('#')) return 'has a fragment'
  if (username !== '' || password !== '') return 'names a user'
  if (protocol === 'https:') return undefined
  if (protocol === 'http:') return loopbackHosts.has(hostname) ? undefined : 'uses http away from loopback'
  if (kind === 'confidential') return 'uses a custom scheme, which only public clients may'
  return protocol.includes('.') ? undefined : 'uses a scheme that is not made from a domain name'
}

/** The CSP source that form-action needs, so that a chain of redirects may end at the URI. */
export function formActionSource(uri: string): string {
  const { protocol, origin, hostname } = new URL(uri)
  // A custom scheme has no origin, and an IPv6 address is no host-source.
  return (protocol === 'http:' || protocol === 'https:') && !hostname.startsWith('[') ? origin : protocol
}
