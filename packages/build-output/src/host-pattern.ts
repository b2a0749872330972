/** A name that matches one label of a hostname, `*`, which matches any text, or a character. */
const TOKEN = /:([A-Za-z]\w*)|\*|[^]/g
const HOST = /^(?:[a-z0-9.-]|\*|:[a-z]\w*)+$/i
/** The limit of hostnames (RFC 1035 §2.3.4). */
const LENGTH_MAX = 253
const PORT = /:(\d{1,5})$/

/** The host of a rule: `hostname` is a pattern, `port` as written. */
interface WrittenHost {
  hostname: string
  port: string | undefined
}

const split = (host: string): WrittenHost => {
  const port = PORT.exec(host)
  return { hostname: port === null ? host : host.slice(0, port.index), port: port?.[1] }
}

/** True for a host in which `*` and each name occur at most once, with or without a port. */
export function isHostPattern(host: string): boolean {
  const { hostname } = split(host)
  return hostname.length <= LENGTH_MAX && HOST.test(hostname) && (hostname.match(/\*/g) ?? []).length <= 1
}

/**
 * Compiles the pattern of a hostname: in any case, anchored at both ends. A name matches one label or a part of one, `*` anything, as
 * `:splat`.
 *
 * Throws SyntaxError if a name occurs twice.
 */
export function compileHostname(host: string): RegExp {
  const source = split(host).hostname.replaceAll(TOKEN, (token, name: string | undefined) => {
    if (name !== undefined) return `(?<${name}>[^.]+)`
    if (token === '*') return '(?<splat>.*)'
    return token === '.' || token === '-' ? `\\${token}` : token.toLowerCase()
  })
  return new RegExp(`^${source}$`)
}

/**
 * Compiles the host of a rule to a function that returns its captures for the host of a request, or undefined if it is another one. A
 * port of the rule must be the request's; a rule without one is for all ports.
 */
export function compileHost(
  host: string,
): (request: { host: string; protocol: 'http' | 'https' }) => Record<string, string> | undefined {
  const pattern = compileHostname(host)
  const { port } = split(host)
  return (request) => {
    const asked = split(request.host)
    if (port !== undefined && port !== (asked.port ?? (request.protocol === 'https' ? '443' : '80'))) return undefined
    const match = pattern.exec(asked.hostname)
    return match === null ? undefined : { ...match.groups }
  }
}

/**
 * True if the host of a rule matches a hostname of one label in front of a domain. Follows all places in the pattern that some label
 * leads to, and from these the domain.
 */
export function canMatchBelow(host: string, domain: string): boolean {
  const tokens = split(host).hostname.toLowerCase().match(TOKEN) ?? []
  const end = tokens.length
  const isMany = (n: number): boolean => tokens[n] === '*' || (tokens[n]?.length ?? 0) > 1
  /** The places behind a character; places within a name or `*` stay there, and go on behind it. */
  const step = (places: ReadonlySet<number>, accepts: (token: string) => boolean): Set<number> => {
    const next = new Set<number>()
    const add = (n: number): void => {
      next.add(n)
      if (tokens[n] === '*') add(n + 1)
    }
    for (const n of places) {
      const token = tokens[n]
      if (token === undefined || !accepts(token)) continue
      add(n + 1)
      if (isMany(n)) add(n)
    }
    return next
  }
  const inLabel = (token: string): boolean => token.length > 1 || /[a-z0-9*-]/.test(token)
  const places = new Set(tokens[0] === '*' ? [0, 1] : [0])
  let within = new Set<number>()
  for (let last = places; last.size > 0;) {
    last = step(last, inLabel).difference(within)
    within = within.union(last)
  }
  for (const character of `.${domain.toLowerCase()}`)
    within = step(within, (token) => token === '*' || token === character || (token.length > 1 && character !== '.'))
  return within.has(end)
}
