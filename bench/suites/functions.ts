import { strictEqual } from 'node:assert/strict'
import {
  type ClientRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
  type RequestOptions,
} from 'node:http'
import type { Socket } from 'node:net'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { deployFunctions, WHO } from '../function-site.ts'
import { percentiles } from '../percentiles.ts'
import { proportionalMemoryOf } from '../process-costs.ts'
import type { Suite, Trial } from '../suite.ts'

const proxy = fileURLToPath(import.meta.resolve('../peers/bare-proxy.ts'))
const hello = `${WHO}export default (req, res) => res.end(req.url.endsWith('?who') ? who : 'hello')`

/** What the edge adds to a Function that does nothing. */
export const functions: Suite = {
  name: 'function',
  work: 'GET of a Function that says hello at the hostname of its deployment, logged',
  async prepare(lab) {
    const { host, sockets } = await deployFunctions(lab, { hello }, 'load')
    const platform = await lab.platform()
    const peer = await lab.startPeer('The bare proxy', proxy, { socketPath: sockets['hello'] })
    return {
      load: { method: 'GET', path: '/hello', headers: async () => ({ host }), addressBlock: 61, connections: 64 },
      ours: { name: 'ours', origin: platform.edgeOrigin, pid: platform.apiPid, isAlone: true },
      peers: [{ name: 'bare', ...peer, isAlone: true, aim: { cpuRatioMax: 1.5 } }],
      async check(server, answer) {
        strictEqual(await answer.text(), 'hello', server)
      },
    }
  },
}

const SOCKETS = 16
const MESSAGE_BYTES = 32

const echo = `${WHO}
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
const server = createServer((req, res) => res.end(who))
server.on('upgrade', (req, socket) => {
  const accept = createHash('sha1').update(req.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ' + accept + '\\r\\n\\r\\n')
  socket.setNoDelay(true)
  socket.on('data', (frame) => {
    const text = Buffer.from(frame.subarray(6).map((byte, n) => byte ^ frame[2 + (n % 4)]))
    socket.write(Buffer.concat([Buffer.from([0x81, text.length]), text]))
  })
  socket.on('error', () => {})
})
export default server`

/** A frame of text with a mask, whose bytes are the same masked or not. */
const frame = Buffer.concat([Buffer.from([0x81, 0x80 | MESSAGE_BYTES, 0, 0, 0, 0]), Buffer.alloc(MESSAGE_BYTES, 'a')])
const answered = Buffer.concat([Buffer.from([0x81, MESSAGE_BYTES]), Buffer.alloc(MESSAGE_BYTES, 'a')])

