import { type Db, isUnavailable } from '@platform/runtime/database'
import { columnsOf, insertInto } from '@platform/runtime/insert-rows'
import { openLogBatches } from '@platform/runtime/log-batches'
import type { Logger } from '@platform/runtime/logger'
import { timeOfId } from '@platform/runtime/new-id'
import { keepPartitionsSince, makePartitionsAhead, rememberPartitions } from '@platform/runtime/partitions'
import { storableText } from '@platform/runtime/storable-text'
import { sql } from 'drizzle-orm'
import { Counter, Gauge } from 'prom-client'
import { released } from './budgets/release-holds.ts'
import { aiUsageEvents } from './table.ts'

const BATCH_MS = 100
const BATCH_MAX = 500
const WAITING_MAX = 10_000
/** Maximum length of texts that clients or providers choose, in UTF-16 units. */
const TEXT_LENGTH_MAX = 255
const METADATA_VALUE_LENGTH_MAX = 512

const waitingGauge = new Gauge({ name: 'ai_usage_events_waiting', help: 'AI usage events that are not stored yet.' })
const dropped = new Counter({
  name: 'ai_usage_events_dropped_total',
  help: 'AI usage events that were given up: too many waited, or the database refused them.',
})

type Row = typeof aiUsageEvents.$inferSelect
/**
 * A request to the AI gateway and its usage. `id` is a UUIDv7 of its start, `startedAt` the time in it; `completedAt` is null while
 * it is pending.
 */
export type UsageEvent = Omit<Row, 'createdAt' | 'updatedAt'>

/** An event, and whether storing it releases a hold of its call. */
interface Settlement {
  event: UsageEvent
  isHeld: boolean
}

const insertEvents = insertInto(aiUsageEvents)
const eventColumns = columnsOf(aiUsageEvents)

const scopeOf = ({ organizationId, applicationId, authenticatedUserId, startedAt }: UsageEvent) => ({
  organizationId,
  applicationId,
  userId: authenticatedUserId,
  startedAt,
})

const storable = (text: string): string => storableText(text.slice(0, TEXT_LENGTH_MAX))
const orNull = (text: string | null): string | null => (text === null ? null : storable(text))

function toRow(event: UsageEvent): Row {
  const storedAt = event.completedAt ?? event.startedAt
  const { metadata } = event
  return {
    ...event,
    traceId: orNull(event.traceId),
    callerEndUserId: orNull(event.callerEndUserId),
    modelRequested: orNull(event.modelRequested),
    modelServed: orNull(event.modelServed),
    errorCode: orNull(event.errorCode),
    errorType: orNull(event.errorType),
    providerAttempts: event.providerAttempts.map(({ error, tag, ...attempt }) => ({
      ...attempt,
      ...(error !== undefined && { error: storable(error) }),
      ...(tag !== undefined && { tag: storable(tag) }),
    })),
    metadata:
      metadata &&
      Object.fromEntries(
        Object.entries(metadata).map(([name, value]) => [
          storable(name),
          storableText(value.slice(0, METADATA_VALUE_LENGTH_MAX)),
        ]),
      ),
    createdAt: storedAt,
    updatedAt: storedAt,
  }
}

/** Returns the row of an event, by column name, to be stored later. */
export const usageRowOf = (event: UsageEvent): Record<string, unknown> => eventColumns(toRow(event))

export interface UsageRecorder {
  /**
   * Queues an event; returns at once. When 10,000 are waiting, further ones are dropped and counted. Safe to repeat.
   *
   * isHeld: the call was admitted by `admitCall`: the transaction that stores the event releases its hold, without delay.
   */
  record(event: UsageEvent, isHeld?: boolean): void
  /** Resolves once everything recorded so far is stored, dropped, or waiting for an unavailable database. */
  flush(): Promise<void>
  /** Stores what is queued, and accepts no more. */
  close(): Promise<void>
}

/**
 * Collects usage events and stores them in batches, every 100 ms or 500 events; a process that is killed loses those of its last
 * 100 ms. While the database is unavailable they wait; events it rejects are dropped, counted and logged without their content.
 * Events whose id is already stored are ignored.
 */
export function openUsageRecorder(deps: { db: Db; logger: Logger }): UsageRecorder {
  const withPartitions = rememberPartitions(deps, 'ai_usage_events')

  /** Releases holds and stores all events, in one statement. */
  async function settle(settlements: readonly Settlement[]): Promise<void> {
    const insert = insertEvents(settlements.map(({ event }) => toRow(event)))
    const held = settlements.flatMap(({ event, isHeld }) => (isHeld ? [event.id] : []))
    // For a call that the sweep has already settled, neither is left to do.
    const statement =
      held.length === 0
        ? insert
        : sql`with gone as materialized (select from ${released(
            settlements.map(({ event }) => scopeOf(event)),
            held,
          )}) ${insert} where (select count(*) from gone) >= 0`
    await deps.db.execute(sql`${statement} on conflict do nothing`)
  }

  /** Stores events together; if the database rejects one, splits the batch in halves, so that the others are not lost with it. */
  async function store(events: readonly Settlement[]): Promise<void> {
    try {
      await withPartitions(
        events.map(({ event }) => timeOfId(event.id)),
        () => settle(events),
      )
    } catch (error) {
      if (isUnavailable(error)) throw error
      if (events.length === 1) {
        dropped.inc()
        deps.logger.error({ err: error }, 'an AI usage event could not be stored')
        return
      }
      const half = Math.ceil(events.length / 2)
      await store(events.slice(0, half))
      await store(events.slice(half))
    }
  }

  const batches = openLogBatches<Settlement>({
    name: 'AI usage events',
    batchMs: BATCH_MS,
    batchMax: BATCH_MAX,
    logger: deps.logger,
    waitingGauge,
    dropped,
    store,
  })
  let isSettling = false
  /** Stores the events of this tick of the event loop, and those that arrive meanwhile. */
  const settleSoon = () => {
    if (isSettling) return
    isSettling = true
    setImmediate(() => {
      isSettling = false
      void batches.flush()
    })
  }
  return {
    record: (event, isHeld = false) => {
      if (batches.isClosed || batches.length >= WAITING_MAX) dropped.inc()
      else batches.add({ event, isHeld })
      if (isHeld) settleSoon()
    },
    flush: batches.flush,
    close: batches.close,
  }
}

/**
 * Creates the partitions of this UTC month and of the next, and drops those of months that ended `keptMonths` months ago or earlier.
 * With 0 it drops none. The sums of their events stay (D125). Safe to repeat.
 */
export async function keepUsageMonths(deps: { db: Db; now: () => Date }, keptMonths: number): Promise<void> {
  if (keptMonths === 0) return makePartitionsAhead(deps, 'ai_usage_events')
  const time = deps.now()
  const oldest = new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() - keptMonths))
  return keepPartitionsSince(deps, 'ai_usage_events', oldest)
}
