import type { Deps } from '../../../deps.ts'
import { type EventFilters, findEvents } from './find-events.ts'
import { type ShownEvent, shownEvent } from './shown-event.ts'

const EVENTS_AT_ONCE = 2_000

/** The columns, in their order. */
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

/** What spreadsheets take for the beginning of a formula, also behind spaces, and the full-width forms of it. */
const FORMULA = /^ *[=+\-@\t\r\n＝＋－＠]/

/** A cell (RFC 4180). A text that a spreadsheet would run begins with an apostrophe instead. */
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
 * All events that pass, newest first, as CSV. They are read as fast as the client takes them, so the memory that it needs does not depend
 * on how many there are. Rejects before the first byte where the database is away; later the stream fails.
 */
export async function exportEvents(
  deps: Pick<Deps, 'db' | 'now'>,
  filters: EventFilters,
): Promise<ReadableStream<Uint8Array>> {
  const encoder = new TextEncoder()
  let next: ShownEvent[] | undefined = (await findEvents(deps, filters, undefined, EVENTS_AT_ONCE)).map(shownEvent)
  let last = next.at(-1)?.id
  let head = header
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const events = next ?? (await findEvents(deps, filters, last, EVENTS_AT_ONCE)).map(shownEvent)
        next = undefined
        last = events.at(-1)?.id ?? last
        const text = head + events.map(lineOf).join('')
        head = ''
        if (text !== '') controller.enqueue(encoder.encode(text))
        if (events.length < EVENTS_AT_ONCE) controller.close()
      },
    },
    { highWaterMark: 1 },
  )
}
