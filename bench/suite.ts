import type { Lab } from './lab.ts'
import type { Credentials } from './sign-request.ts'

/** The requests that are sent to every contender of a suite, the same to each. */
export interface Load {
  method: 'GET' | 'POST' | 'PUT'
  /** In it `{address}` is the number of the client address, 0 to 4,095, and `{request}` something new in each request. */
  path: string
  /** Asked before each measurement, so that a token never expires within one. */
  headers(of: Contender): Promise<Record<string, string>>
  body?: string
  /**
   * A form for each connection, asked for before each measurement. Its refresh_token is from then on the one of the last
   * answer: a session that is refreshed again and again.
   */
  forms?(of: Contender): Promise<string[]>
  /**
   * The second number of the client addresses 10.x.0.0–10.x.15.255 that requests come from, by X-Forwarded-For: one of a
   * suite's own, so that no limit is reached and all counters are touched.
   */
  addressBlock: number
  connections: number
}

/** A server of the comparison. */
export interface Contender {
  name: string
  origin: string
  /** undefined where it is no process of this run. */
  pid: number | undefined
  /** Where it differs from the suite's. */
  path?: string
  /** Of an S3 server: each request is signed with them. */
  credentials?: Credentials
  /** Only the process itself counts: what it started has other work. */
  isAlone?: boolean
  /** A second process that is sent as much at the same time. */
  also?: { origin: string; pid: number }
  /** A process that is sent nothing and counts all the same, since requests come to it through the first. */
  behind?: number
  /** To each of its processes, where they differ from the suite's. */
  connections?: number
}

/** What is measured by itself rather than by the suite's load: a limit, or a server under a load of its own pace. */
export interface Trial {
  name: string
  /** Of the server whose CPU time and memory count; undefined where there is none. */
  pid?: number | undefined
  /** Only that process counts: what it started has other work. */
  isAlone?: boolean
  /** A second process that counts. */
  behind?: number
  measure(seconds: number): Promise<{
    perSecond: number
    /** How long it took, where it ends only with a whole piece of work; as asked unless said. */
    seconds?: number
    p50Ms?: number
    p99Ms?: number
    loadMakerBusy?: number
    /** What else was seen, by a name that holds its unit. */
    facts?: Record<string, number>
  }>
}

/** The part of a comparison that the design promises. Ratios are ours to theirs, of one run. */
export interface Aim {
  cpuRatioMax?: number
  throughputRatioMin?: number
  /** Of the median of the time an answer takes. */
  p50RatioMax?: number
  /** Of the 99th percentile of the time an answer takes. */
  p99RatioMax?: number
  /** Milliseconds that half of the answers take at most, where a page must come at once however much there is. */
  p50MsMax?: number
}

export interface Prepared {
  /** For all but trials. */
  load?: Load
  /** What is counted; requests unless it says otherwise. */
  unit?: 'MiB' | 'files'
  ours: Contender | Trial
  peers: readonly ((Contender | Trial) & { aim: Aim })[]
  /** What ours is to reach by itself. */
  aim?: Aim
  /** Throws when an answer to the load is not what all contenders have to give. */
  check?(name: string, answer: Response): Promise<void>
}

/** One comparison: the same work, done by ours and by others. */
export interface Suite {
  name: string
  /** What is asked for, in one line. */
  work: string
  /** True for one that takes minutes to prepare: it runs only when it is named. */
  isLarge?: boolean
  prepare(lab: Lab): Promise<Prepared>
}
