import { Worker } from 'node:worker_threads'
import { isNextMatcher } from './next-matcher.ts'
import { isSimplePattern } from './simple-pattern.ts'

/** The worst-case cost of a pattern, or why it cannot be used. */
export type PatternVerdict =
  | { kind: 'safe' }
  | { kind: 'slow'; complexity: string }
  | { kind: 'unknown'; reason: string }

export interface PatternChecker {
  /** Returns the worst-case cost of matching. Quadratic counts as safe, since paths and values are bounded. */
  checkPattern(source: string, flags: string): Promise<PatternVerdict>
  close(): Promise<void>
}

const DEADLINE_MS = 20_000
/** For all patterns of a manifest. */
const TOTAL_MS = 60_000
const HEAP_MB = 512

/**
 * Opens a checker of untrusted patterns by `recheck`, in a thread that is terminated if a pattern takes longer than the deadline,
 * since the analysis of a pattern can run away just as its matching can. Once all together have taken the total, the rest is not
 * checked any more.
 */
export function openPatternChecker(deadlineMs = DEADLINE_MS, totalMs = TOTAL_MS): PatternChecker {
  const verdicts = new Map<string, Promise<PatternVerdict>>()
  let worker: Worker | undefined
  let spentMs = 0
  let queue: Promise<unknown> = Promise.resolve()

  const end = async (): Promise<void> => {
    const ended = worker
    worker = undefined
    await ended?.terminate()
  }

  async function ask(source: string, flags: string): Promise<PatternVerdict> {
    if (spentMs > totalMs) return { kind: 'unknown', reason: 'the patterns before it took too long to check' }
    const startedAt = performance.now()
    worker ??= new Worker(new URL('./pattern-worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
      // Runs the analysis in this thread: by default it would start a process of its own, which outlives the deadline.
      env: { RECHECK_BACKEND: 'pure', RECHECK_SYNC_BACKEND: 'pure' },
    })
    const asyncWorker = worker
    const answered = Promise.withResolvers<PatternVerdict>()
    const tooLate = setTimeout(
      () => answered.resolve({ kind: 'unknown', reason: `it could not be checked in ${deadlineMs / 1_000} s` }),
      deadlineMs,
    )
    const failed = (): void => answered.resolve({ kind: 'unknown', reason: 'its check ran out of memory' })
    asyncWorker.on('message', answered.resolve).on('error', failed).on('exit', failed)
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    asyncWorker.postMessage({ source, flags })
    const verdict = await answered.promise
    clearTimeout(tooLate)
    spentMs += performance.now() - startedAt
    asyncWorker.off('message', answered.resolve).off('error', failed).off('exit', failed)
    if (verdict.kind === 'unknown') await end()
    return verdict
  }

  return {
    checkPattern(source, flags) {
      if (isSimplePattern(source) || isNextMatcher(source)) return Promise.resolve({ kind: 'safe' })
      const key = `${flags}/${source}`
      const known = verdicts.get(key)
      if (known !== undefined) return known
      const verdict = queue.then(() => ask(source, flags))
      queue = verdict
      verdicts.set(key, verdict)
      return verdict
    },
    close: end,
  }
}
