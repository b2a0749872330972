import { setTimeout as sleep } from 'node:timers/promises'
import { startPlatform, type TestEdge, type TestPlatform } from '@platform/testing/platform'
import { and, eq, gt, inArray } from 'drizzle-orm'
import { isDrill } from '@platform/testkit/test-environment'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { functionIdOf } from '../src/areas/deploy/deployments/asset-id.ts'
import { functionSlots } from '../src/areas/edge/functions/table.ts'
import { giveHostname, visit } from './deploy.ts'
import { logOf, newDeployment, untilEnded } from './deployments.ts'
import { buildOutput } from './functions.ts'
import { newOwner, type Owner } from './scenario.ts'
import { openEvents, openSocket } from './sticky-site.ts'

const [DEPLOYS, REQUESTS] = isDrill ? [100, 50_000] : [5, 2_000]
const REQUESTS_A_SECOND = 200
/**
 * Requests without an answer at a time. A Function refuses more than 200 while it starts, which is no fault of a deploy: here a busy
 * machine may stand still for seconds. The drill has a machine of its own, and also finds a start that takes too long.
 */
const UNANSWERED_MAX = isDrill ? Infinity : 150
/** Of each kind. */
const STREAMS = 20
const ECHO_MS = 200
/** A stream that says nothing for so long has broken. */
const SILENT_MS = 10_000
/** A new deployment is served everywhere after this time. */
const SWITCHED_MS = 1_000

let platform: TestPlatform
let second: TestEdge
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true, env: { DEFAULT_PLAN: 'pro' } })
  second = await platform.addEdge()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

/** Tells its marker and when its process started, streams events and echoes what a WebSocket says. */
const siteOf = (marker: number): string => `
import { createServer } from 'node:http'
const startedAt = Date.now() - process.uptime() * 1000
export default createServer((req, res) => {
  if (req.url === '/events') {
    res.setHeader('content-type', 'text/event-stream')
    const tell = () => res.write('data: ${marker}\\n\\n')
    tell()
    const timer = setInterval(tell, ${ECHO_MS})
    res.on('close', () => clearInterval(timer))
  } else res.end(JSON.stringify({ marker: ${marker}, startedAt }))
}).on('upgrade', (req, socket) => {
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nconnection: upgrade\\r\\nupgrade: websocket\\r\\nx-instance: ${marker}\\r\\n\\r\\n')
  socket.pipe(socket)
  socket.on('error', () => {})
})
`

async function deployMarker(marker: number) {
  const archive = buildOutput(
    { index: siteOf(marker) },
    {
      files: { 'marker.json': JSON.stringify({ marker }) },
      routes: [{ handle: 'filesystem' }, { src: '/.*', dest: '/' }],
    },
  )
  const { id } = await newDeployment(platform, ana, { archive })
  const { status, label, activatedAt } = await untilEnded(platform, id)
  if (status !== 'ACTIVE' || !activatedAt) throw new Error(await logOf(platform, id))
  return { id, host: `${label}.${platform.api.appsUrl.host}`, activatedAt: activatedAt.getTime() }
}

interface Told {
  marker: number
  /** Of the Function's process; undefined: a file. */
  startedAt?: number
}

interface Answered extends Told {
  edge: number
  sentAt: number
  ms: number
}

/** Streams that speak all along; tells which of them broke. */
function startStreams(broken: string[]) {
  const stopping = new AbortController()
  const running: Promise<void>[] = []
  const run = (name: string, speak: () => Promise<void>, ended: Promise<void>, close: () => void): void => {
    const breaks = ended.then(() => Promise.reject(new Error('it was closed')))
    breaks.catch(() => {})
    const go = async () => {
      while (!stopping.signal.aborted) {
        const late = sleep(SILENT_MS, undefined, { ref: false }).then(() => Promise.reject(new Error('it was silent')))
        late.catch(() => {})
        await Promise.race([speak(), breaks, late])
      }
    }
    running.push(
      go()
        .catch((error: Error) => void broken.push(`${name}: ${error.message}`))
        .finally(close),
    )
  }
  return {
    async open(n: number, edge: { edgeUrl: string }, host: string): Promise<void> {
      const events = await openEvents(edge, host, '/events')
      run(`events ${n} of ${host}`, async () => void (await events.next()), events.ended, events.close)
      const socket = await openSocket(edge, host, '/socket')
      const speak = async () => {
        const text = `${n} at ${performance.now()}`
        const echoed = await socket.echo(text)
        if (echoed !== text) throw new Error(`it echoed ${echoed}`)
        await sleep(ECHO_MS)
      }
      run(`socket ${n} of ${host}`, speak, socket.ended, socket.close)
    },
    async stop() {
      stopping.abort()
      await Promise.all(running)
    },
  }
}

