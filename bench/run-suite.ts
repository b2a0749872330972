import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { Lab } from './lab.ts'
import { cpuOfServer, memoryOfServer } from './process-costs.ts'
import { fillPath, type LoadResult, sendLoad } from './send-load.ts'
import { createSigner, payloadHashOf } from './sign-request.ts'
import type { Aim, Contender, Load, Prepared, Suite, Trial } from './suite.ts'

/** One contender in one round. Microseconds are CPU time a request; undefined where it cannot be measured. */
interface Measurement {
  requestsPerSecond: number
  cpuMicroseconds: number | undefined
  postgresMicroseconds: number | undefined
  redisMicroseconds: number | undefined
  p50Ms: number | undefined
  p99Ms: number | undefined
  memoryMb: number | undefined
  loadMakerBusy: number | undefined
  facts: Record<string, number>
}

/** A contender's medians, and ours in proportion to it: medians of the rounds' own ratios. */
export interface Row extends Measurement {
  name: string
  cpuRatio: number | undefined
  throughputRatio: number
  p50Ratio: number | undefined
  p99Ratio: number | undefined
  aim: Aim
}

export interface SuiteResult {
  name: string
  work: string
  rounds: number
  seconds: number
  /** Of the load; undefined where each row has its own. */
  connections: number | undefined
  unit: 'requests' | 'MiB' | 'files'
  rows: Row[]
}

interface RunOptions {
  rounds: number
  seconds: number
  env: Record<string, string>
  report: (line: string) => void
}

/** Long enough for the compiler to have seen the path thousands of times. */
const WARM_UP_FIRST_SECONDS = 4
const WARM_UP_SECONDS = 1

/**
 * Measures all contenders of a suite in turn, as often as there are rounds, each round in another order. All of them are
 * up the whole time; whoever is not being measured is idle. Throws when a contender cannot do the work.
 */
export async function runSuite(suite: Suite, lab: Lab, options: RunOptions): Promise<SuiteResult> {
  const { rounds, seconds, env, report } = options
  const prepared = await suite.prepare(lab)
  const contenders = [prepared.ours, ...prepared.peers]
  const run = async (contender: Contender | Trial, forSeconds: number): Promise<LoadResult> =>
    'measure' in contender
      ? resultOf(await contender.measure(forSeconds), forSeconds)
      : send(contender, loadOf(prepared), forSeconds, env)
  for (const contender of contenders) {
    if (!('measure' in contender)) await checkAnswer(prepared, contender)
    await run(contender, WARM_UP_FIRST_SECONDS)
  }
  const measured = new Map<string, Measurement[]>(contenders.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    const first = round % contenders.length
    for (const contender of [...contenders.slice(first), ...contenders.slice(0, first)]) {
      await run(contender, WARM_UP_SECONDS)
      const measurement = await measure(contender, lab, () => run(contender, seconds))
      measured.get(contender.name)?.push(measurement)
      const cpu = measurement.cpuMicroseconds?.toFixed(1) ?? '–'
      report(
        `${suite.name} ${round + 1}/${rounds} ${contender.name}: ${measurement.requestsPerSecond.toFixed(0)} requests/s, ${cpu} µs, p99 ${measurement.p99Ms?.toFixed(1) ?? '–'} ms`,
      )
    }
  }

  const ours = measured.get(prepared.ours.name) ?? []
  const rowOf = (name: string, aim: Aim): Row => {
    const theirs = measured.get(name) ?? []
    return {
      name,
      ...medians(theirs),
      cpuRatio: median(ours.map((mine, i) => divide(mine.cpuMicroseconds, theirs[i]?.cpuMicroseconds))),
      throughputRatio: median(ours.map((mine, i) => divide(mine.requestsPerSecond, theirs[i]?.requestsPerSecond))) ?? 0,
      p50Ratio: median(ours.map((mine, i) => divide(mine.p50Ms, theirs[i]?.p50Ms))),
      p99Ratio: median(ours.map((mine, i) => divide(mine.p99Ms, theirs[i]?.p99Ms))),
      aim,
    }
  }
  return {
    name: suite.name,
    work: suite.work,
    rounds,
    seconds,
    connections: prepared.load?.connections,
    unit: prepared.unit ?? 'requests',
    rows: [rowOf(prepared.ours.name, prepared.aim ?? {}), ...prepared.peers.map(({ name, aim }) => rowOf(name, aim))],
  }
}

function loadOf({ load }: Prepared): Load {
  if (!load) throw new Error('A suite without a load has trials only')
  return load
}

const resultOf = (
  { perSecond, seconds: took, p50Ms, p99Ms, loadMakerBusy, facts }: Awaited<ReturnType<Trial['measure']>>,
  count: number,
): LoadResult => ({
  requests: perSecond * (took ?? count),
  seconds: took ?? count,
  failures: 0,
  p50Ms,
  p99Ms,
  loadMakerBusy,
  ...(facts && { facts }),
})

/** As fetch does, but with a Host header of the caller's choice. */
async function ask(
  url: string,
  { method, headers, body }: { method: string; headers: Record<string, string>; body: string | undefined },
): Promise<Response> {
  const sent = request(url, { method, headers }).end(body)
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const newHeaders = new Headers()
  for (const [name, value] of Object.entries(answer.headers)) newHeaders.set(name, String(value))
  return new Response(Buffer.concat((await answer.toArray()) as Buffer[]), {
    status: answer.statusCode ?? 0,
    headers: newHeaders,
  })
}

