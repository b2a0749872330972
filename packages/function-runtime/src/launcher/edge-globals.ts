import { AsyncLocalStorage } from 'node:async_hooks'
import { createRequire } from 'node:module'

/** The modules of Node that Vercel's Edge Runtime has, by these names and with `node:` in front. */
const MODULES = new Set(['assert', 'async_hooks', 'buffer', 'events', 'util'])

/** Defines the globals that code for the Edge Runtime finds there and not in Node, such as `self`, by which Next.js begins. */
export function offerEdgeGlobals(): void {
  const require = createRequire('/')
  const globals = {
    self: globalThis,
    AsyncLocalStorage,
    EdgeRuntime: 'edge-runtime',
    require: (name: string): unknown => {
      if (MODULES.has(name.replace(/^node:/, ''))) return require(name)
      throw new Error(`The module ${JSON.stringify(name)} is not available in an edge Function: import it`)
    },
  }
  for (const [name, value] of Object.entries(globals))
    if (!(name in globalThis)) Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
}
