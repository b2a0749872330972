const HOUR_MS = 3_600_000

/** A span of time; open-ended without `to`. */
export interface Span {
  from: Date
  to: Date | undefined
}

/** The start of the hour that contains an instant. */
export const hourOf = (time: Date): Date => new Date(Math.floor(time.getTime() / HOUR_MS) * HOUR_MS)

export const hourAfter = (hour: Date): Date => new Date(hour.getTime() + HOUR_MS)

/** The whole hours within a span; empty if their end is not after their start. */
export const wholeHoursOf = ({ from, to }: Span): Span => ({
  from: new Date(Math.ceil(from.getTime() / HOUR_MS) * HOUR_MS),
  to: to && hourOf(to),
})
