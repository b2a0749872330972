import { type HasFile, PATH_BYTES_MAX, plain, type Router, withUrl } from './answer.ts'
import { isBeyondAscii, type SpellingOf } from './file-names.ts'
import type { OutputManifest } from './manifest.ts'
import { normalizeQuery } from './normalize-path.ts'
import { routeBuildOutput } from './route-build-output.ts'
import { routeSpellings } from './route-spellings.ts'
import { routeStaticSite } from './route-static-site.ts'
import { routeVercel } from './route-vercel.ts'
import { routeServer, routeWorker } from './route-worker.ts'
import { withinLimits } from './routing-limit.ts'
import type { SiteRouter } from './site-router.ts'

export type { Answer, HeaderPairs, Router } from './answer.ts'

/**
 * Compiles a manifest; takes some milliseconds for hundreds of routes. Never throws for a manifest from `readOutput`.
 * spellingOf: finds files by other Unicode normal forms of their names; undefined if all names are ASCII.
 */
export function compileOutput(manifest: OutputManifest, spellingOf?: SpellingOf): Router {
  const router = routerOf(manifest)
  return {
    route(request, hasFile: HasFile) {
      if (isTooLong(request.path)) return { ...plain(), kind: 'status', status: 414 }
      const query = normalizeQuery(request.query)
      const normalized = query === request.query ? request : withUrl(request, { path: request.path, query })
      if (spellingOf === undefined || !isBeyondAscii(request.path))
        return withinLimits(() => router.route(normalized, hasFile))
      return withinLimits(() => routeSpellings(router, normalized, hasFile, spellingOf))
    },
  }
}

/**
 * Compiles the router for a worker that requests the files of its own deployment (`env.ASSETS`). The visitor's request has passed the
 * routes of vercel.json before.
 */
export const compileFiles = (manifest: OutputManifest, spellingOf?: SpellingOf): Router =>
  compileOutput(
    {
      ...manifest,
      kind: 'static',
      functions: {},
      ...(manifest.vercel && { vercel: { ...manifest.vercel, routes: [] } }),
    },
    spellingOf,
  )

function routerOf(manifest: OutputManifest): Router {
  if (manifest.kind === 'build-output') return routeBuildOutput(manifest)
  const site = siteOf(manifest, manifest.kind)
  return manifest.vercel === undefined || manifest.vercel.routes.length === 0
    ? site
    : routeVercel(manifest.vercel, site)
}

function siteOf(manifest: OutputManifest, kind: 'static' | 'worker' | 'server'): SiteRouter {
  if (kind === 'server') return routeServer(workerOf(manifest), manifest.staticFolder)
  const files = routeStaticSite(manifest.site ?? { redirects: [], headers: [] }, manifest.vercel)
  return kind === 'static'
    ? files
    : routeWorker(manifest.worker ?? { include: ['/*'], exclude: [] }, workerOf(manifest), files)
}

/** The only Function of a worker or server. */
const workerOf = ({ functions }: OutputManifest): string => Object.keys(functions)[0] ?? ''

const isTooLong = (path: string): boolean =>
  path.length > PATH_BYTES_MAX || (path.length * 3 > PATH_BYTES_MAX && Buffer.byteLength(path) > PATH_BYTES_MAX)
