import { startPlatform, type TestEdge, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { visit } from '../../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { buildOutput } from '../../../../test/functions.ts'
import { prerendered } from '../../../../test/prerender.ts'
import { newOwner } from '../../../../test/scenario.ts'

let platform: TestPlatform
let second: TestEdge
let host: string
/** A path whose visits at any edge go to a slot of the first one. */
let pinned: string

/** A letter in both encodings, as a header value that Node or a Response holds: one character for each byte. */
const names = `{ 'x-utf8': Buffer.from('ü').toString('latin1'), 'x-latin1': 'ü' }`
/** The bytes of that letter, as they have to arrive. */
const sent = { 'x-utf8': [0xc3, 0xbc], 'x-latin1': [0xfc] }

/** Its answer comes in two pieces, so that its head goes ahead, with a length or without. */
const answering = `
  import { createServer } from 'node:http'
  const { PLATFORM_API_URL: api, PLATFORM_CLIENT_ID: client_id, PLATFORM_CLIENT_SECRET: client_secret } = process.env
  async function mint() {
    const body = new URLSearchParams({ grant_type: 'client_credentials', client_id, client_secret })
    const { access_token } = await (await fetch(api + '/oauth2/token', { method: 'POST', body })).json()
    const headers = { authorization: 'Bearer ' + access_token, 'content-type': 'application/json' }
    const wish = JSON.stringify({ key: 'bytes', endpoint: '/chunked' })
    return (await fetch(api + '/sticky-sessions/urls', { method: 'POST', headers, body: wish })).text()
  }
  const server = createServer(async (req, res) => {
    if (req.url === '/mint') return res.end(await mint())
    for (const [name, value] of Object.entries(${names})) res.setHeader(name, value)
    if (req.url === '/cached') res.setHeader('cache-control', 's-maxage=600')
    if (req.url === '/length') res.setHeader('content-length', 2)
    if (req.url === '/whole') return res.end(Buffer.from('ok'))
    res.write(Buffer.from('o'))
    setImmediate(() => res.end(Buffer.from('k')))
  })
  server.on('upgrade', (req, socket) => {
    const lines = ['HTTP/1.1 426 Upgrade Required', ...Object.entries(${names}).map((pair) => pair.join(': ')), '', '']
    socket.end(lines.join('\\r\\n'), 'latin1')
  })
  export default server`

/** Answers by itself, after its head. */
const middleware = `export default function (request) {
  const { pathname } = new URL(request.url)
  if (pathname === '/passed') return new Response(null, { headers: { 'x-middleware-next': '1', ...${names} } })
  if (pathname !== '/middleware') return new Response(null, { headers: { 'x-middleware-next': '1' } })
  const body = new ReadableStream({
    async start(controller) {
      // The head goes out in the first of these turns.
      for (let turn = 0; turn < 2; turn++) await new Promise((done) => setImmediate(done))
      controller.enqueue(new TextEncoder().encode('ok'))
      controller.close()
    },
  })
  return new Response(body, { headers: ${names} })
}`

beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true })
  second = await platform.addEdge()
  const ana = await newOwner(platform)
  const routes = [
    { src: '/(?:middleware|passed)', middlewarePath: '_middleware', continue: true },
    { handle: 'filesystem' },
    { src: '/.*', dest: '/control' },
  ]
  const archive = [
    ...prerendered({ kept: {} }, { code: answering, routes }),
    ...buildOutput({ _middleware: { code: middleware, config: { useWebApi: true } } }).slice(1),
  ]
  const { id } = await newDeployment(platform, ana, { archive })
  const deployment = await untilEnded(platform, id)
  if (deployment.status !== 'ACTIVE') throw new Error(await logOf(platform, id))
  host = `${deployment.label}.${platform.api.appsUrl.host}`
  const { url } = JSON.parse((await visit(platform, host, '/mint')).text) as { url: string }
  pinned = new URL(url).pathname + new URL(url).search
})
afterAll(() => platform.close())

const upgrade = { connection: 'upgrade', upgrade: 'websocket' }

type Case = [title: string, edge: 'here' | 'there', path: () => string, options: Parameters<typeof visit>[3]]
test.each<Case>([
  ['a Function that tells its length', 'here', () => '/length', {}],
  ['a Function that streams', 'here', () => '/chunked', {}],
  ['a Function that answers at once', 'here', () => '/whole', {}],
  ['a Function, without its body', 'here', () => '/chunked', { method: 'HEAD' }],
  ['a Function that refuses an upgrade', 'here', () => '/chunked', { headers: upgrade }],
  ['an answer that is not cached yet', 'here', () => '/cached', {}],
  ['a cached answer', 'here', () => '/cached', {}],
  ['a page that is made', 'here', () => '/kept', {}],
  ['a page that is kept', 'here', () => '/kept', {}],
  ['a middleware that answers by itself', 'here', () => '/middleware', {}],
  ['a middleware that lets a request pass', 'here', () => '/passed', {}],
  ['a slot of another edge', 'there', () => pinned, {}],
  ['a slot of another edge that refuses an upgrade', 'there', () => pinned, { headers: upgrade }],
])('header values of %s arrive with the bytes that were sent', async (_, edge, path, options) => {
  const { status, headers } = await visit(edge === 'here' ? platform : second, host, path(), options)
  const bytesOf = (name: string) => [...Buffer.from(String(headers[name]), 'latin1')]
  const expected = { status: options?.headers ? 426 : 200, ...sent }
  expect({ status, 'x-utf8': bytesOf('x-utf8'), 'x-latin1': bytesOf('x-latin1') }).toEqual(expected)
})