async function checkAnswer(prepared: Prepared, contender: Contender): Promise<void> {
  const { name, origin, credentials } = contender
  const load = loadOf(prepared)
  const [form] = (await load.forms?.(contender)) ?? []
  const body = form ?? load.body
  const path = fillPath(contender.path ?? load.path, 0)
  const sign = credentials && createSigner(credentials, new URL(origin).host)
  const answer = await ask(origin + path, {
    method: load.method,
    headers: {
      ...(await load.headers(contender)),
      ...sign?.(load.method, path, payloadHashOf(body)),
      'x-forwarded-for': `10.${load.addressBlock}.255.255`,
    },
    body,
  })
  if (!answer.ok) throw new Error(`${name} answered ${answer.status}: ${await answer.text()}`)
  await prepared.check?.(name, answer)
}

/** Sends the load, to each of two processes where there are two; latencies are then those of the slower one. */
async function send(
  contender: Contender,
  { path, method, headers, body, forms, addressBlock, connections }: Load,
  seconds: number,
  env: Record<string, string>,
): Promise<LoadResult> {
  const { origin, path: ownPath, also, credentials, connections: ownConnections } = contender
  const ownHeaders = await headers(contender)
  const ownForms = await forms?.(contender)
  const origins = also ? [origin, also.origin] : [origin]
  const halves = await Promise.all(
    origins.map((to, half) =>
      sendLoad(
        {
          origin: to,
          path: ownPath ?? path,
          method,
          credentials,
          headers: ownHeaders,
          body,
          forms: ownForms,
          addressBlock: addressBlock + half,
          connections: ownConnections ?? connections,
          seconds,
        },
        env,
      ),
    ),
  )
  const add = (name: Exclude<keyof LoadResult, 'facts'>) => halves.reduce((sum, half) => sum + (half[name] ?? 0), 0)
  const most = (name: Exclude<keyof LoadResult, 'facts'>) => Math.max(...halves.map((half) => half[name] ?? 0))
  return {
    requests: add('requests'),
    seconds: most('seconds'),
    failures: add('failures'),
    p50Ms: most('p50Ms'),
    p99Ms: most('p99Ms'),
    loadMakerBusy: add('loadMakerBusy'),
  }
}

async function measure(contender: Contender | Trial, lab: Lab, run: () => Promise<LoadResult>): Promise<Measurement> {
  const also = 'also' in contender ? contender.also?.pid : undefined
  const others = [also, contender.behind].filter((pid) => pid !== undefined)
  const pids = contender.pid === undefined ? [] : [contender.pid, ...others]
  const { isAlone = false } = contender
  const costs = async () => ({
    server: addUp(pids.map((pid) => cpuOfServer(pid, isAlone))),
    ...(await lab.databaseCosts()),
  })
  const before = await costs()
  const result = await run()
  const after = await costs()
  const each = (name: keyof typeof before): number | undefined => {
    const [from, to] = pids.length > 0 ? [before[name], after[name]] : []
    return from === undefined || to === undefined ? undefined : (to - from) / result.requests
  }
  return {
    requestsPerSecond: result.requests / result.seconds,
    cpuMicroseconds: each('server'),
    postgresMicroseconds: each('postgres'),
    redisMicroseconds: each('redis'),
    p50Ms: result.p50Ms,
    p99Ms: result.p99Ms,
    memoryMb: pids.length > 0 ? addUp(pids.map((pid) => memoryOfServer(pid, isAlone))) : undefined,
    loadMakerBusy: result.loadMakerBusy,
    facts: result.facts ?? {},
  }
}

/** undefined where one of them is not known. */
const addUp = (values: readonly (number | undefined)[]): number | undefined =>
  values.reduce((sum, value) => (sum === undefined || value === undefined ? undefined : sum + value), 0)

function medians(all: readonly Measurement[]): Measurement {
  const of = (name: Exclude<keyof Measurement, 'facts'>) => median(all.map((each) => each[name]))
  return {
    requestsPerSecond: of('requestsPerSecond') ?? 0,
    cpuMicroseconds: of('cpuMicroseconds'),
    postgresMicroseconds: of('postgresMicroseconds'),
    redisMicroseconds: of('redisMicroseconds'),
    p50Ms: of('p50Ms'),
    p99Ms: of('p99Ms'),
    memoryMb: of('memoryMb'),
    loadMakerBusy: of('loadMakerBusy'),
    facts: Object.fromEntries(
      Object.keys(all[0]?.facts ?? {}).map((name) => [name, median(all.map(({ facts }) => facts[name])) ?? 0]),
    ),
  }
}

function median(values: readonly (number | undefined)[]): number | undefined {
  const sorted = values.filter((value) => value !== undefined).sort((a, b) => a - b)
  const [low, high] = [sorted[Math.ceil(sorted.length / 2) - 1], sorted[Math.floor(sorted.length / 2)]]
  return low === undefined || high === undefined ? undefined : (low + high) / 2
}

const divide = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined || b === 0 ? undefined : a / b
