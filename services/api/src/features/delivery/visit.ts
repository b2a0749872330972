import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { HeaderPairs } from '@platform/build-output/router'
import type { Deps } from '../../deps.ts'
import { sendChunk } from '../../http/send-content.ts'
import type { CacheStatus, ServedBy } from '../request-logs/table.ts'
import type { FlatHeaders } from './deployed-file.ts'
import { cleanRequestHeaders } from './headers.ts'
import { sendPage, type SitePage } from './site-page.ts'

/** A body up to this is written at once; a longer one in slices, so that the log counts what a client that left had received. */
const SLICE_BYTES = 524_288
/** A client that takes nothing for so long has gone without a word. */
const SILENT_MS = 300_000

function* slicesOf(content: Buffer): Generator<Buffer> {
  for (let from = 0; from < content.length; from += SLICE_BYTES) yield content.subarray(from, from + SLICE_BYTES)
}

type VisitDeps = Pick<Deps, 'requestLog' | 'appsUrl' | 'place' | 'clientAddress'>

/** A request at the hostname of a deployment, from its arrival to its line in the request log of the application. */
export class Visit {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  /** The request lets go of its own once it is destroyed. */
  readonly socket: Socket
  /** The first of the hostname's labels. */
  readonly label: string
  /** As it came, percent-encoded. */
  readonly path: string
  /** Without the question mark. */
  readonly query: string
  /** The application whose hostname it is; a request without one is in nobody's log. */
  applicationId: string | undefined
  deploymentId: string | undefined
  servedBy: ServedBy | undefined
  cacheStatus: CacheStatus | undefined
  /** What an origin was sent of the body; of one that nobody reads, nothing. */
  requestBodyBytes = 0
  readonly #deps: VisitDeps
  readonly #startedAt = new Date()
  /** `bytesWritten` of the socket when this answer began. */
  readonly #sentBefore: number
  #bytesSent = 0
  #bodyBytes = 0
  /** True if the body went out in one write, so that partial progress is not known. */
  #isAtOnce = false
  #headers: FlatHeaders = []
  #cleanHeaders: Record<string, string | string[]> | undefined

  /** The response has to have its socket: a pipelined one that waits for its turn has none. */
  constructor(deps: VisitDeps, incoming: IncomingMessage, outgoing: ServerResponse, label: string, url: string) {
    this.#deps = deps
    this.incoming = incoming
    this.outgoing = outgoing
    this.label = label
    const end = url.indexOf('?')
    this.path = end === -1 ? url : url.slice(0, end)
    this.query = end === -1 ? '' : url.slice(end + 1)
    this.socket = incoming.socket
    this.#sentBefore = this.socket.bytesWritten
    outgoing.on('close', () => this.#log())
  }

  get method(): string {
    return this.incoming.method ?? 'GET'
  }

  /** With the port, as lists of hostnames show it. */
  get host(): string {
    return `${this.label}.${this.#deps.appsUrl.host}`
  }

  get hostname(): string {
    return `${this.label}.${this.#deps.appsUrl.hostname}`
  }

  get protocol(): 'http' | 'https' {
    return this.#deps.appsUrl.protocol === 'https:' ? 'https' : 'http'
  }

  /** Where the visitor is, as a trusted proxy says: ISO 3166-1 alpha-2. */
  get country(): string | undefined {
    const { countryHeader } = this.#deps.place
    if (countryHeader === undefined) return undefined
    const value = this.incoming.headers[countryHeader]
    if (typeof value !== 'string' || !/^[A-Za-z]{2}$/.test(value)) return undefined
    return this.#deps.clientAddress.isTrusted(this.socket.remoteAddress) ? value.toUpperCase() : undefined
  }

  /** What routes, origins and Functions see of the client's headers; worked out when somebody looks. */
  get headers(): Readonly<Record<string, string | string[] | undefined>> {
    return (this.#cleanHeaders ??= {
      ...cleanRequestHeaders(this.incoming.headers),
      host: this.host,
      'x-forwarded-host': this.host,
      'x-forwarded-proto': this.protocol,
      ...(this.country !== undefined && { 'x-vercel-ip-country': this.country }),
    })
  }

  /** Answers with a short body, or with none. A client that leaves before all of it is written got none of it. */
  send(status: number, headers: FlatHeaders, body?: Buffer): void {
    const { outgoing, incoming } = this
    this.#headers = headers
    this.#isAtOnce = true
    outgoing.writeHead(status, headers)
    if (body === undefined || incoming.method === 'HEAD') outgoing.end()
    else outgoing.end(body)
    this.#bodyBytes = incoming.method === 'HEAD' ? 0 : (body?.length ?? 0)
    this.#bytesSent = this.socket.bytesWritten - this.#sentBefore
  }

  /** Answers with content of any length, as fast as the client takes it. Rejects with the source's failure, and when it leaves. */
  async stream(status: number, headers: FlatHeaders, content: Buffer | AsyncIterable<Buffer>): Promise<void> {
    if (Buffer.isBuffer(content) && content.length <= SLICE_BYTES) {
      this.send(status, headers, content)
      return
    }
    const { outgoing } = this
    this.socket.setTimeout(SILENT_MS)
    for await (const chunk of Buffer.isBuffer(content) ? slicesOf(content) : content) {
      if (!outgoing.headersSent) {
        this.#headers = headers
        outgoing.writeHead(status, headers)
      }
      await sendChunk(outgoing, chunk)
      if (this.#bodyBytes === 0) this.#bytesSent = this.socket.bytesWritten - this.#sentBefore
      else this.#bytesSent += chunk.length
      this.#bodyBytes += chunk.length
    }
    if (!outgoing.headersSent) {
      this.#headers = headers
      outgoing.writeHead(status, headers)
    }
    outgoing.end()
    this.#bytesSent = this.socket.bytesWritten - this.#sentBefore
  }

  /** Answers with a page of the platform. */
  sendPage(page: SitePage): void {
    const { headers, body } = sendPage(this.outgoing, page)
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
      applicationId,
      deploymentId: this.deploymentId,
      servedBy: this.servedBy ?? {},
      method: this.method,
      hostname: this.host,
      path: this.path,
      query: this.query,
      protocol: `HTTP/${incoming.httpVersion}`,
      country: this.country,
      // 499: the client left before it was answered.
      status: outgoing.headersSent ? outgoing.statusCode : 499,
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

/** Headers of pairs as `writeHead` takes them. */
export const flatten = (pairs: HeaderPairs): FlatHeaders => pairs.flat()
