import type { HeaderPairs } from '@platform/build-output/router'
import type { Lease } from '@platform/function-runtime/function-runtime'

/** A slot that answers one request, here or on another edge. */
export interface FunctionLease extends Lease {
  /** What the platform adds to the request, by names in lower case. */
  headers?: Readonly<Record<string, string>>
  /** Of another edge, which watches over the Function's time and tells its log: time is over here so much later, in milliseconds. */
  graceMs?: number
  /** Of another edge. */
  isRemote?: true
  /** Tells when another edge turns out to hang, until the returned function is called. */
  whileWaiting?: (onHung: (error: Error) => void) => () => void
  /** What another edge says that went wrong, where an answer is no Function's. */
  failureIn?: (headers: HeaderPairs) => Error | undefined
}
