import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, get, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { unless } from '@platform/test-runner/task-meta'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startHealth } from './health.ts'
import { listen } from './http-server.ts'

/** A listener that responds with the path; `/slow` responds only when told to. */
async function start() {
  const mayAnswer = Promise.withResolvers<void>()
  const slowCame = Promise.withResolvers<void>()
  const server = await listen(
    (incoming, outgoing) => {
      const answer = () => outgoing.end(incoming.url)
      if (incoming.url === '/slow') {
        slowCame.resolve()
        void mayAnswer.promise.then(answer)
      } else answer()
    },
    '127.0.0.1',
    0,
  )
  onTestFinished(() => server.stop(0))
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onTestFinished(() => agent.destroy())
  const ask = async (path: string) => {
    const sent = get({ port: server.port, host: '127.0.0.1', path, agent })
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    const text = (await answer.setEncoding('utf8').toArray()).join('')
    return { text, connection: answer.headers.connection, isReused: sent.reusedSocket }
  }
  return { server, ask, slowCame: slowCame.promise, letSlowAnswer: mayAnswer.resolve }
}

test('answers keep their connection, until drain makes each of them close it', async () => {
  const { server, ask } = await start()
  expect(await ask('/1')).toEqual({ text: '/1', connection: 'keep-alive', isReused: false })
  expect(await ask('/2')).toEqual({ text: '/2', connection: 'keep-alive', isReused: true })
  server.drain()
  expect(await ask('/3')).toEqual({ text: '/3', connection: 'close', isReused: true })
  expect(await ask('/4')).toEqual({ text: '/4', connection: 'close', isReused: false })
})

test('what comes while a drained listener closes is answered, and nobody gets in afterwards', async () => {
  const { server, ask, slowCame, letSlowAnswer } = await start()
  server.drain()
  const slow = ask('/slow')
  await slowCame
  const early = connect(server.port, '127.0.0.1')
  await once(early, 'connect')
  const closing = server.refuseConnections()
  early.write('GET /early HTTP/1.1\r\nHost: x\r\n\r\n')
  await closing
  expect((await early.setEncoding('utf8').toArray()).join('')).toMatch(
    /^HTTP\/1\.1 200 OK\r\n[^]*Connection: close[^]*\/early/,
  )
  await expect(once(connect(server.port, '127.0.0.1'), 'connect')).rejects.toThrow('ECONNREFUSED')
  // Requests in progress finish, and only then has the listener stopped.
  let hasStopped = false
  const stopped = server.stop().then(() => (hasStopped = true))
  expect(hasStopped).toBe(false)
  letSlowAnswer()
  expect((await slow).text).toBe('/slow')
  await stopped
})

test('a drained listener that refuses new connections answers on kept ones, after a pause too', async () => {
  const { server, ask } = await start()
  expect(await ask('/1')).toMatchObject({ connection: 'keep-alive' })
  server.drain()
  const closing = server.refuseConnections()
  const isRefused = async () => {
    const socket = connect(server.port, '127.0.0.1')
    try {
      return await once(socket, 'connect').then(
        () => false,
        () => true,
      )
    } finally {
      socket.destroy()
    }
  }
  while (!(await isRefused())) await sleep(2)
  // As a proxy without CPU makes one.
  await sleep(250)
  expect(await ask('/2').catch(String)).toEqual({ text: '/2', connection: 'close', isReused: true })
  await closing
  await server.stop()
})

test('connections that wait for a process without CPU are accepted before it closes', async () => {
  const { server } = await start()
  server.drain()
  // Each look at the clock is a second later, as for a process that seldom runs.
  let ms = performance.now()
  vi.spyOn(performance, 'now').mockImplementation(() => (ms += 1_000))
  onTestFinished(() => void vi.restoreAllMocks())
  // The kernel completes all of them at once, and Node accepts one in each tick.
  const sockets = Array.from({ length: 50 }, () => connect(server.port, '127.0.0.1').setEncoding('utf8'))
  for (const socket of sockets) socket.write('POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n')
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  const closing = server.refuseConnections()
  const answers = await Promise.all(sockets.map(async (socket) => (await socket.toArray()).join('')))
  expect(answers.filter((answer) => !answer.startsWith('HTTP/1.1 200 OK'))).toEqual([])
  await closing
})

