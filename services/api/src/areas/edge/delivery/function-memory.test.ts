import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { visit } from '../../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { openDice } from '../../../../test/dice.ts'
import { buildOutput, handler } from '../../../../test/functions.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'

const MB = 1_048_576
const patience = { timeout: 60_000, interval: 100 }
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true, env: { DEFAULT_PLAN: 'pro' } })
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

async function deploy(functions: { index: string } | { middleware: string }, owner = ana) {
  const route =
    'index' in functions ? { src: '/.*', dest: '/' } : { src: '/.*', middlewarePath: 'middleware', continue: true }
  const archive = buildOutput(functions, { routes: [route] })
  const { id } = await newDeployment(platform, owner, { archive })
  const deployment = await untilEnded(platform, id)
  if (deployment.status !== 'ACTIVE') throw new Error(`${deployment.failureReason}\n${await logOf(platform, id)}`)
  return { id, host: `${deployment.label}.${platform.api.appsUrl.host}` }
}

/** Memory used by this process, which is the edge. */
function held(): number {
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** A client that sends a request and reads nothing of the answer. */
async function deafClient(head: string): Promise<Socket> {
  const socket = connect(Number(new URL(platform.edgeUrl).port), '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.pause()
  socket.write(head)
  return socket
}

/** Waits until a number is more than 0 and stops changing. */
async function settled(read: () => number | Promise<number>): Promise<void> {
  let before = -1
  let times = 0
  await vi.waitFor(async () => {
    const now = await read()
    times = now > 0 && now === before ? times + 1 : 0
    before = now
    if (times < 3) throw new Error(`It still changes or is 0: ${now}`)
  }, patience)
}

/** Part of a handler: sends one-byte pieces, a chunk each. */
const sender = `
  const { setImmediate: turn } = await import('node:timers/promises')
  globalThis.sent ??= 0
  const send = async (socket) => {
    const pieces = Buffer.from('1\\r\\nx\\r\\n'.repeat(5_000))
    socket.on('error', () => {})
    socket.write('HTTP/1.1 200 OK\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n')
    while (!socket.destroyed) {
      if (!socket.write(pieces)) await new Promise((resolve) => socket.once('drain', resolve).once('close', resolve))
      globalThis.sent += 5_000
      await turn()
    }
  }`

test.each(['index', 'middleware'])(
  'an answer of a %s in pieces of a byte waits for a client that does not take it',
  async (name) => {
    const code = `${sender}\n${handler(`if (req.url === '/') return res.end(String(sent)); await send(req.socket)`)}`
    // On a busy machine a second slot would be started, which has sent nothing and is the one that is asked.
    const owner = await newOwner(platform)
    await setQuota(platform.api, owner.organizationId, 'function_slots', 1)
    const { host } = await deploy(name === 'index' ? { index: code } : { middleware: code }, owner)
    await visit(platform, host, '/')
    const before = held()
    const head = `GET /long HTTP/1.1\r\nHost: ${host}\r\n\r\n`
    const clients = await Promise.all(Array.from({ length: 6 }, () => deafClient(head)))
    await settled(async () => Number((await visit(platform, host, '/')).text))
    expect(held() - before).toBeLessThan(6 * MB)
    for (const client of clients) client.destroy()
  },
)

test('a body in pieces of a byte that no Function reads takes no more memory than its bytes', async () => {
  const { host } = await deploy({ index: handler(`if (req.method === 'GET') res.end('ok')`) })
  await visit(platform, host, '/')
  const before = held()
  const piece = Buffer.from('1\r\nx\r\n'.repeat(10_000))
  let sent = 0
  const clients = await Promise.all(
    Array.from({ length: 40 }, async () => {
      const client = await deafClient(`POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\n`)
      const send = (): void => {
        if (client.destroyed) return
        sent += piece.length
        client.write(piece, send)
      }
      send()
      return client
    }),
  )
  await settled(() => sent)
  expect(held() - before).toBeLessThan(40 * MB)
  for (const client of clients) client.destroy()
})

test('a client that sends a body in pieces of a byte without end is disconnected', async () => {
  const { host } = await deploy({ index: handler(`req.resume()`) })
  const client = await deafClient(`POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\n`)
  const closed = new Promise((resolve) => client.once('close', resolve))
  const piece = Buffer.from('1\r\nx\r\n'.repeat(10_000))
  const send = (): void => {
    if (!client.destroyed) client.write(piece, () => setImmediate(send))
  }
  send()
  client.resume()
  await closed
  expect(client.destroyed).toBe(true)
})

test('a quarter of a gigabyte goes out to a slow client, and in to a slow Function', async () => {
  const { host } = await deploy({
    index: `import { setTimeout as sleep } from 'node:timers/promises'
    ${handler(`
      const piece = Buffer.alloc(1 << 20, 97)
      if (req.method === 'GET') {
        for (let n = 0; n < 256; n++) if (!res.write(piece)) await new Promise((resolve) => res.once('drain', resolve))
        return res.end()
      }
      let length = 0
      let rested = 0
      for await (const chunk of req) if ((length += chunk.length) - rested > 4e6) { rested = length; await sleep(5) }
      res.end(String(length))`)}`,
  })
  let most = 0
  const before = held()
  const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().external)), 20)
  const down = request(platform.edgeUrl, { headers: { host } }).end()
  const [answer] = (await once(down, 'response')) as [IncomingMessage]
  let received = 0
  let rested = 0
  for await (const chunk of answer) {
    received += (chunk as Buffer).length
    if (received - rested < 4e6) continue
    rested = received
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  expect(received).toBe(256 * MB)
  const up = request(platform.edgeUrl, { method: 'POST', headers: { host, 'content-length': 256 * MB } })
  const piece = Buffer.alloc(MB)
  for (let n = 0; n < 256; n++) if (!up.write(piece)) await once(up, 'drain')
  up.end()
  const [taken] = (await once(up, 'response')) as [IncomingMessage]
  expect(Buffer.concat(await taken.toArray()).toString()).toBe(String(256 * MB))
  clearInterval(watch)
  // Most of it belongs to this test, and is not collected yet.
  expect(most - before).toBeLessThan(200 * MB)
})

