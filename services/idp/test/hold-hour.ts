import { onTestFinished } from 'vitest'
import type { TestIdp } from './start.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Moves the clock on to the next time that it is so many hours after midnight in UTC, and stops it there until the test ends. */
export function holdHour(idp: TestIdp, hour: number): void {
  onTestFinished(idp.holdClock())
  idp.advance(DAY_MS - ((idp.now().getTime() + DAY_MS - hour * HOUR_MS) % DAY_MS))
}

/** Stops the clock at noon, so that a few hours later it is still the same day. */
export const holdNoon = (idp: TestIdp): void => holdHour(idp, 12)
