// engines: none, what a killed edge leaves behind is not in an engine
import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { serviceEnvironment, startServiceProcess, untilStatus } from '@platform/testing/service-process'
import { freePort } from '@platform/testkit/free-port'
import { newObjectsUrl } from '@platform/testkit/objects'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { one } from '@platform/runtime/database'
import { desc, eq, ne } from 'drizzle-orm'
import { createManualRun } from '../src/areas/edge/crons/runs.ts'
import { CRON_RUNS_PATH, SIGNATURE_HEADER } from '../src/areas/edge/delivery/edge-messages.ts'
import { edges } from '../src/areas/cluster/edges/table.ts'
import { runtimeLogs } from '../src/areas/observe/runtime-logs/table.ts'
import { cronOf, runsOf } from './crons.ts'
import { newDeployment, untilEnded } from './deployments.ts'
import { buildOutput, handler } from './functions.ts'
import { deploy, giveHostname, makeCurrent, visit } from './deploy.ts'
import { newOwner, type Owner } from './scenario.ts'
import { deployStickySite, openEvents, openSocket, type Who } from './sticky-site.ts'

const main = new URL('../src/main.ts', import.meta.url)
const MASTER_KEYS = `test:${randomBytes(32).toString('base64')}`
const KEYS = 20
const UNPINNED_CLIENTS = 3
/** A request is given up after this time, by its test and by nobody else. */
const DEADLINE_MS = 60_000

let platform: TestPlatform
let objects: Awaited<ReturnType<typeof newObjectsUrl>>
let ana: Owner
beforeAll(async () => {
  objects = await newObjectsUrl()
  const env = { MASTER_KEYS, DEFAULT_PLAN: 'pro' }
  platform = await startPlatform({ hasWorker: true, objectsUrl: objects.url, env })
  ana = await newOwner(platform)
})
afterAll(async () => {
  await platform.close()
  await objects.remove()
})

/** An edge as a process of its own, beside those of the same database. */
async function startEdgeProcess() {
  const folder = await mkdtemp(join(tmpdir(), 'fn-'))
  await chmod(folder, 0o711)
  const port = await freePort()
  const own = await serviceEnvironment('api')
  const env = {
    ...own,
    DATABASE_URL: platform.databaseUrl,
    MASTER_KEYS,
    OBJECTS_URL: objects.url,
    IDP_URL: platform.idpUrl,
    PUBLIC_URL: platform.apiUrl,
    APPS_URL: platform.api.appsUrl.origin,
    EDGE_PORT: String(port),
    S3_PORT: '0',
    FUNCTION_SANDBOX: 'auto',
    FUNCTION_EGRESS: 'host',
    FUNCTIONS_FOLDER: folder,
    HOST: 'localhost',
  }
  const { child, ended } = startServiceProcess(main, env, 'edge')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
    // Functions end with their edge, and may write until then.
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  })
  await untilStatus(`http://localhost:${own['HEALTH_PORT']}/ready`, 200)
  return { edgeUrl: `http://localhost:${port}`, child, ended }
}

interface Sent {
  method: string
  startedAt: number
  ms: number
  /** With the reason where nobody answered. */
  status: number | string
  who?: Who
}

/** Clients that ask one edge, each of them the next as soon as the last is answered, so that the answers to each are in order. */
function startClients(edge: { edgeUrl: string }, host: string) {
  const stopping = new AbortController()
  const clients: Promise<void>[] = []
  const sent: Sent[] = []
  async function ask(path: string, method: string): Promise<Sent> {
    const startedAt = performance.now()
    const facts = () => ({ method, startedAt, ms: performance.now() - startedAt })
    try {
      const answer = visit(edge, host, path, { method })
      const late = sleep(DEADLINE_MS, undefined, { ref: false }).then(() => Promise.reject(new Error('no answer')))
      const { status, text, headers } = await Promise.race([answer, late])
      if (status !== 200) return { ...facts(), status: `${status} ${String(headers['x-platform-error'])}` }
      return { ...facts(), status, who: JSON.parse(text) as Who }
    } catch (error) {
      return { ...facts(), status: (error as Error).message }
    }
  }
  return {
    sent,
    /** Returns the answers of this client, as they come. */
    start(path: string, methods: readonly string[] = ['GET']): Sent[] {
      const own: Sent[] = []
      clients.push(
        (async () => {
          for (let n = 0; !stopping.signal.aborted; n++) {
            const one = await ask(path, methods[n % methods.length] ?? 'GET')
            own.push(one)
            sent.push(one)
            await sleep(20)
          }
        })(),
      )
      return own
    },
    async stop() {
      stopping.abort()
      await Promise.all(clients)
    },
  }
}

