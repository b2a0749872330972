import { createHash, randomBytes } from 'node:crypto'
import { deserialize, serialize } from 'node:v8'
import { ByteCache } from './byte-cache.ts'
import { http } from './node-http.ts'
import { scopes } from './request-scope.ts'

/** A page request waits at most this long for cached data. */
const readMs = 500
const writeMs = 5_000
const memoryBytes = 33_554_432
const tagsAtOnce = 256
const expireSecondsMax = 1_000_000_000
const warnEveryMs = 60_000

/** A value with the data that decides whether it may be served. */
export interface Kept {
  value: unknown
  tags: readonly string[]
  /** When its computation began, by the edge's clock. */
  begunAt: number
}

/** stale: it may be served while it is regenerated. */
export type Verdict = 'fresh' | 'stale' | 'expired'

interface Tag {
  staleAt: number
  expiredAt: number | null
}

interface Changes {
  now: number
  cursor: string
  isWhole: boolean
  tags: [tag: string, staleAt: number, expiredAt: number | null][]
  keys: [key: string, writer: string][]
}

interface Answer {
  status: number
  body: Buffer
}

/** Cache key of a value: framework results, or pages, which may be longer. */
export const keyOf = (kind: 'data' | 'pages', name: string): string =>
  `${kind}/${createHash('sha256').update(name).digest('hex')}`

/**
 * The cache that all slots of a deployment share, at the edge, with up to 32 MiB of it in this process's memory. Times are
 * milliseconds since 1970 by the edge's clock, which is never ahead of real time.
 */
