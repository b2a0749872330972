const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** A span of time, in milliseconds: from its first moment up to the first that is left out. */
interface Range {
  from: number
  to: number
}

/** A span, and where its usage is read: in sums of whole UTC days or hours, or in the events themselves. */
export interface Segment extends Range {
  of: 'day' | 'hour' | 'events'
}

const floor = (timeMs: number, ms: number): number => Math.floor(timeMs / ms) * ms
const ceil = (timeMs: number, ms: number): number => Math.ceil(timeMs / ms) * ms

/** The whole units within a range, and what is left before and behind them. */
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
 * A span in as few rows as there are: whole days, whole hours around them, and events of less than an hour at each end. Empty segments
 * are left out.
 *
 * finest: `hour` where a row must not reach over an hour's end.
 */
export function segmentsOf(range: Range, finest: 'day' | 'hour' = 'day'): Segment[] {
  const days = finest === 'hour' ? { whole: { from: range.from, to: range.from }, rest: [range] } : cut(range, DAY_MS)
  const hours = days.rest.map((rest) => cut(rest, HOUR_MS))
  return [
    { of: 'day' as const, ...days.whole },
    ...hours.map(({ whole }) => ({ of: 'hour' as const, ...whole })),
    ...hours.flatMap(({ rest }) => rest.map((part) => ({ of: 'events' as const, ...part }))),
  ].filter(({ from, to }) => from < to)
}

/** When the first UTC day that begins at a moment or after it ends. */
export const endOfDay = (time: Date): number => floor(time.getTime(), DAY_MS) + DAY_MS

/** The beginnings of the UTC hours or days that a range touches, ascending. */
export function beginningsOf({ from, to }: Range, unit: 'hour' | 'day'): number[] {
  const ms = unit === 'hour' ? HOUR_MS : DAY_MS
  const first = floor(from, ms)
  return Array.from({ length: Math.max(0, Math.ceil((to - first) / ms)) }, (_, n) => first + n * ms)
}
