import type { ImageRules } from './manifest.ts'

/** What a deployment's `images` allow as the source of an image. */
export interface ImageSources {
  /** A path of the deployment itself. search: with its question mark, or empty. */
  allowsLocal(pathname: string, search: string): boolean
  /** An address elsewhere. */
  allowsRemote(url: URL): boolean
}

/** A pattern matches from end to end, whether or not it says so: `example\.com` must not allow `example.com.attacker.net`. */
const compile = (source: string | undefined): RegExp | undefined =>
  source === undefined ? undefined : new RegExp(`^(?:${source})$`)

/** Compiles the rules. Without any, every path of the deployment is allowed, and nothing else. */
export function compileImageSources(rules: ImageRules | undefined): ImageSources {
  const domains = new Set(rules?.domains)
  const remote = (rules?.remotePatterns ?? []).map((pattern) => ({
    ...pattern,
    hostname: compile(pattern.hostname),
    pathname: compile(pattern.pathname),
  }))
  const local = rules?.localPatterns?.map(({ search, pathname }) => ({ search, pathname: compile(pathname) }))
  return {
    allowsLocal: (path, query) =>
      local?.some(
        ({ pathname, search }) => (pathname?.test(path) ?? true) && (search === undefined || search === query),
      ) ?? true,
    allowsRemote: (url) =>
      domains.has(url.hostname) ||
      remote.some(
        ({ protocol, hostname, port, pathname, search }) =>
          (protocol === undefined || `${protocol}:` === url.protocol) &&
          (port === undefined || port === url.port) &&
          (hostname?.test(url.hostname) ?? false) &&
          (pathname?.test(url.pathname) ?? true) &&
          (search === undefined || search === url.search),
      ),
  }
}
