import { now } from '../platform/now.ts'
import { ago, clock, dateTime, utc } from '../words.ts'

/** A moment: how long ago, in the browser's time zone after a week, in UTC under the pointer. */
export function When({ at, isClock = false }: { at: string; isClock?: boolean }) {
  const date = new Date(at)
  const isLong = now.value - date.getTime() > 7 * 86_400_000
  return (
    <time dateTime={at} title={`${dateTime(date)} · ${utc(date)}`} class="whitespace-nowrap">
      {isClock ? clock(date) : isLong ? dateTime(date) : ago(date, now.value)}
    </time>
  )
}
