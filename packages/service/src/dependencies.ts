import { withDeadline } from '@platform/runtime/deadline'
import type { Logger } from '@platform/runtime/logger'
import { Gauge } from 'prom-client'

const EVERY_MS = 15_000
const LIMIT_MS = 5_000

/**
 * What a service depends on, by the names that the metric uses. `variable`: where the operator sets it. `check` rejects if it does
 * not answer, or refuses access.
 */
export type Checks = Readonly<Record<string, { variable: string; check(): Promise<void> }>>

const up = new Gauge({
  name: 'dependency_up',
  help: '1 if the last check of a dependency succeeded, else 0.',
  labelNames: ['dependency'],
})

/**
 * Checks each dependency at once and then every 15 s, and sets the metric `dependency_up`. A check that takes longer than 5 s counts
 * as failed, and is not repeated before it ends. The first failure of an outage is a warning in the log. No request waits for a check,
 * and the timer does not keep the process alive.
 *
 * Returns a function that stops it.
 */
export function watchDependencies(checks: Checks, logger: Logger): () => void {
  const away = new Set<string>()
  const checking = new Set<string>()
  let isOver = false

  const titleOf = (dependency: string) => `The dependency ${dependency} (${checks[dependency]?.variable})`
  async function run(dependency: string, check: () => Promise<void>): Promise<void> {
    if (checking.has(dependency)) return
    checking.add(dependency)
    const answer = check().finally(() => checking.delete(dependency))
    const late = () => new Error(`No answer within ${LIMIT_MS} ms`)
    const failure = await withDeadline(LIMIT_MS, late, answer).then(
      () => undefined,
      (error: unknown) => ({ error }),
    )
    if (isOver) return
    up.set({ dependency }, failure ? 0 : 1)
    if (failure && !away.has(dependency)) {
      away.add(dependency)
      logger.warn({ dependency, err: failure.error }, `${titleOf(dependency)} does not answer, or refuses access`)
    } else if (!failure && away.delete(dependency)) logger.info({ dependency }, `${titleOf(dependency)} answers again`)
  }
  const checkAll = () => {
    for (const [dependency, { check }] of Object.entries(checks)) void run(dependency, check)
  }
  const timer = setInterval(checkAll, EVERY_MS).unref()
  checkAll()
  return () => {
    isOver = true
    clearInterval(timer)
  }
}

/** Watches the dependencies of a composed service until it is closed. */
export function watchUntilClosed<Composed extends { checks: Checks; close(): Promise<void> }>(
  composed: Composed,
  logger: Logger,
): Composed {
  const stopWatching = watchDependencies(composed.checks, logger)
  return {
    ...composed,
    async close() {
      stopWatching()
      await composed.close()
    },
  }
}
