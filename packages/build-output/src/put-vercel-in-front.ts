import type { Cron, OutputManifest, Route, VercelRoute } from './manifest.ts'
import { mergeRoutes } from './merge-routes.ts'
import { type Output, type Tree, UnusableOutput } from './output.ts'
import { ROUTES_MAX } from './read-routes.ts'
import type { VercelConfig } from './read-vercel.ts'

const CRONS_MAX = 100

/**
 * Puts what vercel.json says in front of an output's own rules. below: the output's folder in the tree, '' or with a trailing slash.
 *
 * Throws UnusableOutput if both together are too many.
 */
export function putVercelInFront(output: Output, vercel: VercelConfig, tree: Tree, below: string): Output {
  const { manifest } = output
  if (manifest.kind === 'build-output' && tree.files.has(`${below}.vercel/output/builds.json`))
    return {
      ...output,
      notes: [
        ...output.notes,
        'vercel.json is part of this Build Output, which `vercel build` made: it is not applied again.',
      ],
    }
  const count = vercel.routes.filter(({ handle }) => handle === undefined).length
  const rules = count === 0 ? [] : [`vercel.json: ${count} route${count === 1 ? '' : 's'} in front of the site's own.`]
  const crons = mergeCrons(manifest.crons ?? [], vercel.crons)
  const images = manifest.images ?? vercel.images
  const common = { ...(crons.length > 0 && { crons }), ...(images && { images }) }
  return {
    ...output,
    manifest: { ...manifest, ...common, ...rulesFor(manifest, vercel) },
    ...(manifest.kind === 'build-output' && vercel.cleanUrls === true && { assets: withCleanNames(output.assets) }),
    notes: [...output.notes, ...rules],
  }
}

function rulesFor(
  { kind, routes: own }: OutputManifest,
  { routes, cleanUrls, trailingSlash }: VercelConfig,
): Partial<OutputManifest> {
  // Only a server takes any path: elsewhere the destination is a file.
  const ofKind = kind === 'server' ? routes : routes.map(toFile)
  if (kind === 'build-output') {
    const merged = mergeRoutes(ofKind, own)
    if (merged.length > ROUTES_MAX)
      throw new UnusableOutput(`vercel.json and Build Output have more than ${ROUTES_MAX} routes together.`)
    return { routes: merged }
  }
  if (routes.length === 0 && cleanUrls === undefined && trailingSlash === undefined) return {}
  return {
    vercel: {
      routes: ofKind,
      ...(cleanUrls !== undefined && { cleanUrls }),
      ...(trailingSlash !== undefined && { trailingSlash }),
    },
  }
}

function toFile(route: VercelRoute): Route {
  const copy = { ...route }
  delete copy.keepsPath
  return copy
}

function mergeCrons(own: readonly Cron[], more: readonly Cron[]): Cron[] {
  const crons = new Map([...own, ...more].map((cron) => [`${cron.schedule} ${cron.path}`, cron]))
  if (crons.size > CRONS_MAX)
    throw new UnusableOutput(`vercel.json and Build Output have more than ${CRONS_MAX} crons together.`)
  return [...crons.values()]
}

/** Gives pages of Build Output, which are looked up by their whole names, the names without `.html` as well. */
function withCleanNames(assets: Output['assets']): Output['assets'] {
  const taken = new Set(assets.map(({ path }) => path))
  const clean = assets.flatMap((asset) => {
    const path = asset.path.replace(/\.html$/, '')
    return taken.has(path) ? [] : [{ ...asset, path }]
  })
  return [...assets, ...clean]
}
