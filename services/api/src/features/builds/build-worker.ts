import { workUnderWay } from '@platform/service/metrics'
import { compressArtifacts } from '../artifacts/compress-artifacts.ts'
import { countBuilds } from './build-source.ts'
import { fillSlots } from '../queues/fill-slots.ts'
import { runDeployment } from './run-deployment.ts'
import type { RunDeps } from './run.ts'

/** Deployments that one process works on at once, besides builds of source. */
export const SLOTS = 4
/** Builds of source that it has taken: two run and the others wait, with what they unpacked on the disk. */
const BUILDS_MAX = 12
/** How often the queue is looked at where no notification came. */
const POLL_MS = 3_000

export interface BuildWorker {
  /** Claims nothing more, releases the running deployments to other workers and waits for that. Safe to repeat. */
  stop(): Promise<void>
}

/**
 * Works on queued deployments, four at a time besides builds of source, and compresses the files of those that are served. It is woken by NOTIFY, and looks every
 * 3 s where that fails.
 */
export function startBuildWorker(deps: RunDeps): BuildWorker {
  const { builds, logger } = deps
  const stopping = new AbortController()
  const underWay = new Set<Promise<void>>()
  /** Builds take minutes, and hold up nobody whose output is built already. */
  const hasSlot = (): boolean => underWay.size - Math.min(countBuilds(), BUILDS_MAX) < SLOTS
  const seenRunning = workUnderWay.labels('deployment', 'running')
  let compressing: Promise<void> = Promise.resolve()

  /** One deployment after another, beside the work on the next ones; a site is served before that. */
  function compress(id: string): void {
    compressing = compressing
      .then(() => compressArtifacts(deps, id, stopping.signal))
      .catch((error: unknown) => logger.warn({ err: error, deploymentId: id }, 'files were not compressed'))
  }
  async function takeNext(): Promise<boolean> {
    const id = await builds.take()
    if (id === undefined) return false
    const run = runDeployment(deps, id, stopping.signal)
      .then(() => compress(id))
      .catch((error: unknown) => logger.warn({ err: error, deploymentId: id }, 'a deployment was not taken up'))
      .finally(() => {
        underWay.delete(run)
        seenRunning.dec()
        wake()
      })
    underWay.add(run)
    seenRunning.inc()
    return true
  }
  const { wake, stop } = fillSlots({
    hasSlot,
    takeNext,
    onError: (error) => logger.warn({ err: error }, 'the build queue cannot be read'),
  })

  builds.listen(wake)
  const timer = setInterval(wake, POLL_MS).unref()
  return {
    async stop() {
      clearInterval(timer)
      stopping.abort()
      await stop()
      await Promise.all(underWay)
      await compressing
    },
  }
}
