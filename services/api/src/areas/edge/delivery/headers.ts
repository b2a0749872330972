import type { IncomingHttpHeaders } from 'node:http'
import type { HeaderPairs } from '@platform/build-output/router'

/** Headers that apply to one connection, not to the request or response (RFC 9110 §7.6.1). */
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
 * Headers by which frameworks and the platform communicate: they would be trusted if a client sent them. x-middleware-subrequest
 * was CVE-2025-29927.
 */
const spoofable =
  /^(?:forwarded$|next-resume$|x-(?:forwarded-|platform-|real-ip$|vercel-|now-|matched-path$|middleware-|invoke-|invocation-id$|nextjs-|astro-|sticky-|next-|prerender-revalidate$))/

/** Headers that the edge sets for Functions or other origins, in place of a client's. */
const ofEdge = new Set(['cdn-loop', 'content-length', 'x-request-id'])

/** There are few header names; the limit protects against a client that sends many different ones. */
const NAMES_MAX = 1_000
const passing = new Map<string, boolean>()

/**
 * True if a client's header may be passed on. An underscore counts as a dash: what folds both into one (CGI, WSGI, Rack) would take
 * the client's x_forwarded_for for the platform's header.
 */
function mayPass(name: string): boolean {
  let may = passing.get(name)
  if (may === undefined) {
    const dashed = name.replaceAll('_', '-')
    may = !hopByHop.has(dashed) && !spoofable.test(dashed) && (dashed === name || !ofEdge.has(dashed))
    if (passing.size >= NAMES_MAX) passing.clear()
    passing.set(name, may)
  }
  return may
}

/** Response headers that are internal to frameworks and the platform, or that only the platform sets. */
const ofPlatform = new Set(['x-next-cache-tags', 'x-cache', 'x-platform-error', 'x-platform-failure'])

/** Names that a Connection header adds to the hop-by-hop headers. */
const namesOf = (connection: string | undefined): string[] =>
  connection === undefined || connection === 'keep-alive'
    ? []
    : connection.split(',').map((name) => name.trim().toLowerCase())

/**
 * Removes hop-by-hop headers and those that only the platform may set from a client's headers; the rest is what routes, origins
 * and Functions see (deployments.md Headers). Names are in lower case.
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
 * True if a cookie is for this host only. Checks every Domain attribute, though the last one wins (RFC 6265 §5.3): browsers
 * ignore one that is too long, and then the previous one wins.
 */
function isOfHost(cookie: string, hostname: string): boolean {
  const [, ...attributes] = cookie.split(';')
  return attributes.every((attribute) => {
    const [, value] = /^\s*domain\s*=[ \t]*\.?(.*?)[ \t]*$/i.exec(attribute) ?? []
    return value === undefined || value === '' || value.toLowerCase() === hostname
  })
}

/**
 * Removes from a response's headers hop-by-hop ones, frameworks' messages to the platform, and cookies for other hosts than the
 * requested one: siblings below APPS_URL belong to others.
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
