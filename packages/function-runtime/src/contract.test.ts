import { openSandbox as openSandboxOf, type SandboxMode } from '@platform/sandbox/open-sandbox'
import type { Sandbox } from '@platform/sandbox/sandbox'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, get as httpGet, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { unless } from '@platform/test-runner/task-meta'
import { array, constantFrom, oneof, sample, string } from 'fast-check'
import type { Dispatcher } from 'undici'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { WebSocket } from 'ws'
import { type Fixture, openFixture } from '../test/fixture.ts'
import type { FunctionFailure, FunctionSource, Lease } from './function-runtime.ts'
import type { RuntimeTimings } from './open-function-runtime.ts'

// oxlint-disable-next-line node/no-process-env -- in CI bubblewrap has to be there, and a drill measures seconds
const { CI = '', DRILL = '' } = process.env
const [isCi, isDrill] = [CI, DRILL].map((value) => !['', '0', 'false'].includes(value))

const openDriver = (mode: SandboxMode) => (folder: string) =>
  openSandboxOf({ folder, mode, egress: mode === 'none' ? 'host' : 'none' })

/** Why no sandbox can be opened here; in CI the tests fail for that reason instead of being skipped. */
async function findObstacle(mode: SandboxMode): Promise<string | undefined> {
  if (isCi) return undefined
  const folder = await mkdtemp(join(tmpdir(), 'fr-'))
  try {
    await (await openDriver(mode)(folder)).close()
    return undefined
  } catch (error) {
    return `the walls of the sandbox: ${error instanceof Error ? error.message : 'unknown'}`
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const drivers: {
  driver: string
  mode: SandboxMode
  open: (folder: string) => Promise<Sandbox>
  obstacle: string | undefined
}[] = [
  { driver: 'plain processes', mode: 'none', open: openDriver('none'), obstacle: undefined },
  {
    driver: 'bubblewrap',
    mode: 'required',
    open: openDriver('required'),
    obstacle: await findObstacle('required'),
  },
]

const patience = { timeout: 60_000, interval: 20 }

describe.each(drivers)('in $driver', ({ mode, open: openSandbox, obstacle }) => {
  const fixtures: Fixture[] = []
  afterEach(async () => {
    for (const fixture of fixtures.splice(0)) await fixture.close()
  })
  const open = async (timings?: Partial<RuntimeTimings>): Promise<Fixture> => {
    const fixture = await openFixture(openSandbox, timings)
    fixtures.push(fixture)
    return fixture
  }
  /** No slot counts as late, however busy this machine is. */
  const neverLate = { lagMs: 0 }
  const failureOf = async (promise: Promise<unknown>): Promise<FunctionFailure> => {
    const error = await errorOf(promise)
    expect(error).toHaveProperty('name', 'FunctionFailure')
    return error as FunctionFailure
  }
  const get = (lease: Lease, path: string, more: Partial<Dispatcher.RequestOptions> = {}) =>
    lease.dispatcher.request({ origin: 'http://slot', path, method: 'GET', ...more })
  /** The edge's answer to a request that broke off. */
  const brokenBy = async (fixture: Fixture, source: FunctionSource, path: string) => {
    const lease = await fixture.acquire(source)
    await expect(get(lease, path)).rejects.toThrow(/other side closed|ECONNRESET|socket/)
    const failure = await vi.waitUntil(() => lease.failure(), patience)
    lease.release()
    return failure
  }

  describe('a handler', unless(obstacle), () => {
    test.each([
      ['a default export of (req, res)', { 'index.mjs': `export default (req, res) => res.end('hello ' + req.url)` }],
      ['module.exports', { 'index.cjs': `module.exports = (req, res) => res.end('hello ' + req.url)` }],
      [
        'a default export that a bundler wrapped more than once',
        {
          'index.cjs': `exports.__esModule = true; exports.default = { default: { default: (req, res) => res.end('hello ' + req.url) } }`,
        },
      ],
      [
        'an http.Server',
        {
          'index.mjs': `import http from 'node:http'; export default http.createServer((req, res) => res.end('hello ' + req.url))`,
        },
      ],
      [
        'a server that listens on a port of its own',
        {
          'index.mjs': `import http from 'node:http'; http.createServer((req, res) => res.end('hello ' + req.url)).listen(4567)`,
        },
      ],
      [
        'fetch',
        {
          'index.mjs': `export default { fetch: (request) => new Response('hello ' + new URL(request.url).pathname) }`,
        },
      ],
      [
        'functions named after methods',
        { 'index.mjs': `export const GET = async (request) => new Response('hello ' + new URL(request.url).pathname)` },
      ],
    ])('is %s', async (...[, files]) => {
      const { deploy, request } = await open()
      const source = await deploy(files)
      expect(await request(source, '/path')).toMatchObject({ status: 200, body: 'hello /path' })
    })

    test('is a web handler whatever it looks like when the build says so', async () => {
      const { deploy, request } = await open()
      const source = await deploy(
        {
          'index.mjs': `export default async (request, context) => new Response(JSON.stringify([
            request.method, request.url, request.headers.get('x-a'), await request.text(), typeof context.waitUntil]), {
            status: 201, headers: [['set-cookie', 'a=1'], ['set-cookie', 'b=2'], ['x-b', 'c']] })`,
        },
        { isWeb: true },
      )
      const answer = await request(source, '/p?q=1', {
        method: 'POST',
        body: 'text',
        headers: { host: 'a.example:8080', 'x-forwarded-proto': 'https', 'x-a': 'b' },
      })
      expect(answer.status).toBe(201)
      expect(answer.headers).toMatchObject({ 'set-cookie': ['a=1', 'b=2'], 'x-b': 'c' })
      expect(JSON.parse(answer.body)).toEqual(['POST', 'https://a.example:8080/p?q=1', 'b', 'text', 'function'])
    })

    test('of methods answers HEAD by GET, OPTIONS by itself and refuses the others', async () => {
      const { deploy, request } = await open()
      const source = await deploy({
        'index.mjs': `export const GET = () => new Response('body', { headers: { 'x-a': 'b' } })`,
      })
      expect(await request(source, '/', { method: 'HEAD' })).toMatchObject({
        status: 200,
        body: '',
        headers: { 'x-a': 'b' },
      })
      expect(await request(source, '/', { method: 'OPTIONS' })).toMatchObject({
        status: 204,
        headers: { allow: 'GET' },
      })
      expect(await request(source, '/', { method: 'POST' })).toMatchObject({ status: 405, headers: { allow: 'GET' } })
    })

    test('finds frameworks: Hono', async () => {
      const { deploy, request } = await open()
      const source = await deploy(
        {
          'index.mjs': `import { Hono } from 'hono'; const app = new Hono(); app.get('/a/:b', (c) => c.json(c.req.param())); export default app`,
        },
        {},
        ['hono'],
      )
      expect(await request(source, '/a/x')).toMatchObject({ status: 200, body: '{"b":"x"}' })
    })

    test('that fails answers 500, says why in the log of that request, and goes on', async () => {
      const { deploy, request, lines } = await open()
      for (const text of [
        `export default async (req, res) => { if (req.url === '/fail') throw new Error('out of luck'); res.end('fine') }`,
        `export const GET = (request) => { if (request.url.endsWith('/fail')) throw new Error('out of luck'); return new Response('fine') }`,
      ]) {
        const source = await deploy({ 'index.mjs': text })
        expect(await request(source, '/fail', { headers: { 'x-request-id': 'r-1' } })).toMatchObject({ status: 500 })
        expect(await request(source, '/')).toMatchObject({ status: 200, body: 'fine' })
        const { functionId } = source
        await expect
          .poll(() => lines.filter((line) => line.functionId === functionId), patience)
          .toContainEqual(expect.objectContaining({ level: 'ERROR', requestId: 'r-1', message: 'Error: out of luck' }))
      }
    })

    test('of the kind edge is (request, context) with waitUntil, caches and ASSETS', async () => {
      const { deploy, request } = await open()
      const source = await deploy(
        {
          'index.mjs': `export default (request, context) => {
            context.waitUntil(Promise.resolve())
            context.passThroughOnException()
            return Response.json([typeof caches.default.match, request.method])
          }`,
        },
        { kind: 'edge' },
      )
      expect(await request(source)).toMatchObject({ status: 200, body: '["function","GET"]' })
    })

    test('of the kind edge finds the globals of the Edge Runtime, and a few modules of Node by require', async () => {
      const { deploy, request } = await open()
      const source = await deploy(
        {
          'index.mjs': `const { AsyncLocalStorage: storage } = require('node:async_hooks')
            const isRefused = (() => { try { require('node:fs') } catch (error) { return error.message.includes('"node:fs"') } })()
            export default () => Response.json([self === globalThis, storage === AsyncLocalStorage, EdgeRuntime, isRefused])`,
        },
        { kind: 'edge' },
      )
      expect(await request(source)).toMatchObject({ status: 200, body: '[true,true,"edge-runtime",true]' })
    })

    test('of the kind worker gets its variables, the files of its deployment and a cache', async () => {
      const { deploy, request } = await open()
      const source = await deploy(
        {
          '_worker.js': `export default { async fetch(request, env, context) {
            const url = new URL(request.url)
            if (url.pathname.startsWith('/assets/')) return env.ASSETS.fetch(request)
            const before = await (await caches.default.match('http://a/b'))?.text()
            await caches.default.put('http://a/b', new Response('kept', { headers: { 'cache-control': 'max-age=60' } }))
            return Response.json({ greeting: env.GREETING, api: env.PLATFORM_API_URL, before, names: Object.keys(context) })
          } }`,
          'package.json': '{"type":"module"}',
        },
        { kind: 'worker', variables: { GREETING: 'hello' } },
      )
      const asset = createServer((req, res) => {
        res.writeHead(req.url === '/assets/a.txt?v=1' ? 200 : 404, {
          'x-host': req.headers.host,
          'set-cookie': ['a=1', 'b=2'],
        })
        res.end(`${req.method} file`)
      }).listen(join(source.platformFolder, 'assets.sock'))
      await once(asset, 'listening')
      await chmod(join(source.platformFolder, 'assets.sock'), 0o666)
      try {
        expect(JSON.parse((await request(source)).body)).toMatchObject({
          greeting: 'hello',
          api: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
        })
        expect(JSON.parse((await request(source)).body)).toMatchObject({ before: 'kept' })
        expect(await request(source, '/assets/a.txt?v=1')).toMatchObject({
          status: 200,
          body: 'GET file',
          headers: { 'x-host': 'site.example', 'set-cookie': ['a=1', 'b=2'] },
        })
        expect(await request(source, '/assets/a.txt?v=1', { method: 'HEAD' })).toMatchObject({ status: 200, body: '' })
        expect(await request(source, '/assets/b')).toMatchObject({ status: 404 })
      } finally {
        asset.close()
      }
    })

    test('that imports a module of Cloudflare is refused by its name', async () => {
      const { deploy, acquire } = await open()
      const source = await deploy(
        {
          'index.mjs': `import { WorkerEntrypoint } from 'cloudflare:workers'; export default class extends WorkerEntrypoint {}`,
        },
        { kind: 'worker' },
      )
      const failure = await failureOf(acquire(source))
      expect(failure.code).toBe('function_crashed')
      expect(failure.message).toContain('The module "cloudflare:workers" is not available here')
    })

    test('sees no more of the launcher than is documented', async () => {
      const { deploy, request } = await open()
      const source = await deploy({
        'index.mjs': `
          import { execFileSync } from 'node:child_process'
          export default (req, res) => res.end(JSON.stringify({
            argv: process.argv.slice(1), send: typeof process.send, globals: Object.keys(globalThis),
            children: execFileSync('/bin/sh', ['-c', 'ls /proc/self/fd']).toString().trim().split(/\\s+/),
            context: Object.keys(globalThis[Symbol.for('@vercel/request-context')].get()),
            listeners: process.eventNames(), cwd: process.cwd(), address: req.socket.remoteAddress,
          }))`,
      })
      const seen = JSON.parse((await request(source)).body) as Record<string, unknown>
      expect(seen).toMatchObject({ send: 'undefined', context: ['waitUntil', 'headers', 'url'], address: '127.0.0.1' })
      expect(seen['argv']).toEqual([join(seen['cwd'] as string, 'index.mjs')])
      expect(seen['listeners']).not.toContain('uncaughtException')
      expect(seen['globals']).toEqual(
        Object.keys(globalThis).filter((name) => (seen['globals'] as string[]).includes(name)),
      )
      // 3 is the folder that ls itself reads: it would be 4 if a child had the control channel.
      expect(seen['children']).toEqual(expect.arrayContaining(['0', '1', '2', '3']))
      expect(seen['children']).not.toContain('4')
    })
  })

  describe('a server', unless(obstacle), () => {
    test('listens on PORT: Express, as a program of its own', async () => {
      const { deploy, request } = await open()
      const source = await deploy(
        {
          'server.js': `
            const app = require('express')()
            app.get('/', (req, res) => res.json({ isMain: require.main === module, ip: req.ip }))
            if (require.main === module) app.listen(process.env.PORT, () => console.log('listening'))`,
        },
        { kind: 'server', variables: { PORT: '8080' } },
        ['express'],
      )
      expect(JSON.parse((await request(source)).body)).toEqual({ isMain: true, ip: '127.0.0.1' })
    })

    test('listens on PORT: Hono', async () => {
      const { deploy, request, messages } = await open()
      const source = await deploy(
        {
          'server.mjs': `
            import { serve } from '@hono/node-server'
            import { Hono } from 'hono'
            const app = new Hono()
            app.get('/', (c) => c.text('hello'))
            serve({ fetch: app.fetch, port: Number(process.env.PORT) }, ({ port }) => console.log('port ' + port))`,
        },
        { kind: 'server' },
        ['hono', '@hono/node-server'],
      )
      expect(await request(source)).toMatchObject({ status: 200, body: 'hello' })
      await expect.poll(messages, patience).toContain('port 3000')
    })

    test.each([
      [
        'by its module',
        { kind: 'server' },
        /it listens on 0 and not on PORT \(3000\): let it listen on process\.env\.PORT/,
      ],
      [
        'by a start script',
        {
          kind: 'server',
          handler: undefined,
          command: 'true && node server.mjs',
          variables: { PATH: process.execPath.replace(/\/node$/, '') },
        },
        /it listens on \d+ and not on PORT \(\d+\): let it listen on process\.env\.PORT/,
      ],
    ] as const)('%s that listens on another port is told which', async (_, how, sentence) => {
      const { deploy, acquire } = await open()
      const source = await deploy(
        { 'server.mjs': `import http from 'node:http'; http.createServer(() => {}).listen(0)` },
        how,
      )
      const failure = await failureOf(acquire(source))
      expect(failure.message).toMatch(sentence)
    })

    test('runs in its working folder, and finds the programs of packages there and above it', async () => {
      const { deploy, request } = await open()
      const answer = `require('node:child_process').execFileSync('hello', { encoding: 'utf8' })`
      const source = await deploy(
        {
          'node_modules/.bin/hello': '#!/bin/sh\necho hello from above',
          'apps/api/node_modules/.keep': '',
          'apps/api/index.js': `require('node:http').createServer((req, res) => res.end(process.cwd().split('/').slice(-2) + ' ' + ${answer})).listen(process.env.PORT)`,
        },
        { kind: 'server', handler: 'apps/api/index.js', workingFolder: 'apps/api' },
      )
      const { chmodSync } = await import('node:fs')
      chmodSync(`${source.folder}/node_modules/.bin/hello`, 0o755)
      expect(await request(source)).toMatchObject({ status: 200, body: 'apps,api hello from above\n' })
    })

    test('by a start script is reached over a port of its own, WebSockets too', async () => {
      const { deploy, request, acquire, messages } = await open()
      const source = await deploy(
        {
          'server.mjs': `
            import http from 'node:http'
            import { WebSocketServer } from 'ws'
            const server = http.createServer((req, res) => res.end([process.env.A, process.argv[2]].join()))
            new WebSocketServer({ server }).on('connection', (socket) => socket.on('message', (data) => socket.send('echo ' + data)))
            server.listen(process.env.PORT, '127.0.0.1', () => console.log('up'))`,
        },
        {
          kind: 'server',
          handler: undefined,
          command: `node server.mjs "an argument"`,
          variables: { A: 'b', PATH: process.execPath.replace(/\/node$/, '') },
        },
        ['ws'],
      )
      expect(await request(source)).toMatchObject({ status: 200, body: 'b,an argument' })
      const lease = await acquire(source)
      expect(await echoed(lease)).toBe('echo hello')
      lease.release()
      expect(messages()).toContain('up')
    })

    test('by a start script that ends is a crash', async () => {
      const { deploy, acquire, messages } = await open()
      const source = await deploy(
        { 'a.txt': '' },
        { kind: 'server', handler: undefined, command: 'echo no luck >&2; exit 3' },
      )
      const failure = await failureOf(acquire(source))
      expect(failure).toMatchObject({
        code: 'function_crashed',
        message: expect.stringContaining('exit code 3') as string,
      })
      expect(messages()[0]).toBe('no luck')
    })
  })

  describe('streams', unless(obstacle), () => {
    const events = `export const GET = (request) => {
      let n = 0
      return new Response(new ReadableStream({
        async pull(controller) {
          if (n > 0) await globalThis.next.promise
          globalThis.next = Promise.withResolvers()
          controller.enqueue(new TextEncoder().encode('data: ' + n++ + '\\n\\n'))
        },
        cancel() { console.log('cancelled') },
      }), { headers: { 'content-type': 'text/event-stream' } })
    }
    export const POST = () => { globalThis.next.resolve(); return new Response(null, { status: 204 }) }
    globalThis.next = Promise.withResolvers()`

    test('events go out one at a time, and the handler learns that the client went', async () => {
      const { deploy, request, acquire, messages } = await open()
      const source = await deploy({ 'index.mjs': events })
      const lease = await acquire(source)
      const answer = await get(lease, '/')
      const chunks = answer.body[Symbol.asyncIterator]() as AsyncIterator<Buffer>
      for (let n = 0; n < 3; n += 1) {
        expect(String((await chunks.next()).value)).toBe(`data: ${n}\n\n`)
        // The next chunk is only produced on request, so nothing waited for the end of the body.
        await request(source, '/', { method: 'POST' })
      }
      answer.body.on('error', () => {}).destroy()
      await expect.poll(messages, patience).toContain('cancelled')
      lease.release()
      expect(await request(source, '/', { method: 'POST' })).toMatchObject({ status: 204 })
    })

    test('the head goes out before the body', async () => {
      const { deploy, acquire } = await open()
      const source = await deploy({
        'index.mjs': `export const GET = () => new Response(new ReadableStream({ pull: () => new Promise(() => {}) }), { status: 203 })`,
      })
      const lease = await acquire(source)
      const answer = await get(lease, '/')
      expect(answer.statusCode).toBe(203)
      answer.body.on('error', () => {}).destroy()
      lease.release()
    })

    test('a body comes in as it is sent, and request.signal aborts when the client goes', async () => {
      const { deploy, acquire, messages } = await open()
      const source = await deploy({
        'index.mjs': `export const POST = async (request) => {
          request.signal.addEventListener('abort', () => console.log('aborted'))
          try { for await (const chunk of request.body) console.log('got ' + new TextDecoder().decode(chunk)) } catch {}
          return new Response('done')
        }`,
      })
      const lease = await acquire(source)
      const body = new TransformStream<string, string>()
      const writer = body.writable.getWriter()
      const stop = new AbortController()
      const answer = get(lease, '/', { method: 'POST', body: body.readable as never, signal: stop.signal })
      const failed = errorOf(answer)
      for (const text of ['one', 'two']) {
        await writer.write(text)
        await expect.poll(messages, patience).toContain(`got ${text}`)
      }
      stop.abort()
      expect(String(await failed)).toContain('aborted')
      await expect.poll(messages, patience).toContain('aborted')
      lease.release()
    })

    test.each([
      [
        'web handler',
        `let sent = 0; export const GET = (request) => request.url.endsWith('/sent') ? new Response(String(sent)) : new Response(new ReadableStream({
          pull(controller) { sent += 65536; controller.enqueue(new Uint8Array(65536)) } }))`,
      ],
      [
        '(req, res)',
        `let sent = 0; export default (req, res) => { if (req.url === '/sent') return res.end(String(sent))
          const more = () => { while (true) { sent += 65536; if (!res.write(Buffer.alloc(65536))) break } }
          res.on('drain', more); more() }`,
      ],
    ])('a client that does not read stops a body of no end: %s', async (...[, text]) => {
      const { deploy, request, acquire } = await open()
      const source = await deploy({ 'index.mjs': text })
      const lease = await acquire(source)
      const answer = await get(lease, '/')
      let before = -1
      // Until sending stops, which without backpressure never happens.
      await expect
        .poll(
          async () => {
            const sent = Number((await request(source, '/sent')).body)
            const isStill = sent === before
            before = sent
            return isStill
          },
          { timeout: 60_000, interval: 300 },
        )
        .toBe(true)
      expect(before).toBeLessThan(8 << 20)
      answer.body.on('error', () => {}).destroy()
      lease.release()
    })

    test('a handler that does not read stops an upload of no end', async () => {
      const { deploy, acquire } = await open()
      const source = await deploy({ 'index.mjs': `export const POST = (request) => new Promise(() => {})` })
      const lease = await acquire(source)
      let sent = 0
      const body = new ReadableStream<Uint8Array>({
        pull(controller) {
          sent += 65_536
          controller.enqueue(new Uint8Array(65_536))
        },
      })
      const stop = new AbortController()
      const answer = get(lease, '/', { method: 'POST', body: body as never, signal: stop.signal })
      const failed = errorOf(answer)
      let before = -1
      await expect
        .poll(
          () => {
            const isStill = sent > 0 && sent === before
            before = sent
            return isStill
          },
          { timeout: 60_000, interval: 300 },
        )
        .toBe(true)
      expect(sent).toBeLessThan(8 << 20)
      stop.abort()
      expect(String(await failed)).toContain('aborted')
      lease.release()
    })

    test('WebSockets reach an http.Server, and a handler of requests answers them with 501', async () => {
      const { deploy, acquire } = await open()
      const source = await deploy(
        {
          'index.mjs': `
            import http from 'node:http'
            import { WebSocketServer } from 'ws'
            const server = http.createServer()
            new WebSocketServer({ server }).on('connection', (socket) => socket.on('message', (data) => socket.send('echo ' + data)))
            export default server`,
        },
        {},
        ['ws'],
      )
      const lease = await acquire(source)
      expect(await echoed(lease)).toBe('echo hello')
      lease.release()
      const plain = await acquire(await deploy({ 'index.mjs': `export const GET = () => new Response('a')` }))
      await expect(echoed(plain)).rejects.toThrow('501')
      plain.release()
    })
  })

  describe('slots', unless(obstacle), () => {
    const handler = { 'index.mjs': `const own = crypto.randomUUID(); export default (req, res) => res.end(own)` }

    test('what was compiled is kept for the next slot', async () => {
      const { deploy, request, folder } = await open()
      await request(await deploy(handler))
      const kept = () => readdir(join(folder, 'r', 'cache'), { recursive: true })
      // Besides the Function's folder, and that of this version of Node.
      await expect.poll(async () => (await kept()).length, patience).toBeGreaterThan(2)
    })

    test('the socket is out of reach, and a link in its place is refused', async () => {
      const { deploy, acquire, request, folder } = await open()
      const source = await deploy({
        'index.mjs': `
          import fs from 'node:fs'
          import { dirname } from 'node:path'
          export default (req, res) => { fs.symlinkSync('/var/run/other.sock', process.env.OWN + '/s'); res.end(fs.readdirSync(process.env.OWN).join()) }
          if (process.env.SWAP) {
            const { listen } = (await import('node:net')).Server.prototype
            process.on('newListener', () => {})
            const timer = setInterval(() => {}, 1)
            const { writeSync } = fs
            // What the launcher says is what code in its process can say.
            fs.symlinkSync('/var/run/other.sock', process.env.OWN + '/s')
            writeSync(3, '{"ready":true}\\n')
            await new Promise(() => {})
          }`,
      })
      // The first slot of this runtime has the folder 1, the second the folder 2.
      const own = (number: number) =>
        fixtures[0]!.sandbox.capabilities.isIsolated ? '/run/slot' : join(folder, 'r', 'slots', String(number))
      const honest = { ...source, variables: { OWN: own(1) } }
      expect(await request(honest)).toMatchObject({ status: 200, body: 's' })
      const swapped = { ...source, functionId: 'swapped', variables: { OWN: own(2), SWAP: 'yes' } }
      const failure = await failureOf(acquire(swapped))
      expect(failure.message).toBe('Its socket was taken away or replaced before it was ready.')
      await expect.poll(() => readdir(join(folder, 'r', 'sockets')), patience).toEqual(['1'])
      // The first slot continued to answer, though its folder now contains a link.
      expect(await request(honest, '/')).toMatchObject({ status: 500 })
      expect((await stat(join(folder, 'r', 'sockets', '1'))).isSocket()).toBe(true)
    })

    // What follows lies above the sandbox, so that one driver shows it.
    if (mode !== 'none') return

    test('a hundred callers share one start', async () => {
      const { deploy, runtime, request } = await open(neverLate)
      const source = await deploy(handler, { slotsMax: 4 })
      let loads = 0
      const load = async () => {
        loads += 1
        return source
      }
      const leases = await Promise.all(Array.from({ length: 100 }, () => runtime.acquire(source.functionId, load)))
      expect(loads).toBe(1)
      expect(new Set(leases.map(({ slot }) => slot))).toEqual(new Set([0]))
      const answers = await Promise.all(leases.map(async (lease) => (await get(lease, '/')).body.text()))
      expect(new Set(answers).size).toBe(1)
      for (const lease of leases) lease.release()
      // Safe to repeat: otherwise the count would become negative.
      for (const lease of leases) lease.release()
      expect(await runtime.takeUsage()).toMatchObject([{ slots: 1, coldStarts: 1, requests: 100 }])
      expect((await request(source)).body).toBe(answers[0])
      expect(await runtime.takeUsage()).toMatchObject([{ slots: 1, coldStarts: 0, requests: 1 }])
    })

    test('a full slot gets another beside it up to the limit, and beyond that callers are refused', async () => {
      const { deploy, acquire, runtime, messages } = await open()
      const source = await deploy(handler, { slotsMax: 2 })
      const leases = [await acquire(source)]
      const slots = () => new Set(leases.map(({ slot }) => slot)).size
      while (leases.length < 50) leases.push(await acquire(source))
      expect(slots()).toBe(1)
      const one = await acquire(source)
      leases.push(one)
      await expect.poll(async () => (await runtime.takeUsage())[0]?.slots, patience).toBe(2)
      for (let n = leases.length; n < 400; n += 1) leases.push(await acquire(source))
      expect(slots()).toBe(2)
      const failure = await failureOf(acquire(source))
      expect(failure.code).toBe('function_overloaded')
      expect((await failureOf(acquire(source))).message).toContain('Each of its 2 slots has 200 requests under way')
      expect(messages().filter((message) => message.startsWith('Refused a request'))).toHaveLength(1)
      one.release()
      leases.push(await acquire(source))
      for (const lease of leases) lease.release()
    })

    test('a slot whose event loop is late gets another beside it', async () => {
      const { deploy, request, runtime } = await open({ lagMs: 60_000 })
      const source = await deploy(
        {
          'index.mjs': `export default (req, res) => {
            if (req.url === '/late') for (const end = Date.now() + 400; Date.now() < end; );
            // After the next look at the loop.
            setTimeout(() => res.end('fine'), 300)
          }`,
        },
        { slotsMax: 2 },
      )
      await request(source, '/late')
      // The lag message travels separately from the answer, and may be read after it.
      const slotsAfterRequest = async () => {
        await request(source, '/')
        return (await runtime.takeUsage())[0]?.slots
      }
      await expect.poll(slotsAfterRequest, patience).toBe(2)
    })

    test('a slot that was late and has answered everybody is asked before one that answers somebody', async () => {
      const { deploy, acquire } = await open()
      const source = await deploy(
        {
          'index.mjs': `export default (req, res) => { for (const end = Date.now() + 400; Date.now() < end; ); res.end() }`,
        },
        { slotsMax: 2 },
      )
      const pinTo = (slot: number) => acquire(source, { slot, forMs: 0 })
      // All else being equal, the slot that started first is chosen first.
      for (const slot of [0, 1]) (await pinTo(slot)).release()
      const chooseAfterLate = async () => {
        const late = await pinTo(0)
        await (await get(late, '/')).body.text()
        late.release()
        const lease = await acquire(source)
        const { slot } = lease
        if (slot !== 1) lease.release()
        return slot
      }
      // While both are idle, the late one comes last. It counts as late for two seconds.
      await expect.poll(chooseAfterLate, patience).toBe(1)
      expect((await acquire(source)).slot).toBe(0)
    })

    test('a slot without requests ends, and the next request starts it again', async () => {
      const { deploy, request, runtime, messages } = await open({ idleMs: 100 })
      const source = await deploy(handler)
      const { body } = await request(source)
      await expect.poll(async () => (await runtime.takeUsage()).length, patience).toBe(0)
      expect((await request(source)).body).not.toBe(body)
      expect(messages()).toEqual([])
    })

    test('closing lets requests and waitUntil finish, and starts nothing more', async () => {
      const { deploy, acquire, runtime, messages } = await open()
      const source = await deploy({
        'index.mjs': `
          const { promise, resolve } = Promise.withResolvers()
          export default async (req, res) => {
            if (req.url === '/go') { res.end(); resolve(); return }
            const { waitUntil } = globalThis[Symbol.for('@vercel/request-context')].get()
            waitUntil(promise.then(() => new Promise((resolve) => setTimeout(resolve, 50))).then(() => console.log('waited for')))
            res.write('half')
            await promise
            res.end(', whole')
          }`,
      })
      const lease = await acquire(source)
      const go = await acquire(source)
      const answer = await get(lease, '/')
      const closed = runtime.close(30_000)
      expect((await failureOf(acquire(source))).code).toBe('function_overloaded')
      await (await get(go, '/go')).body.dump()
      go.release()
      expect(await answer.body.text()).toBe('half, whole')
      lease.release()
      await closed
      expect(messages()).toEqual(['waited for'])
    })

    test('closing serves who waits for a start, and does not wait for one that takes too long', async () => {
      const first = await open()
      const source = await first.deploy(handler)
      const acquired = first.acquire(source)
      const closed = first.runtime.close(30_000)
      const lease = await acquired
      expect((await get(lease, '/')).statusCode).toBe(200)
      lease.release()
      await closed

      // Closing that waited for the start would outlast this test.
      const second = await open({ startMs: 3_600_000 })
      const slow = await second.deploy({ 'index.mjs': `setInterval(() => {}, 1000); await new Promise(() => {})` })
      const failure = failureOf(second.acquire(slow))
      await second.runtime.close(100)
      expect(await failure).toMatchObject({ code: expect.any(String) as string })
    })

    test('draining has a deadline', async () => {
      const { deploy, acquire, runtime } = await open()
      const source = await deploy({
        'index.mjs': `export default (req, res) => { globalThis[Symbol.for('@vercel/request-context')].get().waitUntil(new Promise(() => setInterval(() => {}, 1000))); res.write('a') }`,
      })
      const lease = await acquire(source)
      const answer = await get(lease, '/')
      const broken = errorOf(answer.body.text())
      await runtime.close(100)
      expect(String(await broken)).toMatch(/terminated|other side closed/)
    })

    test('waitUntil goes on after the answer, and its failure is a line', async () => {
      const { deploy, request, messages, lines } = await open()
      const source = await deploy({
        'index.mjs': `
          const { promise, resolve } = Promise.withResolvers()
          export const POST = () => { resolve(); return new Response() }
          export const GET = (request, { waitUntil }) => {
            waitUntil(promise.then(() => { console.log('after'); throw new Error('too late') }))
            return new Response('answered')
          }`,
      })
      expect(await request(source, '/', { headers: { 'x-request-id': 'r-7' } })).toMatchObject({ body: 'answered' })
      expect(messages()).toEqual([])
      await request(source, '/', { method: 'POST' })
      await expect.poll(messages, patience).toContain('Error: too late')
      expect(lines[0]).toMatchObject({ message: 'after', requestId: 'r-7', level: 'INFO' })
    })

    test('those of a deployment that is not wanted any more end, at once where they are not ready', async () => {
      // Longer than the test.
      const { deploy, acquire, runtime, messages } = await open({ startMs: 3_600_000, drainMs: 3_600_000 })
      const [kept, dropped] = [await deploy(handler), await deploy(handler)]
      for (const source of [kept, dropped]) (await acquire(source)).release()
      runtime.reconcile((deploymentId) => deploymentId === kept.deploymentId)
      await expect
        .poll(async () => (await runtime.takeUsage()).map(({ functionId }) => functionId), patience)
        .toEqual([kept.functionId])
      const starting = await deploy({
        'index.mjs': `console.log('begun'); setInterval(() => {}, 1000); await new Promise(() => {})`,
      })
      const started = errorOf(runtime.start(starting))
      await expect.poll(messages, patience).toContain('begun')
      runtime.reconcile((deploymentId) => deploymentId === kept.deploymentId)
      expect(String(await started)).toContain('It was stopped while it started')
    })

    test('a trial start leaves none, any other a warm one', async () => {
      const { deploy, runtime } = await open()
      const source = await deploy(handler)
      await runtime.start(source, true)
      expect(await runtime.takeUsage()).toMatchObject([{ slots: 0, coldStarts: 1 }])
      await runtime.start(source)
      await runtime.start(source)
      const usage = await runtime.takeUsage()
      expect(usage).toMatchObject([{ slots: 1, coldStarts: 1, requests: 0, busyMs: 0 }])
      expect(usage[0]?.memoryBytes).toBeGreaterThan(5 << 20)
    })

    test('a trial start is ended when nobody wants it any more, but not under those who wait for it', async () => {
      // Longer than the test: the signal has to end them.
      const { deploy, acquire, runtime, messages } = await open({ startMs: 3_600_000 })
      const never = await deploy({
        'index.mjs': `console.log('begun'); setInterval(() => {}, 1000); await new Promise(() => {})`,
      })
      const stop = new AbortController()
      const tried = errorOf(runtime.start(never, true, stop.signal))
      await expect.poll(messages, patience).toEqual(['begun'])
      stop.abort(new Error('not wanted'))
      expect(String(await tried)).toBe('Error: not wanted')
      expect((await runtime.takeUsage())[0]).toMatchObject({ functionId: never.functionId, slots: 0 })
      expect(messages()).toEqual(['begun'])

      const slow = await deploy({
        'index.mjs': `import { existsSync } from 'node:fs'
          console.log('slow'); while (!existsSync(process.env.GO)) await new Promise((resolve) => setTimeout(resolve, 20))
          export default (req, res) => res.end('there')`,
      })
      const go = join(slow.folder, 'go')
      const source = { ...slow, variables: { GO: fixtures[0]!.sandbox.capabilities.isIsolated ? '/var/task/go' : go } }
      const later = new AbortController()
      const second = errorOf(runtime.start(source, false, later.signal))
      await expect.poll(messages, patience).toContain('slow')
      const waiting = acquire(source)
      later.abort(new Error('not wanted'))
      await writeFile(go, '')
      const lease = await waiting
      expect(await (await get(lease, '/')).body.text()).toBe('there')
      lease.release()
      expect(await second).toBeUndefined()
    })

    test('time with streams alone counts a tenth', async () => {
      const { deploy, acquire, runtime } = await open()
      const [streams, requests] = [await deploy(handler), await deploy(handler)]
      const stream = await acquire(streams)
      const request = await acquire(requests)
      stream.countAsStream()
      stream.countAsStream()
      const busy = new Map<string, number>()
      const look = async () => {
        for (const { functionId, busyMs } of await runtime.takeUsage())
          busy.set(functionId, (busy.get(functionId) ?? 0) + busyMs)
        return [busy.get(streams.functionId) ?? 0, busy.get(requests.functionId) ?? 0] as const
      }
      await look()
      busy.clear()
      await expect.poll(async () => (await look())[1], patience).toBeGreaterThan(500)
      const [light, heavy] = await look()
      expect(light / heavy).toBeGreaterThan(0.05)
      expect(light / heavy).toBeLessThan(0.2)

      // Besides a stream, a request counts in full; after it ends, the stream counts a tenth again.
      const beside = await acquire(streams)
      await look()
      busy.clear()
      await expect.poll(async () => (await look())[1], patience).toBeGreaterThan(500)
      const [both, one] = await look()
      expect(both / one).toBeGreaterThan(0.8)
      beside.release()
      await look()
      busy.clear()
      await expect.poll(async () => (await look())[1], patience).toBeGreaterThan(500)
      const [left, still] = await look()
      expect(left / still).toBeLessThan(0.2)
      stream.release()
      request.release()
    })

    test('those that fail to start three times are left alone for a while', async () => {
      const { deploy, runtime, messages } = await open({ backOffMs: 60_000 })
      const source = await deploy({ 'index.mjs': `console.log('tried'); process.exit(1)` })
      let loads = 0
      const acquire = () =>
        runtime.acquire(source.functionId, async () => {
          loads += 1
          return source
        })
      for (let n = 0; n < 5; n += 1) expect((await failureOf(acquire())).code).toBe('function_crashed')
      expect(loads).toBe(3)
      expect(messages().filter((message) => message === 'tried')).toHaveLength(3)
    })
  })

  describe('a pin', unless(obstacle), () => {
    const handler = { 'index.mjs': `export default (req, res) => res.end('fine')` }
    const hourMs = 3_600_000
    const none = { slot: undefined, forMs: 0 }
    const pinTo = (slot: number) => ({ slot, forMs: 0 })
    const idOf = ({ slot, instance }: Lease) => ({ slot, instance })
    /** Blocks every start until the file exists. */
    const slow = {
      'index.mjs': `import { existsSync } from 'node:fs'
        console.log('begun'); while (!existsSync(process.env.GO)) await new Promise((resolve) => setTimeout(resolve, 20))
        export default (req, res) => res.end('there')`,
    }

    test('gets another process with the same number after a crash', async () => {
      const { deploy, acquire } = await open()
      const source = await deploy(
        { 'index.mjs': `export default (req, res) => { if (req.url === '/exit') process.exit(1); res.end('fine') }` },
        { slotsMax: 3 },
      )
      const kept = await acquire(source, pinTo(0))
      const killed = await acquire(source, pinTo(2))
      await expect(get(killed, '/exit')).rejects.toThrow(/other side closed|ECONNRESET/)
      expect(await killed.failure()).toMatchObject({ code: 'function_crashed' })
      killed.release()
      const next = await acquire(source, pinTo(2))
      expect(next.slot).toBe(2)
      expect(next.instance).not.toBe(killed.instance)
      expect(await (await get(next, '/')).body.text()).toBe('fine')
      const same = await acquire(source, pinTo(0))
      expect(idOf(same)).toEqual(idOf(kept))
      for (const lease of [kept, next, same]) lease.release()
    })

    // What follows lies above the sandbox, so that one driver shows it.
    if (mode !== 'none') return

    test('leads to the same process while slots are started beside it', async () => {
      const { deploy, acquire } = await open(neverLate)
      const source = await deploy(handler, { slotsMax: 4 })
      const leases: Lease[] = []
      const first = await acquire(source, none)
      leases.push(first)
      const growTo = async (slots: number) => {
        while (leases.length < (slots - 1) * 50) leases.push(await acquire(source))
        const newest = async () => {
          leases.push(await acquire(source))
          return leases.at(-1)!.slot
        }
        await expect.poll(newest, patience).toBe(slots - 1)
      }
      await growTo(2)
      const second = await acquire(source, none)
      leases.push(second)
      expect([first.slot, second.slot]).toEqual([0, 1])
      expect(second.instance).not.toBe(first.instance)
      for (const slots of [3, 4]) {
        await growTo(slots)
        for (const pinned of [first, second]) {
          for (let n = 0; n < 5; n += 1) {
            const lease = await acquire(source, pinTo(pinned.slot))
            expect(idOf(lease)).toEqual(idOf(pinned))
            leases.push(lease)
          }
        }
      }
      for (const lease of leases) lease.release()
    })

    test('without a number gets the slot with the fewest requests, and of those the one with the fewest pins', async () => {
      const { deploy, acquire } = await open(neverLate)
      const source = await deploy(handler, { slotsMax: 3 })
      for (const slot of [0, 1, 2]) (await acquire(source, pinTo(slot))).release()
      const choose = async () => {
        const lease = await acquire(source, none)
        lease.release()
        return lease.slot
      }
      const chosen: number[] = []
      for (let n = 0; n < 9; n += 1) chosen.push(await choose())
      expect(chosen.toSorted((a, b) => a - b)).toEqual([0, 0, 0, 1, 1, 1, 2, 2, 2])
      const busy = [await acquire(source, pinTo(0)), await acquire(source, pinTo(2))]
      expect([await choose(), await choose()]).toEqual([1, 1])
      for (const lease of busy) lease.release()
    })

    test('shares one start with those of its number, beside a start of another number', async () => {
      const { deploy, runtime } = await open()
      const source = await deploy(handler, { slotsMax: 4 })
      const other = Promise.withResolvers<void>()
      let loads = 0
      const load = async () => {
        loads += 1
        // Never ends unless the other start begins.
        await other.promise
        return source
      }
      const loadOther = async () => {
        other.resolve()
        return source
      }
      const { functionId } = source
      const leases = await Promise.all([
        runtime.acquire(functionId, load, pinTo(2)),
        runtime.acquire(functionId, load, pinTo(2)),
        runtime.acquire(functionId, loadOther, pinTo(1)),
      ])
      expect(loads).toBe(1)
      expect(leases.map(({ slot }) => slot)).toEqual([2, 2, 1])
      expect(leases[0].instance).toBe(leases[1].instance)
      expect(leases[2].instance).not.toBe(leases[0].instance)
      expect(await runtime.takeUsage()).toMatchObject([{ slots: 2, coldStarts: 2, requests: 3 }])
      for (const lease of leases) lease.release()
    })

    test('keeps its slot from ending without requests until its time is over, and no longer', async () => {
      const { deploy, acquire, runtime } = await open({ idleMs: 50 })
      const [long, short] = [await deploy(handler, { slotsMax: 2 }), await deploy(handler)]
      const slots = async (of: FunctionSource) =>
        (await runtime.takeUsage()).find(({ functionId }) => functionId === of.functionId)?.slots ?? 0
      const pinned = await acquire(long, { slot: 1, forMs: hourMs })
      ;(await acquire(long)).release()
      ;(await acquire(long, pinTo(0))).release()
      pinned.release()
      await expect.poll(() => slots(long), patience).toBe(1)
      const lease = await acquire(long)
      expect(idOf(lease)).toEqual(idOf(pinned))
      lease.release()

      const pinnedUntil = Date.now() + 1_500
      for (const [slot, forMs] of [
        [undefined, 0],
        [0, 1_500],
        [0, 0],
      ] as const) {
        ;(await acquire(short, { slot, forMs })).release()
      }
      await expect.poll(() => slots(short), patience).toBe(0)
      expect(Date.now()).toBeGreaterThanOrEqual(pinnedUntil)
      expect(await slots(long)).toBe(1)
    })

    test('gets the number of a slot that drains, beside it', async () => {
      // Longer than the test.
      const { deploy, acquire, runtime } = await open({ drainMs: hourMs })
      const source = await deploy(handler)
      const old = await acquire(source, none)
      runtime.reconcile(() => false)
      const next = await acquire(source, pinTo(0))
      expect(next.slot).toBe(0)
      expect(next.instance).not.toBe(old.instance)
      expect(await runtime.takeUsage()).toMatchObject([{ slots: 2 }])
      const unpinned = await acquire(source)
      expect(idOf(unpinned)).toEqual(idOf(next))
      expect(await (await get(old, '/')).body.text()).toBe('fine')
      old.release()
      await expect.poll(async () => (await runtime.takeUsage())[0]?.slots, patience).toBe(1)
      // Those without a number get this slot too: the plan has no other.
      runtime.reconcile(() => false)
      const last = await acquire(source)
      expect(last.slot).toBe(0)
      expect(last.instance).not.toBe(next.instance)
      for (const lease of [next, unpinned, last]) lease.release()
    })

    test('of another number goes on when a trial start is ended, whose number is free at once', async () => {
      // Longer than the test: the signal has to end the start.
      const { deploy, acquire, runtime, messages, sandbox } = await open({ startMs: hourMs })
      const files = await deploy(slow, { slotsMax: 2 })
      const go = join(files.folder, 'go')
      const source = { ...files, variables: { GO: sandbox.capabilities.isIsolated ? '/var/task/go' : go } }
      const stop = new AbortController()
      const tried = errorOf(runtime.start(source, true, stop.signal))
      const other = acquire(source, pinTo(1))
      await expect.poll(messages, patience).toEqual(['begun', 'begun'])
      stop.abort(new Error('not wanted'))
      const again = acquire(source, pinTo(0))
      expect(String(await tried)).toBe('Error: not wanted')
      await writeFile(go, '')
      const leases = [await again, await other]
      expect(leases.map(({ slot }) => slot)).toEqual([0, 1])
      expect(await runtime.takeUsage()).toMatchObject([{ slots: 2, coldStarts: 3 }])
      for (const lease of leases) lease.release()
    })

    test('to a number that the plan does not have is as one without', async () => {
      const { deploy, acquire, runtime } = await open(neverLate)
      const plan = await deploy(handler, { slotsMax: 4 })
      const lowered = { ...plan, slotsMax: 2 }
      const [low, outside] = [await acquire(plan, pinTo(0)), await acquire(plan, pinTo(3))]
      const next = await acquire(lowered, pinTo(1))
      // It has the fewest requests, but pins can no longer lead to it.
      outside.release()
      const pinned = [await acquire(lowered, pinTo(3)), await acquire(lowered, none)]
      expect(new Set(pinned.map(({ slot }) => slot))).toEqual(new Set([0, 1]))
      const unpinned = await acquire(lowered)
      expect(idOf(unpinned)).toEqual(idOf(outside))
      for (const lease of [low, next, unpinned, ...pinned]) lease.release()

      // The plan is not known yet.
      const fresh = await deploy(handler, { slotsMax: 2 })
      const leases = await Promise.all([5, 0, 2].map((slot) => acquire(fresh, pinTo(slot))))
      expect(leases.map(({ slot }) => slot)).toEqual([0, 0, 0])
      expect((await runtime.takeUsage())[1]).toMatchObject({ slots: 1, coldStarts: 1 })
      for (const lease of leases) lease.release()
    })

    test('or load never start more than a plan that was lowered since the last start has', async () => {
      const { deploy, acquire, runtime } = await open(neverLate)
      const plan = await deploy(handler, { slotsMax: 4 })
      const leases = [await acquire(plan, pinTo(0)), await acquire(plan, pinTo(1))]
      const lowered = { ...plan, slotsMax: 2 }
      while (leases.length < 400) leases.push(await acquire(lowered))
      expect((await failureOf(acquire(lowered))).code).toBe('function_overloaded')
      expect((await failureOf(acquire(lowered, none))).code).toBe('function_overloaded')
      expect(await runtime.takeUsage()).toMatchObject([{ slots: 2, coldStarts: 2 }])
      for (const lease of leases) lease.release()
    })

    test('leads to its slot until that is full, and is refused then while others have room', async () => {
      const { deploy, acquire, lines, runtime } = await open(neverLate)
      const source = await deploy(handler, { slotsMax: 3 })
      const leases = [await acquire(source, pinTo(1))]
      while (leases.length < 51) leases.push(await acquire(source, pinTo(1)))
      // It was the only one.
      const slotOfNext = async () => {
        const lease = await acquire(source)
        lease.release()
        return lease.slot
      }
      await expect.poll(slotOfNext, patience).toBe(0)
      while (leases.length < 200) leases.push(await acquire(source, pinTo(1)))
      expect(new Set(leases.map(({ instance }) => instance)).size).toBe(1)
      expect(await failureOf(acquire(source, pinTo(1)))).toMatchObject({
        code: 'function_overloaded',
        message: expect.stringMatching(/^Slot 1 has 200 requests under way/) as string,
      })
      expect(lines.at(-1)).toMatchObject({
        level: 'WARN',
        slot: 1,
        message: expect.stringMatching(/^Refused/) as string,
      })
      const [unpinned, unchosen] = [await acquire(source), await acquire(source, none)]
      expect([unpinned.slot, unchosen.slot]).toEqual([0, 0])
      // No third slot: the other one is idle.
      expect(await runtime.takeUsage()).toMatchObject([{ slots: 2, coldStarts: 2 }])
      // A pinned request does not wait for the start of another slot.
      const ended = Promise.withResolvers<void>()
      const load = async () => {
        await ended.promise
        return source
      }
      const third = runtime.acquire(source.functionId, load, pinTo(2))
      expect((await failureOf(acquire(source, pinTo(1)))).code).toBe('function_overloaded')
      ended.resolve()
      leases.pop()?.release()
      leases.push(await acquire(source, pinTo(1)))
      expect(leases.at(-1)?.slot).toBe(1)
      for (const lease of [...leases, unpinned, unchosen, await third]) lease.release()
    })

    test('whose slot fails to start gets the reason, and starts that fail side by side count as one', async () => {
      const { deploy, runtime } = await open({ backOffMs: 60_000 })
      const source = await deploy({ 'index.mjs': `process.exit(1)` }, { slotsMax: 4 })
      let loads = 0
      const load = async () => {
        loads += 1
        return source
      }
      const fail = async (slot: number) => (await failureOf(runtime.acquire(source.functionId, load, pinTo(slot)))).code
      for (const slots of [[0, 1, 2, 3], [0], [1], [2], [3]]) {
        for (const code of await Promise.all(slots.map(fail))) expect(code).toBe('function_crashed')
      }
      // Four, one and one; then the Function backs off.
      expect(loads).toBe(6)
    })
  })

  describe('a platform that is killed', unless(obstacle), () => {
    test('leaves no process, and the next serves from the same folder', async () => {
      const folder = await mkdtemp(join('/tmp', 'fr-'))
      const script = join(import.meta.dirname, '../test/owner.ts')
      const owner = spawn(process.execPath, [script, mode, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
      try {
        const [line] = (await once(owner.stdout, 'data')) as [Buffer]
        const [idle = 0, looping = 0] = JSON.parse(String(line)) as number[]
        const [idleTree, loopingTree] = [await withChildren([idle]), await withChildren([looping])]
        // At least the slot and one process that it started.
        expect(idleTree.length).toBeGreaterThan(1)
        const gone = once(owner, 'exit')
        owner.kill('SIGKILL')
        await gone
        await expect.poll(() => areGone(idleTree), patience).toBe(true)

        const fixture = await openFixture(openSandbox, {}, folder)
        fixtures.push(fixture)
        // A loop of plain processes continues until the next start cleans up.
        await expect.poll(() => areGone(loopingTree), patience).toBe(true)
        expect(await readdir(join(folder, 'r', 'sockets'))).toEqual([])
        const source = await fixture.deploy({ 'index.mjs': `export default (req, res) => res.end('again')` })
        expect(await fixture.request(source)).toMatchObject({ status: 200, body: 'again' })
      } finally {
        owner.kill('SIGKILL')
      }
    })
  })

  describe('variables', unless(obstacle), () => {
    test('arrive byte for byte, ten thousand of them, and stand nowhere else', async () => {
      // Reading them all takes the loop a while, which must not count as blocked on a busy machine.
      const { deploy, request, folder, lines, sandbox } = await open({ pingMs: 60_000 })
      const pids: number[] = []
      const start = sandbox.start.bind(sandbox)
      sandbox.start = async (command) => {
        const started = await start(command)
        pids.push(started.pid)
        return started
      }
      // Valid Unicode without NUL, which no environment can hold; the markers make the values findable.
      const value = array(
        oneof(
          constantFrom('\n', '$', '"', "'", '`', '\\', '\r', ' ', '=', '${HOME}', '\u001e', '\u001f', '…', '😀'),
          string({ unit: 'binary', maxLength: 8 }),
        ),
        { maxLength: 12 },
      ).map((parts) => parts.join('').replaceAll('\0', '').toWellFormed())
      const values = sample(value, { numRuns: 10_000, seed: 20 })
      const variables = Object.fromEntries(values.map((text, index) => [`V_${index}`, `S3CRET${text}`]))
      const source = await deploy(
        {
          'index.mjs': `
            import { createHash } from 'node:crypto'
            export default (req, res) => {
              const names = Object.keys(process.env).filter((name) => name.startsWith('V_')).sort()
              res.end(JSON.stringify(Object.fromEntries(names.map((name) => [name, process.env[name]]))))
            }`,
        },
        { variables },
      )
      const { body } = await request(source)
      const received = JSON.parse(body) as Record<string, string>
      expect(Object.keys(received)).toHaveLength(10_000)
      const differing = Object.keys(variables).filter(
        (name) => !Buffer.from(received[name] ?? '').equals(Buffer.from(variables[name] ?? '')),
      )
      expect(differing).toEqual([])

      expect(JSON.stringify(lines)).not.toContain('S3CRET')
      for (const pid of await withChildren(pids)) {
        for (const file of ['cmdline', 'environ']) {
          const text = await readFile(`/proc/${pid}/${file}`, 'latin1').catch(() => '')
          expect(text, `/proc/${pid}/${file}`).not.toContain('S3CRET')
        }
      }
      for (const path of await readdir(folder, { recursive: true })) {
        const isFile = await stat(join(folder, path)).then(
          (stats) => stats.isFile(),
          () => false,
        )
        if (isFile) expect((await readFile(join(folder, path))).includes('S3CRET'), path).toBe(false)
      }
    })

    test('lead to the API of the platform', async () => {
      const { deploy, request } = await open()
      const source = await deploy(
        {
          'index.mjs': `export const GET = async () => new Response(await (await fetch(process.env.PLATFORM_API_URL + '/a')).text())`,
        },
        { variables: { PLATFORM_API_URL: 'http://elsewhere.example' } },
      )
      const api = createServer((req, res) => res.end(`api ${req.url}`)).listen(join(source.platformFolder, 'api.sock'))
      await once(api, 'listening')
      await chmod(join(source.platformFolder, 'api.sock'), 0o666)
      expect(await request(source)).toMatchObject({ status: 200, body: 'api /a' })
      api.closeAllConnections()
      api.close()
    })
  })

  describe('the end of a slot', unless(obstacle), () => {
    test.each([
      ['a syntax error', 'export default (', 'Unexpected'],
      ['a missing module', `import 'missing-package'`, "Cannot find package 'missing-package'"],
      ['an error while it is imported', `throw new TypeError('no such luck')`, 'TypeError: no such luck'],
      ['nothing that answers', `export const answer = 42`, 'the module exports nothing that answers requests'],
      ['process.exit', 'process.exit(0)', 'It ended with exit code 0 before it was ready'],
    ])('at its start by %s is a sentence, and in its log', async (...[, text, message]) => {
      const { deploy, acquire, lines } = await open()
      const failure = await failureOf(acquire(await deploy({ 'index.mjs': text })))
      expect(failure.code).toBe('function_crashed')
      expect(failure.message).toContain(message)
      expect(lines.at(-1)).toMatchObject({ level: 'ERROR', requestId: undefined })
      expect(lines.at(-1)?.message.slice(10)).toContain(failure.message.slice(10))
    })

    test('a slow start is stopped', async () => {
      const { deploy, acquire, messages } = await open({ startMs: 500 })
      const failure = await failureOf(
        acquire(await deploy({ 'index.mjs': 'setInterval(() => {}, 1000); await new Promise(() => {})' })),
      )
      expect(failure.code).toBe('function_timeout')
      expect(messages()).toEqual(['Stopped: it did not start within 0.5 s: do less before the first request.'])
    })

    const crashes = `export default async (req, res) => {
      if (req.url === '/exit') process.exit(3)
      if (req.url === '/uncaught') return setImmediate(() => { throw new Error('uncaught one') })
      if (req.url === '/unhandled') return void Promise.reject(new Error('unhandled one'))
      if (req.url === '/loop') ${mode === 'none' ? 'for (;;) {}' : 'block()'}
      if (req.url === '/heap') { const kept = []; for (;;) kept.push(new Array(1000).fill(Math.random())) }
      if (req.url === '/buffers') { globalThis.kept = []; for (let n = 0; n < 1000; n++) { kept.push(Buffer.alloc(10 << 20, 1)); await new Promise(setImmediate) } }
      if (req.url === '/stream') { res.write('begin'); setTimeout(() => process.abort(), 50); return }
      if (req.url === '/lines') { for (let n = 0; n < 10_000; n++) console.log('line ' + n); process.abort() }
      if (req.url === '/never') return
      if (req.url === '/later') { setTimeout(block, 50); return res.end('answered') }
      res.end('fine')
    }
    // As an endless loop does, at no cost.
    const block = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)`

    test.each([
      ['/exit', 'function_crashed', /^Crashed: it ended with exit code 3/],
      ['/uncaught', 'function_crashed', /^Crashed: it ended with exit code 1/],
      ['/unhandled', 'function_crashed', /^Crashed: it ended with exit code 1/],
      ['/loop', 'function_timeout', /^Stopped: it blocked its event loop for 5 s while requests waited/],
      ['/heap', 'function_out_of_memory', /^Stopped: it used more than its 128 MB of memory/],
      ['/buffers', 'function_out_of_memory', /^Stopped: it used more than its 128 MB of memory/],
    ])('by %s answers %s, says so in its log, and the next request is answered', async (path, code, line) => {
      const { deploy, lines, request } = await open()
      const source = await deploy({ 'index.mjs': crashes }, { memoryMb: 128 })
      // So that a slot crashes that has already answered.
      expect(await request(source)).toMatchObject({ body: 'fine' })
      const failure = await brokenBy(fixtures[0]!, source, path)
      expect(failure?.code).toBe(code)
      expect(lines.at(-1)).toMatchObject({ level: 'ERROR', message: expect.stringMatching(line) as string })
      expect(await request(source)).toMatchObject({ body: 'fine' })
    })

    describe('whose heap is nearly full when its loop is blocked', () => {
      /** Its heap is limited to 384 MB. It continues once the file exists, and fills the rest. */
      const full = {
        'index.mjs': `import { existsSync } from 'node:fs'
          import v8 from 'node:v8'
          const kept = []
          const keep = () => kept.push(new Array(1000).fill(Math.random()))
          while (v8.getHeapStatistics().used_heap_size < 330 << 20) for (let n = 0; n < 100; n++) keep()
          export default () => { while (!existsSync(process.env.GO)); for (;;) keep() }`,
      }
      /** Blocks after a tenth of a second. afterLook: called once the runtime has measured its memory. */
      const openFull = async (collectMs: number, afterLook: (go: string) => Promise<void>) => {
        const fixture = await open({ pingMs: 20, collectMs })
        const { deploy, sandbox } = fixture
        const files = await deploy(full, { memoryMb: 512 })
        const go = join(files.folder, 'go')
        const start = sandbox.start.bind(sandbox)
        sandbox.start = async (command) => {
          const started = await start(command)
          const memoryBytes = async () => {
            const bytes = await started.memoryBytes()
            await afterLook(go)
            return bytes
          }
          return { ...started, memoryBytes }
        }
        return {
          fixture,
          source: { ...files, variables: { GO: sandbox.capabilities.isIsolated ? '/var/task/go' : go } },
        }
      }

      test('has the time to come to the end of its memory, which is the reason then', async () => {
        // Longer than the test: V8 or the memory limit has to end it.
        const { fixture, source } = await openFull(3_600_000, (go) => writeFile(go, ''))
        expect(await brokenBy(fixture, source, '/')).toMatchObject({ code: 'function_out_of_memory' })
        expect(fixture.messages().at(-1)).toMatch(/^Stopped: it used more than its 512 MB of memory/)
      })

      test('is ended all the same when the loop does not go on, and its line says both', async () => {
        const { fixture, source } = await openFull(1_000, async () => {})
        expect(await brokenBy(fixture, source, '/')).toMatchObject({ code: 'function_timeout' })
        expect(fixture.messages()).toEqual([
          expect.stringMatching(
            /^Stopped: it blocked its event loop for 6 s while requests waited, with \d+ of its 512 MB of memory in use: /,
          ),
        ])
      })
    })

    describe('for its heap', () => {
      /**
       * V8 gives this Function 192 MB of heap; the budget is 153 of them. `turns` lets go of arrays only once they are old, so that
       * full collections have to find them. It spins for 3 ms after each: V8 gives up by itself where collections take most of the time.
       */
      const hungry = `import v8 from 'node:v8'
        import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
        const kept = []
        const used = () => v8.getHeapStatistics().used_heap_size / (1 << 20)
        const piece = () => new Array(50_000).fill(Math.random())
        const fill = async (mb) => { for (; used() < mb; await turn()) kept.push(piece()) }
        const turns = async (forMs) => {
          const old = []
          for (const end = Date.now() + forMs; Date.now() < end; await turn()) {
            old.push(piece())
            if (old.length > 20) old.splice(0, 10)
            for (const next = performance.now() + 3; performance.now() < next;);
          }
        }
        export default async (req, res) => {
          if (req.url !== '/') await fill(165)
          if (req.url === '/busy') await turns(20_000)
          if (req.url === '/peak') await turns(2_600)
          if (req.url === '/garbage') {
            kept.length = 0
            for (const end = Date.now() + 2_600; Date.now() < end;) await turn()
          }
          if (req.url === '/idle') await sleep(2_600)
          res.end('fine')
        }`
      const start = async (heapMs: number) => {
        // A look each second, as in production: a slot gets little of a core that others want, and would seem blocked before.
        const fixture = await open({ heapMs })
        return { fixture, source: await fixture.deploy({ 'index.mjs': hungry }, { memoryMb: 256 }) }
      }

      test('a Function whose heap is above its budget while its loop goes on is ended, and its line has the peak', async () => {
        const { fixture, source } = await start(400)
        expect(await brokenBy(fixture, source, '/busy')).toMatchObject({ code: 'function_out_of_memory' })
        expect(fixture.messages()).toEqual([
          expect.stringMatching(
            /^Stopped: it used more than its 256 MB of memory: its heap, which gets 192 MB of it, grew to 1[5-9]\d MB, and collecting garbage did not help\. /,
          ),
        ])
        expect(await fixture.request(source, '/')).toMatchObject({ body: 'fine' })
      })

      // What looks at the heap is the same in a sandbox.
      test.runIf(mode === 'none').each([
        ['for less than its time', '/peak', 3_600_000],
        ['with garbage that nothing has collected', '/garbage', 400],
        ['while its loop waits', '/idle', 400],
      ])('a Function whose heap is above its budget %s goes on', async (_, path, heapMs) => {
        const { fixture, source } = await start(heapMs)
        expect(await fixture.request(source, path)).toMatchObject({ body: 'fine' })
        expect(fixture.messages()).toEqual([])
      })

      test.runIf(isDrill)(
        'a Function of 1,024 MB whose loop fills its heap is ended within 10 s of the budget',
        async () => {
          const fixture = await open()
          const code = `import v8 from 'node:v8'
          export default async () => {
            const a = []
            let isAbove = false
            for (;;) {
              a.push('x'.repeat(1e6) + Math.random())
              if (!isAbove && v8.getHeapStatistics().used_heap_size > 0.8 * 768 * 2 ** 20) { isAbove = true; console.log('above') }
              await new Promise(setImmediate)
            }
          }`
          const source = await fixture.deploy({ 'index.mjs': code }, { memoryMb: 1_024 })
          expect(await brokenBy(fixture, source, '/')).toMatchObject({ code: 'function_out_of_memory' })
          const [above, stopped] = [fixture.lines[0], fixture.lines.at(-1)]
          expect([above?.message, stopped?.message]).toEqual([
            'above',
            expect.stringMatching(/^Stopped: it used more than its 1024 MB of memory: its heap, .* grew to \d+ MB/),
          ])
          const ms = Number(stopped?.at) - Number(above?.at)
          console.log(`${ms} ms from the budget to the end`)
          expect(ms).toBeLessThan(10_000)
        },
      )
    })

    test('by an uncaught error prints it as of its request', async () => {
      const { deploy, acquire, lines } = await open()
      const source = await deploy({ 'index.mjs': crashes })
      const lease = await acquire(source)
      await expect(get(lease, '/uncaught', { headers: { 'x-request-id': 'r-9' } })).rejects.toThrow(
        /other side closed|ECONNRESET/,
      )
      await lease.failure()
      lease.release()
      expect(lines).toContainEqual(
        expect.objectContaining({ message: 'Error: uncaught one', requestId: 'r-9', level: 'ERROR' }),
      )
    })

    test('in a stream breaks it off', async () => {
      const { deploy, acquire } = await open()
      const lease = await acquire(await deploy({ 'index.mjs': crashes }))
      const answer = await get(lease, '/stream')
      await expect(answer.body.text()).rejects.toThrow(/terminated|other side closed/)
      expect(await lease.failure()).toMatchObject({ code: 'function_crashed' })
      lease.release()
    })

    test('loses nothing that was printed before', async () => {
      const { deploy, messages } = await open()
      const source = await deploy({ 'index.mjs': crashes })
      await brokenBy(fixtures[0]!, source, '/lines')
      const printed = messages().filter((message) => message.startsWith('line '))
      expect(printed).toEqual(Array.from({ length: 10_000 }, (_, n) => `line ${n}`))
    })

    test('does not come of a request that never ends: the pool ends that', async () => {
      const { deploy, acquire } = await open({ headersTimeoutMs: 300 })
      const lease = await acquire(await deploy({ 'index.mjs': crashes }))
      await expect(get(lease, '/never')).rejects.toMatchObject({ code: 'UND_ERR_HEADERS_TIMEOUT' })
      expect(await lease.failure()).toBeUndefined()
      // Bypasses the pool, whose connections are taken by requests that never end.
      const [answer] = (await once(httpGet({ ...lease.connection, path: '/' }), 'response')) as [IncomingMessage]
      expect(await text(answer)).toBe('fine')
      lease.release()
    })

    // What follows lies above the sandbox, so that one driver shows it.
    if (mode !== 'none') return

    test('a slot that loops after its last request is given CPU to answer with, then ended, and its log says that no request waited', async () => {
      const { deploy, messages, request, sandbox } = await open()
      const seen: string[] = []
      const start = sandbox.start.bind(sandbox)
      sandbox.start = async (command) => {
        const started = await start(command)
        void started.exited.then(() => seen.push('ended'))
        return { ...started, allowAnswer: () => void seen.push('given CPU') }
      }
      const source = await deploy({ 'index.mjs': crashes })
      expect(await request(source, '/later')).toMatchObject({ body: 'answered' })
      await expect
        .poll(messages, patience)
        .toEqual([expect.stringMatching(/^Stopped: it blocked its event loop for 5 s after its last request: /)])
      expect(seen.slice(-2)).toEqual(['given CPU', 'ended'])
    })
  })

  describe('a slot that abuses what it needs', unless(obstacle), () => {
    test('is stopped for writing to descriptor 3', async () => {
      const { deploy, messages } = await open()
      const source = await deploy({
        'index.mjs': `import fs from 'node:fs'
          export default () => { const text = 'x'.repeat(1000) + '\\n'
            for (;;) try { fs.writeSync(3, text) } catch { /* full */ } }`,
      })
      expect(await brokenBy(fixtures[0]!, source, '/')).toMatchObject({ code: 'function_crashed' })
      expect(messages().at(-1)).toBe("Stopped: it wrote to file descriptor 3, which is the platform's.")
    })

    if (mode !== 'none')
      test('is stopped for filling the disk of the platform', async () => {
        const { deploy, messages } = await open()
        const source = await deploy({
          'index.mjs': `import fs from 'node:fs/promises'
          export default async () => { for (let n = 0; n < 9; n++) await fs.writeFile('/run/slot/f' + n, Buffer.alloc(8 << 20)) }`,
        })
        expect(await brokenBy(fixtures[0]!, source, '/')).toMatchObject({ code: 'function_crashed' })
        expect(messages().at(-1)).toMatch(/^Stopped: it wrote more than 64 MB/)
      })

    if (mode !== 'none')
      test.each([
        ['starts', `fill(); await new Promise(() => {})`],
        ['ends', `process.on('exit', () => { fill(); for (;;); })`],
      ])('is stopped for filling the disk of the platform while it %s', async (_, body) => {
        const { deploy, runtime, messages } = await open({ pingMs: 50 })
        const source = await deploy({
          'index.mjs': `import fs from 'node:fs'
          const fill = () => { for (let n = 0; n < 9; n++) fs.writeFileSync('/run/slot/f' + n, Buffer.alloc(8 << 20)) }
          ${body}
          export default (req, res) => res.end()`,
        })
        await runtime.start(source, true).catch(() => {})
        expect(messages().at(-1)).toMatch(/^Stopped: it wrote more than 64 MB/)
      })

    if (mode !== 'none')
      test('cannot lead the removal of its folder elsewhere', async () => {
        const { deploy, request, folder, messages } = await open()
        const victim = join(folder, 'victim')
        await mkdir(victim)
        for (let n = 0; n < 50; n++) await writeFile(join(victim, String(n)), '')
        // Swaps folders and links as fast as possible while the platform removes them.
        const swap = `
        mkdir "/run/cache/many"; for my $n (0..5200) { open(F, ">/run/cache/many/$n"); close F }
        for my $n (0..300) { mkdir "/run/cache/d$n"; open(F, ">/run/cache/d$n/x"); close F; symlink("${victim}", "/run/cache/l$n") }
        while (1) { for my $n (0..300) { my ($a, $b) = ("/run/cache/d$n", "/run/cache/l$n"); syscall(${process.arch === 'arm64' ? 276 : 316}, -100, $a, -100, $b, 2) } }`
        const source = await deploy({
          'index.mjs': `import { spawn } from 'node:child_process'
          export default (req, res) => { for (let n = 0; n < 3; n++) spawn('/usr/bin/perl', ['-e', ${JSON.stringify(swap)}], { stdio: 'inherit' }); res.end() }`,
        })
        await request(source)
        await expect
          .poll(messages, patience)
          .toContainEqual(expect.stringMatching(/^Stopped: it wrote more than 64 MB/))
        const caches = join(folder, 'r', 'cache')
        await expect.poll(() => readdir(caches), patience).toEqual([])
        expect(await readdir(victim)).toHaveLength(50)
      })

    if (mode !== 'none')
      test('fills /tmp to its limit, and goes on', async () => {
        const { deploy, request } = await open()
        const source = await deploy(
          {
            'index.mjs': `import fs from 'node:fs'
            export default (req, res) => {
              try { for (let n = 0; ; n++) fs.writeFileSync('/tmp/f' + n, Buffer.alloc(8 << 20)) } catch (error) { res.end(error.code) }
              for (const name of fs.readdirSync('/tmp')) fs.rmSync('/tmp/' + name)
            }`,
          },
          { memoryMb: 256 },
        )
        expect(await request(source)).toMatchObject({ status: 200, body: 'ENOSPC' })
        expect(await request(source)).toMatchObject({ status: 200, body: 'ENOSPC' })
      })

    test('is stopped when its children share out among them more memory than it has', async () => {
      const { deploy, lines, request } = await open()
      const source = await deploy(
        {
          'index.mjs': `import { spawn } from 'node:child_process'
            export default (req, res) => {
              if (req.url === '/') return res.end('fine')
              for (let n = 0; n < 8; n++) spawn(process.execPath, ['-e', 'const kept = Buffer.alloc(30 << 20, 1); setInterval(() => kept, 1000)'])
            }`,
        },
        { memoryMb: 128 },
      )
      expect(await brokenBy(fixtures[0]!, source, '/hog')).toMatchObject({ code: 'function_out_of_memory' })
      expect(lines.at(-1)?.message).toMatch(/^Stopped: it used more than its 128 MB of memory/)
      expect(await request(source)).toMatchObject({ body: 'fine' })
    })

    if (mode !== 'none')
      test('is refused processes beyond its limit, and goes on', async () => {
        const { deploy, request } = await open()
        const source = await deploy({
          'index.mjs': `import { spawn } from 'node:child_process'
          import { once } from 'node:events'
          export default async (req, res) => {
            const children = []
            let refused
            for (let n = 0; n < 400 && refused === undefined; n++) {
              const child = spawn('sleep', ['100'], { stdio: 'ignore' })
              child.on('error', (error) => { refused = error.code })
              if (child.pid === undefined) await new Promise(setImmediate)
              else children.push(child)
            }
            await Promise.all(children.map((child) => { child.kill('SIGKILL'); return once(child, 'exit') }))
            res.end(refused)
          }`,
        })
        for (let n = 0; n < 2; n += 1) expect(await request(source)).toMatchObject({ status: 200, body: 'EAGAIN' })
      })

    test('is refused files beyond its limit, and goes on', async () => {
      const { deploy, request } = await open()
      const source = await deploy({
        'index.mjs': `import fs from 'node:fs'
          export default (req, res) => {
            const open = []
            try { for (let n = 0; n < 100_000; n++) open.push(fs.openSync(import.meta.filename)) } catch (error) { res.end(error.code) }
            for (const fd of open) fs.closeSync(fd)
          }`,
      })
      for (let n = 0; n < 2; n += 1) expect(await request(source)).toMatchObject({ status: 200, body: 'EMFILE' })
    })

    // What follows lies above the sandbox, so that one driver shows it.
    if (mode !== 'none') return

    test('waits for the platform when it prints empty lines without end', async () => {
      const { deploy, request } = await open()
      const source = await deploy({
        'index.mjs': `import { spawn } from 'node:child_process'
          const code = 'let sent = 0; const until = Date.now() + 3000; const lines = Buffer.alloc(16384, 10);'
            + 'const next = () => Date.now() > until ? process.exit() : process.stdout.write(lines, () => { require("fs").writeSync(2, "."); next() }); next()'
          export default (req, res) => {
            const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'inherit', 'pipe'] })
            let pieces = 0
            child.stderr.on('data', (text) => void (pieces += text.length))
            setTimeout(() => { child.kill('SIGKILL'); res.end(String(pieces * 16384)) }, 4000)
          }`,
      })
      // Some 80,000 a second, and what the pipe holds.
      expect(Number((await request(source)).body)).toBeLessThan(1_500_000)
    })
  })

  describe('the log', unless(obstacle), () => {
    test('has level, request and order of what is printed, and what children print', async () => {
      const { deploy, request, lines } = await open()
      const source = await deploy({
        'index.mjs': `
          import { execSync } from 'node:child_process'
          console.warn('at the start')
          export default async (req, res) => {
            const id = req.headers['x-request-id']
            console.log('first of %s', id)
            process.stdout.write('begun by ' + id)
            await new Promise(setImmediate)
            process.stdout.write(', ended by ' + id + '\\n')
            console.error(['two', 'lines'].join('\\n'))
            console.debug('détail \\u{1F600}')
            execSync('echo child; echo broken >&2', { stdio: 'inherit' })
            res.end()
          }`,
      })
      for (const id of ['a', 'b']) await request(source, '/', { headers: { 'x-request-id': id } })
      const of = (requestId: string | undefined) =>
        lines.filter((line) => line.requestId === requestId).map(({ level, message }) => `${level} ${message}`)
      await expect.poll(() => of(undefined).length, patience).toBe(5)
      expect(of('a')).toEqual([
        'INFO first of a',
        'INFO begun by a, ended by a',
        'ERROR two',
        'ERROR lines',
        'DEBUG détail 😀',
      ])
      expect(of('b')).toHaveLength(of('a').length)
      expect(of(undefined).toSorted()).toEqual([
        'ERROR broken',
        'ERROR broken',
        'INFO child',
        'INFO child',
        'WARN at the start',
      ])
      expect(lines[0]).toMatchObject({ ...pick(source), slot: 0, at: expect.any(Date) as Date })
    })

    // What follows lies above the sandbox, so that one driver shows it.
    if (mode !== 'none') return

    test('leaves lines out beyond a thousand a second, and says how many', async () => {
      const { deploy, request, lines, messages } = await open()
      const source = await deploy({
        // Its loop has to continue now and then, since waiting for the platform to read would count as blocked.
        'index.mjs': `export default async (req, res) => {
          for (let n = 0; n < 200_000; n++) { console.log(req.url + ' ' + n); if (n % 1000 === 0) await new Promise(setImmediate) }
          res.end('fine')
        }`,
      })
      expect(await request(source)).toMatchObject({ body: 'fine' })
      await request(source)
      await fixtures[0]!.runtime.close(1_000)
      const dropped = messages().map((message) => Number(/^(\d+) lines were left out/.exec(message)?.[1] ?? 0))
      const kept = messages().filter((message) => message.startsWith('/ '))
      expect(dropped.reduce((sum, count) => sum + count, 0) + kept.length).toBe(400_000)
      expect(lines.length).toBeLessThan(100_000)
    })
  })
})

const pick = ({ functionId, deploymentId, name }: FunctionSource) => ({ functionId, deploymentId, functionName: name })

/** The error that a promise rejects with; also prevents an unhandled rejection from now on. */
const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

/** The answer of a WebSocket to the slot after `hello`. */
async function echoed({ connection }: Lease): Promise<string> {
  const address = 'socketPath' in connection ? { path: connection.socketPath } : connection
  const socket = new WebSocket('ws://site.example/', { createConnection: () => connect(address) })
  await new Promise<void>((resolve, reject) => {
    socket.once('open', resolve).once('error', reject)
  })
  socket.send('hello')
  const [data] = (await once(socket, 'message')) as [Buffer]
  socket.close()
  return String(data)
}

async function withChildren(pids: number[]): Promise<number[]> {
  const pidList = [...pids]
  for (const pid of pidList) {
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
    pidList.push(...children.split(' ').filter(Boolean).map(Number))
  }
  return pidList
}

async function areGone(pids: number[]): Promise<boolean> {
  const states = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '0 (gone) Z')))
  return states.every((text) => text.slice(text.lastIndexOf(')') + 2).startsWith('Z'))
}
