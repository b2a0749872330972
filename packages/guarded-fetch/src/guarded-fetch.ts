import { lookup as lookUpName } from 'node:dns/promises'
import type { Readable } from 'node:stream'
import type { Agent, Dispatcher } from 'undici'
import { checkRedirect, checkUrl, RefusedAddress } from './check-url.ts'
import type { Lookup } from './guarded-connector.ts'
import { type Cidr, createAddressGuard } from './public-address.ts'

export { RefusedAddress } from './check-url.ts'

/** The origin could not be reached, or did not respond in time. */
export class UnreachableOrigin extends Error {
  override name = 'UnreachableOrigin'
}

export interface GuardedRequest {
  /** Absolute, http or https. */
  url: string
  method: string
  /** Names in lower case; sent unchanged, except for `host` and hop-by-hop headers. */
  headers: Record<string, string | string[]>
  body?: Readable
  /** Redirects to follow, each of them checked again; 0 returns the redirect itself. */
  redirectsMax: number
  signal?: AbortSignal
}

interface GuardedResponse {
  status: number
  /** Names in lower case. */
  headers: Record<string, string | string[]>
  /** As sent: content-encoding is not decoded. Fails after 30 s without a byte. */
  body: Readable
  /** The final URL after redirects. */
  url: string
}

export interface GuardedFetch {
  /**
   * Sends a request to an origin. Throws RefusedAddress, UnreachableOrigin, and the signal's reason if it is aborted.
   *
   * Rejects redirects from https to http. Sends no authorization and no cookie to another origin. Returns a redirect that requires
   * sending the body again, since a stream can be sent only once.
   */
  fetch(request: GuardedRequest): Promise<GuardedResponse>
  /** Closes all connections, and aborts requests in progress. */
  close(): Promise<void>
}

export interface GuardedFetchOptions {
  /** Hosts and ranges that are allowed although they are not public: the operator's own. */
  allow?: readonly Cidr[]
  /** Resolves names; by default the system's resolver. */
  lookup?: Lookup
  /** 10 s to connect, 10 s more to the headers, 30 s without a byte of the body; accurate to a second. */
  deadlines?: typeof DEADLINES
}

const DEADLINES = { connectMs: 10_000, headersMs: 10_000, bodyIdleMs: 30_000 }
const REDIRECTS = new Set([301, 302, 303, 307, 308])
const KEEPS_METHOD = new Set([307, 308])
/** Hop-by-hop headers, and those that we write ourselves. */
const NOT_SENT = new Set([
  'connection',
  'expect',
  'host',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])
const CREDENTIALS = new Set(['authorization', 'cookie'])

/**
 * Opens a client for origins on the public Internet only, whatever their names resolve to. Ignores proxies in the environment.
 * Throws RangeError for an invalid range in `allow`.
 */
export function openGuardedFetch({
  allow = [],
  lookup = (name) => lookUpName(name, { all: true }),
  deadlines = DEADLINES,
}: GuardedFetchOptions = {}): GuardedFetch {
  const isAllowed = createAddressGuard(allow)
  let agent: Promise<Agent> | undefined

  /** Loads the client at the first request: it takes 28 MB, and most processes never fetch anything. */
  async function openAgent(): Promise<Agent> {
    const [undici, { createGuardedConnector }] = await Promise.all([import('undici'), import('./guarded-connector.ts')])
    return new undici.Agent({
      connect: createGuardedConnector(lookup, isAllowed, deadlines.connectMs),
      headersTimeout: deadlines.headersMs,
      bodyTimeout: deadlines.bodyIdleMs,
      allowH2: false,
    })
  }

  async function send(url: URL, request: GuardedRequest): Promise<Dispatcher.ResponseData> {
    const { method, headers, body, signal } = request
    const client = await (agent ??= openAgent())
    try {
      return await client.request({
        origin: url.origin,
        path: url.pathname + url.search,
        method,
        headers,
        body: body ?? null,
        ...(signal === undefined ? {} : { signal }),
      })
    } catch (error) {
      if (error instanceof RefusedAddress) throw error
      signal?.throwIfAborted()
      throw new UnreachableOrigin(`${url.host} did not answer`, { cause: error })
    }
  }

  return {
    async fetch(guardedRequest) {
      let url = checkUrl(guardedRequest.url, isAllowed)
      let request: GuardedRequest = { ...guardedRequest, headers: without(guardedRequest.headers, NOT_SENT) }
      for (let redirects = 0; ; redirects++) {
        const { statusCode, headers, body } = await send(url, request)
        const location = REDIRECTS.has(statusCode) ? one(headers['location']) : undefined
        const isResent = request.body !== undefined && !becomesGet(request.method, statusCode)
        const isHandedBack = guardedRequest.redirectsMax === 0 || isResent
        if (location === undefined || isHandedBack)
          return { status: statusCode, headers: present(headers), body, url: url.href }
        // The body of a redirect is discarded.
        body.on('error', () => {}).destroy()
        if (redirects >= guardedRequest.redirectsMax) throw new UnreachableOrigin(`${url.host} redirects too often`)
        const next = checkRedirect(location, url, isAllowed)
        request = redirected(request, statusCode, next.origin === url.origin)
        url = next
      }
    },
    close: async () => (await agent)?.destroy(),
  }
}

/** Makes the request for the target of a redirect. As in browsers, a POST becomes a GET after 301, 302 and 303. */
function redirected(request: GuardedRequest, status: number, isSameOrigin: boolean): GuardedRequest {
  const { body: _, ...bodiless } = request
  const kept = isSameOrigin ? request.headers : without(request.headers, CREDENTIALS)
  if (!becomesGet(request.method, status)) return { ...bodiless, headers: kept }
  const ofBody = new Set(Object.keys(kept).filter((name) => name.toLowerCase().startsWith('content-')))
  return { ...bodiless, method: 'GET', headers: without(kept, ofBody) }
}

function becomesGet(method: string, status: number): boolean {
  return status === 303 ? method !== 'HEAD' : !KEEPS_METHOD.has(status) && method === 'POST'
}

function without(headers: GuardedRequest['headers'], names: ReadonlySet<string>): GuardedRequest['headers'] {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.has(name.toLowerCase())))
}

function present(headers: Dispatcher.ResponseData['headers']): GuardedResponse['headers'] {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
}

const one = (value: string | string[] | undefined): string | undefined => (Array.isArray(value) ? value[0] : value)
