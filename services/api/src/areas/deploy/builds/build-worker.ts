import { workUnderWay } from '@platform/service/metrics'
import { compressArtifacts } from '../artifacts/compress-artifacts.ts'
import { countBuilds } from './build-source.ts'
import { fillSlots } from '../../cluster/queues/fill-slots.ts'
import { runDeployment } from './run-deployment.ts'
import type { RunDeps } from './run.ts'

/** Deployments that one process works on at once, not counting source builds. */
export const SLOTS = 4
/** Source builds that one process claims: two run; the others wait with their unpacked files on disk. */
const BUILDS_MAX = 12
/** How often the queue is polled in case a notification was lost. */
const POLL_MS = 3_000

export interface BuildWorker {
  /** Claims nothing more, releases the running deployments to other workers and waits for that. Safe to repeat. */
  stop(): Promise<void>
}

/**
 * Works on queued deployments, four at a time besides source builds, and compresses the files of active ones. NOTIFY wakes it;
 * it also polls every 3 s in case a notification is lost.
 */
export function startBuildWorker(deps: RunDeps, pollMs = POLL_MS): BuildWorker {
  const { builds, logger } = deps
  const stopping = new AbortController()
  const underWay = new Set<Promise<void>>()
  /** Builds take minutes, so they do not use up the slots of prebuilt deployments. */
  const hasSlot = (): boolean => underWay.size - Math.min(countBuilds(), BUILDS_MAX) < SLOTS
  const seenRunning = workUnderWay.labels('deployment', 'running')
  let compressing: Promise<void> = Promise.resolve()

  /** Compresses one deployment after another, alongside work on the next ones; a site goes live before that. */
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
  const timer = setInterval(wake, pollMs).unref()
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