test('thousands of requests whose clients leave hold nothing', async () => {
  const { host } = await deploy({
    index: handler(`
      if (req.url === '/') return res.end('ok')
      if (req.url === '/within') { res.write('begun'); return }
      if (req.url === '/upload') req.resume()`),
  })
  await visit(platform, host, '/')
  const dice = openDice()
  const leave = async (head: string, isAnswered: boolean): Promise<void> => {
    const client = await deafClient(`${head} HTTP/1.1\r\nHost: ${host}\r\n`)
    if (isAnswered) {
      client.write('\r\n')
      client.resume()
      await once(client, 'data')
    } else client.write(head.startsWith('POST') ? 'Content-Length: 100000\r\n\r\nsome of it' : '\r\n')
    await new Promise((resolve) => setTimeout(resolve, dice.integer(0, 20)))
    client.destroy()
  }
  const heads = [
    ['GET /before', false],
    ['GET /within', true],
    ['POST /upload', false],
    ['POST /unread', false],
  ] as const
  const many = async (count: number): Promise<void> => {
    let left = count
    const next = async (): Promise<void> => {
      for (; left > 0; left--) {
        const [head, isAnswered] = heads[left % heads.length] ?? heads[0]
        await leave(head, isAnswered)
      }
    }
    await Promise.all(Array.from({ length: 50 }, next))
    // All slots accept requests again: 200 wait at once.
    await vi.waitFor(async () => {
      const answers = await Promise.all(Array.from({ length: 150 }, () => visit(platform, host, '/')))
      expect(answers.every(({ status }) => status === 200)).toBe(true)
    }, patience)
  }
  await many(500)
  const before = held()
  await many(2_500)
  expect(held() - before).toBeLessThan(20 * MB)
})
