import { type HasFile, PATH_BYTES_MAX, plain, type Router } from './answer.ts'
import type { OutputManifest } from './manifest.ts'
import { normalizeQuery } from './normalize-path.ts'
import { routeBuildOutput } from './route-build-output.ts'
import { routeStaticSite } from './route-static-site.ts'
import { withinLimits } from './routing-limit.ts'

export type { Answer, HeaderPairs, Router } from './answer.ts'

/** Compiles a manifest; some milliseconds for hundreds of routes. Never throws for a manifest that `readOutput` made. */
export function compileOutput(manifest: OutputManifest): Router {
  const router =
    manifest.kind === 'static'
      ? routeStaticSite(manifest.site ?? { redirects: [], headers: [] })
      : routeBuildOutput(manifest)
  return {
    route(request, hasFile: HasFile) {
      if (isTooLong(request.path)) return { ...plain(), kind: 'status', status: 414 }
      const query = normalizeQuery(request.query)
      return withinLimits(() => router.route(query === request.query ? request : { ...request, query }, hasFile))
    },
  }
}

const isTooLong = (path: string): boolean =>
  path.length > PATH_BYTES_MAX || (path.length * 3 > PATH_BYTES_MAX && Buffer.byteLength(path) > PATH_BYTES_MAX)
