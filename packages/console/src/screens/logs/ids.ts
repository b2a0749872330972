import type { LogLine } from '../../log/lines.ts'

/** The time in an id, in milliseconds since 1970 (UUIDv7). */
export const timeOfId = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

/** The place of an id among others, whose order is that of their times. */
export const placeOfId = (id: string): Pick<LogLine, 'at' | 'id'> => ({
  id: id.toLowerCase(),
  at: new Date(timeOfId(id)).toISOString(),
})

/** What catching up and the person ask for, as one beginning. */
export const laterOf = (one: string | undefined, other: string | undefined): { from?: string } => {
  const from = one !== undefined && other !== undefined && one > other ? one : (other ?? one)
  return from === undefined ? {} : { from }
}

/** A time in UTC, for who points at it. */
export const utcOf = (at: string): string => `${at.replace('T', ' ').replace('Z', '')} UTC`
