import type { ServerResponse } from 'node:http'
import { http } from './node-http.ts'

/**
 * Removes `s-maxage` from pages that Next.js can revalidate: a cache in front would keep them and not learn of revalidation.
 * Call it once, before anything wraps a response.
 */
export function keepPagesHere(): void {
  const { prototype } = http.ServerResponse
  const writeHead = prototype.writeHead as (this: ServerResponse, ...args: unknown[]) => ServerResponse
  prototype.writeHead = function writePageHead(this: ServerResponse, ...args: unknown[]) {
    const isPage = this.hasHeader('x-nextjs-cache') || this.hasHeader('x-nextjs-prerender')
    if (isPage && /\bs-maxage=/.test(String(this.getHeader('cache-control'))))
      this.setHeader('cache-control', 'public, max-age=0, must-revalidate')
    return writeHead.apply(this, args)
  } as typeof prototype.writeHead
}