async function openSocket(to: RequestOptions): Promise<Socket> {
  const headers = {
    ...(to.headers as OutgoingHttpHeaders),
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
  }
  const sent = request({ ...to, headers, agent: false }).end()
  const [answer, socket] = (await once(sent, 'upgrade')) as [IncomingMessage, Socket]
  strictEqual(answer.headers['sec-websocket-accept'], 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=')
  return socket.setNoDelay(true)
}

/** Each socket sends its next message when the last has come back. */
const echoTrial = (name: string, pid: number, to: RequestOptions): Trial => ({
  name,
  pid,
  isAlone: true,
  async measure(seconds) {
    const sockets = await Promise.all(Array.from({ length: SOCKETS }, () => openSocket(to)))
    const took: number[] = []
    const startedAt = performance.now()
    let isOver = false
    for (const socket of sockets) {
      let sentAt = performance.now()
      let received = 0
      socket.on('data', (chunk: Buffer) => {
        received += chunk.length
        if (received < answered.length) return
        received = 0
        const now = performance.now()
        took.push(now - sentAt)
        sentAt = now
        if (!isOver) socket.write(frame)
      })
      socket.write(frame)
    }
    await sleep(seconds * 1_000)
    isOver = true
    const elapsed = (performance.now() - startedAt) / 1_000
    for (const socket of sockets) socket.destroy()
    return { perSecond: took.length / elapsed, seconds: elapsed, ...percentiles(took) }
  },
})

/** Messages of WebSockets, each answered before the next is sent. */
export const functionSockets: Suite = {
  name: 'function-sockets',
  work: `a WebSocket message of ${MESSAGE_BYTES} bytes and its echo, ${SOCKETS} sockets`,
  async prepare(lab) {
    const { host, sockets } = await deployFunctions(lab, { echo }, 'load')
    const platform = await lab.platform()
    const socketPath = sockets['echo'] ?? ''
    const peer = await lab.startPeer('The bare proxy', proxy, { socketPath })
    const { port } = new URL(platform.edgeOrigin)
    const path = '/echo'
    const bare = { host: '127.0.0.1', port: new URL(peer.origin).port, path }
    const direct = echoTrial('direct', 0, { socketPath, path })
    return {
      ours: echoTrial('ours', platform.apiPid, { host: '127.0.0.1', port, path, headers: { host } }),
      peers: [
        { ...echoTrial('bare', peer.pid, bare), aim: {} },
        { name: direct.name, measure: direct.measure, aim: {} },
      ],
    }
  },
}

const STREAMS = 1_000
const EVENT_MS = 1_000

const events = `${WHO}
export default (req, res) => {
  if (req.url.endsWith('?who')) return res.end(who)
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  const send = () => res.write('data: ' + (performance.timeOrigin + performance.now()) + '\\n\\n')
  send()
  const timer = setInterval(send, ${EVENT_MS})
  res.on('close', () => clearInterval(timer))
}`

async function openStream(to: RequestOptions): Promise<{ sent: ClientRequest; answer: IncomingMessage }> {
  const sent = request({ ...to, agent: false }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  if (answer.statusCode !== 200) throw new Error(`A stream was answered ${answer.statusCode}`)
  return { sent, answer }
}

/** Streams that stay open, and an event a second on each. The memory is of the first time: later ones use it again. */
function streamTrial(name: string, pid: number, to: RequestOptions): Trial {
  let memory: Record<string, number> | undefined
  return {
    name,
    pid,
    isAlone: true,
    async measure(seconds) {
      const before = proportionalMemoryOf([pid])
      const streams: ClientRequest[] = []
      const late: number[] = []
      for (let n = 0; n < STREAMS; n += 50) {
        const opened = await Promise.all(Array.from({ length: 50 }, () => openStream(to)))
        for (const { sent, answer } of opened) {
          streams.push(sent)
          answer.setEncoding('utf8').on('data', (chunk: string) => {
            const now = performance.timeOrigin + performance.now()
            for (const [, sentAt] of chunk.matchAll(/data: ([\d.]+)/g)) late.push(now - Number(sentAt))
          })
          answer.on('error', () => {})
        }
        // Their events are as far apart.
        await sleep(EVENT_MS / (STREAMS / 50))
      }
      late.length = 0
      await sleep(seconds * 1_000)
      memory ??= { 'KB a stream': ((proportionalMemoryOf([pid]) - before) * 1_024) / STREAMS }
      const result = { perSecond: late.length / seconds, seconds, ...percentiles(late), facts: memory }
      for (const stream of streams) stream.destroy()
      return result
    },
  }
}

/** What open streams of events take, and how late their events are. */
export const functionStreams: Suite = {
  name: 'function-streams',
  isLarge: true,
  work: `${STREAMS} streams of events that are open, an event each second on each; times are of one event`,
  async prepare(lab) {
    // A slot takes 200 requests at once, and a plan has two slots.
    const names = Array.from({ length: 8 }, (_, n) => `events-${n}`)
    const { host, sockets } = await deployFunctions(
      lab,
      Object.fromEntries(names.map((name) => [name, events])),
      'load',
    )
    const platform = await lab.platform()
    const peer = await lab.startPeer('The bare proxy', proxy, { socketPath: sockets[names[0] ?? ''] })
    const { port } = new URL(platform.edgeOrigin)
    let opened = 0
    const ours: RequestOptions = {
      host: '127.0.0.1',
      port,
      headers: { host },
      get path() {
        return `/${names[opened++ % names.length]}`
      },
    }
    return {
      ours: streamTrial('ours', platform.apiPid, ours),
      peers: [
        {
          ...streamTrial('bare', peer.pid, { host: '127.0.0.1', port: new URL(peer.origin).port, path: '/' }),
          aim: {},
        },
      ],
    }
  },
}
