import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Lab } from '../lab.ts'
import type { StartOrder, StartResult } from '../start-functions.ts'
import type { Suite, Trial } from '../suite.ts'

const program = fileURLToPath(import.meta.resolve('../start-functions.ts'))
/** An uplink for pasta to find, with nothing behind it. */
const network = [
  'ip link set lo up',
  'ip link add up0 type veth peer name up1',
  'ip address add 203.0.113.2/24 dev up0',
  'ip link set up0 up',
  'ip link set up1 up',
  'ip route add default via 203.0.113.1',
  'exec "$@"',
].join('\n')

/** Starts the program that starts Functions, and measures orders to it. */
async function startTrials(lab: Lab): Promise<(name: string, order: StartOrder) => Trial> {
  const args = ['--net', 'sh', '-ec', network, 'sh', process.execPath, program, await lab.makeFolder()]
  const child = spawn('unshare', args, { env: lab.env, stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.on('error', () => {}) // it ended, which is seen below
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  lab.onClose(async () => {
    child.stdin.end()
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
  async function start(order: StartOrder): Promise<StartResult> {
    child.stdin.write(`${order}\n`)
    const { value, done } = await lines.next()
    if (done === true) throw new Error('The program that starts Functions has ended')
    return JSON.parse(value) as StartResult
  }
  const trial = (name: string, order: StartOrder): Trial => ({
    name,
    async measure(seconds) {
      const results: StartResult[] = []
      const startedAt = performance.now()
      while (performance.now() - startedAt < seconds * 1_000 || results.length === 0) results.push(await start(order))
      const times = results.map(({ tookMs }) => tookMs).toSorted((a, b) => a - b)
      const percentile = (share: number) => times[Math.floor(share * (times.length - 1))] ?? 0
      const memories = results.map(({ memoryMb }) => memoryMb).toSorted((a, b) => a - b)
      return {
        perSecond: 1_000 / percentile(0.5),
        p50Ms: percentile(0.5),
        p99Ms: percentile(0.99),
        facts: { 'PSS MB after one request': memories[Math.floor(memories.length / 2)] ?? 0 },
      }
    },
  })
  return trial
}

/** From the request for a Function that has no slot to the first byte of its answer. Its code was compiled before. Needs root. */
export const functionStart: Suite = {
  name: 'function-start',
  work: 'the first byte of a Function that has no slot, its network kept from an earlier one',
  async prepare(lab) {
    const trial = await startTrials(lab)
    return {
      ours: trial('ours', 'kept'),
      peers: [
        { ...trial('bwrap node serve.mjs', 'bare'), aim: { p50RatioMax: 1.5 } },
        { ...trial('bwrap node print.mjs', 'printed'), aim: {} },
        { ...trial('ours, new network', 'new'), aim: {} },
      ],
    }
  },
}

/** Pages of the fixtures that a Function makes, by folder. */
const PAGES = { next: '/', 'next-ppr': '/', astro: '/live/echo', nitro: '/api/hello' }

/** The same of what frameworks build: of the fixtures' projects, built, in the folder that BENCH_FRAMEWORKS names. Needs root. */
export const frameworkStart: Suite = {
  name: 'framework-start',
  isLarge: true,
  work: 'the first byte of a page of a framework whose Function has no slot, and its memory then',
  async prepare(lab) {
    const { frameworks } = lab
    if (frameworks === undefined) throw new Error('BENCH_FRAMEWORKS has to name the folder of built fixtures')
    const trial = await startTrials(lab)
    return {
      ours: trial('hello', 'kept'),
      peers: Object.entries(PAGES).map(([name, path]) => ({
        ...trial(name, `of ${join(frameworks, name)} ${path}`),
        aim: {},
      })),
    }
  },
}
