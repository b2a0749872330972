import type { IncomingMessage } from 'node:http'

/** What a request is sent to. */
export interface RequestTarget {
  /** In lower case, without port and without the dot that may end it. */
  hostname: string
  /** Path and query. */
  url: string
}

const HOST = /^([a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::\d{0,5})?$/i
/** A target in absolute form, which proxies send (RFC 9112 §3.2.2). */
const ABSOLUTE = /^https?:\/\/([^/?#]*)([^#]*)/i

/**
 * Reads the host and the path that a request names; a target in absolute form counts before the Host header. undefined: it
 * names no host, more than one, or what is none (RFC 9112 §3.2 asks for a 400).
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

/** True for what can be a label of DNS, and so the first of a hostname; nothing else need be looked up. */
export const isLabel = (text: string): boolean => LABEL.test(text)

/**
 * What stands in front of the host of APPS_URL, if it is one name and no more. undefined: the host is another, or deeper below it.
 * The name may be none that DNS allows: see `isLabel`.
 */
export function labelBelow(hostname: string, appsHostname: string): string | undefined {
  const end = hostname.length - appsHostname.length - 1
  if (end < 1 || hostname.charCodeAt(end) !== 46 || !hostname.endsWith(appsHostname)) return undefined
  const label = hostname.slice(0, end)
  return label.includes('.') ? undefined : label
}
