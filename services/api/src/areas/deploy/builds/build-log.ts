import { StringDecoder } from 'node:string_decoder'
import { stripVTControlCharacters } from 'node:util'
import type { Db } from '@platform/runtime/database'
import { newIdAt } from '@platform/runtime/new-id'
import { LINE_BYTES_MAX, storableLine } from '@platform/runtime/storable-text'
import { and, eq, inArray } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { buildLogs, deployments } from '../deployments/table.ts'
import { type Hold, unendedStatuses } from '../deployments/transitions.ts'
import type { Redactor } from '../deployments/redact.ts'

type LineType = (typeof buildLogs.$inferSelect)['type']

const RECORD_BYTES_MAX = 65_536
/** Limit per deployment and worker, across all attempts. */
const LINES_MAX = 20_000
const BATCH_LINES = 200
const BATCH_MS = 100

interface Line {
  at: number
  type: LineType
  text: string
}

/** A record of the log: lines of one type that were written within one millisecond. */
interface LogRecord {
  createdAt: Date
  type: LineType
  message: string
}

/**
 * Groups lines into records. Their times are unique, ascending and close to the clock: lines of equal type within one millisecond
 * form one record of at most 64 KiB; otherwise the later record gets the next free millisecond (D84).
 *
 * after: the time of the last existing record; all new ones are later.
 */
export function recordsOf(lines: readonly Line[], after: number): LogRecord[] {
  const records: (LogRecord & { of: number; bytes: number })[] = []
  let last = after
  for (const { at, type, text } of lines) {
    const open = records.at(-1)
    const bytes = Buffer.byteLength(text)
    // A record whose time was advanced to stay unique absorbs the lines up to that time.
    if (open && open.type === type && at <= Math.max(open.of, last) && open.bytes + 1 + bytes <= RECORD_BYTES_MAX) {
      open.message += `\n${text}`
      open.bytes += 1 + bytes
      continue
    }
    last = Math.max(last + 1, at)
    records.push({ createdAt: new Date(last), type, message: text, of: at, bytes })
  }
  return records.map(({ createdAt, type, message }) => ({ createdAt, type, message }))
}

/**
 * Appends lines to a deployment's log within the transaction `tx`, which holds the deployment's row from here on. Returns false,
 * having written nothing, if the deployment belongs to another attempt by now or has ended.
 */
export async function insertLines(tx: Db, { id, attempt }: Hold, lines: readonly Line[]): Promise<boolean> {
  const isOwn = and(
    eq(deployments.id, id),
    eq(deployments.attempt, attempt),
    inArray(deployments.status, [...unendedStatuses]),
  )
  const [row] = await tx
    .select({ lastLogAt: deployments.lastLogAt })
    .from(deployments)
    .where(isOwn)
    .for('no key update')
  if (!row) return false
  const records = recordsOf(
    lines.map((line) => ({ ...line, text: storableLine(line.text) })),
    row.lastLogAt?.getTime() ?? 0,
  )
  const last = records.at(-1)
  if (!last) return true
  await tx
    .insert(buildLogs)
    .values(records.map((record) => ({ ...record, deploymentId: id, id: newIdAt(record.createdAt) })))
  await tx.update(deployments).set({ lastLogAt: last.createdAt }).where(isOwn)
  return true
}

/** Formats a size for the log. */
export const sizeOf = (bytes: number): string =>
  bytes < 1_000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`

/** What a terminal finally shows of a line: after a carriage return, progress output overwrites itself. */
const lastWritten = (line: string): string => {
  const text = line.replace(/\r+$/, '')
  return text.slice(text.lastIndexOf('\r') + 1)
}

/** The log of one attempt at a deployment. Lines appear in the order they were written, some 100 ms later at most. */
export interface BuildLog {
  line(type: LineType, text: string): void
  /** A stream of a process: output is split into lines. `end` writes the last one if it has no newline. */
  stream(type: LineType): { write(chunk: Buffer): void; end(): void }
  /** Resolves when everything so far is stored, or this attempt may store nothing more. Throws the database's errors. */
  flush(): Promise<void>
  close(): Promise<void>
}

/**
 * Opens the log of an attempt. Secrets are replaced before lines are split. Once the deployment belongs to another attempt, lines
 * are dropped. After 20,000 lines, a final one says that the rest is omitted.
 */
export function openBuildLog(
  { db, now, logger }: Pick<DeployDeps, 'db' | 'now' | 'logger'>,
  hold: Hold,
  redaction: () => Redactor,
): BuildLog {
  let waiting: Line[] = []
  let written = 0
  let isLost = false
  let timer: NodeJS.Timeout | undefined
  let storing: Promise<void> = Promise.resolve()

  function add(type: LineType, text: string): void {
    if (isLost || written > LINES_MAX) return
    const nowMs = now().getTime()
    written++
    if (written > LINES_MAX)
      waiting.push({ at: nowMs, type: 'WARN', text: `The log has ${LINES_MAX} lines; the rest is left out` })
    else waiting.push({ at: nowMs, type, text })
    if (waiting.length >= BATCH_LINES) store()
    else
      timer ??= setTimeout(() => {
        store()
      }, BATCH_MS).unref()
  }
  async function storeBehind(before: Promise<void>, lines: readonly Line[]): Promise<void> {
    await before
    if (!isLost) isLost = !(await db.transaction((tx) => insertLines(tx, hold, lines)))
  }
  /** Stores the waiting lines after those that are being stored. */
  function store(): void {
    clearTimeout(timer)
    timer = undefined
    const lines = waiting
    waiting = []
    if (lines.length === 0) return
    storing = storeBehind(storing, lines)
    // `flush` also throws this, to its caller.
    storing.catch((error: unknown) =>
      logger.warn({ err: error, deploymentId: hold.id }, 'lines of a build log were lost'),
    )
  }
  const writeLine = (type: LineType, text: string): void => {
    const redactor = redaction()
    const plain = stripVTControlCharacters(text)
    for (const each of (redactor.write(plain) + redactor.end()).split('\n')) add(type, each)
  }

  return {
    line: writeLine,
    stream(type) {
      const decoder = new StringDecoder('utf8')
      const redactor = redaction()
      let rest = ''
      const take = (text: string): void => {
        const lines = (rest + text).split('\n')
        rest = lines.pop() ?? ''
        for (const each of lines) add(type, lastWritten(each))
        // An endless line is cut at the line limit; the rest of it is dropped.
        if (rest.length > 2 * LINE_BYTES_MAX) rest = rest.slice(0, 2 * LINE_BYTES_MAX)
      }
      return {
        write(chunk) {
          // Past the limit nothing more is shown.
          if (written <= LINES_MAX) take(redactor.write(stripVTControlCharacters(decoder.write(chunk))))
        },
        end() {
          take(redactor.write(decoder.end()) + redactor.end())
          if (rest !== '') add(type, rest)
          rest = ''
        },
      }
    },
    async flush() {
      store()
      await storing
    },
    async close() {
      store()
      await storing.catch(() => {}) // already in the service's log
    },
  }
}
