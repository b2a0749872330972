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
  /^(?:forwarded$|next-resume$|x-(?:forwarded-|platform-|real-ip$|vercel-|now-|matched-path$|middleware-|invoke-|invocation-id$|nextjs-|astro-|sticky-|next-|prerender-revalidate$))/

/** Names of headers are few, and a client that sends many different ones is not remembered for ever. */
const NAMES_MAX = 1_000
const passing = new Map<string, boolean>()

/** Whether a client may set a header that goes on. */
function mayPass(name: string): boolean {
  let may = passing.get(name)
  if (may === undefined) {
    may = !hopByHop.has(name) && !spoofable.test(name)
    if (passing.size >= NAMES_MAX) passing.clear()
    passing.set(name, may)
  }
  return may
}

/** Headers of an answer that are between a framework and the platform, or that the platform alone sets. */
const ofPlatform = new Set(['x-next-cache-tags', 'x-cache', 'x-platform-error', 'x-platform-failure'])

/** Names that a Connection header adds to those of the connection. */
const namesOf = (connection: string | undefined): string[] =>
  connection === undefined || connection === 'keep-alive'
    ? []
    : connection.split(',').map((name) => name.trim().toLowerCase())

/**
 * A client's headers without those of its connection and those that only the platform may set; what is left is what routes,
 * origins and Functions see (deployments.md Headers). Names are in lower case.
 */
export function cleanRequestHeaders(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const named = namesOf(headers.connection)
  const kept: Record<string, string | string[]> = {}
  for (const name of Object.keys(headers)) {
    const value = headers[name]
    if (value === undefined || !mayPass(name) || named.includes(name)) continue
    kept[name] = value
  }
  return kept
}

/**
 * Whether a cookie is of this host alone. Every Domain counts, though the last one decides (RFC 6265 §5.3): browsers leave one out that
 * is too long, and then it is the one before.
 */
function isOfHost(cookie: string, hostname: string): boolean {
  const [, ...attributes] = cookie.split(';')
  return attributes.every((attribute) => {
    const [, value] = /^\s*domain\s*=[ \t]*\.?(.*?)[ \t]*$/i.exec(attribute) ?? []
    return value === undefined || value === '' || value.toLowerCase() === hostname
  })
}

/**
 * Headers of an answer without those of the connection it came by, what frameworks mean for the platform alone, and cookies for
 * another host than the one that was asked: siblings below APPS_URL belong to others.
 *
 * hostname: without port. Names are in lower case, and may repeat.
 */
export function cleanAnswerHeaders(headers: HeaderPairs, hostname: string): HeaderPairs {
  const named: string[] = []
  for (const [name, value] of headers) if (name === 'connection') named.push(...namesOf(value))
  return headers.filter(([name, value]) => {
    if (hopByHop.has(name) || ofPlatform.has(name) || name.startsWith('x-middleware-')) return false
    if (named.includes(name)) return false
    return name !== 'set-cookie' || isOfHost(value, hostname)
  })
}
