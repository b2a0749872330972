import type { OverviewDeps } from '../deps.ts'
import { objectsSourceOf } from '../../storage/objects/access-url.ts'

/**
 * The content security policy of the console. Its pages load code from their own origin alone. They call the API, which takes all
 * uploads as well, and sign-in; objects are read from where the edge serves them. Markup from text, and scripts by any address but
 * that of the console's worker, are refused by Trusted Types.
 */
export function consolePolicy(deps: Pick<OverviewDeps, 'publicUrl' | 'idpUrl' | 'objectsDomain'>): string {
  const objects = objectsSourceOf(deps)
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "font-src 'self'",
    `connect-src 'self' ${deps.publicUrl} ${deps.idpUrl} ${objects}`,
    `img-src 'self' blob: ${objects}`,
    `media-src ${objects}`,
    "worker-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    'trusted-types console-worker',
  ].join('; ')
}
