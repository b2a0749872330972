import type { FunctionLogLine, Lease, Pin } from '@platform/function-runtime/function-runtime'
import type { SandboxCapabilities } from '@platform/sandbox/sandbox'
import { assetIdOf } from '../deployments/asset-id.ts'
import type { DeploymentListener } from './platform-folders.ts'

/** The id of a deployment's Function, the same for ever (wire.md Deployments). path: in the output, without `.func`. */
export const functionIdOf = (deploymentId: string, path: string): string => assetIdOf(deploymentId, `${path}.func`)

/** A line that a Function printed. */
export type PrintedLine = Pick<FunctionLogLine, 'level' | 'message'>

/** The Functions that this machine runs. */
export interface Functions {
  /**
   * Opens the walls. Returns which hold on this machine, with a sentence on each that does not; where Functions cannot run at all,
   * there is an `obstacle`, a sentence for their author and the operator.
   */
  probe(): Promise<{ obstacle: string } | { obstacle: undefined; capabilities: SandboxCapabilities }>
  /**
   * A slot of a Function of an ACTIVE deployment. functionId: of `functionIdOf`, by the path of the Function itself, not of one that
   * links to it. pin: which of its slots. Throws FunctionFailure; Unavailable where Functions cannot run on this machine.
   */
  acquire(deploymentId: string, functionId: string, pin?: Pin): Promise<Lease>
  /**
   * Starts a Function of a deployment that is about to be activated. Where this process serves hostnames as well, the slot stays for
   * the first request. onLine is told what it prints meanwhile. Throws FunctionFailure, and the signal's reason once that is aborted,
   * which ends the start.
   */
  tryOut(
    deploymentId: string,
    path: string,
    options: { onLine: (line: PrintedLine) => void; signal: AbortSignal },
  ): Promise<void>
  /** Starts a slot of a Function where none is warm, and leaves it to whoever comes. Throws FunctionFailure, or why Functions cannot run here. */
  start(deploymentId: string, functionId: string): Promise<void>
  /** Writes a line of the platform's into a Function's log. */
  say(deploymentId: string, path: string, line: Pick<FunctionLogLine, 'slot' | 'requestId' | 'level' | 'message'>): void
  /** Names who answers `env.ASSETS.fetch`; until then it is 503. Only an edge calls it. */
  serveAssets(listener: DeploymentListener): void
  /** Lets what is under way finish for at most drainMs, then ends every slot. */
  close(drainMs: number): Promise<void>
}
