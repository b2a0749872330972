import type { ImageRules } from '@platform/build-output/manifest'

/** Minimum time that a source counts as unchanged, if the deployment's configuration has none. */
export const FRESH_SECONDS_MIN = 60

/** Minimum time in seconds that a deployment's sources count as unchanged. */
export const minimumSecondsOf = (rules: ImageRules | undefined): number => rules?.minimumCacheTTL ?? FRESH_SECONDS_MIN

/** The freshness lifetime of a response in seconds; s-maxage takes precedence over max-age (RFC 9111 §5.2.2). */
export function readMaxAge(cacheControl: string | undefined): { maxAgeSeconds: number; isImmutable: boolean } {
  const directives = (cacheControl ?? '').toLowerCase()
  const seconds = (name: string): number | undefined => {
    const [, digits] = new RegExp(`(?:^|[\\s,])${name}\\s*=\\s*"?(\\d{1,9})`).exec(directives) ?? []
    return digits === undefined ? undefined : Math.min(Number(digits), 31_536_000)
  }
  return {
    maxAgeSeconds: seconds('s-maxage') ?? seconds('max-age') ?? 0,
    isImmutable: /(?:^|[\s,])immutable(?:$|[\s,])/.test(directives),
  }
}
