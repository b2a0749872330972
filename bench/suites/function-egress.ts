import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Request } from '@platform/sandbox/namespace-sandbox'
import type { NetworkKind } from '@platform/sandbox/network-carrier'
import { openTestNetwork, OWN, PUBLIC } from '@platform/sandbox/test-network'
import type { Suite, Trial } from '../suite.ts'

const CONNECTIONS = 16
const machine = fileURLToPath(import.meta.resolve('@platform/sandbox/namespace-sandbox'))

/** What a command does: asks the public host again and again, over connections that it keeps, and prints how often it was answered. */
const askFor = (seconds: number): string => `
  const http = require('node:http')
  const agent = new http.Agent({ keepAlive: true, maxSockets: ${CONNECTIONS} })
  const times = []
  const until = performance.now() + ${seconds * 1_000}
  const ask = () => new Promise((resolve, reject) => {
    const askedAt = performance.now()
    http.get({ host: '${PUBLIC}', path: '/?kept=1', agent }, (answer) => answer.resume().on('end', () => { times.push(performance.now() - askedAt); resolve() })).on('error', reject)
  })
  const askOn = async () => { while (performance.now() < until) await ask() }
  Promise.all(Array.from({ length: ${CONNECTIONS} }, askOn)).then(() => {
    times.sort((a, b) => a - b)
    console.log(JSON.stringify({ count: times.length, p50Ms: times[Math.floor(times.length * 0.5)], p99Ms: times[Math.floor(times.length * 0.99)] })); process.exit()
  })`

/** Requests from a sandbox to a public host, in networks that are cut off from everything. Needs root. */
export const functionEgress: Suite = {
  name: 'function-egress',
  work: `requests from within a sandbox to a public host, ${CONNECTIONS} connections, carried by a link of the kernel and by pasta`,
  async prepare(lab) {
    const network = await openTestNetwork()
    lab.onClose(() => network.close())
    const folder = await lab.makeFolder()
    const trialOf = async (kind: NetworkKind): Promise<Trial> => {
      const settings = JSON.stringify({ folder: join(folder, kind), mode: 'required', network: kind })
      // Both are in one namespace: the first alone listens at its addresses.
      const program = await network.startProgram<Request>(machine, [settings, kind === 'veth' ? OWN : ''])
      return {
        name: kind,
        async measure(seconds) {
          const code = askFor(seconds)
          const said = (await program.ask({ kind: 'run', name: 'asking', networkId: 'asking', code })) as string
          const { count, ...times } = JSON.parse(said) as { count: number; p50Ms: number; p99Ms: number }
          return { perSecond: count / seconds, ...times }
        },
      }
    }
    return {
      ours: await trialOf('veth'),
      peers: [{ ...(await trialOf('pasta')), aim: { throughputRatioMin: 1 } }],
    }
  },
}