/** Has the Function run in two slots of an edge, so that pins have a choice. */
async function growToTwo(edge: { edgeUrl: string }, host: string): Promise<void> {
  const instances = new Set<string>()
  const ask = async () => void instances.add((await visit(edge, host, '/busy')).text)
  const grow = async () => {
    await Promise.all([ask(), ask(), ask(), ask()])
    return instances.size
  }
  await expect.poll(grow, { interval: 10 }).toBeGreaterThanOrEqual(2)
}

const instancesOf = (answers: readonly Sent[]): string[] => [
  ...new Set(answers.flatMap(({ who }) => (who ? [who.instance] : []))),
]

/**
 * Two edges under load, each with half of the pins. `fell` is about to fall; the load on the other one goes on until `stop`.
 */
async function startLoad() {
  const site = await deployStickySite(platform, ana)
  const [fell, left] = await Promise.all([startEdgeProcess(), startEdgeProcess()])
  await growToTwo(fell, site.host)
  await growToTwo(left, site.host)
  const pins = await Promise.all(
    Array.from({ length: KEYS }, async (_, n) => {
      const key = `client ${n}`
      const path = await site.mint({ key })
      const owner = n % 2 === 0 ? fell : left
      return { key, path, owner, first: await site.who(path, owner) }
    }),
  )
  const ownedBy = (owner: typeof left) =>
    new Set(pins.filter((pin) => pin.owner === owner).map(({ first }) => first.instance))
  expect(ownedBy(fell).isDisjointFrom(ownedBy(left))).toBe(true)

  const other = await newOwner(platform)
  const host = await giveHostname(platform, other.applicationId)
  await deploy(platform, other, { files: { 'index.html': 'before' } })
  const next = await deploy(platform, other, { files: { 'index.html': 'after' }, isCurrent: false })
  const textOfStatic = async () => (await visit(left, host)).text
  expect(await textOfStatic()).toBe('before')

  const streamsOf = async (owner: typeof left) => {
    const pin = pins.find((each) => each.owner === owner)
    if (!pin) throw new Error('The edge has no pin')
    const events = await site.mint({ key: pin.key, endpoint: '/events' })
    const streams = {
      events: await openEvents(left, site.host, events),
      socket: await openSocket(left, site.host, pin.path),
    }
    expect([streams.events.instance, streams.socket.instance]).toEqual([pin.first.instance, pin.first.instance])
    let isOpen = true
    for (const each of Object.values(streams)) {
      void each.ended.then(() => (isOpen = false))
      onTestFinished(() => each.close())
    }
    return { ...streams, isOpen: () => isOpen }
  }
  const streams = await streamsOf(left)
  await streamsOf(fell)
  for (const path of ['/events', '/who']) {
    const opened = await (path === '/who' ? openSocket : openEvents)(fell, site.host, path)
    onTestFinished(() => opened.close())
  }

  const held = await site.mint({ key: 'held', endpoint: '/held' })
  const hold = await site.mint({ key: 'held', endpoint: '/hold' })
  const release = await site.mint({ key: 'held', endpoint: '/release' })
  const untilHeld = () => expect.poll(async () => (await visit(left, site.host, held)).text).toBe('1')
  await visit(fell, site.host, held)
  const holding = visit(left, site.host, hold)
  await untilHeld()

  const [there, here] = [startClients(fell, site.host), startClients(left, site.host)]
  onTestFinished(() => {
    for (const each of [there, here]) void each.stop()
  })
  for (const clients of [there, here]) for (let n = 0; n < UNPINNED_CLIENTS; n++) clients.start('/who')
  for (const { path } of pins) there.start(path)
  // A third of what is asked cannot be repeated.
  const byPin = pins.map((pin) => ({ ...pin, answers: here.start(pin.path, ['GET', 'GET', 'POST']) }))
  await expect.poll(() => byPin.every(({ answers }) => answers.length >= 3)).toBe(true)
  expect(here.sent.concat(there.sent).filter(({ status }) => status !== 200)).toEqual([])

  return {
    site,
    fell,
    left,
    pins,
    streams,
    /** Switches the static site, and sees that at the edge that is left: it waits for no answer of the one that fell. */
    async switchStatic() {
      await makeCurrent(platform, next)
      await expect.poll(textOfStatic, { interval: 5 }).toBe('after')
    },
    /** Waits until every pin is answered by what is left, stops the load and looks at all its answers. */
    async look(fellAt: number, boundMs: number) {
      const isDone = ({ owner, answers }: (typeof byPin)[number]) =>
        answers.filter(({ who, startedAt }) => who && startedAt > fellAt).length >= 3 &&
        (owner === left || instancesOf(answers).length > 1)
      await expect.poll(() => byPin.every(isDone), { timeout: 60_000 }).toBe(true)
      await here.stop()
      // What was under way in a slot that fell is asked again of the next.
      await untilHeld()
      await visit(left, site.host, release)
      expect((await holding).status).toBe(200)
      const failed = here.sent.filter(({ status }) => status !== 200)
      // What was under way in the edge that fell and is no GET may have been done.
      expect(failed.filter(({ method, startedAt }) => method === 'GET' || startedAt > fellAt)).toEqual([])
      const slowest = Math.max(...here.sent.map(({ ms }) => ms))
      expect(slowest).toBeLessThan(boundMs)
      for (const { owner, first, answers } of byPin) {
        const good = answers.flatMap(({ who }) => who ?? [])
        if (owner === left) {
          expect([instancesOf(answers), good.filter(({ isRestarted }) => isRestarted)]).toEqual([[first.instance], []])
          continue
        }
        const [before, after, ...more] = instancesOf(answers)
        expect([before, more]).toEqual([first.instance, []])
        const moved = good.filter(({ instance }) => instance === after)
        expect(moved.map(({ isRestarted }) => isRestarted)).toEqual(moved.map((_, n) => n === 0))
        expect(good.slice(-moved.length)).toEqual(moved)
      }
      expect(streams.isOpen()).toBe(true)
      expect(await streams.socket.echo('still here')).toBe('still here')
    },
  }
}

