import { strictEqual } from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { activateFunctions, type DeployedFunctions } from '../function-site.ts'
import { cpuOfServer, processTree, proportionalMemoryOf } from '../process-costs.ts'
import type { Suite, Trial } from '../suite.ts'

const DEPLOYMENTS = 100
const WARM = 10
const COLD_STARTS = 10
/** Until what was started has settled. */
const SETTLING_MS = 5_000
/** A slot ends after 300 s without a request, and is looked after once a second. */
const IDLE_MS_MAX = 330_000

const hello = `export default (req, res) => res.end('hello')`

/** What deployments take that nobody visits, on an edge of its own that starts new each time. */
export const deployments: Suite = {
  name: 'deployments',
  work: `${DEPLOYMENTS} deployments of a Function that says hello: what an edge and its slots take while nobody asks; times are of cold starts after that`,
  isLarge: true,
  async prepare(lab) {
    const platform = await lab.platform()
    const sites: DeployedFunctions[] = []
    for (let n = 0; n < DEPLOYMENTS; n++) sites.push(await activateFunctions(lab, { index: hello }))
    // Each was tried out by the first edge, which keeps the slot as for any visitor.
    const startedAt = performance.now()
    while ((await readdir(join(platform.functionsFolder, 'r', 'sockets'))).length > 0) {
      if (performance.now() - startedAt > IDLE_MS_MAX) throw new Error('Idle slots do not end')
      await sleep(1_000)
    }
    const trial = (name: string, warm: number): Trial => ({
      name,
      async measure(seconds) {
        const edge = await platform.startAnotherEdge()
        const timeOf = async (site: DeployedFunctions): Promise<number> => {
          const askedAt = performance.now()
          const { status, body } = await site.ask('/', edge.origin)
          strictEqual(status, 200, body)
          return performance.now() - askedAt
        }
        try {
          for (const site of sites.slice(0, warm)) await timeOf(site)
          await sleep(SETTLING_MS)
          const cpuBefore = cpuOfServer(edge.pid, false) ?? Number.NaN
          await sleep(seconds * 1_000)
          const cpu = (cpuOfServer(edge.pid, false) ?? Number.NaN) - cpuBefore
          const processes = processTree(edge.pid)
          const facts = {
            'PSS MB': proportionalMemoryOf(processes),
            'PSS MB of the edge alone': proportionalMemoryOf([edge.pid]),
            'CPU ms a minute': (cpu / 1_000 / seconds) * 60,
          }
          const times: number[] = []
          for (const site of sites.slice(-COLD_STARTS)) times.push(await timeOf(site))
          times.sort((a, b) => a - b)
          const percentile = (share: number) => times[Math.floor(share * (times.length - 1))] ?? 0
          return { perSecond: 1_000 / percentile(0.5), p50Ms: percentile(0.5), p99Ms: percentile(0.99), facts }
        } finally {
          await edge.stop()
        }
      },
    })
    return { ours: trial(`${WARM} warm`, WARM), peers: [{ ...trial('none warm', 0), aim: {} }] }
  },
}
