import { once } from 'node:events'
import { Agent, type IncomingMessage, request, type RequestOptions } from 'node:http'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, asc, eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { visit } from '../../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { buildOutput, handler } from '../../../../test/functions.ts'
import { hurryHalfMinutes } from '../../../../test/hurry.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'
import { requestLogs } from '../../observe/request-logs/table.ts'
import { runtimeLogs } from '../../observe/runtime-logs/table.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({
    hasWorker: true,
    env: {
      DEFAULT_PLAN: 'pro',
      FUNCTION_FIRST_BYTE_MS: '4000',
      FUNCTION_SILENT_MS: '3000',
      COUNTRY_HEADER: 'x-country',
      TRUSTED_PROXIES: '127.0.0.9',
    },
  })
  ana = await newOwner(platform)
  // With a single slot, state in the process carries over to the next request, however busy the machine is.
  await setQuota(platform.api, ana.organizationId, 'function_slots', 1)
})
afterAll(() => platform.close())

async function deploy(
  code: string,
  output: Parameters<typeof buildOutput> = [{ index: { code } }, { routes: [{ src: '/.*', dest: '/' }] }],
) {
  const archive = buildOutput(...output)
  const { id } = await newDeployment(platform, ana, { archive })
  const deployment = await untilEnded(platform, id)
  if (deployment.status !== 'ACTIVE') throw new Error(`${deployment.failureReason}\n${await logOf(platform, id)}`)
  return { id, host: `${deployment.label}.${platform.api.appsUrl.host}` }
}

const ask = (
  host: string,
  { headers, ...options }: Omit<RequestOptions, 'headers'> & { headers?: Record<string, string | number> } = {},
) => request({ port: new URL(platform.edgeUrl).port, host: '127.0.0.1', ...options, headers: { host, ...headers } })
async function answerOf(sent: ReturnType<typeof request>) {
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  return { status: answer.statusCode, headers: answer.headers, text: Buffer.concat(await answer.toArray()).toString() }
}
/** The current lines of a deployment's runtime log. */
async function linesOf(deploymentId: string) {
  await platform.api.runtimeLog.flush()
  const { db } = platform.api
  return db
    .select()
    .from(runtimeLogs)
    .where(eq(runtimeLogs.deploymentId, deploymentId))
    .orderBy(asc(runtimeLogs.number))
}
const connectEdge = () => connect(Number(new URL(platform.edgeUrl).port), '127.0.0.1')

describe('headers of answers', () => {
  test.each([
    ['of Latin-1', `res.setHeader('x-name', 'é'); res.end(Buffer.from('ok'))`, Buffer.from([0xe9])],
    [
      'of UTF-8',
      `req.socket.end(Buffer.from('HTTP/1.1 200 OK\\r\\nx-name: é€\\r\\ncontent-length: 2\\r\\nconnection: close\\r\\n\\r\\nok'))`,
      Buffer.from('é€'),
    ],
  ])('keep their bytes, %s', async (_, code, bytes) => {
    const { host } = await deploy(handler(code))
    const answer = await visit(platform, host, '/')
    expect(answer.status).toBe(200)
    expect(Buffer.from(String(answer.headers['x-name']), 'latin1')).toEqual(bytes)
  })

  test('of the platform are not the Function’s to set', async () => {
    const { host } = await deploy(handler(`res.setHeader('x-cache', 'HIT'); res.end('ok')`))
    expect((await visit(platform, host, '/')).headers['x-cache']).toBe('BYPASS')
  })

  test('that cannot be read are a 502, and a line in the log', async () => {
    const { id, host } = await deploy(
      handler(`req.socket.end('HTTP/1.1 200 OK\\r\\nx-long: ' + 'a'.repeat(40_000) + '\\r\\n\\r\\n')`),
    )
    expect(await visit(platform, host, '/')).toMatchObject({
      status: 502,
      headers: { 'x-platform-error': 'function_crashed' },
    })
    await vi.waitFor(
      async () => {
        const lines = await platform.api.db.select().from(runtimeLogs).where(eq(runtimeLogs.deploymentId, id))
        expect(lines.map(({ message }) => message).join('\n')).toMatch(/answer could not be read.*Headers Overflow/i)
      },
      { timeout: 60_000, interval: 50 },
    )
  })
})

