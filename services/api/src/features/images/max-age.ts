import type { ImageRules } from '@platform/build-output/manifest'

/** How long a source counts as unchanged at least, where the deployment's configuration says nothing. */
export const FRESH_SECONDS_MIN = 60

/** How long a source of a deployment counts as unchanged at least, in seconds. */
export const minimumSecondsOf = (rules: ImageRules | undefined): number => rules?.minimumCacheTTL ?? FRESH_SECONDS_MIN

/** How long an answer says that it is fresh, in seconds, for everyone before for one client (RFC 9111 §5.2.2). */
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
