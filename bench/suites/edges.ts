import { strictEqual } from 'node:assert/strict'
import { moveTo } from '../cores.ts'
import { makeCpuLimit } from '../cpu-limit.ts'
import { deployFunctions, WHO } from '../function-site.ts'
import type { Lab } from '../lab.ts'
import { processTree } from '../process-costs.ts'
import { type LoadResult, sendLoad } from '../send-load.ts'
import type { Suite, Trial } from '../suite.ts'

const hello = `${WHO}export default (req, res) => res.end(req.url.endsWith('?who') ? who : 'hello')`
/** In all. A slot with 50 requests under way gets a second one beside it. */
const CONNECTIONS = 32

/** A Function with a warm slot on each of two edges; the slots run on the load maker's core. */
async function prepareEdges(lab: Lab) {
  const platform = await lab.platform()
  const { host, ask } = await deployFunctions(lab, { hello }, 'load')
  const other = await platform.startAnotherEdge()
  const { status, body } = await ask('/hello', other.origin)
  strictEqual(status, 200, body)
  moveTo(
    'load',
    processTree(other.pid).filter((pid) => pid !== other.pid),
  )
  return { host, first: { origin: platform.edgeOrigin, pid: platform.apiPid }, other }
}

/**
 * What a second edge costs: both have the same database and Redis, so their requests should cost what one edge's do. Part of what they
 * cost more is that they take turns on one core here.
 */
export const edges: Suite = {
  name: 'edges',
  work: 'GET of a Function that says hello, half of the connections to each of two edges on one core, and all of them to one alone',
  async prepare(lab) {
    const { host, first, other } = await prepareEdges(lab)
    return {
      load: {
        method: 'GET',
        path: '/hello',
        headers: async () => ({ host }),
        addressBlock: 64,
        connections: CONNECTIONS,
      },
      ours: { name: 'two', ...first, also: other, connections: CONNECTIONS / 2, isAlone: true },
      peers: [{ name: 'one', ...first, isAlone: true, aim: { cpuRatioMax: 1.3 } }],
      async check(name, answer) {
        strictEqual(await answer.text(), 'hello', name)
      },
    }
  },
}

/** So small that neither core is full: two edges, and all that works for them. */
const SHARE = 0.3

const sum = (values: readonly number[]): number => values.reduce((before, value) => before + value, 0)

/** Two edges as on machines of their own: they share the database, Redis and the load maker, and no core is full. */
export const edgeShares: Suite = {
  name: 'edge-shares',
  work: `GET of a Function that says hello, by two edges and by one, each with ${SHARE} of a core at most and ${CONNECTIONS / 2} connections`,
  async prepare(lab) {
    const { host, first, other } = await prepareEdges(lab)
    const limits = [await makeCpuLimit(lab, first.pid, SHARE), await makeCpuLimit(lab, other.pid, SHARE)]
    const sendHalf = (origin: string, addressBlock: number, seconds: number): Promise<LoadResult> =>
      sendLoad(
        {
          origin,
          path: '/hello',
          method: 'GET',
          credentials: undefined,
          headers: { host },
          body: undefined,
          forms: undefined,
          addressBlock,
          connections: CONNECTIONS / 2,
          seconds,
        },
        lab.env,
      )
    const trial = (name: string, servers: readonly { origin: string; pid: number }[]): Trial => ({
      name,
      pid: first.pid,
      isAlone: true,
      ...(servers.includes(other) && { behind: other.pid }),
      async measure(seconds) {
        for (const limit of limits) await limit.apply()
        try {
          const halves = await Promise.all(servers.map(({ origin }, n) => sendHalf(origin, 66 + n, seconds)))
          return {
            perSecond: sum(halves.map((half) => half.requests / half.seconds)),
            seconds: Math.max(...halves.map((half) => half.seconds)),
            p50Ms: Math.max(...halves.map(({ p50Ms = 0 }) => p50Ms)),
            p99Ms: Math.max(...halves.map(({ p99Ms = 0 }) => p99Ms)),
            loadMakerBusy: sum(halves.map((half) => half.loadMakerBusy ?? 0)),
          }
        } finally {
          for (const limit of limits) await limit.lift()
        }
      },
    })
    return {
      ours: trial('two', [first, other]),
      peers: [{ ...trial('one', [first]), aim: { throughputRatioMin: 1.8 } }],
    }
  },
}
