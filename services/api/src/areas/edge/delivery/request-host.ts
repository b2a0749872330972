import type { IncomingMessage } from 'node:http'

/** The target of a request. */
export interface RequestTarget {
  /** In lower case, without port and trailing dot. */
  hostname: string
  /** Path and query. */
  url: string
}

const HOST = /^([a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::\d{0,5})?$/i
/** A target in absolute form, which proxies send (RFC 9112 §3.2.2). */
const ABSOLUTE = /^https?:\/\/([^/?#]*)([^#]*)/i

/**
 * Reads the host and path of a request; a target in absolute form takes precedence over the Host header. Returns undefined if the
 * host is missing, ambiguous or invalid (RFC 9112 §3.2 requires a 400).
 */
export function readTargetOf({
  headers,
  url = '',
}: Pick<IncomingMessage, 'headers' | 'url'>): RequestTarget | undefined {
  let { host } = headers
  let path = url
  if (!url.startsWith('/')) {
    const absolute = ABSOLUTE.exec(url)
    if (!absolute || host?.includes(',')) return undefined
    host = absolute[1]
    path = absolute[2] ?? ''
    if (!path.startsWith('/')) path = `/${path}`
  }
  if (host === undefined) return undefined
  const [, name] = HOST.exec(host) ?? []
  if (name === undefined) return undefined
  const lower = name.toLowerCase()
  return { hostname: lower.endsWith('.') ? lower.slice(0, -1) : lower, url: path }
}

const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/** True for a valid DNS label, which may begin a hostname; anything else need not be looked up. */
export const isLabel = (text: string): boolean => LABEL.test(text)

/**
 * The single label in front of the host of APPS_URL; undefined if the host is another, or deeper below it. It may not be a valid
 * DNS label: see `isLabel`.
 */
export function labelBelow(hostname: string, appsHostname: string): string | undefined {
  const end = hostname.length - appsHostname.length - 1
  if (end < 1 || hostname.charCodeAt(end) !== 46 || !hostname.endsWith(appsHostname)) return undefined
  const label = hostname.slice(0, end)
  return label.includes('.') ? undefined : label
}
