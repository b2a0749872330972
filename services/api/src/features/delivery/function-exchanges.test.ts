import { once } from 'node:events'
import { Agent, type IncomingMessage, request, type RequestOptions } from 'node:http'
import { connect } from 'node:net'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { visit } from '../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../test/deployments.ts'
import { buildOutput, handler } from '../../../test/functions.ts'
import { newOwner, type Owner } from '../../../test/scenario.ts'
import { runtimeLogs } from '../runtime-logs/table.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true, env: { DEFAULT_PLAN: 'pro' } })
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

async function deploy(code: string) {
  const archive = buildOutput({ index: { code } }, { routes: [{ src: '/.*', dest: '/' }] })
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
      { timeout: 15_000, interval: 50 },
    )
  })
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
      { timeout: 15_000, interval: 100 },
    )
  })
})

describe('upgrades', () => {
  const code = `
    import { createServer } from 'node:http'
    const server = createServer(async (req, res) => {
      let body = ''
      for await (const chunk of req) body += chunk
      res.end(req.method + ' ' + body)
    })
    server.on('upgrade', (req, socket) => {
      socket.on('error', () => {})
      socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade, x-hop\\r\\nx-hop: 1\\r\\n' +
        'Set-Cookie: a=1; Domain=example.com\\r\\nSet-Cookie: b=2\\r\\nx-middleware-next: 1\\r\\nx-next-cache-tags: t\\r\\nX-Own: yes\\r\\n\\r\\n')
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
