import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import Module, { flushCompileCache } from 'node:module'
import { type AddressInfo, connect, createServer as createTcpServer, type Server } from 'node:net'
import type { Duplex } from 'node:stream'
import { pathToFileURL } from 'node:url'
import { openControl } from './control-channel.ts'
import { findEntry, isRefusedAllocation } from './find-listener.ts'
import { frameOutput } from './framed-output.ts'
import { watchHeap } from './heap-watch.ts'
import { listenAt, otherPortMs, otherPortSentence, redirectListening } from './listen-redirect.ts'
import type { BootMessage } from './messages.ts'
import { giveNextHandlersAddress, giveNextServerAddress } from './next-address.ts'
import { offerNextCache } from './next-cache.ts'
import { keepPagesHere } from './next-page-headers.ts'
import { offerRevalidate } from './next-revalidate.ts'
import { http } from './node-http.ts'
import { offerOwnFetch } from './own-fetch.ts'
import { relay } from './relay.ts'
import { hasRequests, offerRequestContext, onFirstRequest, scopeRequests, untilIdle } from './request-scope.ts'

const megabyte = 1024 * 1024
const lagCheckMs = 200
const lagReportedMs = 100
const compileCacheMs = 2_000
/** Even if JSON escapes most of it, a message of this length is a line that the platform reads. */
const sentenceMax = 10_000

const boot = JSON.parse(readFileSync(0, 'utf8')) as BootMessage
let listening: Server | undefined
let stopScript = () => {}
let isReady = false

const lookAtHeap = watchHeap(boot.heap)
const say = openControl((command) => {
  if ('ping' in command) pong(command.ping)
  else void drain(command.drain)
})

function pong(ping: number): void {
  const heap = lookAtHeap()
  say({
    pong: ping,
    ...(heap && { heapPeakMb: Math.round(heap.peakBytes / megabyte) }),
    ...(heap?.isTooLong && { isHeapTooLarge: true }),
  })
}

/** Finishes requests and waitUntil, for at most this many milliseconds, then ends the process. */
async function drain(milliseconds: number): Promise<void> {
  setTimeout(() => process.exit(0), milliseconds).unref()
  listening?.close()
  stopScript()
  if (listening instanceof http.Server) listening.closeIdleConnections()
  await untilIdle()
  process.exit(0)
}

function watchLag(): void {
  onFirstRequest(() => {
    let expected = Date.now() + lagCheckMs
    const timer = setInterval(() => {
      const lag = Date.now() - expected
      expected = Date.now() + lagCheckMs
      if (lag > lagReportedMs) say({ lag })
      if (!hasRequests()) clearInterval(timer)
    }, lagCheckMs).unref()
  })
}

/** Limits the handler's environment to its variables and those that every program expects, or reads for certificates. */
function setEnvironment(variables: Record<string, string>): void {
  const kept = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'GIT_SSL_CAINFO']
  // oxlint-disable-next-line node/no-process-env -- it is made here, for the handler
  const { env } = process
  for (const name of Object.keys(env)) if (!kept.includes(name)) delete env[name]
  Object.assign(env, variables)
}

