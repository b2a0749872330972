import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { moveTo } from '../cores.ts'
import { deployFunctions, type FunctionSite, WHO } from '../function-site.ts'
import { processTree } from '../process-costs.ts'
import { sendPacedLoad } from '../send-paced-load.ts'
import type { Suite, Trial } from '../suite.ts'

const PER_SECOND = 200
const hello = `${WHO}export default (req, res) => res.end(req.url.endsWith('?who') ? who : 'hello')`

const answering = (code: string): string =>
  `${WHO}\n${code}\nexport default (req, res) => { if (req.url.endsWith('?who')) return res.end(who); work(req, res) }`

/** Goes on for ever, until the platform ends it. */
const loop = answering('const work = () => { for (;;); }')
const children = answering(`
  import { spawn } from 'node:child_process'
  let running = []
  const work = (req, res) => {
    for (const child of running) child.kill('SIGKILL')
    running = req.url.endsWith('?stop') ? [] : Array.from({ length: 8 }, () => spawn('sh', ['-c', 'while :; do :; done']))
    res.end('done')
  }`)
/** Takes more and more, a megabyte at a time, until it is refused or ended. */
const memory = answering(`
  const work = (req, res) => {
    const held = []
    const take = () => { for (let n = 0; n < 16; n++) held.push(Buffer.alloc(1048576, 1)); setImmediate(take) }
    take()
  }`)

const LOOPS = ['loop-0', 'loop-1', 'loop-2', 'loop-3']

interface Neighbour {
  stop(): Promise<unknown>
}

/** A loop that is nothing of the platform's, of the class that the kernel runs last: no neighbour disturbs less. */
async function startIdleLoop(): Promise<Neighbour> {
  const loop = spawn('chrt', ['--idle', '0', 'sh', '-c', 'while :; do :; done'], { stdio: 'ignore' })
  await once(loop, 'spawn')
  return {
    async stop() {
      const ended = once(loop, 'exit')
      loop.kill('SIGKILL')
      await ended
    },
  }
}

/** Keeps asking Functions that never answer; each is asked again once the platform has ended its slot. */
function askAgainAndAgain(site: FunctionSite, names: readonly string[]): Neighbour {
  const over = new AbortController()
  const asking = names.map(async (name) => {
    while (!over.signal.aborted) {
      const { status } = await site.ask(`/${name}`)
      if (status < 500) throw new Error(`${name} answered ${status}`)
      await sleep(50)
    }
  })
  return {
    async stop() {
      over.abort()
      await Promise.all(asking)
    },
  }
}

/** start: sets the neighbour to work, and resolves once it is at it. */
const suiteOf = (
  name: string,
  what: string,
  codes: Record<string, string>,
  start: (site: FunctionSite) => Promise<Neighbour>,
): Suite => ({
  name,
  work: `${PER_SECOND} requests a second of a Function that says hello, beside another deployment that ${what}, alone, and beside a bare loop of the kernel's lowest class`,
  async prepare(lab) {
    const platform = await lab.platform()
    // Nothing is pinned: both deployments run on all cores, as in production.
    moveTo('any', processTree(platform.apiPid))
    const site = await deployFunctions(lab, { hello }, 'any')
    const neighbour = await deployFunctions(lab, codes, 'any')
    const order = {
      method: 'GET' as const,
      url: `${platform.edgeOrigin}/hello`,
      headers: { host: site.host },
      forms: Array<string>(PER_SECOND).fill(''),
      perSecond: PER_SECOND,
    }
    const trial = (trialName: string, beside?: () => Promise<Neighbour>): Trial => ({
      name: trialName,
      pid: platform.apiPid,
      isAlone: true,
      async measure(seconds) {
        const work = await beside?.()
        try {
          const [result] = await sendPacedLoad([order], seconds, lab.env)
          if (!result || Object.keys(result.statuses).join() !== '200')
            throw new Error(`The Function answered ${JSON.stringify(result?.statuses)}`)
          return result
        } finally {
          await work?.stop()
        }
      },
    })
    return {
      ours: trial('beside', () => start(neighbour)),
      peers: [
        { ...trial('alone'), aim: { p99RatioMax: 1.25 } },
        { ...trial('kernel', startIdleLoop), aim: {} },
      ],
    }
  },
})

export const neighbourLoops: Suite = suiteOf(
  'neighbour-loops',
  `loops for ever in ${LOOPS.length} slots`,
  Object.fromEntries(LOOPS.map((name) => [name, loop])),
  async (site) => {
    const loops = askAgainAndAgain(site, LOOPS)
    await sleep(500)
    return loops
  },
)

export const neighbourChildren: Suite = suiteOf(
  'neighbour-children',
  'has 8 children that loop',
  { children },
  async (site) => {
    await site.ask('/children?start')
    return { stop: () => site.ask('/children?stop') }
  },
)

export const neighbourMemory: Suite = suiteOf(
  'neighbour-memory',
  'allocates up to its limit, again and again',
  { memory },
  async (site) => askAgainAndAgain(site, ['memory']),
)
