import { AsyncLocalStorage } from 'node:async_hooks'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** A request, as the code that answers it can look it up. */
export class RequestScope {
  readonly id: string
  readonly #request: IncomingMessage
  readonly #response: ServerResponse | undefined
  #origin: URL | undefined
  #held: Promise<unknown> = Promise.resolve()
  #isHeld = false

  /** response: undefined for an upgrade. */
  constructor(request: IncomingMessage, response?: ServerResponse) {
    const id = request.headers['x-request-id']
    this.id = typeof id === 'string' ? id : ''
    this.#request = request
    this.#response = response
  }

  /** The origin that the visitor requested. */
  get origin(): URL {
    return (this.#origin ??= new URL(originOf(this.#request)))
  }

  /**
   * Holds the rest of the answer until some work is done, successfully or not, so that the visitor's next request sees its
   * effect.
   */
  holdAnswer(work: Promise<unknown>): void {
    const response = this.#response
    if (!response || response.writableEnded) return
    this.#held = Promise.allSettled([this.#held, work])
    if (this.#isHeld) return
    this.#isHeld = true
    const waiting: (() => void)[] = []
    const { write, end } = response
    const later =
      (call: (...args: never[]) => unknown) =>
      (...args: unknown[]): void =>
        void waiting.push(() => void Reflect.apply(call, response, args))
    const hold = { write: later(write), end: later(end) }
    Object.assign(response, {
      write: (...args: unknown[]) => (hold.write(...args), false),
      end: (...args: unknown[]) => (hold.end(...args), response),
    })
    void this.#release(() => {
      this.#isHeld = false
      Object.assign(response, { write, end })
      for (const call of waiting) call()
      if (waiting.length > 0 && !response.writableEnded) response.emit('drain')
    })
  }

  /** Waits for all held work, including work added meanwhile. */
  async #release(then: () => void): Promise<void> {
    for (let held; held !== this.#held;) await (held = this.#held)
    then()
  }

  /** The value behind `Symbol.for('@vercel/request-context')`. */
  context(): { waitUntil: typeof waitUntil; headers: Record<string, string>; url: string } {
    const pairs = headerPairs(this.#request).map(([name, value]) => [name.toLowerCase(), value] as const)
    return { waitUntil, headers: Object.fromEntries(pairs), url: urlOf(this.#request) }
  }
}

export const scopes = new AsyncLocalStorage<RequestScope>()

const work = new Set<Promise<unknown>>()
let active = 0
let onIdle: (() => void) | undefined
let onBusy: (() => void) | undefined

/** Keeps the slot alive until a promise has settled. Logs a rejection. */
export function waitUntil(promise: unknown): void {
  const settled = Promise.resolve(promise)
    .catch((error: unknown) => console.error(error))
    .finally(() => {
      work.delete(settled)
      tellIdle()
    })
  work.add(settled)
}

/** Calls the listener whenever the slot becomes busy. */
export function onFirstRequest(listener: () => void): void {
  onBusy = listener
}

export const hasRequests = (): boolean => active > 0

/** Resolves once no request and no promise of waitUntil is pending. */
export function untilIdle(): Promise<void> {
  return new Promise((resolve) => {
    onIdle = resolve
    tellIdle()
  })
}

function tellIdle(): void {
  if (active === 0 && work.size === 0) onIdle?.()
}

function begin(response: ServerResponse): void {
  active += 1
  if (active === 1) onBusy?.()
  response.once('close', () => {
    active -= 1
    tellIdle()
  })
}

/** Gives every request and upgrade of a server a scope, whoever created the server. */
export function scopeRequests(server: Server): void {
  const emit = server.emit.bind(server) as (event: string | symbol, ...args: unknown[]) => boolean
  server.emit = (event: string | symbol, ...args: unknown[]): boolean => {
    if (event === 'request') {
      begin(args[1] as ServerResponse)
      return scopes.run(new RequestScope(args[0] as IncomingMessage, args[1] as ServerResponse), emit, event, ...args)
    }
    if (event === 'upgrade') {
      return scopes.run(new RequestScope(args[0] as IncomingMessage), emit, event, ...args)
    }
    if (event === 'connection') nameThePeer(args[0] as Socket)
    return emit(event, ...args)
  }
  // The edge enforces timeouts; a server that closes a quiet connection would break a request on its way.
  server.keepAliveTimeout = 0
  server.requestTimeout = 0
  server.headersTimeout = 0
}

/** Adds a peer address, which frameworks expect and a Unix socket lacks. */
function nameThePeer(socket: Socket): void {
  Object.defineProperties(socket, {
    remoteAddress: { value: '127.0.0.1', configurable: true },
    remotePort: { value: 0, configurable: true },
    remoteFamily: { value: 'IPv4', configurable: true },
  })
}

/** The URL that the visitor requested. */
export function urlOf(request: IncomingMessage): string {
  const origin = originOf(request)
  const target = request.url ?? '/'
  return target.startsWith('/') ? origin + target : new URL(target, origin).href
}

/** Scheme and host of the URL that the visitor requested. */
export function originOf({ headers }: IncomingMessage): string {
  const { host = 'localhost', 'x-forwarded-proto': protocol } = headers
  return `${protocol === 'https' ? 'https' : 'http'}://${host}`
}

export function headerPairs({ rawHeaders }: IncomingMessage): [string, string][] {
  const pairs: [string, string][] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    pairs.push([rawHeaders[index] ?? '', rawHeaders[index + 1] ?? ''])
  }
  return pairs
}

/** The request context that frameworks built for `vercel` look for. */
export function offerRequestContext(): void {
  Object.defineProperty(globalThis, Symbol.for('@vercel/request-context'), {
    value: { get: () => scopes.getStore()?.context() },
    configurable: true,
    writable: true,
  })
}
