import { readFileSync } from 'node:fs'

/** Milliseconds that this thread has waited for a processor; 0 where the system does not tell. */
function waitedMs(): number {
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[1]) / 1_000_000
  } catch {
    return 0
  }
}

/**
 * Starts a stopwatch for what goes on in this process: it returns the milliseconds since then, without those that a busy machine
 * let it wait for a processor.
 */
export function startStopwatch(): () => number {
  const startedAt = performance.now()
  const waited = waitedMs()
  return () => performance.now() - startedAt - (waitedMs() - waited)
}
