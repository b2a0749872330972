const HOUR_MS = 3_600_000

/** A span of time; without an end it goes on. */
export interface Span {
  from: Date
  to: Date | undefined
}

/** The hour that a moment lies in: its start. */
export const hourOf = (time: Date): Date => new Date(Math.floor(time.getTime() / HOUR_MS) * HOUR_MS)

export const hourAfter = (hour: Date): Date => new Date(hour.getTime() + HOUR_MS)

/** The whole hours of a span; empty when their end is not after their start. */
export const wholeHoursOf = ({ from, to }: Span): Span => ({
  from: new Date(Math.ceil(from.getTime() / HOUR_MS) * HOUR_MS),
  to: to && hourOf(to),
})