test('informational answers without end are cut off', async () => {
  const { id, host } = await deploy(
    handler(`
      if (req.url === '/few') { for (let n = 0; n < 50; n++) res.writeEarlyHints({ link: '</a>; rel=preload' }); return res.end('ok') }
      const send = () => { if (!req.socket.destroyed) req.socket.write('HTTP/1.1 103 Early Hints\\r\\n\\r\\n'.repeat(500), () => setImmediate(send)) }
      send()`),
  )
  expect(await visit(platform, host, '/few')).toMatchObject({ status: 200, text: 'ok' })
  expect(await visit(platform, host, '/')).toMatchObject({
    status: 502,
    headers: { 'x-platform-error': 'function_crashed' },
  })
  await vi.waitFor(
    async () => {
      const lines = await platform.api.db.select().from(runtimeLogs).where(eq(runtimeLogs.deploymentId, id))
      expect(lines.map(({ message }) => message).join('\n')).toMatch(/more than 100 answers of 1xx/)
    },
    { timeout: 60_000, interval: 50 },
  )
})

describe('a body that nobody reads to its end', () => {
  const code = handler(`
    if (req.url === '/exit') { req.once('data', () => process.exit(1)); return }
    if (req.url === '/refuse') { res.statusCode = 413; return res.end('too large') }
    res.end('ok')`)
  let host: string
  beforeAll(async () => {
    host = (await deploy(code)).host
  })

  test.each([
    ['/exit', 502],
    ['/refuse', 413],
  ])('%s is answered with %i all the same', async (path, status) => {
    const sent = ask(host, { method: 'POST', path, headers: { 'content-length': 8_000_000 } })
    sent.on('error', () => {})
    sent.write(Buffer.alloc(1_000_000))
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    expect(answer.statusCode).toBe(status)
    answer.resume()
    sent.destroy()
  })

  test('does not become the next request of its connection', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const body = Buffer.from(`GET /smuggled HTTP/1.1\r\nHost: ${host}\r\n\r\n`.repeat(20_000))
    for (let n = 0; n < 3; n++) {
      const refused = await answerOf(ask(host, { agent, method: 'POST', path: '/refuse' }).end(body))
      expect(refused.status).toBe(413)
      expect((await answerOf(ask(host, { agent, path: '/' }).end())).text).toBe('ok')
    }
    agent.destroy()
  })
})

test('the country of a visitor reaches a Function where a trusted proxy names it', async () => {
  const { host } = await deploy(handler(`res.end(String(req.headers['x-vercel-ip-country']))`))
  const from = async (localAddress: string) =>
    (await answerOf(ask(host, { localAddress, headers: { 'x-country': 'at' } }).end())).text
  expect([await from('127.0.0.9'), await from('127.0.0.8')]).toEqual(['AT', 'undefined'])
})

