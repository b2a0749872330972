import type { CronExpression } from 'cron-parser'

const FIELDS = 5
/** Numbers, `*`, lists, ranges and steps, and names of months and days. The parser accepts more, such as a random `H`. */
const FIELD = /^(?:[\d*,/-]|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat)\b)+$/i
const MINUTE_MS = 60_000

/** A cron expression, in UTC. */
export interface CronSchedule {
  /** True if it is due in the minute that begins at `minute`. */
  isDueAt(minute: Date): boolean
  /** Returns the first due minute after `after`. */
  next(after: Date): Date
}

/** Returns the start of the minute that contains `time`. */
export const minuteOf = (time: Date): Date => new Date(Math.floor(time.getTime() / MINUTE_MS) * MINUTE_MS)

/**
 * Reads a cron expression of five fields: minute, hour, day of the month, month, day of the week. If both days are restricted,
 * either suffices. The parser takes 7 MB and is loaded at first use.
 *
 * Throws an Error that explains what is wrong, also for a schedule that is never due.
 */
export async function readCronSchedule(text: string): Promise<CronSchedule> {
  const fields = text.trim().split(/\s+/)
  if (fields.length !== FIELDS) throw new Error(`it has ${fields.length} fields, and a schedule has ${FIELDS}`)
  const unknown = fields.find((field) => !FIELD.test(field))
  if (unknown !== undefined) throw new Error(`${JSON.stringify(unknown)} is not understood`)
  const expression = fields.join(' ')
  const { CronExpressionParser } = await import('cron-parser')
  const parse = (currentDate: Date): CronExpression =>
    CronExpressionParser.parse(expression, { tz: 'UTC', currentDate })
  const parsed = parse(new Date(0))
  parsed.next()
  return {
    isDueAt: (minute) => parsed.includesDate(minute),
    next: (after) => parse(after).next().toDate(),
  }
}
