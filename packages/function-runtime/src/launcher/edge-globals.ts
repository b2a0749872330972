import { AsyncLocalStorage } from 'node:async_hooks'
import { createRequire } from 'node:module'

/** Node modules that Vercel's Edge Runtime provides, under these names and with the prefix `node:`. */
const MODULES = new Set(['assert', 'async_hooks', 'buffer', 'events', 'util'])

/** Defines globals of the Edge Runtime that Node lacks, such as `self`, which Next.js uses first. */
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