describe('what is kept of answers', () => {
  const code = handler(`
    const url = new URL(req.url, 'http://a')
    for (const [name, value] of url.searchParams) res.setHeader(name, value)
    let body = ''
    for await (const chunk of req) body += chunk
    res.end([globalThis.n = (globalThis.n ?? 0) + 1, body, req.headers.cookie, req.headers['x-real-ip']].join(' '))`)
  let host: string
  beforeAll(async () => {
    host = (await deploy(code)).host
  })
  let addresses = 0
  const address = (headers: Record<string, string>) => `/${addresses++}?${new URLSearchParams(headers).toString()}`
  const shared = { 'cache-control': 's-maxage=60' }

  test('is nothing that a body decided', async () => {
    const path = address(shared)
    const poison = await answerOf(ask(host, { path, headers: { 'content-length': 6 } }).end('poison'))
    expect(poison.headers['x-cache']).toBe('BYPASS')
    expect((await visit(platform, host, path)).text).not.toContain('poison')
  })

  test.each(['x-http-method-override', 'x-http-method', 'x-method-override', 'x-original-url', 'x-rewrite-url'])(
    'is nothing that %s decided',
    async (name) => {
      const path = address(shared)
      const poison = await visit(platform, host, path, { headers: { [name]: '/poison' } })
      expect(poison.headers['x-cache']).toBe('BYPASS')
      expect((await visit(platform, host, path)).headers['x-cache']).toBe('MISS')
    },
  )

  test('differs by headers that the platform sets, where Vary names them', async () => {
    const path = address({ ...shared, vary: 'x-real-ip' })
    const first = await answerOf(ask(host, { path, localAddress: '127.0.0.2' }).end())
    const second = await answerOf(ask(host, { path, localAddress: '127.0.0.3' }).end())
    expect([first.text.slice(-9), second.text.slice(-9)]).toEqual(['127.0.0.2', '127.0.0.3'])
    expect((await answerOf(ask(host, { path, localAddress: '127.0.0.2' }).end())).text).toBe(first.text)
  })

  test('is nothing of an answer with a cookie, whoever the cookie is for', async () => {
    const path = address({ ...shared, 'set-cookie': 'a=1; Domain=example.com' })
    await visit(platform, host, path)
    expect((await visit(platform, host, path)).headers['x-cache']).toBe('BYPASS')
  })

  test('is renewed with the cookies that Vary names', async () => {
    const path = address({ 'cache-control': 's-maxage=1, stale-while-revalidate=60', vary: 'cookie' })
    const headers = { cookie: 'user=ana' }
    const first = await visit(platform, host, path, { headers })
    expect(first.text).toContain('user=ana')
    await vi.waitFor(
      async () => {
        const answer = await visit(platform, host, path, { headers })
        expect(answer.text).toContain('user=ana')
        expect(answer.text).not.toBe(first.text)
      },
      { timeout: 60_000, interval: 100 },
    )
  })
})

