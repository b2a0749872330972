import { ApiError } from '@platform/errors/api-error'
import type { Ctx } from '../../http/app.ts'

const count = (amount: number, unit: string): string => `${amount} ${unit}${amount === 1 ? '' : 's'}`

/** Formats a wait, such as `90 seconds` or `5 minutes`. */
const describeWait = (waitSeconds: number): string =>
  waitSeconds < 120 ? count(waitSeconds, 'second') : count(Math.ceil(waitSeconds / 60), 'minute')

/** Sets Retry-After to the end of the pause, and returns a sentence for the page. */
export function tellPause(c: Ctx, waitSeconds: number, reason = 'Too many attempts'): string {
  c.header('retry-after', String(waitSeconds))
  return `${reason}. Wait ${describeWait(waitSeconds)} and try again.`
}

/** The same as a 429 error, which says how long to wait. */
export const pauseRefusal = (waitSeconds: number, reason: string): ApiError =>
  new ApiError(429, `${reason}. Wait ${describeWait(waitSeconds)} and try again`, {
    headers: { 'retry-after': String(waitSeconds) },
  })
