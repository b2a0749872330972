import { strictEqual } from 'node:assert/strict'
import { moveTo } from '../cores.ts'
import { activateFunctions } from '../function-site.ts'
import type { Lab } from '../lab.ts'
import { processTree } from '../process-costs.ts'
import { sendLoad } from '../send-load.ts'
import { textOf } from '../storage.ts'
import type { Suite } from '../suite.ts'

const BYTES = 4_096
const CONNECTIONS = 64
/** How long the page of `isrRenewal` is fresh, in seconds. */
const FRESH_SECONDS = 1

const same = `const text = ${JSON.stringify(textOf(BYTES))}
export default (req, res) => {
  res.setHeader('content-type', 'text/plain; charset=utf-8')
  res.end(text)
}`

/** How often it was called. */
const counting = `let calls = 0
export default (req, res) => res.end(String(++calls).padEnd(${BYTES}))`

/** A Function whose answers are kept at some paths and not at others, and a file of the same bytes. */
async function preparePages(lab: Lab) {
  const platform = await lab.platform()
  const kept = (more: object) => JSON.stringify({ expiration: 3_600, ...more })
  const { host, ask } = await activateFunctions(
    lab,
    { page: same, own: same, fresh: counting },
    {},
    {
      'static/file.txt': textOf(BYTES),
      'functions/page.prerender-config.json': kept({}),
      'functions/fresh.prerender-config.json': kept({ expiration: FRESH_SECONDS, allowQuery: [] }),
    },
  )
  for (const path of ['/page', '/fresh', '/own', '/file.txt', '/page']) strictEqual((await ask(path)).status, 200, path)
  moveTo(
    'load',
    processTree(platform.apiPid).filter((pid) => pid !== platform.apiPid),
  )
  return { host, ask, edge: { origin: platform.edgeOrigin, pid: platform.apiPid, isAlone: true } }
}

const load = (host: string, path: string, addressBlock: number) =>
  ({ method: 'GET', path, headers: async () => ({ host }), addressBlock, connections: CONNECTIONS }) as const

async function check(name: string, answer: Response): Promise<void> {
  strictEqual(await answer.text(), textOf(BYTES), name)
}

/** A page that is kept, against a file: both come from the edge's memory. */
export const isrHit: Suite = {
  name: 'isr-hit',
  work: `GET of a kept page of ${BYTES} bytes, and of a file of as many at the same edge, logged`,
  async prepare(lab) {
    const { host, edge } = await preparePages(lab)
    return {
      load: load(host, '/page', 80),
      ours: { name: 'page', ...edge },
      peers: [{ name: 'file', ...edge, path: '/file.txt', aim: { cpuRatioMax: 1.3 } }],
      check,
    }
  },
}

/** A page that is made and stored for each request, against the Function by itself. */
export const isrMiss: Suite = {
  name: 'isr-miss',
  work: `GET of a page of ${BYTES} bytes that was never asked for, and of what the same Function answers without being kept`,
  async prepare(lab) {
    const { host, edge } = await preparePages(lab)
    return {
      load: { ...load(host, '/page?n={request}', 81), connections: 16 },
      ours: { name: 'miss', ...edge },
      peers: [{ name: 'function', ...edge, path: '/own', aim: {} }],
      check,
    }
  },
}

/** A page that has to be made anew each second, under load: how often its Function is called. */
export const isrRenewal: Suite = {
  name: 'isr-renewal',
  work: `GET of a page that is fresh for ${FRESH_SECONDS} s, and of one that stays fresh`,
  async prepare(lab) {
    const { host, ask, edge } = await preparePages(lab)
    const trial = (name: string, path: string, addressBlock: number) => ({
      name,
      pid: edge.pid,
      isAlone: true,
      async measure(seconds: number) {
        const callsOf = async () => Number((await ask('/fresh')).body)
        const before = await callsOf()
        const result = await sendLoad(
          {
            origin: edge.origin,
            path,
            method: 'GET',
            credentials: undefined,
            headers: { host },
            body: undefined,
            forms: undefined,
            addressBlock,
            connections: CONNECTIONS,
            seconds,
          },
          lab.env,
        )
        const calls = (await callsOf()) - before
        return {
          perSecond: result.requests / result.seconds,
          seconds: result.seconds,
          ...(result.p50Ms !== undefined && { p50Ms: result.p50Ms }),
          ...(result.p99Ms !== undefined && { p99Ms: result.p99Ms }),
          ...(path === '/fresh' && { facts: { 'renewals a second': calls / result.seconds } }),
        }
      },
    })
    return {
      ours: trial('renewed', '/fresh', 82),
      peers: [{ ...trial('fresh', '/page', 83), aim: {} }],
    }
  },
}
