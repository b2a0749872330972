import { Worker } from 'node:worker_threads'
import { isNextMatcher } from './next-matcher.ts'
import { isPathPattern } from './path-pattern.ts'
import {
  analysisBounds,
  type CheckedPattern,
  type KeptVerdicts,
  type PatternVerdict,
  verdictKey,
} from './pattern-verdict.ts'
import { isSimplePattern } from './simple-pattern.ts'

export interface PatternChecker {
  /**
   * Returns the worst-case cost of matching. Quadratic counts as safe, since paths and values are bounded. Rejects if the analysis
   * was stopped from outside, which says nothing about the pattern.
   */
  checkPattern(source: string, flags: string): Promise<PatternVerdict>
  /** Steps that the patterns so far have taken, whoever asked for them first. */
  readonly steps: number
  close(): Promise<void>
}

interface CheckerOptions {
  /** For one pattern. */
  stepsMax?: number
  /** For all patterns of a manifest. */
  totalStepsMax?: number
  /** undefined: the checker knows no verdicts but its own. */
  kept?: KeptVerdicts | undefined
}

const TOTAL_STEPS_MAX = 60_000_000

/**
 * Opens a checker of untrusted patterns by `recheck`, in a thread, since the analysis of a pattern can run away just as its matching
 * can. It ends after a number of steps, or when the thread's memory is full, and never by a clock: a verdict is a function of the
 * pattern and the version of the analyser, and that of a manifest one of its patterns and their order. Once all together have taken
 * the total, the rest is not checked any more. A verdict that is known counts as if it were new.
 */
export function openPatternChecker({
  stepsMax = analysisBounds.stepsMax,
  totalStepsMax = TOTAL_STEPS_MAX,
  kept,
}: CheckerOptions = {}): PatternChecker {
  const verdicts = new Map<string, Promise<PatternVerdict>>()
  let worker: Worker | undefined
  let steps = 0
  let queue: Promise<unknown> = Promise.resolve()

  const end = async (): Promise<void> => {
    const ended = worker
    worker = undefined
    await ended?.terminate()
  }

  async function analyze(source: string, flags: string): Promise<CheckedPattern> {
    worker ??= new Worker(new URL('./pattern-worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: analysisBounds.heapMb },
      // Runs the analysis in this thread: by default it would start a process of its own, which counts no steps.
      env: { RECHECK_BACKEND: 'pure', RECHECK_SYNC_BACKEND: 'pure' },
    })
    const thread = worker
    const { promise, resolve, reject } = Promise.withResolvers<CheckedPattern>()
    const onError = (error: NodeJS.ErrnoException): void => {
      if (error.code === 'ERR_WORKER_OUT_OF_MEMORY')
        resolve({ verdict: { kind: 'unknown', reason: 'its check ran out of memory' }, steps: stepsMax })
      else reject(error)
    }
    const onExit = (): void => reject(new Error('The check of a pattern was ended before its verdict'))
    thread.on('message', resolve).on('error', onError).on('exit', onExit)
    try {
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      thread.postMessage({ source, flags, stepsMax })
      const checked = await promise
      // What it left in memory must not decide the next pattern.
      if (checked.verdict.kind === 'unknown') await end()
      return checked
    } catch (error) {
      await end()
      throw error
    } finally {
      thread.off('message', resolve).off('error', onError).off('exit', onExit)
    }
  }

  async function ask(source: string, flags: string): Promise<PatternVerdict> {
    if (steps > totalStepsMax) return { kind: 'unknown', reason: 'the patterns before it take too many steps to check' }
    const key = verdictKey({ source, flags, stepsMax })
    const known = await kept?.find(key)
    const checked = known ?? (await analyze(source, flags))
    if (known === undefined) await kept?.keep(key, checked)
    steps += checked.steps
    return checked.verdict
  }

  return {
    get steps() {
      return steps
    },
    checkPattern(source, flags) {
      if (isSimplePattern(source) || isNextMatcher(source) || isPathPattern(source))
        return Promise.resolve({ kind: 'safe' })
      const key = `${flags}/${source}`
      const known = verdicts.get(key)
      if (known !== undefined) return known
      const verdict = queue.then(() => ask(source, flags))
      queue = verdict.catch(() => undefined)
      verdicts.set(key, verdict)
      return verdict
    },
    close: end,
  }
}
