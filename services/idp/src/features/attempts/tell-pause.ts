import type { Ctx } from '../../http/app.ts'

const count = (amount: number, unit: string): string => `${amount} ${unit}${amount === 1 ? '' : 's'}`

/** Says in the header when another attempt will be looked at, and answers the sentence for the page. */
export function tellPause(c: Ctx, waitSeconds: number): string {
  c.header('retry-after', String(waitSeconds))
  const wait = waitSeconds < 120 ? count(waitSeconds, 'second') : count(Math.ceil(waitSeconds / 60), 'minute')
  return `Too many attempts. Wait ${wait} and try again.`
}
