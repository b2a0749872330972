import { scopes } from './request-scope.ts'
import { fetchBySocket } from './socket-fetch.ts'

const REDIRECTS_MAX = 20
/** Hosts by which a server may refer to itself, depending on the address it was told to listen on. */
const LOCAL_HOSTS = ['localhost', '127.0.0.1', '[::1]', '0.0.0.0', '[::]']
/** The edge's answer if a hostname does not belong to this deployment. */
const MISDIRECTED = 421
/** Headers that a redirect to another origin drops (Fetch §4.4; cookies as in undici). */
const CREDENTIALS = ['authorization', 'proxy-authorization', 'cookie']

/**
 * Lets `fetch` reach the deployment itself through the edge on this machine: the network may not lead there, or not be open
 * to Functions. Frameworks read their own pages and images this way. Hosts: that of the current request, those in `hosts`,
 * and plain `localhost`, which Astro uses if it was not told its hosts; nothing else listens there. port: on which a Node
 * server believes to listen; Next.js fetches the target page of a Server Action there.
 */
export function offerOwnFetch(socketPath: string, hosts: readonly string[], port?: number): void {
  const { fetch: outside } = globalThis
  const local = new Set(['localhost'])
  if (port !== undefined) for (const host of LOCAL_HOSTS) local.add(`${host}:${port}`)
  /** The Host header to use; undefined if it is not a host of this deployment. */
  const ownHostOf = ({ protocol, host }: URL): string | undefined => {
    if (!/^https?:$/.test(protocol)) return undefined
    const current = scopes.getStore()?.context().headers['host'] ?? hosts[0]
    if (local.has(host)) return current
    return host === current || hosts.includes(host) ? host : undefined
  }

  async function follow(request: Request, host: string, left: number): Promise<Response> {
    // Once sent, the body cannot be read again.
    const body = request.body === null ? null : await request.clone().arrayBuffer()
    // No decompression happens here.
    const more = { 'x-platform-visit': '1', host, 'accept-encoding': 'identity' }
    const answer = await fetchBySocket(socketPath, request, more).catch((error: unknown) => {
      throw new TypeError('fetch failed', { cause: error })
    })
    if (answer.status === MISDIRECTED) return outside(request.url, restOf(request, body))
    const location = answer.headers.get('location')
    const isRedirect = location !== null && [301, 302, 303, 307, 308].includes(answer.status)
    if (!isRedirect || request.redirect === 'manual') return seenAt(answer, request.url, left < REDIRECTS_MAX)
    if (request.redirect === 'error' || left === 0)
      throw new TypeError('fetch failed', { cause: new Error('unexpected redirect') })
    const url = new URL(location, request.url)
    const next = new Request(url, redirected(restOf(request, body), answer.status))
    if (url.origin !== new URL(request.url).origin) for (const name of CREDENTIALS) next.headers.delete(name)
    const nextHost = ownHostOf(url)
    return nextHost === undefined ? outside(next) : follow(next, nextHost, left - 1)
  }

  const fetch = async (input: Request | string | URL, init?: RequestInit): Promise<Response> => {
    const url = URL.parse(input instanceof Request ? input.url : String(input))
    const host = url === null ? undefined : ownHostOf(url)
    return host === undefined ? outside(input, init) : follow(new Request(input, init), host, REDIRECTS_MAX)
  }
  Object.defineProperty(globalThis, 'fetch', { value: fetch, configurable: true, writable: true, enumerable: true })
}

const restOf = ({ method, headers, redirect, signal }: Request, body: ArrayBuffer | null): RequestInit => ({
  method,
  headers,
  redirect,
  signal,
  body,
})

/** The request after a redirect (Fetch §4.4): only 307 and 308 keep the method and body. */
function redirected(init: RequestInit, status: number): RequestInit {
  const { method = 'GET' } = init
  const becomesGet = status === 303 ? method !== 'HEAD' && method !== 'GET' : status < 303 && method === 'POST'
  if (!becomesGet) return init
  const headers = new Headers(init.headers)
  for (const name of ['content-type', 'content-length', 'content-encoding', 'content-language']) headers.delete(name)
  return { ...init, method: 'GET', headers, body: null }
}

/** A Response built by hand does not know its URL. */
function seenAt(answer: Response, url: string, isRedirected: boolean): Response {
  return Object.defineProperties(answer, { url: { value: url }, redirected: { value: isRedirected } })
}
