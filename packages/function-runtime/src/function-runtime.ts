import type { SandboxCapabilities } from '@platform/sandbox/sandbox'
import type { Dispatcher } from 'undici'

/** How a Function's entry is called. `handler`: the module's exports decide between (req, res), http.Server and web handlers. */
export type FunctionKind = 'handler' | 'edge' | 'worker' | 'server'

/** Everything a slot needs to run. Loaded when a slot starts, never for a request to a warm one. */
export interface FunctionSource {
  functionId: string
  deploymentId: string
  /** Shown with its log lines. */
  name: string
  kind: FunctionKind
  /** Absolute, on this machine; holds the Function's files, which are immutable. */
  folder: string
  /** Below `folder`: the module to import. A server without one has a `command`. */
  handler: string | undefined
  /** A start script, run by a shell. */
  command: string | undefined
  /** Below `folder`: where it runs. Default: `folder`. */
  workingFolder?: string
  /** The module's exports are always treated as web handlers (`useWebApi`). */
  isWeb: boolean
  /** Adds Vercel's helpers to request and response (`shouldAddHelpers`). */
  hasHelpers: boolean
  /** The Function's environment, byte for byte. */
  variables: Readonly<Record<string, string>>
  /**
   * Absolute; holds the sockets `api.sock` (the platform's API), `assets.sock` (the deployment's files) and `cache.sock` (the
   * cache that its slots share), for this deployment alone. Slots run as separate users, so the sockets have mode 0666.
   */
  platformFolder: string
  /** When the deployment was built, in milliseconds since 1970: its files are not newer. */
  builtAt: number
  memoryMb: number
  slotsMax: number
}

export type LogLevel = 'DEBUG' | 'INFO' | 'WARN' | 'ERROR'

/** A line that a Function printed, or that the platform logs about it. */
export interface FunctionLogLine {
  functionId: string
  deploymentId: string
  functionName: string
  slot: number
  /** The request being answered; undefined outside of one. */
  requestId: string | undefined
  level: LogLevel
  message: string
  /** The message is the beginning of a longer line. */
  isCut?: true
  at: Date
}

/** The codes of `x-platform-error`. */
export type FunctionFailureCode =
  | 'function_crashed'
  | 'function_overloaded'
  | 'function_timeout'
  | 'function_out_of_memory'

/** A Function could not answer. The message is a sentence for its author; visitors only see the code. */
export class FunctionFailure extends Error {
  override name = 'FunctionFailure'
  readonly code: FunctionFailureCode
  constructor(code: FunctionFailureCode, message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}

/** Keeps the requests of one session on one slot. */
export interface Pin {
  /** Slot number from an earlier lease. undefined: none was chosen yet. */
  slot: number | undefined
  /** Milliseconds from now during which its slot does not end for lack of requests. */
  forMs: number
}

/** A slot, reserved for one request. */
export interface Lease {
  /** From 0. */
  readonly slot: number
  /** A UUID of the slot's process. The next process with this number gets a new one. */
  readonly instance: string
  /**
   * Speaks HTTP/1.1 to the slot, for any origin. Its timeouts are the Function's: 60 s to the first byte, 300 s without a
   * byte.
   */
  readonly dispatcher: Dispatcher
  /** For upgrades: options of Node's `http.request`. */
  readonly connection: { socketPath: string } | { host: string; port: number }
  /** Why the slot has ended, if it has; used to answer a request that broke off. Waits at most a second for the slot's end. */
  failure(): Promise<FunctionFailure | undefined>
  /** Marks the request as an event stream or WebSocket: from now on a tenth of its time counts. Safe to repeat. */
  countAsStream(): void
  /** Releases the slot; call it once the answer is complete. Safe to repeat. */
  release(): void
}

/** Usage of a Function's slots on this machine. */
export interface FunctionUsage {
  functionId: string
  slots: number
  memoryBytes: number
  /** Since the last call of `takeUsage`. */
  coldStarts: number
  requests: number
  /** Milliseconds during which a slot had a request in flight, summed over slots. Time with only streams counts a tenth. */
  busyMs: number
}

export interface FunctionRuntime {
  readonly capabilities: SandboxCapabilities
  /**
   * Reserves a slot for one request, and starts one if needed; concurrent callers share a start.
   * pin: use the slot with that number and no other. Without a number, or with one that exceeds the plan's slots, the slot
   * with the fewest requests is chosen; the lease has its number.
   * Throws FunctionFailure: the start failed (function_crashed, function_timeout, function_out_of_memory), or no slot has
   * room (function_overloaded); for a pin, its own slot has none.
   */
  acquire(functionId: string, load: () => Promise<FunctionSource>, pin?: Pin): Promise<Lease>
  /**
   * Starts a slot and leaves it warm, or with `isTrial` ends it. Throws FunctionFailure.
   * signal: aborts the start, unless requests wait for it too; then throws the signal's reason.
   */
  start(source: FunctionSource, isTrial?: boolean, signal?: AbortSignal): Promise<void>
  /** Ends the slots of deployments that are no longer wanted, after their current requests. */
  reconcile(isWanted: (deploymentId: string) => boolean): void
  /** Usage since the last call, for every Function that has or had slots. */
  takeUsage(): Promise<FunctionUsage[]>
  /** Finishes current requests for at most drainMs, waitUntil included, then ends every slot. */
  close(drainMs: number): Promise<void>
}
