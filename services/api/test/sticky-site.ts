import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import type { TestPlatform } from '@platform/testing/platform'
import { visit } from './deploy.ts'
import { logOf, newDeployment, untilEnded } from './deployments.ts'
import { buildOutput } from './functions.ts'
import type { Owner } from './scenario.ts'

/** An http.Server that tells which process answers, mints sticky URLs, streams events and echoes what a WebSocket says. */
const site = `
import { createServer } from 'node:http'
import { randomUUID } from 'node:crypto'
import { fstatSync, openSync, writeSync } from 'node:fs'
import { getCompileCacheDir } from 'node:module'
// No start after a visit of /break succeeds. Its reason is text that no URL can hold.
// Opened by each slot, since the folder belongs to the slot that started last.
const broken = openSync(getCompileCacheDir() + '/broken', 'a+')
if (fstatSync(broken).size > 0) throw new Error('\\ud800')
const instance = randomUUID()
let visits = 0
let streams = 0
// Megabytes of /long.
let sent = 0
let token
const { PLATFORM_API_URL: api, PLATFORM_CLIENT_ID: client_id, PLATFORM_CLIENT_SECRET: client_secret } = process.env
const post = (path, init) => fetch(api + path, { method: 'POST', ...init })
async function mint(wish) {
  token ??= post('/oauth2/token', { body: new URLSearchParams({ grant_type: 'client_credentials', client_id, client_secret }) })
    .then((answer) => answer.json())
  const headers = { authorization: 'Bearer ' + (await token).access_token, 'content-type': 'application/json' }
  return post('/sticky-sessions/urls', { headers, body: wish })
}
const held = new Set()
export default createServer(async (req, res) => {
  const { pathname } = new URL(req.url, 'http://site')
  const chunks = []
  try {
    for await (const chunk of req) chunks.push(chunk)
  } catch {
    return
  }
  const body = Buffer.concat(chunks)
  switch (pathname) {
    case '/mint': {
      const answer = await mint(body)
      res.statusCode = answer.status
      return res.end(await answer.text())
    }
    case '/long': {
      sent = 0
      const chunk = Buffer.alloc(1_000_000)
      const go = () => {
        while (sent < 100) {
          sent += 1
          if (!res.write(chunk)) return res.once('drain', go)
        }
        res.end()
      }
      return go()
    }
    case '/sent':
      return res.end(String(sent))
    case '/streams':
      return res.end(String(streams))
    case '/forged':
      res.setHeader('x-platform-failure', 'function_crashed forged')
      return res.end()
    case '/events':
      streams += 1
      res.once('close', () => (streams -= 1))
      res.setHeader('content-type', 'text/event-stream')
      res.write('data: ' + instance + '\\n\\n')
      return
    case '/busy': {
      for (const until = Date.now() + 150; Date.now() < until; );
      return res.end(instance)
    }
    case '/hold':
      held.add(res)
      return
    case '/held':
      return res.end(String(held.size))
    case '/release':
      for (const each of held) each.end(instance)
      held.clear()
      return res.end()
    case '/break':
      writeSync(broken, 'broken')
      process.exit(1)
    case '/exit':
      process.exit(1)
    case '/policy':
      res.setHeader('referrer-policy', 'no-referrer')
      return res.end()
    case '/cached':
      res.setHeader('cache-control', 's-maxage=600')
      break
  }
  visits += 1
  res.setHeader('content-type', 'application/json')
  res.end(JSON.stringify({
    instance, visits, method: req.method, url: req.url, bytes: body.length,
    isRestarted: req.headers['x-sticky-restarted'] === '1', headers: req.headers,
  }))
}).on('upgrade', (req, socket, head) => {
  if (req.url === '/refusing') return socket.end('HTTP/1.1 426 Upgrade Required\\r\\ncontent-length: 20000000\\r\\n\\r\\n' + 'x'.repeat(2e7))
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nconnection: upgrade\\r\\nupgrade: websocket\\r\\nx-instance: ' + instance + '\\r\\n\\r\\n')
  socket.write(head)
  socket.pipe(socket)
  socket.on('error', () => {})
})
`

/** Which process answered, and how it was asked. */
export interface Who {
  instance: string
  visits: number
  method: string
  url: string
  bytes: number
  isRestarted: boolean
  headers: Record<string, string>
}

interface Place {
  edgeUrl: string
}

interface StickySite {
  id: string
  host: string
  /** Has the Function itself mint a URL; returns its path and query. */
  mint: (wish: { key: string; endpoint?: string; method?: string; expiresInSeconds?: number }) => Promise<string>
  /** Asks for a path and says which process answered. */
  who: (path: string, at?: Place, options?: Parameters<typeof visit>[3]) => Promise<Who>
}

export async function deployStickySite(platform: TestPlatform, owner: Owner): Promise<StickySite> {
  const files = { 'note.txt': 'a file' }
  const archive = buildOutput({ index: site }, { files, routes: [{ handle: 'filesystem' }, { src: '/.*', dest: '/' }] })
  const { id } = await newDeployment(platform, owner, { archive })
  const deployment = await untilEnded(platform, id)
  if (deployment.status !== 'ACTIVE') throw new Error(`${deployment.failureReason}\n${await logOf(platform, id)}`)
  const host = `${deployment.label}.${platform.api.appsUrl.host}`
  return {
    id,
    host,
    async mint({ endpoint = '/who', ...wish }) {
      const body = JSON.stringify({ endpoint, ...wish })
      const answer = await visit(platform, host, '/mint', { method: 'POST', body })
      if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
      const { pathname, search } = new URL((JSON.parse(answer.text) as { url: string }).url)
      return pathname + search
    },
    async who(path, at = platform, options = {}) {
      const answer = await visit(at, host, path, options)
      if (answer.status !== 200) throw new Error(`${answer.status} ${String(answer.headers['x-platform-error'])}`)
      return JSON.parse(answer.text) as Who
    },
  }
}

/** Opens a stream of events; says which process sends them. */
export async function openEvents({ edgeUrl }: Place, host: string, path: string) {
  const sent = request({ port: new URL(edgeUrl).port, host: 'localhost', path, headers: { host } }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const [first] = (await once(answer, 'data')) as [Buffer]
  const ended = new Promise<void>((resolve) => answer.once('close', resolve).on('error', () => {}))
  return {
    instance: first.toString().slice('data: '.length).trim(),
    async next(): Promise<string> {
      const [chunk] = (await once(answer, 'data')) as [Buffer]
      return chunk.toString()
    },
    ended,
    close: () => void sent.destroy(),
  }
}

/** Opens a WebSocket, whose frames are any bytes here; says which process has it, and what it echoes. */
export async function openSocket({ edgeUrl }: Place, host: string, path: string) {
  const headers = { host, connection: 'upgrade', upgrade: 'websocket' }
  const sent = request({ port: new URL(edgeUrl).port, host: 'localhost', path, headers, agent: false }).end()
  const [answer, socket] = (await Promise.race([
    once(sent, 'upgrade'),
    once(sent, 'response').then(([refused]: IncomingMessage[]) => {
      throw new Error(`refused with ${refused?.statusCode}`)
    }),
  ])) as [IncomingMessage, Socket]
  socket.on('error', () => {})
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  return {
    instance: String(answer.headers['x-instance']),
    async echo(text: string): Promise<string> {
      socket.write(text)
      const [got] = (await once(socket, 'data')) as [Buffer]
      return got.toString()
    },
    ended,
    close: () => void socket.destroy(),
  }
}
