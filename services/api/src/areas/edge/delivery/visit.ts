import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { HeaderPairs } from '@platform/build-output/router'
import { newIdAt } from '@platform/runtime/new-id'
import type { EdgeDeps } from '../deps.ts'
import { sendChunk } from '../../../http/send-content.ts'
import type { CacheStatus, ServedBy } from '../../observe/request-logs/table.ts'
import { STICKY_PARAMETER } from '../sticky-sessions/sticky-endpoint.ts'
import type { StickyPin } from '../sticky-sessions/sticky-token.ts'
import type { FlatHeaders } from './deployed-file.ts'
import { cleanRequestHeaders } from './headers.ts'
import { limitBody } from './limit-body.ts'
import { requestBody } from './request-body.ts'
import { sendPage, type SitePage } from './site-page.ts'

/**
 * A body up to this size is written at once; a longer one in slices, so that the log counts what a client received before it
 * left.
 */
const SLICE_BYTES = 524_288
/** A body up to this size is copied, to be written together with its head. */
const JOINED_BYTES = 16_384
/** Shorter pieces cost more than their bytes: only this many may wait for the client before the sender is paused. */
const PIECE_BYTES_MIN = 1_024
const PIECES_WAITING_MAX = 256
/** A client that reads nothing for this long is taken to be gone. */
const SILENT_MS = 300_000

function* slicesOf(content: Buffer): Generator<Buffer> {
  for (let from = 0; from < content.length; from += SLICE_BYTES) yield content.subarray(from, from + SLICE_BYTES)
}

/** A sticky URL is a credential that other origins must not see. */
const REFERRER_POLICY = 'same-origin'
/** What says to search engines whether an answer may be found. */
export const ROBOTS_HEADER = 'x-robots-tag'
const NOINDEX = 'noindex'
const STICKY = `${STICKY_PARAMETER}=`

/** Splits the sticky token from the rest of the query. Two tokens make an invalid one. Returns undefined if there is none. */
function readSticky(query: string): { token: string; rest: string } | undefined {
  if (!query.includes(STICKY)) return undefined
  const parts = query.split('&')
  const tokens = parts.filter((part) => part.startsWith(STICKY)).map((part) => part.slice(STICKY.length))
  if (tokens.length === 0) return undefined
  return { token: tokens.join(), rest: parts.filter((part) => !part.startsWith(STICKY)).join('&') }
}

/** Adds a header, unless the site sets it. name: in lower case. */
const withDefault = (headers: FlatHeaders, name: string, value: string): FlatHeaders =>
  headers.some((each, index) => index % 2 === 0 && each.toLowerCase() === name) ? headers : [...headers, name, value]

type VisitDeps = Pick<EdgeDeps, 'requestLog' | 'appsUrl' | 'place' | 'clientAddress'>

/** A request to a deployment's hostname, from its arrival to its line in the application's request log. */
export class Visit {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  /** Kept here, since the request drops its own reference once destroyed. */
  readonly socket: Socket
  /** The first of the hostname's labels. */
  readonly label: string
  /** As received, percent-encoded. */
  readonly path: string
  /** Without the question mark, and without the sticky token, which only the platform sees. */
  readonly query: string
  /** The sticky token, not verified yet. */
  readonly stickyToken: string | undefined
  /** The contents of the sticky token, once verified. */
  pin: StickyPin | undefined
  /** The application that has the hostname; requests without one are not logged. */
  applicationId: string | undefined
  deploymentId: string | undefined
  servedBy: ServedBy | undefined
  cacheStatus: CacheStatus | undefined
  /** True if a Function threw and the site's own error page is being delivered. */
  hasFailed = false
  /** True if the answer must be made for this request only: neither from a cache nor cached. */
  isUncached = false
  /** True if search engines are asked to leave the answer out, unless the site says what they may do with it. */
  isNoindex = false
  /** Bytes of the body that were passed on; 0 for a body that nobody reads. */
  requestBodyBytes = 0
  /** Set for an upgrade request; head: the bytes that followed its headers. */
  upgrade: { head: Buffer } | undefined
  readonly #deps: VisitDeps
  readonly #wholeQuery: string
  readonly #startedAt = new Date()
  #id: string | undefined
  #host: string | undefined
  #hostname: string | undefined
  /** `bytesWritten` of the socket when this answer began. */
  readonly #sentBefore: number
  #stopBodyLimit: () => void
  #bytesSent = 0
  #bodyBytes = 0
  /** True if the body was sent in one write, so that partial progress is unknown. */
  #isAtOnce = false
  #piecesWaiting = 0
  #onPiecesSent: (() => void) | undefined
  #upgradedStatus: number | undefined
  #headers: FlatHeaders = []
  #cleanHeaders: Record<string, string | string[]> | undefined