describe('who is silent for too long', () => {
  const code = `
    import { createServer } from 'node:http'
    const events = []
    const server = createServer((req, res) => {
      if (req.url === '/events') { res.writeHead(200, { 'content-type': 'text/event-stream' }); res.write('data: 0\\n\\n'); events.push(res); return }
      if (req.url === '/tell') { for (const each of events) each.write('data: 1\\n\\n'); return res.end('told') }
      if (req.url === '/fill') { for (const each of events) for (let n = 0; n < 64; n++) each.write(Buffer.alloc(65536)); return res.end() }
      if (req.url === '/silent') return res.write('begun')
      if (req.url === '/deaf') { req.pause(); return }
      if (req.url === '/endless') { const more = () => { while (res.write(Buffer.alloc(65536))); }; res.on('drain', more); return more() }
      let body = ''
      req.on('data', (chunk) => { body += chunk }).on('error', () => {}).on('end', () => res.end('got ' + body))
    })
    server.on('upgrade', (req, socket) => {
      socket.on('error', () => {})
      socket.write('HTTP/1.1 200 OK\\r\\ncontent-length: 100\\r\\n\\r\\nbegun')
    })
    export default server`
  let id: string
  let host: string
  beforeAll(async () => {
    const deployed = await deploy(code)
    id = deployed.id
    host = deployed.host
  })
  const ends = async (sent: ReturnType<typeof request>) => {
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    await expect(answer.toArray()).rejects.toThrow('aborted')
    return answer
  }

  test('of an answer is cut off, and it is a line in its log; events may be silent', async () => {
    const following = ask(host, { path: '/events' }).end()
    const [events] = (await once(following, 'response')) as [IncomingMessage]
    const pieces = events[Symbol.asyncIterator]()
    expect(String((await pieces.next()).value)).toBe('data: 0\n\n')
    const silent = await ends(ask(host, { path: '/silent' }).end())
    expect(silent.statusCode).toBe(200)
    const lines = await linesOf(id)
    expect(lines).toMatchObject([{ level: 'ERROR', message: 'Its answer was silent for 3 s.', slot: 0 }])
    await vi.waitFor(
      async () => {
        const path = `/applications/${ana.applicationId}/requests/${lines[0]?.requestId}`
        expect(await platform.call(ana.token, `GET ${path}`)).toMatchObject({
          status: 200,
          body: { request: { path: '/silent' } },
        })
      },
      { timeout: 60_000, interval: 50 },
    )
    // They were silent for longer than that answer took.
    expect((await visit(platform, host, '/tell')).text).toBe('told')
    expect(String((await pieces.next()).value)).toBe('data: 1\n\n')
    following.destroy()
  })

  test('of a request is a 504 where the Function does not read what is there of the body', async () => {
    const before = (await linesOf(id)).length
    const sent = ask(host, { method: 'POST', path: '/deaf', headers: { 'content-length': 100_000_000 } })
    sent.on('error', () => {})
    sent.write(Buffer.alloc(20_000_000))
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    expect([answer.statusCode, answer.headers['x-platform-error']]).toEqual([504, 'function_timeout'])
    sent.destroy()
    const lines = (await linesOf(id)).slice(before)
    expect(lines.map(({ message }) => message)).toEqual(['It sent no byte of an answer for 4 s.'])
  })

  test('of a request is the client where the rest of its body does not come: 408, and the Function is not blamed', async () => {
    const before = (await linesOf(id)).length
    const sent = ask(host, { method: 'POST', headers: { 'content-length': 10 } })
    sent.on('error', () => {})
    sent.write('part')
    const answer = await answerOf(sent)
    expect([answer.status, answer.headers['x-platform-error']]).toEqual([408, 'request_timeout'])
    expect(await linesOf(id)).toHaveLength(before)
  })

  test.each(['/endless', '/events'])('of %s is the client that takes nothing of it', async (path) => {
    const before = (await linesOf(id)).length
    const socket = connectEdge()
    socket.on('error', () => {})
    socket.pause()
    socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    // More than the connection buffers.
    if (path === '/events') for (let n = 0; n < 5; n++) await visit(platform, host, '/fill')
    await vi.waitFor(
      async () => {
        await platform.api.requestLog.flush()
        const rows = await platform.api.db
          .select()
          .from(requestLogs)
          .where(and(eq(requestLogs.deploymentId, id), eq(requestLogs.path, path)))
        expect(rows).toHaveLength(path === '/events' ? 2 : 1)
      },
      { timeout: 60_000, interval: 100 },
    )
    expect(await linesOf(id)).toHaveLength(before)
    socket.destroy()
  })

  test('of the answer to an upgrade is cut off as well', async () => {
    const before = (await linesOf(id)).length
    const answer = await ends(ask(host, { headers: { upgrade: 'websocket', connection: 'upgrade' } }).end())
    expect(answer.statusCode).toBe(200)
    const lines = (await linesOf(id)).slice(before)
    expect(lines.map(({ message }) => message)).toEqual(['Its answer was silent for 3 s.'])
  })
})

