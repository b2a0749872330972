import { onTestFinished } from 'vitest'
import type { TestIdp } from './start.ts'

const DAY_MS = 86_400_000

/** Stops the clock at the next noon in UTC until the test ends, so that a few hours later it is the same day. */
export function holdNoon(idp: TestIdp): void {
  onTestFinished(idp.holdClock())
  idp.advance(DAY_MS - ((idp.now().getTime() + DAY_MS / 2) % DAY_MS))
}
