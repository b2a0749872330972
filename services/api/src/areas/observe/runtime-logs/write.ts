import type { FunctionLogLine } from '@platform/function-runtime/function-runtime'
import { RUNTIME_LOGS_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import { arrayLiteral } from '@platform/runtime/batch-per-tick'
import type { Db } from '@platform/runtime/database'
import { openLogBatches } from '@platform/runtime/log-batches'
import type { Logger } from '@platform/runtime/logger'
import { timeOfId, openRisingIds } from '@platform/runtime/new-id'
import { rememberPartitions } from '@platform/runtime/partitions'
import { storableLine } from '@platform/runtime/storable-text'
import { sql } from 'drizzle-orm'
import { Counter, Gauge } from 'prom-client'
import { RUNTIME_LOGS_CHANNEL } from './feed.ts'
import { runtimeLogs } from './table.ts'

const BATCH_MS = 100
const BATCH_MAX = 200
/** Limit for lines not stored yet, counting their text and an overhead per line. */
const WAITING_BYTES_MAX = 16 * 1_024 * 1_024
const LINE_OVERHEAD_BYTES = 500

const waitingGauge = new Gauge({ name: 'runtime_logs_waiting', help: 'Lines of Functions that are not stored yet.' })
const dropped = new Counter({
  name: 'runtime_logs_dropped_total',
  help: 'Lines of Functions that were given up: too many waited, or the database refused them.',
})

/** A line printed by a Function, with its application. */
export type RuntimeLogLine = FunctionLogLine & { applicationId: string }

/** Stores what Functions print. Callers must redact first: the writer does not know a deployment's secrets. */
export interface RuntimeLogWriter {
  /**
   * Records a line; never throws, never waits. While too many wait, lines are only counted, and a WARN line reports how many were
   * lost.
   */
  write(line: RuntimeLogLine): void
  /** Resolves once everything written so far is stored, was dropped, or waits for an unavailable database. */
  flush(): Promise<void>
}

interface Row {
  id: string
  line: RuntimeLogLine
  bytes: number
}

/** Consecutive lines of a Function that were lost, and the last of them. */
interface Loss {
  count: number
  last: RuntimeLogLine
}

const asJson = (rows: readonly Row[]): string =>
  JSON.stringify(
    rows.map(({ id, line }) => ({
      id,
      application_id: line.applicationId,
      deployment_id: line.deploymentId,
      function_id: line.functionId,
      function_name: line.functionName,
      slot: line.slot,
      request_id: line.requestId ?? null,
      level: line.level,
      message: line.message,
    })),
  )

const columns = sql.raw(
  'id, application_id, deployment_id, function_id, function_name, slot, request_id, level, message',
)

/**
 * Stores lines and notifies followers, with ids only. Holds a lock per application until it commits, so numbers follow the order
 * of commits and none appears below one that was already read.
 */
async function store({ db }: { db: Db }, rows: readonly Row[]): Promise<void> {
  const applicationIds = arrayLiteral([...new Set(rows.map(({ line }) => line.applicationId))])
  await db.transaction(async (tx) => {
    // In one order for everybody, so that two batches cannot deadlock.
    await tx.execute(
      sql`select pg_advisory_xact_lock(${RUNTIME_LOGS_LOCK_CLASS}, key)
          from (select distinct hashtext(id) as key from unnest(${applicationIds}::text[]) as ids(id) order by 1 offset 0) keys`,
    )
    await tx.execute(
      sql`insert into ${runtimeLogs} (${columns})
          select ${columns} from json_populate_recordset(null::${runtimeLogs}, ${asJson(rows)}::json)
          on conflict do nothing`, // a commit whose answer was lost is tried again
    )
    await tx.execute(
      sql`select pg_notify(${RUNTIME_LOGS_CHANNEL}, id) from unnest(${applicationIds}::text[]) as ids(id)`,
    )
  })
}

/**
 * Collects what Functions print and stores it in batches, every 100 ms or 200 lines. Ids contain the lines' times and are
 * ascending within the process. During a database outage up to 16 MB wait; what the database rejects is dropped, counted and
 * logged without its content.
 */
export function openRuntimeLog(deps: { db: Db; logger: Logger }): RuntimeLogWriter & { close(): Promise<void> } {
  let waitingBytes = 0
  const losses = new Map<string, Loss>()
  const idAt = openRisingIds()
  const withPartitions = rememberPartitions(deps, 'runtime_logs')
  const batches = openLogBatches<Row>({
    name: 'runtime logs',
    batchMs: BATCH_MS,
    batchMax: BATCH_MAX,
    logger: deps.logger,
    waitingGauge,
    dropped,
    store: (rows) =>
      withPartitions(
        rows.map(({ id }) => timeOfId(id)),
        () => store(deps, rows),
      ),
    onLeft: (rows) => {
      for (const { bytes } of rows) waitingBytes -= bytes
      tellLosses()
    },
  })

  function add(newLine: RuntimeLogLine): void {
    const line = {
      ...newLine,
      functionName: storableLine(newLine.functionName),
      requestId: newLine.requestId === undefined ? undefined : storableLine(newLine.requestId),
      message: storableLine(newLine.message),
    }
    const bytes = line.message.length + LINE_OVERHEAD_BYTES
    waitingBytes += bytes
    batches.add({ id: idAt(line.at), line, bytes })
  }

  function lose(line: RuntimeLogLine): void {
    dropped.inc()
    const loss = losses.get(line.functionId)
    losses.set(line.functionId, { count: (loss?.count ?? 0) + 1, last: line })
  }

  /** Reports losses in the logs of the Functions concerned, once there is room again. */
  function tellLosses(): void {
    const lost = [...losses.values()]
    losses.clear()
    for (const { count, last } of lost) {
      const lines = count === 1 ? '1 line was' : `${count} lines were`
      const message = `${lines} lost here: the log could not keep up`
      add({ ...last, requestId: undefined, level: 'WARN', message })
    }
  }

  return {
    write: (line) => {
      if (batches.isClosed) dropped.inc()
      else if (waitingBytes >= WAITING_BYTES_MAX) lose(line)
      else add(line)
    },
    flush: batches.flush,
    close: batches.close,
  }
}