/** Waits until both edges have told that a deployment's Function runs there: only those are asked to start the next one's ahead. */
async function untilKnownToRun({ id }: { id: string }): Promise<void> {
  const edgeIds = [platform.api.membership.id, second.api.membership.id]
  const rows = () =>
    platform.api.db
      .select()
      .from(functionSlots)
      .where(
        and(
          eq(functionSlots.functionId, functionIdOf(id, 'index')),
          inArray(functionSlots.processId, edgeIds),
          gt(functionSlots.slots, 0),
        ),
      )
  await expect.poll(async () => (await rows()).length, { timeout: 60_000 }).toBe(2)
}

test(
  `${DEPLOYS} deploys under ${REQUESTS} requests over two edges lose no request and break no stream`,
  { timeout: 3_600_000 },
  async () => {
    const host = await giveHostname(platform, ana.applicationId)
    const edges = [platform, second]
    const failures: string[] = []
    const answers: Answered[] = []
    /** By marker: when it was surely current, by performance.now(). */
    const currentAt: number[] = []

    const broken: string[] = []
    const streams = startStreams(broken)
    onTestFinished(() => streams.stop())
    const deployOne = async (marker: number) => {
      const deployed = await deployMarker(marker)
      currentAt[marker] = performance.now()
      return deployed
    }
    /** Some of the streams on the deployment's own hostname, as many on the application's. */
    const openStreams = async (from: number, to: number, ownHost: string) => {
      for (let n = from; n < to; n++) {
        const edge = edges[n % 2]
        if (edge) await streams.open(n, edge, n % 4 < 2 ? ownHost : host)
      }
    }

    const first = await deployOne(0)
    await openStreams(0, STREAMS / 2, first.host)

    const ask = async (n: number): Promise<void> => {
      const edge = n % 2
      const path = n % 4 < 2 ? '/' : '/marker.json'
      const sentAt = performance.now()
      try {
        const { status, text, headers } = await visit(edges[edge] ?? platform, host, path)
        if (status !== 200) throw new Error(`${status} ${String(headers['x-platform-error'])}`)
        answers.push({ ...(JSON.parse(text) as Told), edge, sentAt, ms: performance.now() - sentAt })
      } catch (error) {
        failures.push(`${path} after ${Math.round(performance.now() - sentAt)} ms: ${(error as Error).message}`)
      }
    }
    let sentCount = 0
    const underWay = new Set<Promise<void>>()
    const startedAt = performance.now()
    const pacing = setInterval(() => {
      const dueCount = ((performance.now() - startedAt) / 1_000) * REQUESTS_A_SECOND
      for (; sentCount < dueCount && underWay.size < UNANSWERED_MAX; sentCount++) {
        const done = ask(sentCount).finally(() => underWay.delete(done))
        underWay.add(done)
      }
    }, 5)
    onTestFinished(() => clearInterval(pacing))

    let before = first
    for (let marker = 1; marker < DEPLOYS - 1; marker++) {
      before = await deployOne(marker)
      if (marker === 1) await openStreams(STREAMS / 2, STREAMS, before.host)
    }
    await untilKnownToRun(before)
    const last = await deployOne(DEPLOYS - 1)
    const isDone = () =>
      answers.length + failures.length >= REQUESTS && performance.now() > (currentAt.at(-1) ?? 0) + SWITCHED_MS
    await expect.poll(isDone, { timeout: 3_000_000 }).toBe(true)
    clearInterval(pacing)
    await Promise.all(underWay)
    await streams.stop()

    expect(failures).toEqual([])
    expect(broken).toEqual([])
    const outdated = answers.filter(({ marker, sentAt }) =>
      currentAt.some((position, newer) => newer > marker && position <= sentAt - SWITCHED_MS),
    )
    expect(outdated).toEqual([])
    for (const edge of edges.keys()) {
      const firstOfLast = answers.find((each) => each.edge === edge && each.marker === DEPLOYS - 1 && each.startedAt)
      expect(firstOfLast?.startedAt).toBeLessThan(last.activatedAt)
    }
  },
)
