import { type Answer, PATH_BYTES_MAX, plain } from './answer.ts'

/** Of a path that routes make, as long as a request's own with every byte encoded: it bounds what the next patterns cost. */
export const PATH_LENGTH_MAX = 3 * PATH_BYTES_MAX
/** Of a query that routes make; a request's own is shorter, with every byte encoded. */
export const QUERY_LENGTH_MAX = 65_536
/** Of all headers that routes set on one answer. */
export const HEADERS_LENGTH_MAX = 65_536
/** What one template takes from a request, however often it names the same. */
export const EXPANDED_LENGTH_MAX = 16_384
/** Of one request's routing, which takes microseconds: ten thousand quadratic patterns on a path of 2 KB take minutes. */
const ROUTING_MS_MAX = 1_000
/** How many patterns are tried between two looks at the clock; the slowest takes some 20 ms. */
const PATTERNS_A_LOOK = 16

/** Routes made more of a request than an address or an answer holds. */
class OverLimit extends Error {}

/** Throws what `withinLimits` answers with 414. */
export function requireAtMost(value: number, valueMax: number): void {
  if (value > valueMax) throw new OverLimit()
}

/** Counts the patterns that one request is matched with. Its `count` throws what `withinLimits` answers with 414 once they take too long. */
export class RoutingClock {
  readonly #startedAt = performance.now()
  #patterns = 0

  count(): void {
    if (++this.#patterns % PATTERNS_A_LOOK === 0) requireAtMost(performance.now() - this.#startedAt, ROUTING_MS_MAX)
  }
}

/**
 * Routes a request. One whose parts the routes multiply beyond the limits is 414: two routes of 4 KB can make gigabytes of a
 * path of 2 KB.
 */
export function withinLimits(route: () => Answer): Answer {
  try {
    return route()
  } catch (error) {
    if (error instanceof OverLimit) return { ...plain(), kind: 'status', status: 414 }
    throw error
  }
}
