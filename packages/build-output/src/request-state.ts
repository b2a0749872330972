import { type HeaderPairs, isSettable, type RouteRequest } from './answer.ts'
import type { Subject } from './conditions.ts'
import { HEADERS_LENGTH_MAX, PATH_LENGTH_MAX, QUERY_LENGTH_MAX, requireAtMost, RoutingClock } from './routing-limit.ts'

/** The routing state of a request: its current path, and everything added on the way. */
export class RequestState {
  request: RouteRequest
  /** Of the request, normalized. */
  readonly ownPath: string
  /** The path that a Function sees. */
  visiblePath: string
  /** True once a route's destination has replaced the path. */
  isRewritten = false
  status: number | undefined
  /** Response headers; the last route wins. */
  headers = new Map<string, string>()
  cookies: string[] = []
  important = new Set<string>()
  requestHeaders = new Map<string, string>()
  requestHeadersRemoved = new Set<string>()
  wildcard: string
  /** Names of values that route patterns captured from the path and the conditions. */
  captured = new Set<string>()
  /** The last path at which nothing was found. */
  missedPath: string | undefined
  /** Shared with the copies made for trials. Starts again in `resume`. */
  readonly clock: RoutingClock
  #subject: Subject | undefined
  #path = ''
  #query = ''
  #headersLength = 0

  constructor(request: RouteRequest, path: string, wildcard: string, clock = new RoutingClock()) {
    this.request = request
    this.clock = clock
    this.path = path
    this.ownPath = path
    this.visiblePath = path
    this.query = request.query
    this.wildcard = wildcard
  }

  /** Normalized; the path for look-ups. */
  get path(): string {
    return this.#path
  }

  set path(path: string) {
    requireAtMost(path.length, PATH_LENGTH_MAX)
    this.#path = path
  }

  get query(): string {
    return this.#query
  }

  set query(query: string) {
    requireAtMost(query.length, QUERY_LENGTH_MAX)
    this.#query = query
  }

  /** Copies the state for a trial within the same routing. */
  clone(): RequestState {
    return this.resume(this.clock)
  }

  /** Copies the state to route on with after a Function has run. clock: of a routing that the copy belongs to, else it begins one. */
  resume(clock?: RoutingClock): RequestState {
    const copy = new RequestState(this.request, this.path, this.wildcard, clock)
    copy.assign(this)
    return copy
  }

  /** Copies all of another state. */
  assign(other: RequestState): void {
    this.request = other.request
    this.path = other.path
    this.visiblePath = other.visiblePath
    this.isRewritten = other.isRewritten
    this.query = other.query
    this.status = other.status
    this.headers = new Map(other.headers)
    this.#headersLength = other.#headersLength
    this.cookies = [...other.cookies]
    this.important = new Set(other.important)
    this.requestHeaders = new Map(other.requestHeaders)
    this.requestHeadersRemoved = new Set(other.requestHeadersRemoved)
    this.captured = new Set(other.captured)
    this.missedPath = other.missedPath
  }

  /** The data for conditions, including middleware's changes to the headers. */
  get subject(): Subject {
    return (this.#subject ??= {
      host: this.request.host.replace(/:\d+$/, ''),
      header: (name) => this.header(name),
      cookie: (name) => cookieOf(this.header('cookie') ?? '', name),
      query: (name) => new URLSearchParams(this.query).get(name) ?? undefined,
    })
  }

  header(name: string): string | undefined {
    const set = this.requestHeaders.get(name)
    if (set !== undefined) return set
    if (this.requestHeadersRemoved.has(name)) return undefined
    const value = this.request.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  setHeader(name: string, value: string): void {
    if (!isSettable(name)) return
    requireAtMost((this.#headersLength += name.length + value.length), HEADERS_LENGTH_MAX)
    if (name === 'set-cookie') this.cookies.push(value)
    else this.headers.set(name, value)
  }

  setRequestHeader(name: string, value: string | undefined): void {
    if (value === undefined) {
      this.requestHeaders.delete(name)
      this.requestHeadersRemoved.add(name)
    } else {
      requireAtMost((this.#headersLength += name.length + value.length), HEADERS_LENGTH_MAX)
      this.requestHeaders.set(name, value)
      this.requestHeadersRemoved.delete(name)
    }
  }

  /** Returns the headers that all kinds of answers carry. */
  common(): { headers: HeaderPairs; important: readonly string[]; unset: string[] } {
    const cookies = this.cookies.map((value): [string, string] => ['set-cookie', value])
    return { headers: [...this.headers, ...cookies], important: [...this.important], unset: [] }
  }
}

function cookieOf(cookies: string, name: string): string | undefined {
  for (const pair of cookies.split(';')) {
    const index = pair.indexOf('=')
    if (index !== -1 && pair.slice(0, index).trim() === name) return pair.slice(index + 1).trim()
  }
}
