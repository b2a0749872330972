import { scopes } from './request-scope.ts'
import { fetchBySocket } from './socket-fetch.ts'

interface Revalidation {
  urlPath: string
  headers: Record<string, string>
  opts: { unstable_onlyGenerated?: boolean }
}

/**
 * Makes `res.revalidate()` of Next.js ask the edge on this machine for the page to be made anew: its own way leads over the network by
 * https, whatever the platform is served by. Rejects where the page was not made.
 */
export function offerRevalidate(socketPath: string): void {
  const revalidate = async ({ urlPath, headers, opts }: Revalidation): Promise<void> => {
    const host = scopes.getStore()?.context().headers['host'] ?? 'localhost'
    const request = new Request(new URL(urlPath, `http://${host}`), { method: 'HEAD', headers })
    const { status, headers: answered } = await fetchBySocket(socketPath, request, { 'x-platform-visit': '1' })
    const cache = answered.get('x-vercel-cache')
    const isSkipped = status === 404 && opts.unstable_onlyGenerated === true
    if (status !== 200 && cache !== 'REVALIDATED' && !isSkipped) throw new Error(`Invalid response ${status}`)
  }
  // Next.js puts what its server can do here, by project, and asks for this beside.
  const methods = new Proxy<Record<string | symbol, object>>(
    {},
    {
      set(target, project, own: object) {
        target[project] = 'revalidate' in own ? own : Object.assign(own, { revalidate })
        return true
      },
    },
  )
  Object.defineProperty(globalThis, Symbol.for('@next/router-server-methods'), {
    value: methods,
    configurable: true,
    writable: true,
  })
}
