import { indexSpellings } from '@platform/build-output/file-names'
import { compileFiles, compileOutput, type Router } from '@platform/build-output/router'
import type { Db } from '@platform/runtime/database'
import { eq } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import { deploymentFallbacks, deploymentFiles } from '../../deploy/artifacts/table.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { functionIdOf } from '../../deploy/deployments/asset-id.ts'
import { type ImagePolicy, imagePolicyOf } from '../images/image-request.ts'
import type { ServedBy } from '../../observe/request-logs/table.ts'
import { DeployedFile } from './deployed-file.ts'
import { describePrerenders, type DeployedPrerender } from './deployed-prerender.ts'

/** Estimated memory for compiled deployments. */
const BYTES_MAX = 134_217_728
/** Estimates for a file with its headers once requested, and for a compiled route, per character of its JSON. */
const BYTES_OF_FILE = 1_500
const BYTES_OF_ROUTE_TEXT = 8

/** An ACTIVE deployment, ready to serve. It never changes. */
export interface DeployedSite {
  id: string
  environmentId: string
  organizationId: string
  router: Router
  /** Which images may be transformed, and how. */
  images: ImagePolicy
  /** By path without a leading slash. */
  files: ReadonlyMap<string, DeployedFile>
  hasFile: (path: string) => boolean
  /** Routes a worker's requests for its own files. */
  fileRouter: Router
  /** Functions, by every path that they answer. */
  functions: ReadonlyMap<string, DeployedFunction>
  /** Prerender Functions, by path. */
  prerenders: ReadonlyMap<string, DeployedPrerender>
}

/** A Function as named in request logs. */
export interface DeployedFunction {
  id: string
  deploymentId: string
  /** Path in the output, without `.func`. */
  path: string
  servedBy: ServedBy
}

function describe(deploymentId: string, path: string, region: string | undefined): DeployedFunction {
  const id = functionIdOf(deploymentId, path)
  const deploymentFunction = {
    id,
    name: path,
    path: `/${path}`,
    region: region ?? null,
  }
  return { id, deploymentId, path, servedBy: { deploymentStatus: 'ACTIVE', deploymentFunction } }
}

async function load(
  db: Db,
  id: string,
  region: string | undefined,
): Promise<{ site: DeployedSite; bytes: number } | undefined> {
  const [[row], files, fallbacks] = await Promise.all([
    db
      .select({
        environmentId: deployments.environmentId,
        organizationId: deployments.organizationId,
        output: deployments.output,
        activatedAt: deployments.activatedAt,
        createdAt: deployments.createdAt,
      })
      .from(deployments)
      .where(eq(deployments.id, id)),
    db.select().from(deploymentFiles).where(eq(deploymentFiles.deploymentId, id)),
    db.select().from(deploymentFallbacks).where(eq(deploymentFallbacks.deploymentId, id)),
  ])
  if (!row) return undefined
  if (!row.output) throw new Error(`Deployment ${id} is active without an output`)
  const lastModified = row.activatedAt ?? row.createdAt
  const byPath = new Map(files.map((file) => [file.path, new DeployedFile(file, lastModified)]))
  const spellingOf = indexSpellings(byPath.keys())
  const site = {
    id,
    environmentId: row.environmentId,
    organizationId: row.organizationId,
    router: compileOutput(row.output, spellingOf),
    images: imagePolicyOf(row.output.images),
    files: byPath,
    hasFile: (path: string) => byPath.has(path),
    fileRouter: compileFiles(row.output, spellingOf),
    functions: new Map(
      Object.entries(row.output.functions).map(([path, { function: own }]) => [path, describe(id, own, region)]),
    ),
    prerenders: describePrerenders(row.output.prerenders ?? {}, fallbacks, lastModified),
  }
  return {
    site,
    bytes:
      (files.length + fallbacks.length) * BYTES_OF_FILE + JSON.stringify(row.output).length * BYTES_OF_ROUTE_TEXT + 1,
  }
}

/**
 * Caches compiled deployments by id: each is loaded once, however many requests wait for it, and the least recently used are
 * evicted. id: of an ACTIVE deployment, which thus has its output and all its files. Resolves to undefined if its row is gone.
 */
export function openDeployedSites(
  db: Db,
  region: string | undefined,
): (id: string) => Promise<DeployedSite | undefined> {
  // A deployment larger than the whole cache counts as filling it: otherwise it would never be cached, and be compiled for each
  // request.
  const compiled = new LRUCache<string, DeployedSite>({ maxSize: BYTES_MAX })
  const loading = new Map<string, Promise<DeployedSite | undefined>>()

  async function loadOne(id: string): Promise<DeployedSite | undefined> {
    try {
      const loaded = await load(db, id, region)
      if (loaded) compiled.set(id, loaded.site, { size: Math.min(loaded.bytes, BYTES_MAX) })
      return loaded?.site
    } finally {
      loading.delete(id)
    }
  }

  return async (id) => {
    const site = compiled.get(id)
    if (site) return site
    let under = loading.get(id)
    if (!under) loading.set(id, (under = loadOne(id)))
    return under
  }
}
