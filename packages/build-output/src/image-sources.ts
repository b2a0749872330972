import type { ImageRules } from './manifest.ts'

/** The image sources that a deployment's `images` allow. */
export interface ImageSources {
  /** True for an allowed path of the deployment itself. search: with its question mark, or empty. */
  allowsLocal(pathname: string, search: string): boolean
  /** True for an allowed URL elsewhere. */
  allowsRemote(url: URL): boolean
}

/** Anchors a pattern at both ends, whether or not it is: `example\.com` must not allow `example.com.attacker.net`. */
const compile = (source: string | undefined): RegExp | undefined =>
  source === undefined ? undefined : new RegExp(`^(?:${source})$`)

/** Compiles the rules. Without rules, every path of the deployment is allowed, and nothing else. */
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