  /** The response must have its socket already: a pipelined one that is still queued has none. */
  constructor(deps: VisitDeps, incoming: IncomingMessage, outgoing: ServerResponse, label: string, url: string) {
    this.#deps = deps
    this.incoming = incoming
    this.outgoing = outgoing
    this.label = label
    const end = url.indexOf('?')
    this.path = end === -1 ? url : url.slice(0, end)
    this.#wholeQuery = end === -1 ? '' : url.slice(end + 1)
    const sticky = readSticky(this.#wholeQuery)
    this.query = sticky ? sticky.rest : this.#wholeQuery
    this.stickyToken = sticky?.token
    this.socket = incoming.socket
    this.#sentBefore = this.socket.bytesWritten
    this.#stopBodyLimit = limitBody(incoming, outgoing)
    outgoing.on('close', () => this.#log())
  }

  /** Id of its record in the request log, which the Function also gets. */
  get id(): string {
    return (this.#id ??= newIdAt(this.#startedAt))
  }

  /** The body has a reader that times it; until then it is limited to 30 s. */
  takeBody(): void {
    this.#stopBodyLimit()
  }

  get hasBody(): boolean {
    const { 'content-length': length, 'transfer-encoding': encoding } = this.incoming.headers
    return length !== undefined || encoding !== undefined
  }

  /** Nobody reads the body of a request whose answer may take long: it is dropped as it arrives, until 30 s after the answer. */
  dropBody(): void {
    this.#stopBodyLimit()
    if (this.hasBody) requestBody(this.incoming, this.outgoing).destroy()
  }

  /** Limits the body to 30 s again, after it had to wait. */
  limitBody(): void {
    this.#stopBodyLimit()
    this.#stopBodyLimit = limitBody(this.incoming, this.outgoing)
  }

  get method(): string {
    return this.incoming.method ?? 'GET'
  }

  /** With the port, as in lists of hostnames. */
  get host(): string {
    return (this.#host ??= `${this.label}.${this.#deps.appsUrl.host}`)
  }

  get hostname(): string {
    return (this.#hostname ??= `${this.label}.${this.#deps.appsUrl.hostname}`)
  }

  get protocol(): 'http' | 'https' {
    return this.#deps.appsUrl.protocol === 'https:' ? 'https' : 'http'
  }

  /** The visitor's country as a trusted proxy reports it: ISO 3166-1 alpha-2. */
  get country(): string | undefined {
    const { countryHeader } = this.#deps.place
    if (countryHeader === undefined) return undefined
    const value = this.incoming.headers[countryHeader]
    if (typeof value !== 'string' || !/^[A-Za-z]{2}$/.test(value)) return undefined
    return this.#deps.clientAddress.isTrusted(this.socket.remoteAddress) ? value.toUpperCase() : undefined
  }

  /** The client's headers as routes, origins and Functions see them; computed on first use. */
  get headers(): Readonly<Record<string, string | string[] | undefined>> {
    return (this.#cleanHeaders ??= {
      ...cleanRequestHeaders(this.incoming.headers),
      host: this.host,
      'x-forwarded-host': this.host,
      'x-forwarded-proto': this.protocol,
      ...(this.country !== undefined && { 'x-vercel-ip-country': this.country }),
    })
  }

  /** Begins an answer whose body follows by `write`, and which ends with `end`. */
  writeHead(status: number, answerHeaders: FlatHeaders): void {
    let headers = answerHeaders
    if (this.pin) headers = withDefault(headers, 'referrer-policy', REFERRER_POLICY)
    if (this.isNoindex) headers = withDefault(headers, ROBOTS_HEADER, NOINDEX)
    this.#headers = headers
    this.outgoing.writeHead(status, headers)
  }

  /** Writes a chunk of the body. Returns false to pause until `onReady`, which is called once. */
  write(chunk: Buffer, onReady: () => void): boolean {
    this.#bodyBytes += chunk.length
    if (chunk.length < PIECE_BYTES_MIN) {
      this.#piecesWaiting += 1
      const isRoom = this.outgoing.write(chunk, () => this.#onPieceSent()) && this.#piecesWaiting < PIECES_WAITING_MAX
      if (!isRoom) this.#onPiecesSent = onReady
      return isRoom
    }
    if (this.outgoing.write(chunk)) return true
    // Responses learn of drains from the server, which no longer owns an upgraded connection.
    const drained = this.upgrade ? this.socket : this.outgoing
    drained.once('drain', onReady)
    return false
  }

  #onPieceSent(): void {
    this.#piecesWaiting -= 1
    if (this.#piecesWaiting > 0) return
    const onReady = this.#onPiecesSent
    this.#onPiecesSent = undefined
    onReady?.()
  }

  /** last: the rest of the body. */
  end(last?: Buffer): void {
    if (last === undefined) this.outgoing.end()
    else {
      this.#bodyBytes += last.length
      // A binary string is written together with the head; a buffer would be a second write.
      if (last.length <= JOINED_BYTES) this.outgoing.end(last.toString('latin1'), 'latin1')
      else this.outgoing.end(last)
    }
    this.#bytesSent = this.socket.bytesWritten - this.#sentBefore
  }

  /** The connection has switched protocols: its end is reported to `endUpgraded`. */
  beginUpgraded(): void {
    this.outgoing.detachSocket(this.socket)
    this.outgoing.statusCode = 101
  }

  /** An upgraded connection has ended; records what went through it. */
  endUpgraded(status: number, receivedBytes: number, sentBytes: number): void {
    this.#upgradedStatus = status
    this.requestBodyBytes = receivedBytes
    this.#bodyBytes = sentBytes
    this.#bytesSent = this.socket.bytesWritten - this.#sentBefore
    this.#log()
  }

  /** Answers with a short body or none. A client that leaves before all of it is written counts as having received nothing. */
  send(status: number, headers: FlatHeaders, body?: Buffer): void {
    const { outgoing, incoming } = this
    this.#isAtOnce = true
    this.writeHead(status, headers)
    if (body === undefined || incoming.method === 'HEAD') outgoing.end()
    else outgoing.end(body)
    this.#bodyBytes = incoming.method === 'HEAD' ? 0 : (body?.length ?? 0)
    this.#bytesSent = this.socket.bytesWritten - this.#sentBefore
  }

  /** Answers with content of any length, at the client's pace. Rejects with the source's failure, and if the client leaves. */
  async stream(status: number, headers: FlatHeaders, content: Buffer | AsyncIterable<Buffer>): Promise<void> {
    if (Buffer.isBuffer(content) && content.length <= SLICE_BYTES) {
      this.send(status, headers, content)
      return
    }
    const { outgoing } = this
    this.socket.setTimeout(SILENT_MS)
    for await (const chunk of Buffer.isBuffer(content) ? slicesOf(content) : content) {
      if (!outgoing.headersSent) this.writeHead(status, headers)
      await sendChunk(outgoing, chunk)
      if (this.#bodyBytes === 0) this.#bytesSent = this.socket.bytesWritten - this.#sentBefore
      else this.#bytesSent += chunk.length
      this.#bodyBytes += chunk.length
    }
    if (!outgoing.headersSent) this.writeHead(status, headers)
    outgoing.end()
    this.#bytesSent = this.socket.bytesWritten - this.#sentBefore
  }

  /** Answers with a page of the platform. */
  sendPage(page: SitePage): void {
    const { headers, body } = sendPage(this.outgoing, {
      ...page,
      headers: {
        ...(this.pin && { 'referrer-policy': REFERRER_POLICY }),
        ...(this.isNoindex && { [ROBOTS_HEADER]: NOINDEX }),
        ...page.headers,
      },
    })
    this.#headers = Object.entries(headers).flat()
    this.#isAtOnce = true
    this.#bodyBytes = this.method === 'HEAD' ? 0 : body.length
    this.#bytesSent = this.socket.bytesWritten - this.#sentBefore
  }

  #log(): void {
    const { applicationId, incoming, outgoing } = this
    if (applicationId === undefined) return
    const isCut = this.#isAtOnce && !outgoing.writableFinished
    this.#deps.requestLog.write({
      id: this.id,
      applicationId,
      deploymentId: this.deploymentId,
      servedBy: this.servedBy ?? {},
      method: this.method,
      hostname: this.host,
      path: this.path,
      query: this.#wholeQuery,
      protocol: `HTTP/${incoming.httpVersion}`,
      country: this.country,
      // 499: the client left before an answer.
      status: this.#upgradedStatus ?? (outgoing.headersSent ? outgoing.statusCode : 499),
      cacheStatus: this.cacheStatus,
      region: this.#deps.place.region,
      edgeLocation: this.#deps.place.location,
      requestBodyBytes: this.requestBodyBytes,
      responseBodyBytes: isCut ? 0 : this.#bodyBytes,
      bytesSent: isCut ? 0 : this.#bytesSent,
      startedAt: this.#startedAt,
      completedAt: new Date(),
      requestHeaders: incoming.headers,
      responseHeaders: this.#headers,
    })
  }
}

/** Flattens header pairs, as `writeHead` accepts them. */
export function flatten(pairs: HeaderPairs): string[] {
  const flat: string[] = []
  for (const [name, value] of pairs) flat.push(name, value)
  return flat
}
