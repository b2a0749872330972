import { createHash } from 'node:crypto'
import recheck from 'recheck/package.json' with { type: 'json' }

/** The worst-case cost of a pattern, or why it cannot be used. */
export type PatternVerdict =
  | { kind: 'safe' }
  | { kind: 'slow'; complexity: string }
  | { kind: 'unknown'; reason: string }

/** A verdict and the work behind it, in the analyser's own steps. The same pattern always takes the same number. */
export interface CheckedPattern {
  verdict: PatternVerdict
  steps: number
}

/** Verdicts by `verdictKey` that outlive their checker. Sites share them. Neither method rejects: what is not known is analyzed. */
export interface KeptVerdicts {
  find(key: Buffer): Promise<CheckedPattern | undefined>
  keep(key: Buffer, checked: CheckedPattern): Promise<void>
}

/** What decides a verdict besides its pattern. */
export const analysisBounds = {
  /** For one pattern; an idle machine takes ten to twenty seconds for as many. */
  stepsMax: 10_000_000,
  /** Of the worst polynomial that counts as safe. */
  degreeMax: 2,
  /**
   * Steps that one look at the clock counts for. Between two looks, the automaton multiplies sets of states; the fuzzer executes one
   * instruction of the pattern.
   */
  stepsOfAutomaton: 40,
  stepsOfFuzzer: 1,
  /** Characters that an attack matches. */
  attackLimit: 150_000_000,
  heapMb: 512,
}

/** To be raised when the same bounds lead to other verdicts or numbers of steps than before. */
const REVISION = 1
const ANALYSER = `recheck ${recheck.version}, revision ${REVISION}`

interface Analyzed {
  source: string
  flags: string
  stepsMax?: number
  analyser?: string
}

/** SHA-256 of all that a verdict depends on: one of another analyser, or within other bounds, has another key. */
export function verdictKey({
  source,
  flags,
  stepsMax = analysisBounds.stepsMax,
  analyser = ANALYSER,
}: Analyzed): Buffer {
  return createHash('sha256')
    .update(JSON.stringify([analyser, { ...analysisBounds, stepsMax }, flags, source]))
    .digest()
}