/** Forwards a port of the slot's own loopback to the platform's API. */
async function forwardApi(socketPath: string): Promise<string> {
  const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
    relay(socket, connect({ path: socketPath, allowHalfOpen: true }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  server.unref()
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function start(): Promise<void> {
  setEnvironment(boot.variables)
  // oxlint-disable-next-line node/no-process-env -- it is made here, for the handler
  process.env['PLATFORM_API_URL'] = await forwardApi(boot.apiSocketPath)
  if (boot.command !== undefined) {
    const { runStartScript } = await import('./start-script.ts')
    const { server, child } = await runStartScript(boot.command, boot.folder, boot.socketPath, (sentence) =>
      say({ failed: sentence }),
    )
    listening = server
    stopScript = () => child.kill('SIGTERM')
    return
  }
  const { NODE_EXTRA_CA_CERTS: certificates } = boot.variables
  if (certificates !== undefined) {
    const { trustOwnCertificates } = await import('./own-certificates.ts')
    trustOwnCertificates(certificates, boot.variables)
  }
  frameOutput()
  offerRequestContext()
  offerOwnFetch(boot.assetsSocketPath, ownHosts(boot.variables), boot.kind === 'server' ? portOfServer() : undefined)
  if (boot.kind === 'handler') {
    offerRevalidate(boot.assetsSocketPath)
    giveNextHandlersAddress()
  }
  if (boot.kind === 'server') {
    keepPagesHere()
    giveNextServerAddress(boot.handler!)
  }
  if (boot.kind !== 'worker') {
    const builtAt = boot.kind === 'server' ? boot.builtAt : undefined
    offerNextCache({ cacheSocketPath: boot.cacheSocketPath, handler: boot.handler!, builtAt })
  }
  watchLag()
  process.on('uncaughtExceptionMonitor', (error: unknown) => {
    if (isRefusedAllocation(error)) say({ outOfMemory: true })
    else if (!isReady) say({ failed: sentenceOf(error) })
  })
  listening = boot.kind === 'server' ? await startServer(boot.handler!) : await startHandler(boot.handler!)
}

/** The deployment's own host, and its application's production host. */
const ownHosts = ({ VERCEL_URL, VERCEL_PROJECT_PRODUCTION_URL }: BootMessage['variables']): string[] =>
  [VERCEL_URL, VERCEL_PROJECT_PRODUCTION_URL].filter((host) => host !== undefined)

/** The port on which a server has to listen. */
function portOfServer(): number {
  // oxlint-disable-next-line node/no-process-env -- it is made here, for the handler
  return Number((process.env['PORT'] ??= '3000'))
}

/** A program that listens on PORT, run as `node file` would. */
async function startServer(path: string): Promise<Server> {
  const port = portOfServer()
  const { listening, others } = redirectListening(boot.socketPath, port)
  setTimeout(() => {
    if (!isReady && others().length > 0) say({ failed: otherPortSentence(others(), port) })
  }, otherPortMs).unref()
  process.argv = [process.execPath, path]
  Module.runMain()
  return listening
}

async function startHandler(path: string): Promise<Server> {
  const { listening, taken } = redirectListening(boot.socketPath, undefined)
  process.argv = [process.execPath, path]
  const isWorker = boot.kind === 'worker' || boot.kind === 'edge'
  // oxlint-disable-next-line node/no-process-env -- it is made here, for the handler
  const env: Record<string, unknown> = { ...boot.variables, PLATFORM_API_URL: process.env['PLATFORM_API_URL'] }
  if (isWorker) {
    const { offerCaches, openAssets, refuseCloudflareModules } = await import('./worker-bindings.ts')
    refuseCloudflareModules()
    offerCaches()
    env['ASSETS'] = openAssets(boot.assetsSocketPath)
  }
  if (boot.kind === 'edge') {
    const { offerEdgeGlobals } = await import('./edge-globals.ts')
    offerEdgeGlobals()
  }
  const exports = (await import(pathToFileURL(path).href)) as Record<string, unknown>
  if (taken()) return listening
  const entry = findEntry(exports, boot, env)
  if (entry === undefined) throw new Error(`the module exports nothing that answers requests (${wanted()})`)
  if ('server' in entry) {
    scopeRequests(entry.server)
    await listenAt(entry.server, boot.socketPath)
    return entry.server
  }
  const server = http.createServer({ maxHeaderSize: 64 * 1024, shouldUpgradeCallback: isWebSocket }, entry.listener)
  server.on('upgrade', (_request: IncomingMessage, socket: Duplex) => {
    socket.on('error', () => {})
    socket.end('HTTP/1.1 501 Not Implemented\r\nconnection: close\r\ncontent-length: 0\r\n\r\n')
  })
  scopeRequests(server)
  await listenAt(server, boot.socketPath)
  return server
}

const isWebSocket = (request: IncomingMessage): boolean => request.headers.upgrade?.toLowerCase() === 'websocket'

function wanted(): string {
  if (boot.kind === 'worker') return 'a default export with fetch'
  if (boot.kind === 'edge') return 'a default export, a function of a Request'
  return 'a default export, an http.Server, fetch, or functions named after methods such as GET'
}

function sentenceOf(error: unknown): string {
  return (error instanceof Error ? `${error.name}: ${error.message}` : String(error)).slice(0, sentenceMax)
}

await start()
isReady = true
say({ ready: true })
// The cache should include what the first requests load. Node itself writes it only at exit, which a kill skips.
setTimeout(() => flushCompileCache(), compileCacheMs).unref()
