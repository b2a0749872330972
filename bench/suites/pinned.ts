import { notStrictEqual, strictEqual } from 'node:assert/strict'
import { moveTo } from '../cores.ts'
import { deployFunctions, WHO } from '../function-site.ts'
import type { Lab } from '../lab.ts'
import { processTree } from '../process-costs.ts'
import type { Suite } from '../suite.ts'

/** Says hello; `?mint=` has it mint a sticky URL of itself for that key. */
const pinnable = `${WHO}
const { PLATFORM_API_URL: api, PLATFORM_CLIENT_ID: client_id, PLATFORM_CLIENT_SECRET: client_secret } = process.env
const post = async (path, init) => (await fetch(api + path, { method: 'POST', ...init })).json()
async function mint(key) {
  const form = new URLSearchParams({ grant_type: 'client_credentials', client_id, client_secret })
  const { access_token: token } = await post('/oauth2/token', { body: form })
  const headers = { authorization: 'Bearer ' + token, 'content-type': 'application/json' }
  const body = JSON.stringify({ endpoint: '/pinnable', key, expiresInSeconds: 86400 })
  return (await post('/sticky-sessions/urls', { headers, body })).url
}
export default (req, res) => {
  const [, key] = req.url.split('?mint=')
  if (key !== undefined) return mint(key).then((url) => res.end(url))
  res.end(/[?&]who$/.test(req.url) ? who : 'hello')
}`

/** A Function and three of its URLs, all asked of the first edge; both edges count in each. */
async function preparePins(lab: Lab) {
  const platform = await lab.platform()
  const { host, ask } = await deployFunctions(lab, { pinnable }, 'load')
  const other = await platform.startAnotherEdge()
  const path = '/pinnable'
  /** The edge that is asked first for a pin has it. */
  async function mintAt(origin: string, key: string): Promise<{ path: string; slot: string }> {
    const { body } = await ask(`${path}?mint=${key}`)
    const { pathname, search } = new URL(body)
    const { body: slot } = await ask(`${pathname}${search}&who`, origin)
    return { path: pathname + search, slot }
  }
  const own = await mintAt(platform.edgeOrigin, 'own')
  const others = await mintAt(other.origin, 'others')
  notStrictEqual(own.slot, others.slot)
  for (const each of [own, others]) strictEqual((await ask(`${each.path}&who`)).body, each.slot)
  moveTo(
    'load',
    processTree(other.pid).filter((pid) => pid !== other.pid),
  )
  const edge = { origin: platform.edgeOrigin, pid: platform.apiPid, behind: other.pid, isAlone: true }
  return {
    // A slot with 50 requests under way gets a second one beside it.
    load: { method: 'GET' as const, path, headers: async () => ({ host }), addressBlock: 68, connections: 32 },
    ordinary: { name: 'ordinary', ...edge },
    own: { name: 'own pin', ...edge, path: own.path },
    others: { name: "another edge's pin", ...edge, path: others.path },
    async check(name: string, answer: Response) {
      strictEqual(await answer.text(), 'hello', name)
    },
  }
}

/** What a sticky URL costs whose slot is on the edge that is asked. */
export const pinned: Suite = {
  name: 'pinned',
  work: 'GET of a Function that says hello, by a sticky URL whose slot the asked edge has, and by an ordinary one',
  async prepare(lab) {
    const { load, own, ordinary, check } = await preparePins(lab)
    return { load, ours: own, peers: [{ ...ordinary, aim: {} }], check }
  },
}

/** What a sticky URL costs whose slot is on another edge. */
export const pinnedElsewhere: Suite = {
  name: 'pinned-elsewhere',
  work: 'GET of a Function that says hello, by a sticky URL whose slot another edge has; CPU is of both edges',
  async prepare(lab) {
    const { load, own, ordinary, others, check } = await preparePins(lab)
    return { load, ours: others, peers: [ordinary, own].map((peer) => ({ ...peer, aim: {} })), check }
  },
}
