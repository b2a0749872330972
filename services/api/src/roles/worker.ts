import { type Jobs, startPeriodicJobs } from '@platform/service/periodic-jobs'
import type { Part } from '@platform/service/run-service'
import type { Running } from '../area.ts'

/**
 * The jobs of all areas in groups that run side by side: those of one interval of one area, and all that run every `everyMs`. These
 * begin with the top area, so that what loses its last reference in a round is found in it by the areas below.
 */
function groupJobs({ areas }: Running, everyMs: number): { everyMs: number; jobs: Jobs<unknown> }[] {
  const groups = areas.flatMap(({ jobs }) =>
    [...Map.groupBy(jobs, (job) => job.everyMs)].map(([ownMs, group]) => ({ everyMs: ownMs, group })),
  )
  const together = groups.filter((group) => group.everyMs === undefined).toReversed()
  const apart = groups.flatMap(({ everyMs: ownMs, group }) => (ownMs === undefined ? [] : [{ everyMs: ownMs, group }]))
  return [{ everyMs, group: together.flatMap(({ group }) => group) }, ...apart].map((each) => ({
    everyMs: each.everyMs,
    jobs: Object.fromEntries(each.group.map(({ name, run }) => [name, run])),
  }))
}

/**
 * Runs the workers of all areas, and their jobs at start and then at their interval, by default every `everyMs`. The worker is
 * unhealthy once a job has failed three times in a row. Rotating signing keys is not a job: in every role the key set does it on a
 * timer of its own.
 */
export function startWorker(running: Running, everyMs: number): Part {
  const groups = groupJobs(running, everyMs).map((group) =>
    startPeriodicJobs(running.core, group.jobs, { everyMs: group.everyMs, isFirstAtOnce: true }),
  )
  const workers = running.areas.flatMap((area) => (area.workers ?? []).map((start) => start()))
  return {
    isHealthy: () => groups.every((group) => group.isHealthy()),
    async stop() {
      await Promise.all([...workers, ...groups].map((part) => part.stop()))
    },
  }
}
