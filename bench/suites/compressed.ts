import { ok, strictEqual } from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import { deployFunctions, WHO } from '../function-site.ts'
import { processTree } from '../process-costs.ts'
import type { Suite } from '../suite.ts'

const nginx = fileURLToPath(import.meta.resolve('../peers/nginx-gzip.ts'))

/** Text that repeats itself about as much as pages and lists do: `random` follows a fixed sequence. */
const texts = `
let seed = 7
const random = (n) => (seed = (seed * 48271) % 2147483647) % n
const words = Array.from({ length: 150 }, () => Array.from({ length: 3 + random(7) }, () => 'etaoinshrdlu'[random(12)]).join(''))
const some = (n) => Array.from({ length: n }, () => words[random(150)]).join(' ')
const page = '<!doctype html><html><head><title>' + some(4) + '</title></head><body>' + Array.from({ length: 70 }, (_, n) =>
  '<article class="card card--wide"><h2><a href="/posts/' + n + '">' + some(4) + '</a></h2><p class="card__text">' + some(14) + '</p></article>').join('') + '</body></html>'
const list = JSON.stringify(Array.from({ length: 470 }, (_, n) => ({ id: 1000 + n, name: some(2), email: words[random(150)] + '@example.com',
  createdAt: new Date(1.7e12 + random(1e9) * 10).toISOString(), tags: [words[n % 5], words[n % 7]], isActive: n % 3 === 0, text: some(4) })))
const bodies = { page: [page, 'text/html'], list: [list, 'application/json'], short: ['a'.repeat(1000), 'text/html'] }`

const answering = `${WHO}${texts}
export default (req, res) => {
  if (req.url.endsWith('?who')) return res.end(who)
  const [body, type] = bodies[new URL(req.url, 'http://x').pathname.slice(1)]
  res.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body)
}`

/** encoding: what the client accepts; undefined: nothing. */
const suiteOf = (
  name: string,
  of: string,
  what: string,
  encoding: string | undefined,
  cpuRatioMax?: number,
): Suite => ({
  name,
  work: `GET of ${what} that a Function makes, ${encoding === undefined ? 'uncompressed' : `accepting ${encoding}`}, logged`,
  async prepare(lab) {
    const { host, sockets } = await deployFunctions(lab, { [of]: answering }, 'load')
    const platform = await lab.platform()
    const startNginx = async (server: string) => {
      const { origin, pid } = await lab.startPeer('nginx', nginx, { folder: await lab.makeFolder(), server })
      // Its worker alone, so that the slots of the edge behind it do not count either.
      return { origin, pid: processTree(pid).at(-1), isAlone: true }
    }
    const peer = await startNginx(`unix:${sockets[of]}`)
    const proxy = await startNginx(new URL(platform.edgeOrigin).host)
    return {
      load: {
        method: 'GET',
        path: `/${of}`,
        headers: async () => ({ host, ...(encoding !== undefined && { 'accept-encoding': encoding }) }),
        addressBlock: 63,
        connections: 64,
      },
      ours: { name: 'ours', origin: platform.edgeOrigin, pid: platform.apiPid, isAlone: true },
      peers: [
        { name: 'nginx', ...peer, aim: { ...(cpuRatioMax !== undefined && { cpuRatioMax }) } },
        // What operators had to run before: nginx compresses what the edge sends as it is.
        { name: 'nginx + edge', ...proxy, behind: platform.apiPid, aim: {} },
      ],
      async check(server, answer) {
        if (encoding !== undefined) ok(answer.headers.get('content-encoding'), server)
        // nginx adds its own to the edge's.
        const vary = answer.headers.get('vary')?.split(', ')[0]
        strictEqual(vary, of === 'short' ? undefined : 'Accept-Encoding', server)
      },
    }
  },
})

/** Against nginx with gzip at level 5 in front of the same Function, and in front of the edge. */
export const compressedPage = suiteOf('compressed-page', 'page', 'a page of 16 kB', 'gzip', 1.5)
export const compressedPageBr = suiteOf('compressed-page-br', 'page', 'a page of 16 kB', 'br, gzip', 1.5)
export const compressedList = suiteOf('compressed-list', 'list', '84 kB of JSON', 'gzip', 1.5)
export const compressedListBr = suiteOf('compressed-list-br', 'list', '84 kB of JSON', 'br, gzip', 1.5)
export const uncompressedPage = suiteOf('uncompressed-page', 'page', 'a page of 16 kB', undefined)
export const uncompressedShort = suiteOf('uncompressed-short', 'short', 'a page of 1,000 bytes', 'br, gzip')
