import { createLogger } from '@platform/runtime/logger'
import { register } from 'prom-client'
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { type Jobs, startPeriodicJobs } from './periodic-jobs.ts'

const EVERY_MS = 1_000
const lines: string[] = []
const deps = { logger: createLogger('test', 'warn', { write: (line) => void lines.push(line) }) }

beforeEach(() => {
  lines.length = 0
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date'] })
})
afterEach(() => void vi.useRealTimers())

function start(jobs: Jobs<typeof deps>, { isFirstAtOnce = true } = {}) {
  const running = startPeriodicJobs(deps, jobs, { everyMs: EVERY_MS, isFirstAtOnce })
  onTestFinished(() => running.stop())
  return running
}
const nextRound = () => vi.advanceTimersByTimeAsync(EVERY_MS)

/** Returns a job's value of a metric; undefined if it has none. */
async function valueOf(metric: string, job: string): Promise<number | undefined> {
  const { values } = (await register.getSingleMetric(metric)?.get()) ?? { values: [] }
  return values.find(({ labels }) => labels.job === job)?.value
}

test('jobs run in their order, at the start and in every round', async () => {
  const ran: string[] = []
  start({ first: async () => void ran.push('first'), second: async () => void ran.push('second') })
  await vi.advanceTimersByTimeAsync(0)
  expect(ran).toEqual(['first', 'second'])
  await nextRound()
  expect(ran).toEqual(['first', 'second', 'first', 'second'])
})

test('the first round can wait for its time', async () => {
  let runs = 0
  start({ late: async () => void runs++ }, { isFirstAtOnce: false })
  await vi.advanceTimersByTimeAsync(EVERY_MS - 1)
  expect(runs).toBe(0)
  await vi.advanceTimersByTimeAsync(1)
  expect(runs).toBe(1)
})

test('a round that is due while another runs is left out, and stop waits for the one that runs', async () => {
  const job = Promise.withResolvers<void>()
  let runs = 0
  const jobs = start({
    long: () => {
      runs++
      return job.promise
    },
    last: async () => void runs++,
  })
  for (let round = 0; round < 3; round++) await nextRound()
  expect(runs).toBe(1)
  let isStopped = false
  const stopped = jobs.stop().then(() => (isStopped = true))
  await nextRound()
  expect([runs, isStopped]).toEqual([1, false])
  job.resolve()
  await stopped
  expect(runs).toBe(2)
  await nextRound()
  expect(runs).toBe(2)
})

test('a job that fails is logged and counted, and holds up none of the others', async () => {
  let runs = 0
  start({ broken: () => Promise.reject(new Error('No such table')), sound: async () => void runs++ })
  await nextRound()
  expect(runs).toBe(2)
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { msg: 'a job failed', job: 'broken', err: { message: 'No such table' } },
    { job: 'broken' },
  ])
  expect(await valueOf('job_failures_total', 'broken')).toBe(2)
  expect(await valueOf('job_failures_total', 'sound')).toBe(0)
  expect(await valueOf('job_last_success_timestamp_seconds', 'broken')).toBeUndefined()
  expect(await valueOf('job_last_success_timestamp_seconds', 'sound')).toBe(Date.now() / 1_000)
  const text = await register.metrics()
  for (const job of ['broken', 'sound']) expect(text).toContain(`job_duration_seconds_count{job="${job}"} 2`)
})

test('three failures of one job in a row are unhealthy, until it succeeds', async () => {
  let isBroken = false
  let runs = 0
  const mayFail = () => (isBroken ? Promise.reject(new Error('broken')) : Promise.resolve())
  // Fails in every other round, so never three times in a row.
  const flickers = () => (runs++ % 2 ? Promise.reject(new Error('flickers')) : Promise.resolve())
  const jobs = start({ mayFail, flickers })
  const health = async () => {
    await nextRound()
    return jobs.isHealthy()
  }
  expect([await health(), await health()]).toEqual([true, true])
  isBroken = true
  expect([await health(), await health(), await health(), await health()]).toEqual([true, true, false, false])
  isBroken = false
  expect(await health()).toBe(true)
})
