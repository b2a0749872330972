import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request as send } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { giveNextHandlersAddress, giveNextServerAddress } from './next-address.ts'
import { scopeRequests } from './request-scope.ts'

/** The modules by which Next.js starts its server; this one answers with the address that it takes for its own. */
const NEXT = {
  'node_modules/next/package.json': '{ "name": "next", "version": "16.4.6" }',
  'node_modules/next/dist/server/lib/start-server.js': `
    const router = require('./router-server')
    exports.startServer = (options) => router.initialize(options)`,
  'node_modules/next/dist/server/lib/router-server.js': `
    Object.defineProperty(exports, 'initialize', { enumerable: true, get: () => initialize })
    const initialize = (options) => () => \`\${options.hostname}:\${options.port} in \${options.dir}\``,
}

async function newFolder(files: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'next-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), content)
  }
  return folder
}

/** Calls a server that answers with a text, as the edge does. */
async function call(answer: (request: IncomingMessage) => string, host: string, scheme: string): Promise<string> {
  const server = createServer((request, response) => response.end(answer(request)))
  scopeRequests(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const sent = send({ port, host: '127.0.0.1', path: '/a?b=c', headers: { host, 'x-forwarded-proto': scheme } }).end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return Buffer.concat((await response.toArray()) as Buffer[]).toString()
}

test('a server of Next.js takes the address of each visitor for its own, and localhost outside of requests', async () => {
  vi.stubEnv('HOSTNAME', undefined)
  onTestFinished(() => void vi.unstubAllEnvs())
  const handler = join(await newFolder(NEXT), 'server.js')
  giveNextServerAddress(handler)
  // oxlint-disable-next-line node/no-process-env -- a standalone server reads it
  expect(process.env['HOSTNAME']).toBe('localhost')
  const { startServer } = createRequire(handler)('next/dist/server/lib/start-server') as {
    startServer: (options: object) => () => string
  }
  const address = startServer({ hostname: '0.0.0.0', port: 3000, dir: '/app' })
  expect(await call(address, 'site.example:4002', 'http')).toBe('site.example:4002 in /app')
  expect(await call(address, 'site.example', 'http')).toBe('site.example:80 in /app')
  expect(await call(address, 'other.example', 'https')).toBe('other.example:443 in /app')
  expect(address()).toBe('localhost:3000 in /app')
})

test('a handler of Next.js sees the scheme and host of its visitor in the URL of a request', async () => {
  giveNextHandlersAddress()
  const meta = Symbol.for('NextInternalRequestMeta')
  type Request = IncomingMessage & { [meta]?: { initURL?: string; locale?: string } }
  /** As Next.js does: it puts an object of its own on the request, more than once, and writes to it. */
  const answer = (request: Request): string => {
    expect(request[meta]).toBeUndefined()
    const own: Request[typeof meta] = { locale: 'en' }
    request[meta] = own
    own.initURL = `https://${request.headers.host}${request.url}`
    request[meta] = own
    return `${request[meta].initURL} ${request[meta].locale}`
  }
  expect(await call(answer, 'site.example:4002', 'http')).toBe('http://site.example:4002/a?b=c en')
  expect(await call(answer, 'site.example', 'https')).toBe('https://site.example/a?b=c en')
  const withUrl = (request: Request): string => {
    request[meta] = { initURL: '/a' }
    return String(request[meta].initURL)
  }
  expect(await call(withUrl, 'site.example', 'http')).toBe('http://site.example/a')
})
