import type { IncomingMessage } from 'node:http'
import { createRequire, registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'
import { http } from './node-http.ts'
import { originOf, scopes } from './request-scope.ts'

const ROUTER = '/next/dist/server/lib/router-server.js'
/** Where Next.js keeps what it knows about a request, on the request itself. */
const META = Symbol.for('NextInternalRequestMeta')
const ORIGIN = /^https?:\/\/[^/?#]*/i

/** The address of a server, as Next.js' `initialize` takes it. */
interface Address {
  hostname: string
  port: number | string
}

/** Next.js only ever puts its address into texts, so what is read then may differ between requests. */
const textOf = (read: () => string): string => ({ toString: read }) as unknown as string

/**
 * Makes Next.js' own server take the address that the visitor used for its own. It would otherwise show the site's code the
 * address on which it listens: `request.url` would be `http://0.0.0.0:3000/…`. handler: the module that starts it; nothing
 * happens if Next.js is not installed there.
 */
export function giveNextServerAddress(handler: string): void {
  if (!hasNext(handler)) return
  // A standalone server would name 0.0.0.0 in its log and in variables.
  // oxlint-disable-next-line node/no-process-env -- it is made here, for the handler
  process.env['HOSTNAME'] ||= 'localhost'
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      const resolved = next(specifier, context)
      if (!resolved.url.endsWith(ROUTER)) return resolved
      hooks.deregister()
      replaceInitialize(fileURLToPath(resolved.url))
      return resolved
    },
  })
}

function hasNext(handler: string): boolean {
  try {
    createRequire(handler).resolve('next/package.json')
    return true
  } catch {
    // It cannot be found from there.
    return false
  }
}

function replaceInitialize(path: string): void {
  const require = createRequire(path)
  const router = require(path) as { initialize: (options: Address) => unknown }
  require.cache[path]!.exports = {
    ...router,
    initialize: ({ port, ...options }: Address) => router.initialize({ ...options, ...addressOfVisitor(port) }),
  }
}

/** port: where the server listens, for requests that it makes to itself outside of a visitor's. */
const addressOfVisitor = (port: Address['port']): Address => {
  const origin = (): URL => scopes.getStore()?.origin ?? new URL(`http://localhost:${port}`)
  return {
    hostname: textOf(() => origin().hostname),
    port: textOf(() => origin().port || (origin().protocol === 'https:' ? '443' : '80')),
  }
}

/** Makes handlers built by Next.js see the visitor's scheme in `request.url`: they take every site to be served by https. */
export function giveNextHandlersAddress(): void {
  const metas = new WeakMap<IncomingMessage, object>()
  Object.defineProperty(http.IncomingMessage.prototype, META, {
    get(this: IncomingMessage) {
      return metas.get(this)
    },
    set(this: IncomingMessage, meta: { initURL?: string }) {
      if (meta !== metas.get(this)) correctUrl(meta, originOf(this))
      metas.set(this, meta)
    },
    configurable: true,
  })
}

function correctUrl(meta: { initURL?: string }, origin: string): void {
  const correct = (url: string | undefined): string | undefined =>
    url === undefined ? undefined : origin + url.replace(ORIGIN, '')
  let url = correct(meta.initURL)
  Object.defineProperty(meta, 'initURL', {
    get: () => url,
    set(value: string | undefined) {
      url = correct(value)
    },
    configurable: true,
    enumerable: true,
  })
}
