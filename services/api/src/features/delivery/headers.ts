import type { IncomingHttpHeaders } from 'node:http'
import type { HeaderPairs } from '@platform/build-output/router'

/** Of one connection, not of the request or the answer (RFC 9110 §7.6.1). */
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/**
 * Headers by which frameworks and the platform speak to each other: from a client they would be believed. x-middleware-subrequest
 * was CVE-2025-29927.
 */
const spoofable =
  /^(?:forwarded$|next-resume$|x-(?:forwarded-|real-ip$|vercel-|now-|matched-path$|middleware-|invoke-|invocation-id$|nextjs-|astro-|sticky-|next-|prerender-revalidate$))/

/** Names that a Connection header adds to those of the connection. */
const namesOf = (connection: string | undefined): string[] =>
  connection === undefined ? [] : connection.split(',').map((name) => name.trim().toLowerCase())

/**
 * A client's headers without those of its connection and those that only the platform may set; what is left is what routes,
 * origins and Functions see (deployments.md Headers). Names are in lower case.
 */
export function cleanRequestHeaders(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const named = namesOf(headers.connection)
  const kept: Record<string, string | string[]> = {}
  for (const name of Object.keys(headers)) {
    const value = headers[name]
    if (value === undefined || hopByHop.has(name) || spoofable.test(name) || named.includes(name)) continue
    kept[name] = value
  }
  return kept
}

/** The host that a cookie asks to be sent to as well; undefined for one of this host alone. */
function cookieDomain(cookie: string): string | undefined {
  const [, ...attributes] = cookie.split(';')
  let domain: string | undefined
  // Of several the last counts (RFC 6265 §5.3).
  for (const attribute of attributes) {
    const [, value] = /^\s*domain\s*=\s*\.?(.*?)\s*$/i.exec(attribute) ?? []
    if (value) domain = value.toLowerCase()
  }
  return domain
}

/**
 * Headers of an answer without those of the connection it came by, what frameworks mean for the platform alone, and cookies for
 * another host than the one that was asked: siblings below APPS_URL belong to others.
 *
 * hostname: without port. Names are in lower case, and may repeat.
 */
export function cleanAnswerHeaders(headers: HeaderPairs, hostname: string): HeaderPairs {
  const named = headers.filter(([name]) => name === 'connection').flatMap(([, value]) => namesOf(value))
  return headers.filter(([name, value]) => {
    if (hopByHop.has(name) || name === 'x-next-cache-tags' || name.startsWith('x-middleware-')) return false
    if (named.includes(name)) return false
    return name !== 'set-cookie' || (cookieDomain(value) ?? hostname) === hostname
  })
}