test('an edge that is killed leaves its pins to the other, which goes on answering', async () => {
  const { fell, switchStatic, look } = await startLoad()
  const fellAt = performance.now()
  fell.child.kill('SIGKILL')
  await fell.ended
  await switchStatic()
  await look(fellAt, 10_000)
  expect(fell.child.signalCode).toBe('SIGKILL')
})

test('an edge that hangs loses its pins, and asks whose they are when it goes on', async () => {
  const { site, fell, left, pins, switchStatic, look } = await startLoad()
  const fellAt = performance.now()
  fell.child.kill('SIGSTOP')
  await switchStatic()
  await look(fellAt, 20_000)
  fell.child.kill('SIGCONT')
  for (const { path } of pins) {
    const [there, here] = [await site.who(path, fell), await site.who(path, left)]
    expect(there).toMatchObject({ instance: here.instance, isRestarted: false })
  }
})

test('the run of a cron that a killed edge had has failed, and is made by no other', async () => {
  const owner = await newOwner(platform)
  const code = handler(`console.log('begun'); setTimeout(() => res.end(), 600_000)`)
  const archive = buildOutput({ job: code }, { crons: [{ path: '/job', schedule: '0 0 29 2 *' }] })
  const { id } = await untilEnded(platform, (await newDeployment(platform, owner, { archive })).id)
  const edge = await startEdgeProcess()
  const { db, edgeSigner, membership, crons } = platform.api
  const other = one(await db.select().from(edges).where(ne(edges.id, membership.id)).orderBy(desc(edges.id)).limit(1))
  const runId = await createManualRun(platform.api, (await cronOf(platform, owner, id)).id)
  const message = JSON.stringify({ edgeId: other.id, runId, sentAt: platform.clock.now().getTime() })
  const headers = { [SIGNATURE_HEADER]: edgeSigner.sign(message) }
  const taken = await fetch(other.internalUrl + CRON_RUNS_PATH, { method: 'POST', body: message, headers })
  expect(taken.status).toBe(202)
  const begun = () => db.$count(runtimeLogs, eq(runtimeLogs.deploymentId, id))
  await expect.poll(begun).toBe(1)
  edge.child.kill('SIGKILL')
  await edge.ended
  await expect(taken.text()).rejects.toThrow('terminated')
  await crons.dispatch(runId, AbortSignal.timeout(5_000))
  expect((await runsOf(platform, owner, id)).items).toMatchObject([{ completedAt: null }])
  platform.clock.advance(31_000)
  await expect
    .poll(async () => (await runsOf(platform, owner, id)).items)
    .toMatchObject([{ id: runId, outcome: 'failed', error: 'The edge that made the request fell silent' }])
  expect(await begun()).toBe(1)
})
