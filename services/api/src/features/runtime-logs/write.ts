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
/** Of lines that are not stored yet, by their text and what goes with each. */
const WAITING_BYTES_MAX = 16 * 1_024 * 1_024
const LINE_OVERHEAD_BYTES = 500

const waitingGauge = new Gauge({ name: 'runtime_logs_waiting', help: 'Lines of Functions that are not stored yet.' })
const dropped = new Counter({
  name: 'runtime_logs_dropped_total',
  help: 'Lines of Functions that were given up: too many waited, or the database refused them.',
})

/** A line of a Function, with the application that it is listed under. */
export type RuntimeLogLine = FunctionLogLine & { applicationId: string }

/** Takes what Functions print. Whoever writes has redacted it: here nothing is known of a deployment's secrets. */
export interface RuntimeLogWriter {
  /** Keeps a line; never throws, never waits. While too many wait, lines are counted, and a WARN line tells how many were lost. */
  write(line: RuntimeLogLine): void
  /** Resolves once everything that was written so far is stored, was given up, or waits for a database that is away. */
  flush(): Promise<void>
}

interface Row {
  id: string
  line: RuntimeLogLine
  bytes: number
}

/** Lines of a Function that were lost in a row, and the last of them. */
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
 * Stores lines and tells who follows them, with ids alone. A lock for each application is held until the end, so numbers are given in
 * the order of commits and none appears behind one that was read.
 */
async function store({ db }: { db: Db }, rows: readonly Row[]): Promise<void> {
  const applicationIds = arrayLiteral([...new Set(rows.map(({ line }) => line.applicationId))])
  await db.transaction(async (tx) => {
    // In one order for all, so that two batches never wait in a circle.
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
 * Collects what Functions print and stores it in batches, every 100 ms or 200 lines. Ids are of the lines' moments and rise within
 * the process. While the database is away up to 16 MB wait; what it refuses is dropped, counted and logged without its content.
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

  /** Says in the logs of Functions what they lost, once there is room again. */
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