describe('a middleware that answers by itself', () => {
  const middleware = `
    const events = new TransformStream()
    const writer = events.writable.getWriter()
    const { promise, resolve } = Promise.withResolvers()
    export default async function (request) {
      const { pathname } = new URL(request.url)
      const say = (text) => writer.write(new TextEncoder().encode('data: ' + text + '\\n\\n'))
      if (pathname === '/events') { say('0'); return new Response(events.readable, { headers: { 'content-type': 'text/event-stream' } }) }
      if (pathname === '/tell') { say('1'); return new Response('told') }
      if (pathname === '/large') return new Response(new Uint8Array(20_000_000).fill(97), { headers: { 'x-own': 'yes' } })
      if (pathname === '/short') return new Response('short', { headers: { 'content-length': '5' } })
      if (pathname === '/cut') return new Response(new ReadableStream({ pull(c) { c.enqueue(new Uint8Array(10)); setTimeout(() => process.exit(1), 50); return new Promise(() => {}) } }))
      if (pathname === '/open') resolve()
      if (pathname === '/wait') await promise
      const talks = pathname === '/talks' ? new ReadableStream({ pull(c) { c.enqueue(new Uint8Array(1000)) } }) : null
      return new Response(talks, { headers: { 'x-middleware-next': '1' } })
    }`
  let id: string
  let host: string
  beforeAll(async () => {
    const page = handler(
      `let length = 0; for await (const chunk of req) length += chunk.length; res.end('page ' + length)`,
    )
    const routes = [
      { src: '/.*', middlewarePath: '_middleware', continue: true },
      { src: '/.*', dest: '/page' },
    ]
    const functions = { _middleware: { code: middleware, config: { useWebApi: true } }, page }
    const deployed = await deploy('', [functions, { routes }])
    id = deployed.id
    host = deployed.host
  })

  test('sends its events as they come', async () => {
    const sent = ask(host, { path: '/events' }).end()
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    expect(answer.headers['content-type']).toBe('text/event-stream')
    const pieces = answer[Symbol.asyncIterator]()
    expect(String((await pieces.next()).value)).toBe('data: 0\n\n')
    expect((await visit(platform, host, '/tell')).text).toBe('told')
    expect(String((await pieces.next()).value)).toBe('data: 1\n\n')
    sent.destroy()
  })

  test('may have much to say, and answers HEAD with the length that GET has', async () => {
    const large = await visit(platform, host, '/large')
    expect([large.status, large.headers['x-own'], large.body.length]).toEqual([200, 'yes', 20_000_000])
    const head = await visit(platform, host, '/short', { method: 'HEAD' })
    expect([head.status, head.headers['content-length'], head.text]).toEqual([200, '5', ''])
    const post = await visit(platform, host, '/short', { method: 'POST', body: 'x'.repeat(1_000_000) })
    expect([post.status, post.text]).toEqual([200, 'short'])
  })

  test('answers an upgrade as it does any request, as fast as it is taken', async () => {
    const socket = connectEdge()
    socket.write(`GET /large HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
    let length = 0
    for await (const chunk of socket) length += (chunk as Buffer).length
    expect(length).toBeGreaterThan(20_000_000)
  })

  test('and breaks off is cut off, with a line in its log', async () => {
    await expect(visit(platform, host, '/cut')).rejects.toThrow('aborted')
    await vi.waitFor(
      async () => {
        const messages = (await linesOf(id)).map(({ message }) => message)
        expect(messages).toContainEqual(expect.stringMatching(/^Crashed: it ended with exit code 1/))
      },
      { timeout: 60_000, interval: 50 },
    )
    expect((await visit(platform, host, '/short')).text).toBe('short')
  })

  test('or does not: what it says beside that a request goes on is not waited for', async () => {
    expect((await visit(platform, host, '/talks')).text).toBe('page 0')
  })

  test('or does not: the body of a request that waits for it is not too late', async () => {
    await hurryHalfMinutes(async (halfMinute) => {
      const sent = ask(host, { method: 'POST', path: '/wait', headers: { 'content-length': 8_000_000 } })
      const answered = answerOf(sent)
      sent.end(Buffer.alloc(8_000_000))
      // A later request is answered first.
      expect((await visit(platform, host, '/short')).text).toBe('short')
      await halfMinute()
      await visit(platform, host, '/open')
      expect(await answered).toMatchObject({ status: 200, text: 'page 8000000' })
    })
  })
})

describe('upgrades', () => {
  const code = `
    import { createServer } from 'node:http'
    const server = createServer(async (req, res) => {
      let body = ''
      for await (const chunk of req) body += chunk
      res.end(req.method + ' ' + (body || JSON.stringify([req.headers, req.trailers])))
    })
    server.on('upgrade', (req, socket) => {
      socket.on('error', () => {})
      socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade, x-hop\\r\\nx-hop: 1\\r\\n' +
        'Set-Cookie: a=1; Domain=example.com\\r\\nSet-Cookie: b=2\\r\\nx-middleware-next: 1\\r\\nx-next-cache-tags: t\\r\\nX-Own: yes\\r\\n' +
        'X-Seen: ' + JSON.stringify(req.headers) + '\\r\\n\\r\\n')
      if (req.url === '/large') socket.end(Buffer.alloc(20_000_000, 97))
    })
    export default server`
  let host: string
  beforeAll(async () => {
    host = (await deploy(code)).host
  })

  test.each(['h2c', 'HTTP/2.0', 'TLS/1.0', 'x'])('to %s are ignored, and the body is read', async (protocol) => {
    const headers = { upgrade: protocol, connection: 'Upgrade, HTTP2-Settings', 'http2-settings': 'AAMAAABk' }
    const answer = await answerOf(ask(host, { method: 'POST', headers }).end('hello'))
    expect(answer).toMatchObject({ status: 200, text: 'POST hello' })
  })

  test('to WebSocket by another method than GET, or with a body, are ignored', async () => {
    const headers = { upgrade: 'websocket', connection: 'Upgrade' }
    expect(await answerOf(ask(host, { method: 'POST', headers }).end('hello'))).toMatchObject({ text: 'POST hello' })
    const withBody = ask(host, { headers: { ...headers, 'content-length': 5 } }).end('hello')
    expect(await answerOf(withBody)).toMatchObject({ text: 'GET hello' })
  })

  test('bring none of the headers that read as the platform’s once an underscore is a dash, nor does the end of a body', async () => {
    const spelled = { X_Forwarded_For: 'spoofed', 'x_real-ip': 'spoofed', my_header: 'mine' }
    const headers = { ...spelled, upgrade: 'websocket', connection: 'upgrade' }
    const [answer, socket] = (await once(ask(host, { headers }).end(), 'upgrade')) as [IncomingMessage, Duplex]
    socket.destroy()
    const sent = ask(host, { headers: { trailer: 'X_Real_Ip', 'transfer-encoding': 'chunked' } })
    sent.addTrailers({ X_Real_Ip: 'spoofed' })
    const { text } = await answerOf(sent.end())
    for (const seen of [String(answer.headers['x-seen']), text]) {
      expect(seen).not.toContain('spoofed')
      expect(seen).toContain('x-forwarded-for')
    }
    expect(answer.headers['x-seen']).toContain('"my_header":"mine"')
  })

  test('answer with no header that an answer may not have', async () => {
    const sent = ask(host, { headers: { upgrade: 'websocket', connection: 'upgrade' } }).end()
    const [answer, socket] = (await once(sent, 'upgrade')) as [IncomingMessage, ReturnType<typeof connect>]
    socket.destroy()
    expect(answer.headers).toMatchObject({ upgrade: 'websocket', 'x-own': 'yes', 'set-cookie': ['b=2'] })
    expect(answer.headers.connection?.toLowerCase()).toBe('upgrade')
    for (const name of ['x-hop', 'x-middleware-next', 'x-next-cache-tags'])
      expect(answer.headers).not.toHaveProperty(name)
  })

  test('lose nothing of what was sent before the end', async () => {
    const socket = connectEdge()
    socket.write(`GET /large HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
    let length = 0
    for await (const chunk of socket) {
      length += (chunk as Buffer).length
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    expect(length).toBeGreaterThan(20_000_000)
  })
})