test('connections that arrive while a drained listener looks for the last time are accepted', async () => {
  const { server } = await start()
  server.drain()
  const sockets: Socket[] = []
  const answers: Promise<string>[] = []
  // Some arrive whenever it looks at the clock, which stands still, and send nothing that would make it wait.
  vi.spyOn(performance, 'now').mockImplementation(() => {
    for (let n = 0; n < 5 && sockets.length < 200; n++) {
      const socket = connect(server.port, '127.0.0.1').setEncoding('utf8')
      sockets.push(socket)
      answers.push(socket.toArray().then((pieces) => pieces.join(''), String))
    }
    return 0
  })
  onTestFinished(() => void vi.restoreAllMocks())
  await server.refuseConnections()
  for (const socket of sockets) socket.write('GET /1 HTTP/1.1\r\nHost: x\r\n\r\n')
  expect((await Promise.all(answers)).filter((answer) => !answer.startsWith('HTTP/1.1 200 OK'))).toEqual([])
})

/** Two connections to a listener that are kept open, in a process of its own that is stopped as it closes the first. */
const CLOSING = (module: string) => `
  import { Socket } from 'node:net'
  import { listen } from ${JSON.stringify(module)}
  const { destroy } = Socket.prototype
  const server = await listen((incoming, outgoing) => outgoing.end(incoming.url), '127.0.0.1', 0)
  process.once('message', async () => {
    server.drain()
    await server.refuseConnections()
    process.disconnect()
  })
  Socket.prototype.destroy = function (...args) {
    const isAccepted = this.localPort === server.port
    destroy.apply(this, args)
    if (!isAccepted) return this
    Socket.prototype.destroy = destroy
    // In the next microtask, when the loop over the others is over if there is one.
    queueMicrotask(() => process.kill(process.pid, 'SIGSTOP'))
    return this
  }
  process.send(server.port)`

test(
  'a request on a kept connection is answered although it comes while others are being closed',
  unless(process.platform === 'linux' ? undefined : 'it reads /proc of Linux'),
  async () => {
    const script = CLOSING(import.meta.resolve('./http-server.ts'))
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    const [port] = (await once(child, 'message')) as [number]
    const kept = await Promise.all(
      Array.from({ length: 2 }, async () => {
        const socket = connect(port, '127.0.0.1').setEncoding('utf8')
        onTestFinished(() => void socket.destroy())
        socket.write('GET /before HTTP/1.1\r\nHost: x\r\n\r\n')
        await once(socket, 'data')
        return socket
      }),
    )
    const ends = kept.map((socket) => once(socket, 'end').then(() => socket))
    const closed = Promise.all(
      kept.map((socket) =>
        once(
          socket.on('error', () => {}),
          'close',
        ).catch(() => {}),
      ),
    )
    child.send('close')
    const first = await Promise.race(ends)
    const other = kept.find((socket) => socket !== first)
    const isStopped = () => /^State:\s+T/m.test(readFileSync(`/proc/${child.pid}/status`, 'utf8'))
    while (!isStopped()) await sleep(5)
    let answer = ''
    other?.on('data', (piece: string) => (answer += piece))
    other?.write('POST /while HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n')
    await setImmediate()
    child.kill('SIGCONT')
    await closed
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*Connection: close[^]*\/while$/)
  },
)

test('what takes longer than it may is cut', async () => {
  const { server, ask, slowCame } = await start()
  const cut = ask('/slow').catch((error: Error) => error.message)
  await slowCame
  await server.stop(50)
  expect(await cut).toBe('socket hang up')
})

