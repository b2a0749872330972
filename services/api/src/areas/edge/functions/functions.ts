import type { FunctionLogLine, Lease, Pin } from '@platform/function-runtime/function-runtime'
import type { SandboxCapabilities } from '@platform/sandbox/sandbox'
import type { PrintedLine } from '../../deploy/deployments/trials.ts'
import type { DeploymentListener } from './platform-folders.ts'

/** The Functions that this machine runs. */
export interface Functions {
  /**
   * Sets up isolation. Returns which parts of it hold on this machine, with a sentence on each that does not; if Functions cannot
   * run here at all, `obstacle` is a sentence for their author and the operator.
   */
  probe(): Promise<{ obstacle: string } | { obstacle: undefined; capabilities: SandboxCapabilities }>
  /**
   * Leases a slot of a Function of an ACTIVE deployment. functionId: from `functionIdOf`, by the Function's own path, not that of
   * a link to it. pin: selects a certain slot. Throws FunctionFailure, and Unavailable if Functions cannot run on this machine.
   */
  acquire(deploymentId: string, functionId: string, pin?: Pin): Promise<Lease>
  /**
   * Starts a Function of a deployment that is about to be activated. If this process also serves hostnames, the slot is kept for
   * the first request. onLine: receives what it prints meanwhile. Throws FunctionFailure, or the signal's reason if that aborts
   * the start.
   */
  tryOut(
    deploymentId: string,
    path: string,
    options: { onLine: (line: PrintedLine) => void; signal: AbortSignal },
  ): Promise<void>
  /**
   * Starts a slot of a Function unless one is warm, for future requests. Throws FunctionFailure, or an error that says why
   * Functions cannot run here.
   */
  start(deploymentId: string, functionId: string): Promise<void>
  /** Writes a line of the platform's own into a Function's log. */
  say(deploymentId: string, path: string, line: Pick<FunctionLogLine, 'slot' | 'requestId' | 'level' | 'message'>): void
  /** Sets the listener that answers `env.ASSETS.fetch`; until then it answers 503. Only an edge calls this. */
  serveAssets(listener: DeploymentListener): void
  /** Waits at most drainMs for requests in progress, then ends every slot. */
  close(drainMs: number): Promise<void>
}
