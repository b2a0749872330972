import type { AiDeps } from '../../deps.ts'
import { type EventFilters, findEvents } from './find-events.ts'
import { type ShownEvent, shownEvent } from './shown-event.ts'

const EVENTS_AT_ONCE_FIRST = 50
const EVENTS_AT_ONCE_MAX = 500
/** Target size of a page's lines: one event may be 27 kB of CSV, and most are 400 bytes. */
const PAGE_BYTES = 500_000

/** The columns, in order. */
const columns = [
  'id',
  'requestId',
  'traceId',
  'billingSubjectType',
  'organizationId',
  'applicationId',
  'actorId',
  'actorType',
  'apiKeyId',
  'authenticatedUserId',
  'callerEndUserId',
  'modelRequested',
  'modelServed',
  'provider',
  'providerAttempts',
  'status',
  'errorCode',
  'errorType',
  'inputTokens',
  'outputTokens',
  'cachedInputTokens',
  'totalTokens',
  'usageSource',
  'providerCostMicros',
  'billableCostMicros',
  'streaming',
  'latencyMs',
  'metadata',
  'startedAt',
  'completedAt',
  'createdAt',
  'updatedAt',
] as const satisfies readonly (keyof ShownEvent)[]

/**
 * What spreadsheets treat as the start of a formula, and its full-width forms; also after blanks and characters that cannot be seen,
 * which they may strip.
 */
const FORMULA = /^[\s\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]*[=+\-@\t\r\n＝＋－＠]/u

/** Formats a cell (RFC 4180). A text that a spreadsheet would execute gets an apostrophe in front. */
function cellOf(value: ShownEvent[keyof ShownEvent]): string {
  if (value === null) return ''
  if (value instanceof Date) return value.toISOString()
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const safe = FORMULA.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

const lineOf = (event: ShownEvent): string => `${columns.map((name) => cellOf(event[name])).join(',')}\r\n`
const header = `${columns.map((name) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)).join(',')}\r\n`

/**
 * Exports all matching events, newest first, as CSV. They are read as fast as they are consumed, in pages sized by the lines of the
 * page before, so memory use depends neither on their number nor on their size.
 */
export async function* exportEvents(deps: Pick<AiDeps, 'db' | 'now'>, filters: EventFilters): AsyncGenerator<Buffer> {
  let head = header
  let before: string | undefined
  let count = EVENTS_AT_ONCE_FIRST
  for (;;) {
    const rows = await findEvents(deps, filters, before, count)
    const lines = Buffer.from(head + rows.map((row) => lineOf(shownEvent(row))).join(''))
    if (lines.length > 0) yield lines
    if (rows.length < count) return
    head = ''
    before = rows.at(-1)?.id
    count = Math.min(EVENTS_AT_ONCE_MAX, Math.ceil((PAGE_BYTES * rows.length) / lines.length))
  }
}
