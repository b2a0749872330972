import { type Jobs, startPeriodicJobs } from '@platform/service/periodic-jobs'
import type { Part } from '@platform/service/run-service'
import type { Running } from '../area.ts'

/**
 * The jobs of all areas, in groups that run side by side. Jobs without an interval of their own are one group, from the top area
 * down: what loses its last reference in a round is then found in the same round by the areas below. Of the others, an area's jobs
 * of one interval are a group.
 */
function groupJobs({ areas }: Running, everyMs: number): [everyMs: number, jobs: Jobs<unknown>][] {
  const common = areas.toReversed().flatMap(({ jobs }) => jobs.filter((job) => job.everyMs === undefined))
  const own = areas.flatMap(({ jobs }) => [...Map.groupBy(jobs, (job) => job.everyMs)])
  return [[everyMs, common] as const, ...own].flatMap(([ms, jobs]) =>
    ms === undefined ? [] : [[ms, Object.fromEntries(jobs.map(({ name, run }) => [name, run]))]],
  )
}

/**
 * Runs the workers of all areas, and their jobs at start and then at their interval, by default every `everyMs`. The worker is
 * unhealthy once a job has failed three times in a row. Rotating signing keys is not a job: in every role the key set does it on a
 * timer of its own.
 */
export function startWorker(running: Running, everyMs: number): Part {
  const groups = groupJobs(running, everyMs).map(([ms, jobs]) =>
    startPeriodicJobs(running.core, jobs, { everyMs: ms, isFirstAtOnce: true }),
  )
  const workers = running.areas.flatMap((area) => (area.workers ?? []).map((start) => start()))
  return {
    isHealthy: () => groups.every((group) => group.isHealthy()),
    async stop() {
      await Promise.all([...workers, ...groups].map((part) => part.stop()))
    },
  }
}