test('a stop does not wait for a connection that has never sent a request, as browsers open ahead', async () => {
  const { server } = await start()
  const socket = connect(server.port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  const closed = once(socket, 'close')
  // The test would time out first.
  await server.stop(600_000)
  expect(await closed).toEqual([false])
})

test('what is not HTTP is answered between answers, and never in the middle of one', async () => {
  const server = await listen(
    (incoming, outgoing) => {
      outgoing.setHeader('content-length', 10)
      if (incoming.url === '/half') outgoing.write('half')
      else outgoing.end('0123456789')
    },
    '127.0.0.1',
    0,
    () => ({ requestId: 'id', type: 'text/plain', body: 'unreadable' }),
  )
  onTestFinished(() => server.stop(0))
  async function send(path: string, until: string, then: string): Promise<string> {
    const socket = connect(server.port, '127.0.0.1').setEncoding('latin1')
    onTestFinished(() => void socket.destroy())
    let text = ''
    const closed = once(socket, 'close')
    socket.on('error', () => {})
    socket.on('data', (chunk: string) => {
      const before = text.includes(until)
      text += chunk
      if (!before && text.includes(until)) socket.write(then)
    })
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
    await closed
    return text
  }
  expect(await send('/whole', '0123456789', 'garbage\r\n\r\n')).toMatch(/0123456789HTTP\/1\.1 400 [^]*unreadable$/)
  expect(await send('/half', 'half', 'garbage\r\n\r\n')).toMatch(/\r\n\r\nhalf$/)
  // The response to a second request waits for the first.
  const second = 'GET /whole HTTP/1.1\r\nHost: x\r\n\r\ngarbage\r\n\r\n'
  expect(await send('/half', 'half', second)).toMatch(/\r\n\r\nhalf$/)
})

test('CONNECT is answered between answers, never in the middle of one, and what follows it is not read', async () => {
  const served: (string | undefined)[] = []
  const server = await listen(
    (incoming, outgoing) => {
      served.push(incoming.url)
      if (incoming.url === '/half') outgoing.writeHead(200, { 'content-length': 10 }).write('half')
      else outgoing.end('whole')
    },
    '127.0.0.1',
    0,
    () => ({ requestId: 'id', type: 'text/plain', body: 'no proxy', headers: { Allow: 'GET' } }),
  )
  onTestFinished(() => server.stop(0))
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`
  async function send(first: string, until: string): Promise<string> {
    const socket = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true }).setEncoding('latin1')
    onTestFinished(() => void socket.destroy())
    let text = ''
    const closed = once(socket, 'close')
    socket.on('error', () => {})
    socket.on('data', (chunk: string) => {
      const before = text.includes(until)
      text += chunk
      if (!before && text.includes(until)) socket.write(`CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n${get('/smuggled')}`)
    })
    socket.once('end', () => socket.end(get('/late')))
    socket.write(get(first))
    await closed
    return text
  }
  expect(await send('/whole', 'whole')).toMatch(
    /wholeHTTP\/1\.1 405 Method Not Allowed\r\nConnection: close\r\nX-Request-Id: id\r\n[^]*\r\nAllow: GET\r\n\r\nno proxy$/,
  )
  expect(await send('/half', 'half')).toMatch(/\r\n\r\nhalf$/)
  expect(served).toEqual(['/whole', '/half'])
})

test('a stop does not wait long for a client whose CONNECT was refused and that keeps its side open', async () => {
  const { server } = await start()
  const socket = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true }).setEncoding('utf8')
  socket.on('error', () => {})
  onTestFinished(() => void socket.destroy())
  socket.write('CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n')
  expect((await socket.toArray()).join('')).toMatch(/^HTTP\/1\.1 405 /)
  // The test would time out first.
  await server.stop(600_000)
})

test('the health listener refuses CONNECT in a sentence, with an id that is in one log line', async () => {
  const lines: object[] = []
  const logger = { info: (line: object) => void lines.push(line) } as never
  const health = await startHealth('127.0.0.1', 0, { service: 'test', commit: undefined, node: '24' } as never, logger)
  onTestFinished(() => health.stop())
  const socket = connect(health.port, '127.0.0.1').setEncoding('utf8')
  socket.write('CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n')
  const answer = (await socket.toArray()).join('')
  expect(answer).toMatch(/^HTTP\/1\.1 405 [^]*\r\nAllow: GET, HEAD\r\n\r\nCONNECT is for proxies, and this is none\n$/)
  const [, requestId] = /\r\nX-Request-Id: (.*)\r\n/.exec(answer) ?? []
  expect(lines).toMatchObject([{ requestId, status: 405, code: 'CONNECT' }])
})
