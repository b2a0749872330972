import type { HeaderPairs } from '@platform/build-output/router'
import type { Lease } from '@platform/function-runtime/function-runtime'

/** A slot leased for one request, here or on another edge. */
export interface FunctionLease extends Lease {
  /** Headers that the platform adds to the request, names in lower case. */
  headers?: Readonly<Record<string, string>>
  /**
   * For a slot of another edge, which enforces timeouts and writes the log itself: how much later this edge times out, in
   * milliseconds.
   */
  graceMs?: number
  /** True for a slot of another edge. */
  isRemote?: true
  /** Reports if the other edge hangs, until the returned function is called. */
  whileWaiting?: (onHung: (error: Error) => void) => () => void
  /** The error that another edge reports, if an answer is not a Function's. */
  failureIn?: (headers: HeaderPairs) => Error | undefined
}
