import { bucketOf } from './summary-buckets.ts'
import type { requestLogs, requestSummaries, SummaryDimension } from './table.ts'

type Row = typeof requestLogs.$inferInsert
type Sum = typeof requestSummaries.$inferInsert

const spans = [1, 60, 1_440] as const
const dimensions: readonly SummaryDimension[] = [
  'total',
  'status',
  'path',
  'hostname',
  'country',
  'cacheStatus',
  'deploymentId',
]
/** Longer paths are cut: a summary groups by what people recognize. */
const PATH_LENGTH_MAX = 256
/** Distinct paths per application, process and hour; all further ones are summed together. */
const PATHS_MAX = 1_000
/** Stands for all further paths; no request's path looks like it. */
const OTHER_PATHS = '*'

/** The paths seen in the current hour, by application. */
export interface SeenPaths {
  /** The path's name in a summary. */
  nameOf(applicationId: string, path: string, time: Date): string
}

export function openSeenPaths(): SeenPaths {
  let hour = 0
  let seen = new Map<string, Set<string>>()
  return {
    nameOf(applicationId, path, time) {
      const now = Math.floor(time.getTime() / 3_600_000)
      if (now > hour) {
        hour = now
        seen = new Map()
      }
      const paths = seen.get(applicationId) ?? new Set()
      seen.set(applicationId, paths)
      const name = path.slice(0, PATH_LENGTH_MAX).toWellFormed()
      if (!paths.has(name) && paths.size >= PATHS_MAX) return OTHER_PATHS
      paths.add(name)
      return name
    },
  }
}

/** The sums of one application in one minute, by dimension, value and bucket. */
interface Minute {
  applicationId: string
  at: number
  sums: ReadonlyMap<SummaryDimension, Map<string, Figures[]>>
}
type Figures = Pick<Sum, 'requests' | 'requestBodyBytes' | 'responseBodyBytes' | 'bytesSent'>

const newMinute = (applicationId: string, startMs: number): Minute => ({
  applicationId,
  at: startMs,
  sums: new Map(dimensions.map((dimension) => [dimension, new Map()])),
})

function add(to: Figures, more: Figures): void {
  to.requests += more.requests
  to.requestBodyBytes += more.requestBodyBytes
  to.responseBodyBytes += more.responseBodyBytes
  to.bytesSent += more.bytesSent
}

/** Sums a batch by minute. Every request passes through here, so one that joins existing sums allocates nothing. */
function sumByMinute(batch: readonly { row: Row; startedAt: Date }[], paths: SeenPaths): Iterable<Minute> {
  const minutes = new Map<string, Minute>()
  for (const { row, startedAt } of batch) {
    const startMs = Math.floor(startedAt.getTime() / 60_000) * 60_000
    const key = `${row.applicationId} ${startMs}`
    let minute = minutes.get(key)
    if (!minute) minutes.set(key, (minute = newMinute(row.applicationId, startMs)))
    const bucket = bucketOf(row.durationMs)
    const { requestBodyBytes, responseBodyBytes, bytesSent } = row
    for (const [dimension, values] of minute.sums) {
      const value = valueOf(dimension, row, startedAt, paths)
      let buckets = values.get(value)
      if (!buckets) values.set(value, (buckets = []))
      const figures = (buckets[bucket] ??= { requests: 0, requestBodyBytes: 0, responseBodyBytes: 0, bytesSent: 0 })
      figures.requests++
      figures.requestBodyBytes += requestBodyBytes
      figures.responseBodyBytes += responseBodyBytes
      figures.bytesSent += bytesSent
    }
  }
  return minutes.values()
}

function valueOf(dimension: SummaryDimension, row: Row, time: Date, paths: SeenPaths): string {
  switch (dimension) {
    case 'total':
      return ''
    case 'path':
      return paths.nameOf(row.applicationId, row.path, time)
    case 'status':
      return String(row.status)
    default:
      return row[dimension] ?? ''
  }
}

/** A batch's additions to the sums, sorted by key, so that two batches cannot deadlock. */
export function summarize(batch: readonly { row: Row; startedAt: Date }[], paths: SeenPaths): Sum[] {
  const sums = new Map<string, Sum>()
  for (const minute of sumByMinute(batch, paths))
    for (const [dimension, values] of minute.sums)
      for (const [value, buckets] of values)
        for (const [bucket, figures] of buckets.entries() as Iterable<[number, Figures | undefined]>) {
          if (figures === undefined) continue // an empty bucket
          for (const minutes of spans) {
            const startMs = Math.floor(minute.at / (minutes * 60_000)) * minutes * 60_000
            const { applicationId } = minute
            const key = `${applicationId} ${minutes} ${dimension} ${startMs} ${value} ${bucket}`
            const sum = sums.get(key)
            if (sum) add(sum, figures)
            else sums.set(key, { applicationId, minutes, dimension, at: new Date(startMs), value, bucket, ...figures })
          }
        }
  return [...sums].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum)
}
