import type { ServerResponse } from 'node:http'
import { http } from './node-http.ts'

/**
 * Takes `s-maxage` off pages that Next.js can revalidate: a cache in front of it would keep them and not hear of that. Call it once, before
 * anything wraps an answer.
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
