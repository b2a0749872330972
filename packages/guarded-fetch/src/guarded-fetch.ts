import { lookup as lookUpName } from 'node:dns/promises'
import type { Readable } from 'node:stream'
import type { Agent, Dispatcher } from 'undici'
import { checkRedirect, checkUrl, RefusedAddress } from './check-url.ts'
import type { Lookup } from './guarded-connector.ts'
import { type Cidr, createAddressGuard } from './public-address.ts'

export { RefusedAddress } from './check-url.ts'

/** The origin could not be reached, or did not answer in time. */
export class UnreachableOrigin extends Error {
  override name = 'UnreachableOrigin'
}

export interface GuardedRequest {
  /** Absolute, http or https. */
  url: string
  method: string
  /** Names in lower case; sent as they are, but for `host` and what concerns one connection. */
  headers: Record<string, string | string[]>
  body?: Readable
  /** Redirects to follow, each of them checked again; 0 hands the redirect back. */
  redirectsMax: number
  signal?: AbortSignal
}

interface GuardedResponse {
  status: number
  /** Names in lower case. */
  headers: Record<string, string | string[]>
  /** As it was sent: a content-encoding is not undone. It fails after 30 s without a byte. */
  body: Readable
  /** The address after redirects. */
  url: string
}

export interface GuardedFetch {
  /**
   * Asks an origin. Throws RefusedAddress, UnreachableOrigin, and the signal's reason where it is aborted.
   *
   * Redirects from https to http are refused. Another origin is sent no authorization and no cookie. A redirect that asks for
   * the body once more is handed back: a stream is gone once it is sent.
   */
  fetch(request: GuardedRequest): Promise<GuardedResponse>
  /** Ends all connections, and what is under way over them. */
  close(): Promise<void>
}

export interface GuardedFetchOptions {
  /** Hosts and ranges that are asked although they are not public: an operator's own. */
  allow?: readonly Cidr[]
  /** How names are resolved; the system's way by default. */
  lookup?: Lookup
  /** 10 s to connect, 10 s more to the headers, 30 s without a byte of the body; kept to within a second. */
  deadlines?: typeof DEADLINES
}

const DEADLINES = { connectMs: 10_000, headersMs: 10_000, bodyIdleMs: 30_000 }
const REDIRECTS = new Set([301, 302, 303, 307, 308])
const KEEPS_METHOD = new Set([307, 308])
/** They concern one connection, or are ours to write. */
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
 * Asks origins on the public Internet and no others, whatever their names resolve to. Proxies of the environment are not
 * used. Throws RangeError for an `allow` that is no range.
 */
export function openGuardedFetch({
  allow = [],
  lookup = (name) => lookUpName(name, { all: true }),
  deadlines = DEADLINES,
}: GuardedFetchOptions = {}): GuardedFetch {
  const isAllowed = createAddressGuard(allow)
  let agent: Promise<Agent> | undefined

  /** Loads the client at the first request: it takes 28 MB, and most processes never ask another origin. */
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

/** The request for the target of a redirect. As in browsers, a POST becomes a GET after 301, 302 and 303. */
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
