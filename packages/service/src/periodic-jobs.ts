import type { Logger } from '@platform/runtime/logger'
import { Counter, Gauge, Histogram } from 'prom-client'

/**
 * This many consecutive failures mean that the job itself is broken. One or two are normal: a lock was taken, the database was
 * unavailable.
 */
const FAILURES_MAX = 3

const labelNames = ['job']
const lastSuccesses = new Gauge({
  name: 'job_last_success_timestamp_seconds',
  help: 'When a periodic job last succeeded, in Unix time; absent until it does.',
  labelNames,
})
const durations = new Histogram({
  name: 'job_duration_seconds',
  help: 'How long a run of a periodic job takes, failed ones included.',
  labelNames,
  buckets: [0.01, 0.1, 1, 10, 60, 600, 3_600],
})
const failures = new Counter({
  name: 'job_failures_total',
  help: 'Runs of a periodic job that failed.',
  labelNames,
})

/** Jobs by the name used in logs and metrics. Each must be safe to repeat, and to run in two processes at once. */
export type Jobs<Deps> = Readonly<Record<string, (deps: Deps) => Promise<void>>>

export interface PeriodicJobs {
  /** False after a job has failed three times in a row, until it succeeds again. */
  isHealthy(): boolean
  /** Starts no more rounds, and waits for the current one. Safe to repeat. */
  stop(): Promise<void>
}

interface Timing {
  everyMs: number
  /** False: the first round comes after `everyMs`. */
  isFirstAtOnce: boolean
}

/**
 * Runs the jobs in order, one after the other, in rounds that start every `everyMs`. Rounds never overlap: one that is due while
 * another runs is skipped. A failed job is logged and counted, does not stop the others, and runs again in the next round. The
 * timer does not keep the process alive.
 */
export function startPeriodicJobs<Deps extends { logger: Logger }>(
  deps: Deps,
  jobs: Jobs<Deps>,
  { everyMs, isFirstAtOnce }: Timing,
): PeriodicJobs {
  const failuresInARow = new Map<string, number>()
  let round: Promise<void> | undefined

  async function runJob(name: string, run: Jobs<Deps>[string]): Promise<void> {
    const observeDuration = durations.startTimer({ job: name })
    try {
      await run(deps)
      failuresInARow.delete(name)
      lastSuccesses.setToCurrentTime({ job: name })
    } catch (error) {
      failuresInARow.set(name, (failuresInARow.get(name) ?? 0) + 1)
      failures.inc({ job: name })
      deps.logger.warn({ err: error, job: name }, 'a job failed')
    } finally {
      observeDuration()
    }
  }
  async function runRound(): Promise<void> {
    for (const [name, run] of Object.entries(jobs)) await runJob(name, run)
    round = undefined
  }
  const startRound = () => void (round ??= runRound())

  // Starting at 0 makes the first failure an increase that an alert can see.
  for (const name of Object.keys(jobs)) failures.inc({ job: name }, 0)
  const timer = setInterval(startRound, everyMs).unref()
  if (isFirstAtOnce) startRound()
  return {
    isHealthy: () => failuresInARow.values().every((count) => count < FAILURES_MAX),
    async stop() {
      clearInterval(timer)
      await round
    },
  }
}
