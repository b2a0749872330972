interface TimeWords {
  /** `2 minutes ago`, `yesterday, 10:48`, `3 Mar, 10:48`. */
  rough: string
  /** `28 Nov 2026, 09:16:22 UTC`. */
  exact: string
}

/**
 * Makes the function that tells a time in words for people in a time zone; in the browser's own if it is undefined. Without
 * scripts the browser's zone is unknown, so a rough time names the given one. The script says the same in the browser: it
 * holds the source of this function, which therefore uses nothing from outside.
 */
export function timeWordsIn(zone: string | undefined): (time: Date, now: Date) => TimeWords {
  const formatOf = (options: Intl.DateTimeFormatOptions) =>
    new Intl.DateTimeFormat('en-GB', { timeZone: zone, hourCycle: 'h23', ...options })
  const clock = formatOf({ hour: '2-digit', minute: '2-digit' })
  const numbers = formatOf({ year: 'numeric', month: 'numeric', day: 'numeric' })
  const date = formatOf({ day: 'numeric', month: 'short' })
  const whole = formatOf({
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    timeZoneName: 'short',
  })
  /** Days in the zone, which a change of its clocks makes shorter or longer. */
  const dayOf = (time: Date) => {
    const [day, month, year] = numbers.format(time).split('/').map(Number) as [number, number, number]
    return { year, number: Date.UTC(year, month - 1, day) / 86_400_000 }
  }
  const inWords = (time: Date, now: Date): string => {
    const minutes = Math.floor((now.getTime() - time.getTime()) / 60_000)
    if (minutes < 1) return 'just now'
    if (minutes < 60) return minutes === 1 ? '1 minute ago' : `${minutes} minutes ago`
    const [then, today] = [dayOf(time), dayOf(now)]
    const at = `${clock.format(time)}${zone === undefined ? '' : ` ${zone}`}`
    if (then.number === today.number) return `today, ${at}`
    if (then.number === today.number - 1) return `yesterday, ${at}`
    return `${date.format(time)}${then.year === today.year ? '' : ` ${then.year}`}, ${at}`
  }
  return (time, now) => ({ rough: inWords(time, now), exact: whole.format(time) })
}
