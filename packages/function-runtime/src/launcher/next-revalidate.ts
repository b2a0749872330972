import { scopes } from './request-scope.ts'
import { fetchBySocket } from './socket-fetch.ts'

interface Revalidation {
  urlPath: string
  headers: Record<string, string>
  opts: { unstable_onlyGenerated?: boolean }
}

/**
 * Makes `res.revalidate()` of Next.js ask the edge on this machine to regenerate the page: its own way uses https over the
 * network, even if the platform is not served by https. Rejects if the page was not regenerated.
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
  // Next.js registers its server's functions here, by project, and looks for this one beside them.
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
