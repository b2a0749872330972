import type { SandboxCapabilities } from '@platform/sandbox/sandbox'
import type { Dispatcher } from 'undici'

/** How a Function's entry is called. `handler`: whatever the module exports decides between (req, res), http.Server and web handlers. */
export type FunctionKind = 'handler' | 'edge' | 'worker' | 'server'

/** All that a slot needs to run. Asked for when one starts, never for a request to a warm one. */
export interface FunctionSource {
  functionId: string
  deploymentId: string
  /** For its log lines. */
  name: string
  kind: FunctionKind
  /** Absolute, on this machine; its files, which nobody changes. */
  folder: string
  /** Below `folder`: the module to import. For a server without one: `command`. */
  handler: string | undefined
  /** A start script, run by a shell in `folder`. */
  command: string | undefined
  /** The module's exports are web handlers, whatever they look like (`useWebApi`). */
  isWeb: boolean
  /** Adds Vercel's helpers to request and response (`shouldAddHelpers`). */
  hasHelpers: boolean
  /** The Function's environment, byte for byte. */
  variables: Readonly<Record<string, string>>
  /**
   * Absolute; holds the sockets `api.sock` (the platform's API), `assets.sock` (the deployment's files) and `cache.sock` (what its slots
   * keep together), for this deployment alone. Slots run as users of their own, so the sockets have mode 0666.
   */
  platformFolder: string
  /** When the deployment was built, in milliseconds since 1970: its files are no younger. */
  builtAt: number
  memoryMb: number
  slotsMax: number
}

export type LogLevel = 'DEBUG' | 'INFO' | 'WARN' | 'ERROR'

/** A line that a Function printed, or that the platform says of it. */
export interface FunctionLogLine {
  functionId: string
  deploymentId: string
  functionName: string
  slot: number
  /** The request that was being answered; undefined outside of one. */
  requestId: string | undefined
  level: LogLevel
  message: string
  /** The line was longer: this is its beginning. */
  isCut?: true
  at: Date
}

/** The codes of `x-platform-error`. */
export type FunctionFailureCode =
  | 'function_crashed'
  | 'function_overloaded'
  | 'function_timeout'
  | 'function_out_of_memory'

/** A Function could not answer. The message is a sentence for its author; nothing of it goes to visitors but the code. */
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
  /** The number of its slot, from an earlier lease. undefined: none was chosen yet. */
  slot: number | undefined
  /** Milliseconds from now in which its slot does not end for want of requests. */
  forMs: number
}

/** A slot, held for one request. */
export interface Lease {
  /** From 0. */
  readonly slot: number
  /** A UUID of the slot's process. The next process with this number has another. */
  readonly instance: string
  /** Speaks HTTP/1.1 to the slot; any origin. Its time-outs are the Function's: 60 s to the first byte, 300 s without a byte. */
  readonly dispatcher: Dispatcher
  /** For upgrades: options of Node's `http.request`. */
  readonly connection: { socketPath: string } | { host: string; port: number }
  /** Why the slot has ended, once it has; a request that broke off asks this what to answer. Waits for the end, at most a second. */
  failure(): Promise<FunctionFailure | undefined>
  /** The request is a stream of events or a WebSocket: its time counts a tenth from now on. Safe to repeat. */
  countAsStream(): void
  /** Gives the slot back; call it once the answer is over. Safe to repeat. */
  release(): void
}

/** What a Function's slots take on this machine. */
export interface FunctionUsage {
  functionId: string
  slots: number
  memoryBytes: number
  /** Since the last time it was asked. */
  coldStarts: number
  requests: number
  /** Milliseconds in which a slot had a request under way, summed over slots. Where it had only streams, a tenth of them. */
  busyMs: number
}

export interface FunctionRuntime {
  readonly capabilities: SandboxCapabilities
  /**
   * A slot to answer one request with, started if need be; concurrent callers share one start.
   * pin: the slot with that number and no other. Without a number, or with one that the plan no longer has, the slot with the fewest
   * requests is chosen; the lease has its number.
   * Throws FunctionFailure: the start failed (function_crashed, function_timeout, function_out_of_memory), or no slot has room
   * (function_overloaded); for a pin, its own slot has none.
   */
  acquire(functionId: string, load: () => Promise<FunctionSource>, pin?: Pin): Promise<Lease>
  /**
   * Starts a slot and leaves it warm, or with `isTrial` ends it. Throws FunctionFailure.
   * signal: ends the start, unless requests wait for it too; its reason is thrown then.
   */
  start(source: FunctionSource, isTrial?: boolean, signal?: AbortSignal): Promise<void>
  /** Ends the slots of deployments that are not wanted any more, after what they answer now. */
  reconcile(isWanted: (deploymentId: string) => boolean): void
  /** What happened since the last call, for every Function that has slots or had. */
  takeUsage(): Promise<FunctionUsage[]>
  /** Answers what is under way for at most drainMs, waitUntil included, then ends every slot. */
  close(drainMs: number): Promise<void>
}
