const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** A span of time in milliseconds: `from` inclusive, `to` exclusive. */
export interface Range {
  from: number
  to: number
}

/** A span, and the source of its usage: sums of whole UTC days or hours, or the events themselves. */
export interface Segment extends Range {
  of: 'day' | 'hour' | 'events'
}

const floor = (timeMs: number, ms: number): number => Math.floor(timeMs / ms) * ms
const ceil = (timeMs: number, ms: number): number => Math.ceil(timeMs / ms) * ms

/** Splits a range into the whole units in it, and the rests before and after them. */
function cut({ from, to }: Range, ms: number): { whole: Range; rest: Range[] } {
  const [start, end] = [ceil(from, ms), floor(to, ms)]
  if (start >= end) return { whole: { from, to: from }, rest: [{ from, to }] }
  return {
    whole: { from: start, to: end },
    rest: [
      { from, to: start },
      { from: end, to },
    ],
  }
}

/**
 * Splits a span so that the fewest rows are read: whole days, whole hours around them, and events of less than an hour at each
 * end. Leaves out empty segments.
 *
 * largest: `hour` if a row must not extend beyond an hour, `events` if sums cannot be used.
 */
export function segmentsOf(range: Range, largest: Segment['of'] = 'day'): Segment[] {
  if (largest === 'events') return range.from < range.to ? [{ of: 'events', ...range }] : []
  const days = largest === 'hour' ? { whole: { from: range.from, to: range.from }, rest: [range] } : cut(range, DAY_MS)
  const hours = days.rest.map((rest) => cut(rest, HOUR_MS))
  return [
    { of: 'day' as const, ...days.whole },
    ...hours.map(({ whole }) => ({ of: 'hour' as const, ...whole })),
    ...hours.flatMap(({ rest }) => rest.map((part) => ({ of: 'events' as const, ...part }))),
  ].filter(({ from, to }) => from < to)
}

/** Widens a range to whole hours at the ends that lie before a time. An empty range stays empty. */
export function wholeHoursBefore(timeMs: number, { from, to }: Range): Range {
  if (from >= to) return { from, to }
  return { from: from < timeMs ? floor(from, HOUR_MS) : from, to: to < timeMs ? ceil(to, HOUR_MS) : to }
}

/** Returns the end of the UTC day that contains `time`. */
export const endOfDay = (time: Date): number => floor(time.getTime(), DAY_MS) + DAY_MS

/** Returns the starts of the UTC hours or days that a range touches, ascending. */
export function beginningsOf({ from, to }: Range, unit: 'hour' | 'day'): number[] {
  const ms = unit === 'hour' ? HOUR_MS : DAY_MS
  const first = floor(from, ms)
  return Array.from({ length: Math.max(0, Math.ceil((to - first) / ms)) }, (_, n) => first + n * ms)
}
