import type { FunctionLogLine } from '@platform/function-runtime/function-runtime'

/** A line that a Function printed. */
export type PrintedLine = Pick<FunctionLogLine, 'level' | 'message'>

/** A deployment that is about to be what its environment serves. */
export interface EnvironmentChange {
  environmentId: string
  deploymentId: string
  /** Warm only if this sequence number is later than the current one's; for a deployment that may not become current. */
  seq?: number
}

/** Starts Functions before visitors need them. The area `edge` runs them: it is above this one, so it implements this. */
export interface Trials {
  /** Sets up isolation. If Functions cannot run here at all, `obstacle` is a sentence for their author and the operator. */
  probe(): Promise<{ obstacle: string | undefined }>
  /**
   * Starts a Function of a deployment that is about to be activated. onLine: receives what it prints meanwhile. Throws
   * FunctionFailure, or the signal's reason if that aborts the start.
   */
  tryOut(
    deploymentId: string,
    path: string,
    options: { onLine: (line: PrintedLine) => void; signal: AbortSignal },
  ): Promise<void>
  /**
   * On each edge, starts those Functions of a deployment that have slots there in the current deployment of the environment, and
   * waits for that, at most limitMs. Never throws: a cold Function starts with its first request. Returns how many edges were
   * asked, and on how many all requested Functions run.
   */
  warm(change: EnvironmentChange, limitMs: number): Promise<{ asked: number; ready: number }>
}
