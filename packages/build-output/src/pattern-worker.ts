import { parentPort } from 'node:worker_threads'
import { checkSync, type Diagnostics } from 'recheck'
import { analysisBounds, type CheckedPattern, type PatternVerdict } from './pattern-verdict.ts'

const { degreeMax, stepsOfAutomaton, stepsOfFuzzer, attackLimit } = analysisBounds

let steps = 0
let stepsOfLook = stepsOfAutomaton
// recheck looks at the clock in every loop of its work. A clock that counts these looks turns its timeout into a bound of work, which
// a busy machine reaches no sooner than an idle one.
performance.now = () => (steps += stepsOfLook)

const noteFuzzer = (message: string): void => {
  if (message.startsWith('fuzz: start')) stepsOfLook = stepsOfFuzzer
}

function judge(diagnostics: Diagnostics): PatternVerdict {
  if (diagnostics.status === 'safe') return { kind: 'safe' }
  if (diagnostics.status === 'unknown') {
    const { kind } = diagnostics.error
    return {
      kind: 'unknown',
      reason: kind === 'timeout' ? 'its check takes too many steps' : `its check ended with ${kind}`,
    }
  }
  const { complexity } = diagnostics
  if (complexity.type === 'polynomial' && complexity.degree <= degreeMax) return { kind: 'safe' }
  return { kind: 'slow', complexity: complexity.summary }
}

function check(source: string, flags: string, stepsMax: number): CheckedPattern {
  steps = 0
  stepsOfLook = stepsOfAutomaton
  try {
    const diagnostics = checkSync(source, flags, {
      timeout: stepsMax,
      // An attack ends by the number of its characters alone, so that a long one is no proof.
      attackTimeout: null,
      attackLimit,
      incubationTimeout: null,
      seedingTimeout: null,
      logger: noteFuzzer,
    })
    return { verdict: judge(diagnostics), steps }
  } catch (error) {
    // The analysis recurses as deep as the pattern nests.
    if (!(error instanceof RangeError)) throw error
    return { verdict: { kind: 'unknown', reason: 'it nests too deeply for its check' }, steps: stepsMax }
  }
}

parentPort?.on('message', ({ source, flags, stepsMax }: { source: string; flags: string; stepsMax: number }) => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(check(source, flags, stepsMax))
})
