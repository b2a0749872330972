import { type ReadonlySignal, signal } from '@preact/signals'
import type { FollowOptions } from '@platform/sdk'
import type { LiveSource } from '../platform/live.ts'
import { type LogLine, LogLines } from './lines.ts'

/** Rows that are kept in the page. */
export const ROWS_MAX = 100_000

const FIRST_PAGE = 200
const PAGE = 1_000
/** Pages that are read at once to catch up; what is older than these becomes a gap with its count. */
const CATCH_UP_PAGES = 5
/** Lines may be stored later than their time says, such as a request that took long. */
const OVERLAP_MS = 60_000
/** A page that searched much and found little may be empty: so many are read for one of which somebody sees something. */
const EMPTY_PAGES_MAX = 10

/** Newest first. */
export interface FeedPage<Line> {
  lines: readonly Line[]
  total: number
  nextCursor: string | null
}

/** Where a log that goes on and on is read. */
export interface FeedSource<Line> {
  /** from: ISO 8601, inclusive. */
  list(query: { cursor?: string; from?: string; limit: number }, signal: AbortSignal): Promise<FeedPage<Line>>
  /** What comes: a line, one that does not fit the filter, or that some were left out. */
  follow(options: FollowOptions): AsyncIterable<{ id: string; line: Line | undefined } | 'gap'>
}

export interface FeedState {
  /** Whether the newest page was read. */
  isRead: boolean
  /** Whether there is an older page. */
  hasOlder: boolean
  /** Whether older pages are left unread, since no more rows are kept. */
  isFull: boolean
  total: number
}

/** A log of which the newest lines are read, then what comes, and older pages on demand: at most ROWS_MAX rows. */
export class LogFeed<Line extends LogLine> {
  readonly lines = new LogLines<Line>()
  readonly #source: FeedSource<Line>
  readonly #state = signal<FeedState>({ isRead: false, hasOlder: false, isFull: false, total: 0 })
  #cursor: string | undefined
  #lastStreamedId: string | undefined
  #catchingUp: Promise<void> = Promise.resolve()

  constructor(source: FeedSource<Line>) {
    this.#source = source
  }

  get state(): ReadonlySignal<FeedState> {
    return this.#state
  }

  /** Reads the newest page. Does nothing if it was read. */
  async readNewest(signal: AbortSignal): Promise<void> {
    if (this.#state.value.isRead) return
    const page = await this.#source.list({ limit: FIRST_PAGE }, signal)
    this.#append(page.lines)
    this.#endPage(page, { isRead: true, total: page.total })
  }

  /** Reads the page before the first line, if there is one. */
  async readOlder(signal: AbortSignal): Promise<void> {
    for (let pages = 0; pages < EMPTY_PAGES_MAX && this.#cursor !== undefined; pages++) {
      const limit = Math.min(PAGE, ROWS_MAX - this.lines.size)
      if (limit < 1) return
      const page = await this.#source.list({ cursor: this.#cursor, limit }, signal)
      this.#append(page.lines)
      this.#endPage(page, {})
      if (page.lines.length > 0) return
    }
  }

  /** Keeps the log up to date, once the newest page was read. */
  readonly live: LiveSource = {
    follow: async ({ signal, onState, onBeat }) => {
      const failing = new AbortController()
      const within = AbortSignal.any([signal, failing.signal])
      const options: FollowOptions = {
        signal: within,
        onBeat,
        lastEventId: this.#lastStreamedId,
        onState: (state) => {
          onState(state)
          // Between two connections the stream may have gone on without us.
          if (state === 'live') this.#catchUp(within).catch((error: unknown) => failing.abort(error))
        },
      }
      for await (const event of this.#source.follow(options)) {
        if (event === 'gap') await this.#catchUp(within)
        else {
          this.#lastStreamedId = event.id
          if (event.line) this.#append([event.line], { isNew: true })
        }
      }
    },
    poll: async (signal) => {
      await this.#catchUp(signal)
      return false
    },
  }

  /** Reads what is newer than the last line, one time after the other: two at a time would count the same gap. */
  #catchUp(signal: AbortSignal): Promise<void> {
    const read = this.#catchingUp.then(() => this.#readNewer(signal))
    this.#catchingUp = read.catch(() => undefined)
    return read
  }

  /** Reads the newest pages back to the last line, or as many as are read at once, and counts what lies between. */
  async #readNewer(signal: AbortSignal): Promise<void> {
    const { first, lastAt, lastId } = this.lines
    const from = lastAt && new Date(Date.parse(lastAt) - OVERLAP_MS).toISOString()
    const known = from === undefined ? 0 : this.lines.countSince(from)
    const read: Line[] = []
    let [cursor, total]: [string | undefined, number] = [undefined, 0]
    for (let pages = 0; pages < (from ? CATCH_UP_PAGES : 1); pages++) {
      const query = { ...(from && { from }), ...(cursor && { cursor }), limit: PAGE }
      const page: FeedPage<Line> = await this.#source.list(query, signal)
      read.push(...page.lines)
      total = page.total
      cursor = page.nextCursor ?? undefined
      if (cursor === undefined) break
    }
    // What is older than the first line comes with its own page.
    this.#append(
      read.filter(({ at }) => first === undefined || at >= first.at),
      { isNew: true },
    )
    const oldest = read.at(-1)
    if (cursor === undefined || !oldest || lastAt === undefined || lastId === undefined || oldest.at <= lastAt) return
    const left = total - known - read.length
    this.lines.addGap(left, { at: lastAt, id: lastId })
    this.#set({ total: this.#state.value.total + Math.max(0, left) })
  }

  #append(lines: readonly Line[], { isNew = false } = {}): void {
    const before = this.lines.size
    this.lines.append(lines)
    const state = this.#state.value
    if (isNew && this.lines.size > before) this.#set({ total: state.total + this.lines.size - before })
    if (this.lines.size <= ROWS_MAX) return
    // Some more leave, so that not each line that comes moves all others.
    this.lines.keepLast(ROWS_MAX - PAGE)
    this.#set({ isFull: true })
  }

  #endPage({ nextCursor }: FeedPage<Line>, more: Partial<FeedState>): void {
    this.#cursor = nextCursor ?? undefined
    const isFull = this.#state.value.isFull || this.lines.size >= ROWS_MAX
    this.#set({ hasOlder: this.#cursor !== undefined, isFull, ...more })
  }

  #set(changes: Partial<FeedState>): void {
    this.#state.value = { ...this.#state.value, ...changes }
  }
}
