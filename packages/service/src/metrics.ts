import { Counter, Gauge, Histogram } from 'prom-client'

// Every service uses these metric names, so one dashboard serves them all.

const durations = new Histogram({
  name: 'http_request_duration_seconds',
  help: 'Time from the request to its answer.',
  labelNames: ['operation', 'status'],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
})

export const limiterFallbacks = new Counter({
  name: 'rate_limit_fallbacks_total',
  help: 'Times that counting moved into this process because Redis was away.',
})

/** `state`: running or waiting. */
export const workUnderWay = new Gauge({
  name: 'work_under_way',
  help: 'Work of a kind that is limited: what runs now, and what waits for its turn.',
  labelNames: ['kind', 'state'],
})

type Observer = ReturnType<typeof durations.labels>
/** Looking up labels costs more than observing: each pair is looked up once. */
const observers = new Map<string, Observer[]>()

/** Records how long a request took. Operations and statuses are few, so the cache stays small. */
export function observeRequest(operation: string, status: number, durationMs: number): void {
  let byStatus = observers.get(operation)
  if (!byStatus) observers.set(operation, (byStatus = []))
  const observer = (byStatus[status] ??= durations.labels(operation, String(status)))
  observer.observe(durationMs / 1_000)
}
