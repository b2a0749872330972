import { type Answer, PATH_BYTES_MAX, plain } from './answer.ts'

/** Limit of a path that routes make, equal to a request's own with every byte encoded: it bounds the cost of the next patterns. */
export const PATH_LENGTH_MAX = 3 * PATH_BYTES_MAX
/** Limit of a query that routes make; a request's own is shorter, even with every byte encoded. */
export const QUERY_LENGTH_MAX = 65_536
/** Limit of all headers that routes set on one response. */
export const HEADERS_LENGTH_MAX = 65_536
/** Limit of what one template takes from a request, however often it uses the same value. */
export const EXPANDED_LENGTH_MAX = 16_384
/**
 * Limit of the CPU time that routing takes until it ends or a Function is called. It takes microseconds: ten thousand quadratic
 * patterns on a path of 2 KB take minutes.
 */
const ROUTING_US_MAX = 1_000_000
/** Number of patterns between two checks of the clock; the slowest takes some 20 ms. */
const PATTERNS_A_LOOK = 16

/** Routes made a URL or response that is too long, or took too much time. */
class OverLimit extends Error {}

/** Throws the error that `withinLimits` answers with 414. */
export function requireAtMost(value: number, valueMax: number): void {
  if (value > valueMax) throw new OverLimit()
}

/**
 * Counts the patterns tried for one request. Once they take too long, `count` throws, and `withinLimits` answers with 414.
 * The clock is the thread's own CPU time, which stands still while the process waits for a CPU.
 */
export class RoutingClock {
  #startedAt: number | undefined
  #patterns = 0

  count(): void {
    if (++this.#patterns % PATTERNS_A_LOOK !== 0) return
    // From the first look on: most requests try fewer patterns, and a look costs more than they do.
    this.#startedAt ??= threadCpuUs()
    requireAtMost(threadCpuUs() - this.#startedAt, ROUTING_US_MAX)
  }
}

function threadCpuUs(): number {
  const { user, system } = process.threadCpuUsage()
  return user + system
}

/**
 * Routes a request. Returns 414 if routing exceeds a limit: two routes of 4 KB can make gigabytes from a path of 2 KB.
 */
export function withinLimits(route: () => Answer): Answer {
  try {
    return route()
  } catch (error) {
    if (error instanceof OverLimit) return { ...plain(), kind: 'status', status: 414 }
    throw error
  }
}
