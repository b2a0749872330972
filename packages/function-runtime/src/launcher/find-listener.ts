import type { RequestListener, Server } from 'node:http'
import type { BootMessage } from './messages.ts'
import { scopes, waitUntil } from './request-scope.ts'
import { withVercelHelpers } from './vercel-helpers.ts'
import { type WebHandler, webListener } from './web-listener.ts'

type Exports = Record<string, unknown>
type Callable = (...args: unknown[]) => unknown

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** A module's way of answering requests. */
export type Entry = { listener: RequestListener; isWeb: boolean } | { server: Server }

/** Finds the entry among a module's exports; undefined if there is none. env: the environment passed to a Worker. */
export function findEntry(exports: Exports, { kind, isWeb, hasHelpers }: BootMessage, env: object): Entry | undefined {
  const value = unwrap(exports)
  if (kind === 'worker' || kind === 'edge') {
    const handler =
      findFetch(value, env) ?? (kind === 'edge' ? findEdgeFunction(value) : undefined) ?? findMethods(exports)
    return handler && web(handler)
  }
  if (isCallable(value)) {
    if (isWeb) return web((request) => value(request, context()))
    return { listener: caught(hasHelpers ? (withVercelHelpers(value) as Callable) : value), isWeb: false }
  }
  if (isServer(value)) return { server: value }
  const handler = findFetch(value, env) ?? findMethods(exports) ?? findMethods(value)
  return handler && web(handler)
}

const web = (handler: WebHandler): Entry => ({ listener: caught(webListener(handler) as Callable), isWeb: true })

/** import() wraps the exports of CommonJS, and so do bundlers, sometimes several times. */
function unwrap(exports: Exports): unknown {
  let value: unknown = exports
  for (let depth = 0; depth < 5; depth += 1) {
    if (isCallable(value) || typeof value !== 'object' || value === null) return value
    if (isCallable((value as Exports)['fetch']) || (value as Exports)['default'] === undefined) return value
    value = (value as Exports)['default']
  }
  return value
}

function findFetch(value: unknown, env: object): WebHandler | undefined {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return
  const target = value as { fetch?: unknown }
  if (!isCallable(target.fetch)) return
  return (request) => (target.fetch as Callable).call(target, request, env, context())
}

function findEdgeFunction(value: unknown): WebHandler | undefined {
  return isCallable(value) ? (request) => value(request, context()) : undefined
}

function findMethods(value: unknown): WebHandler | undefined {
  if (typeof value !== 'object' || value === null) return
  const exports = value as Exports
  const offered = methods.filter((method) => isCallable(exports[method]))
  if (offered.length === 0) return
  return (request) => {
    const method = request.method === 'HEAD' && !offered.includes('HEAD') ? 'GET' : request.method
    const handler = offered.includes(method) ? exports[method] : undefined
    if (isCallable(handler)) return handler(request, context())
    const headers = { allow: offered.join(', ') }
    return new Response(null, { status: method === 'OPTIONS' ? 204 : 405, headers })
  }
}

function context(): object {
  const scope = scopes.getStore()
  return { waitUntil, passThroughOnException() {}, props: {}, requestId: scope?.id ?? '' }
}

/** An error only fails its own request: it is logged and answered, and the others continue. */
function caught(handler: Callable): RequestListener {
  return (request, response) => {
    const onError = (error: unknown) => {
      if (isRefusedAllocation(error)) throw error
      console.error(error)
      if (response.headersSent) {
        response.destroy()
        return
      }
      for (const name of response.getHeaderNames()) response.removeHeader(name)
      // The edge may replace it with the site's own error page.
      response
        .writeHead(500, { 'content-type': 'text/plain', 'x-platform-failure': 'threw' })
        .end('Internal Server Error')
    }
    try {
      const result = handler(request, response)
      if (result instanceof Promise) result.catch(onError)
    } catch (error) {
      onError(error)
    }
  }
}

/** True if memory for a Buffer was refused, which ends the slot. */
export function isRefusedAllocation(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return (
    (error as NodeJS.ErrnoException).code === 'ERR_MEMORY_ALLOCATION_FAILED' ||
    (error instanceof RangeError && error.message === 'Array buffer allocation failed')
  )
}

const isCallable = (value: unknown): value is Callable => typeof value === 'function'

function isServer(value: unknown): value is Server {
  return (
    typeof value === 'object' &&
    value !== null &&
    isCallable((value as Server).listen) &&
    isCallable((value as Server).emit)
  )
}
