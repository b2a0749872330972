import { mkdir, rename, rm, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { UnusableOutput } from '@platform/build-output/read-output'
import { createSemaphore } from '@platform/service/semaphore'
import { BuildFailure } from '@platform/source-builder/builder'
import { type BuiltProject, readBuiltProject } from '@platform/source-builder/built-project'
import { type BuildPlan, isSource, planBuild } from '@platform/source-builder/plan-build'
import { and, eq } from 'drizzle-orm'
import { environments } from '../../tenancy/applications/table.ts'
import { hostnames } from '../../tenancy/applications/hostnames-table.ts'
import { platformVariables } from '../deployments/platform-variables.ts'
import { quotasOf } from '../../tenancy/products/quotas.ts'
import { fetchBuildCache, storeBuildCache } from './build-cache.ts'
import { sizeOf } from './build-log.ts'
import type { Run } from './run.ts'
import type { Unpacked } from './unpack-archive.ts'

/** Source builds that one process runs at once. */
const BUILDS_AT_ONCE = 2
/** How long a build may wait in the queue. */
const WAIT_MS = 6 * 3_600_000
/** Allowance for the steps around the build itself: reading its output and storing it. */
const AROUND_MS = 600_000
const MINUTE_MS = 60_000
/** Limit for the build cache, before compression. */
const CACHE_BYTES_MAX = 1024 ** 3

/** The result of a build. */
export interface BuiltSource extends BuiltProject {
  /** Stores the cache for the environment's next build. Call it once the deployment is ACTIVE. */
  keep(signal: AbortSignal): Promise<void>
}

/** Work of a kind, in the order of its requests; everything else waits. */
const openTurns = (kind: string, slots: number) =>
  createSemaphore({
    kind,
    slots,
    queueMax: Number.POSITIVE_INFINITY,
    refuse: () => new Error('There is always room to wait'),
  })

const inTurn = openTurns('build', BUILDS_AT_ONCE)
/** One at a time: nobody waits for the result. */
const packInTurn = openTurns('pack', 1)
/** One at a time, for its memory. */
const traceInTurn = openTurns('trace', 1)

let underWay = 0
/** Source builds that this process runs, or that are queued with their files unpacked. */
export const countBuilds = (): number => underWay

/** Longest link target that a disk can hold. */
const TARGET_BYTES_MAX = 4_095

/** Moves the archive's files to where the build works on them, and creates its links, except those that no disk can hold. */
async function layOut({ writtenLinks }: Unpacked, files: string, project: string): Promise<void> {
  await mkdir(dirname(project), { recursive: true, mode: 0o700 })
  await rename(files, project)
  for (const [path, target] of writtenLinks) {
    if (target === '' || target.includes('\0') || Buffer.byteLength(target) > TARGET_BYTES_MAX) continue
    await mkdir(dirname(join(project, path)), { recursive: true, mode: 0o700 })
    await symlink(target, join(project, path))
  }
}

async function environmentOf({ deps, deployment, variables }: Run): Promise<Record<string, string>> {
  const { db, appsUrl } = deps
  const [about] = await db
    .select({ environment: environments.slug, productionLabel: hostnames.label })
    .from(environments)
    .leftJoin(hostnames, and(eq(hostnames.applicationId, environments.applicationId), eq(hostnames.type, 'APP')))
    .where(eq(environments.id, deployment.environmentId))
  const { environment = 'production', productionLabel = null } = about ?? {}
  return {
    ...platformVariables({ deployment, environment, productionLabel, appsUrl }),
    ...variables.values(),
  }
}

/**
 * Plans how to build an archive if it holds source, and says so in the log. root: the site's, below the archive's. Returns undefined if
 * there is nothing to install or build. Throws UnusableOutput for errors that the author has to fix.
 */
export async function planSource(run: Run, unpacked: Unpacked, root: string): Promise<BuildPlan | undefined> {
  const { builder } = run.deps
  if (!(await isSource(unpacked, root))) return undefined
  const obstacle = await builder.findObstacle()
  if (obstacle !== undefined)
    throw new UnusableOutput(`This is source that has to be built, and builds cannot run here. ${obstacle}`)
  const plan = await planBuild(unpacked, root, { canFetch: builder.egress !== 'none' })
  for (const { type, text } of plan.notes) run.log.line(type, text)
  run.caveat = plan.caveat
  return plan
}

/**
 * Installs a project's packages and runs its build in the sandbox, at most two at a time. The build gets the minutes, memory and disk
 * of the organization's plan, the variables of its environment, and the last build's cache.
 *
 * folder: belongs to this attempt; the archive's files are in its `files` and are moved away. Throws UnusableOutput for errors that the
 * author has to fix.
 */
export async function buildSource(run: Run, folder: string, unpacked: Unpacked, plan: BuildPlan): Promise<BuiltSource> {
  const { deps, deployment, log, signal } = run
  const { builder } = deps
  const { root } = plan
  const quotas = await quotasOf(deps, deployment.organizationId)
  const limits = {
    memoryMb: quotas.build_memory_mb,
    diskMb: quotas.build_disk_mb,
    timeoutMs: quotas.minutes_per_build * MINUTE_MS,
  }
  const workspace = join(folder, 'build')
  const project = join(workspace, 'project')
  await layOut(unpacked, join(folder, 'files'), project)
  const place = { environmentId: deployment.environmentId, key: plan.cacheKey }
  const variables = await environmentOf(run)

  await run.beginWaiting(WAIT_MS)
  let builtSince = 0
  let kept: number | undefined
  underWay++
  await inTurn(async () => {
    await run.beginAnew(limits.timeoutMs + AROUND_MS)
    const cache = join(folder, 'cache.tar.zst')
    kept = await fetchBuildCache(deps, place, cache).catch(async (error: unknown) => {
      // A cache is optional, but an unreadable one would fail every build until the lockfile changes.
      deps.logger.warn({ err: error, deploymentId: deployment.id }, 'what a build kept cannot be read')
      log.line('WARN', 'What an earlier build kept cannot be read, and is left out')
      await rm(cache, { force: true })
      return undefined
    })
    const begun = kept === undefined ? 'nothing kept of an earlier build' : `${sizeOf(kept)} kept of an earlier build`
    log.line('INFO', `The build begins with ${begun}`)
    const output = { stdout: log.stream('INFO'), stderr: log.stream('WARN') }
    const startedAt = performance.now()
    builtSince = Date.now()
    try {
      await builder.build({
        name: deployment.id,
        folder: workspace,
        plan,
        variables,
        limits,
        cache: kept === undefined ? undefined : cache,
        log: { line: log.line, output: (stream, chunk) => output[stream].write(chunk) },
        signal,
      })
    } catch (error) {
      if (error instanceof BuildFailure) throw new UnusableOutput(error.message, { cause: error })
      throw error
    } finally {
      for (const stream of Object.values(output)) stream.end()
    }
    log.line(
      'INFO',
      `${plan.builds.length > 0 ? 'Built' : 'Installed'} in ${((performance.now() - startedAt) / 1_000).toFixed(1)} s`,
    )
  }, signal).finally(() => underWay--)

  const built = await readBuiltProject({
    folder: project,
    root,
    needed: plan.needed,
    outputDirectory: plan.outputDirectory,
    isSource: (path) => unpacked.files.has(path),
    builtSince,
    bytesMax: quotas.unpacked_bytes,
    trace: (entry) =>
      traceInTurn(() => builder.trace({ name: deployment.id, folder: workspace, plan, entry, signal }), signal),
  })
  log.line('INFO', built.note)
  for (const warning of built.warnings) log.line('WARN', warning)
  return {
    ...built,
    keep: (until) =>
      packInTurn(async () => {
        const packed = await builder.pack({
          name: deployment.id,
          folder: workspace,
          plan,
          bytesMax: CACHE_BYTES_MAX,
          signal: until,
        })
        if (packed !== undefined) await storeBuildCache(deps, place, packed, until)
      }, until),
  }
}
