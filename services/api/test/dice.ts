import { randomInt } from 'node:crypto'
import { testSeed } from '@platform/testkit/test-environment'
import { onTestFailed } from 'vitest'

/** Pseudo-random choices of one test. */
export interface Dice {
  /** From 0 to below 1. */
  fraction(): number
  /** From `min` to below `max`. */
  integer(min: number, max: number): number
}

/**
 * Opens dice for the running test. The seed is TEST_SEED, or another one each time; it is printed if the test fails, and with it
 * the same choices are made again. mulberry32.
 */
export function openDice(): Dice {
  const seed = testSeed ?? randomInt(2 ** 31)
  onTestFailed(({ task }) => console.error(`"${task.name}" chose at random with TEST_SEED=${seed}`))
  let state = seed
  function fraction(): number {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return { fraction, integer: (min, max) => min + Math.floor(fraction() * (max - min)) }
}