export class EdgeCache {
  readonly #socketPath: string
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 16 })
  /** Identifies this process in the edge's change notes, to skip its own writes. */
  readonly #writer = randomBytes(8).toString('hex')
  readonly #memory = new ByteCache(memoryBytes)
  /** Reads and writes in flight, by key. */
  readonly #underWay = new Map<string, Set<{ isOutdated: boolean }>>()
  readonly #reads = new Map<string, Promise<Buffer | undefined>>()
  readonly #tags = new Map<string, Tag>()
  readonly #refreshed = new WeakMap<object, Promise<boolean>>()
  readonly #revalidating = new Map<string, Promise<void>>()
  #refreshing: Promise<boolean> | undefined
  #refreshingNext: Promise<boolean> | undefined
  #cursor = ''
  /** Offset of the edge's clock from performance.now(). */
  #clock = Date.now() - performance.now()
  /** Offset from the edge's clock to this machine's; constant, so that converted times keep their order. */
  #toWall: number | undefined
  #warnedAt = -Infinity
  /** When this process last revalidated a tag. */
  revalidatedAt = 0

  constructor(socketPath: string) {
    this.#socketPath = socketPath
  }

  now(): number {
    return Math.floor(this.#clock + performance.now())
  }

  /** Converts a time of the edge's clock to this machine's clock. */
  wallTimeOf(moment: number): number {
    return moment + (this.#toWall ?? 0)
  }

  /** Converts a past time of this machine's clock to the edge's clock. */
  timeOfId(wallTime: number): number {
    return this.now() - Math.max(0, performance.timeOrigin + performance.now() - wallTime)
  }

  /**
   * Fetches what was revalidated and stored elsewhere, once per request. Resolves to false if the edge does not answer in
   * time: then nothing cached may be served.
   */
  refresh(): Promise<boolean> {
    const scope = scopes.getStore()
    if (!scope) return this.#refreshSoon()
    let refreshed = this.#refreshed.get(scope)
    if (!refreshed) this.#refreshed.set(scope, (refreshed = this.#refreshSoon()))
    return refreshed
  }

  /** The answer to an earlier call may miss later changes. */
  #refreshSoon(): Promise<boolean> {
    if (!this.#refreshing) {
      this.#refreshing = this.#askChanges().finally(() => (this.#refreshing = undefined))
      return this.#refreshing
    }
    this.#refreshingNext ??= this.#refreshing.then(() => {
      this.#refreshingNext = undefined
      return this.#refreshSoon()
    })
    return this.#refreshingNext
  }

  async #askChanges(): Promise<boolean> {
    try {
      const { status, body } = await this.#ask('GET', `/changes?since=${this.#cursor}`, readMs)
      if (status !== 200) throw new Error(`it answers ${status}`)
      this.#learn(JSON.parse(body.toString()) as Changes)
      return true
    } catch (error) {
      this.#warn(error)
      return false
    }
  }

  #learn({ now, cursor, isWhole, tags, keys }: Changes): void {
    this.#clock = now - performance.now()
    this.#toWall ??= Date.now() - now
    this.#cursor = cursor
    if (isWhole) {
      this.#memory.clear()
      for (const key of this.#underWay.keys()) this.#outdate(key)
    }
    for (const [tag, staleAt, expiredAt] of tags)
      // Answers may arrive out of order.
      if ((this.#tags.get(tag)?.staleAt ?? 0) <= staleAt) this.#tags.set(tag, { staleAt, expiredAt })
    for (const [key, writer] of keys) {
      if (writer === this.#writer) continue
      this.#memory.delete(key)
      this.#outdate(key)
    }
  }

  #outdate(key: string): void {
    for (const each of this.#underWay.get(key) ?? []) each.isOutdated = true
    this.#reads.delete(key)
  }

  /** The verdict of tags on a value whose computation began at a given time. */
  judge(tags: readonly string[], begunAt: number): Verdict {
    let verdict: Verdict = 'fresh'
    const now = this.now()
    for (const tag of tags) {
      const known = this.#tags.get(tag)
      if (!known || known.staleAt < begunAt) continue
      if (known.expiredAt !== null && known.expiredAt <= now && known.expiredAt >= begunAt) return 'expired'
      verdict = 'stale'
    }
    return verdict
  }

  /** When a tag was last revalidated; undefined if never. */
  tag(name: string): Tag | undefined {
    return this.#tags.get(name)
  }

  /** Reads a cached value. undefined if there is none, or if the edge does not answer in time. Never rejects. */
  async find(key: string): Promise<Kept | undefined> {
    if (!(await this.refresh())) return undefined
    const known = this.#memory.get(key)
    if (known) return known.bytes && readKept(known.bytes)
    let read = this.#reads.get(key)
    if (!read) {
      read = this.#read(key).finally(() => {
        if (this.#reads.get(key) === read) this.#reads.delete(key)
      })
      this.#reads.set(key, read)
    }
    try {
      const bytes = await read
      return bytes && readKept(bytes)
    } catch (error) {
      this.#warn(error)
      return undefined
    }
  }

  async #read(key: string): Promise<Buffer | undefined> {
    return this.#watching(key, async () => {
      const { status, body } = await this.#ask('GET', `/${key}`, readMs)
      if (status !== 200 && status !== 404) throw new Error(`it answers ${status}`)
      return status === 200 ? body : undefined
    })
  }

  /** Caches the result of a call in memory, unless another process stored a value meanwhile. */
  async #watching<T extends Buffer | undefined>(key: string, call: () => Promise<T>): Promise<T> {
    const watch = { isOutdated: false }
    const watches = this.#underWay.get(key) ?? new Set()
    this.#underWay.set(key, watches.add(watch))
    try {
      const bytes = await call()
      if (!watch.isOutdated) this.#memory.set(key, bytes)
      return bytes
    } finally {
      watches.delete(watch)
      if (watches.size === 0) this.#underWay.delete(key)
    }
  }

  /** Stores a value for all slots. Rejects if the edge cannot store it, and then it is not cached here either. */
  async store(key: string, { value, tags, begunAt }: Kept): Promise<void> {
    this.#memory.delete(key)
    const bytes = serialize({ value, tags, begunAt } satisfies Kept)
    await this.#watching(key, async () => {
      const head = Buffer.from(`${JSON.stringify({ tags: tags.slice(0, tagsAtOnce) })}\n`)
      const answer = await this.#ask('PUT', `/${key}`, writeMs, Buffer.concat([head, bytes]))
      if (answer.status !== 204) throw failureOf(answer)
      return bytes
    })
  }

  /**
   * Invalidates every value with one of the tags, in all slots and on all edges. expireSeconds: how long it may still be
   * served while it is regenerated; undefined: for as long as that takes. Rejects if the edge did not accept it. Safe to
   * repeat.
   */
  async revalidate(tags: readonly string[], expireSeconds: number | undefined): Promise<void> {
    const expiry =
      expireSeconds !== undefined && Number.isFinite(expireSeconds)
        ? { expireSeconds: Math.round(Math.min(Math.max(expireSeconds, 0), expireSecondsMax)) }
        : {}
    for (let n = 0; n < tags.length; n += tagsAtOnce)
      await this.#revalidateOnce(JSON.stringify({ tags: tags.slice(n, n + tagsAtOnce), ...expiry }))
  }

  /** A framework reports the same revalidation once for each of its handlers. */
  #revalidateOnce(body: string): Promise<void> {
    const before = this.#revalidating.get(body)
    if (before) return before
    const revalidating = this.#postTags(body).finally(() => this.#revalidating.delete(body))
    this.#revalidating.set(body, revalidating)
    return revalidating
  }

  async #postTags(body: string): Promise<void> {
    const answer = await this.#ask('POST', `/tags?since=${this.#cursor}`, writeMs, Buffer.from(body))
    if (answer.status !== 200) throw failureOf(answer)
    this.#learn(JSON.parse(answer.body.toString()) as Changes)
    this.revalidatedAt = this.now()
  }

  #warn(error: unknown): void {
    if (performance.now() - this.#warnedAt < warnEveryMs) return
    this.#warnedAt = performance.now()
    console.warn(`The cache of this deployment is left out: ${error instanceof Error ? error.message : String(error)}`)
  }

  async #ask(method: string, path: string, timeoutMs: number, body?: Buffer): Promise<Answer> {
    try {
      return await this.#send(method, path, timeoutMs, body)
    } catch (error) {
      if (!(error instanceof ClosedConnection)) throw error
      return this.#send(method, path, timeoutMs, body)
    }
  }

  #send(method: string, path: string, timeoutMs: number, body: Buffer | undefined): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const headers = { 'x-writer': this.#writer, ...(body && { 'content-length': body.length }) }
      const options = { socketPath: this.#socketPath, agent: this.#agent, method, path, headers }
      const outgoing = http.request(options, (incoming) => {
        const chunks: Buffer[] = []
        incoming
          .on('data', (chunk: Buffer) => chunks.push(chunk))
          .once('end', () => {
            clearTimeout(timer)
            resolve({ status: incoming.statusCode ?? 0, body: Buffer.concat(chunks) })
          })
          .once('error', fail)
      })
      const timer = setTimeout(() => outgoing.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
      function fail(error: NodeJS.ErrnoException): void {
        clearTimeout(timer)
        reject(outgoing.reusedSocket && error.code === 'ECONNRESET' ? new ClosedConnection() : error)
      }
      outgoing.once('error', fail).end(body)
    })
  }
}

/** The edge closed an idle connection before it processed the request. */
class ClosedConnection extends Error {}

function readKept(bytes: Buffer): Kept | undefined {
  try {
    return deserialize(bytes) as Kept
  } catch {
    // Another version of Node wrote it.
    return undefined
  }
}

function failureOf({ status, body }: Answer): Error {
  let reason = ''
  try {
    reason = (JSON.parse(body.toString()) as { error: string }).error
  } catch {
    // The status says enough.
  }
  return new Error(`The cache of this deployment answered ${status}${reason === '' ? '' : `: ${reason}`}`)
}
