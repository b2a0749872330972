import type { DeployDeps } from '../deps.ts'
import type { advance, Deployment } from '../deployments/transitions.ts'
import type { BuildVariables } from '../deployments/variables.ts'
import type { BuildLog } from './build-log.ts'
import type { HeldStatus } from './claim.ts'

/** The deployment belongs to another attempt by now, or has ended: write nothing more for it. */
export class LostHold extends Error {}
/** The process is about to end. */
export class Stopping extends Error {}

export type RunDeps = Pick<
  DeployDeps,
  'db' | 'now' | 'logger' | 'blobs' | 'builds' | 'sealer' | 'variableSigner' | 'trials' | 'builder' | 'appsUrl'
>

/** Shared by all steps of a run. */
export interface Run {
  deps: RunDeps
  deployment: Deployment
  /** As of the start of the run. */
  variables: BuildVariables
  log: BuildLog
  /** A sentence that each failure repeats: what the project asks for and does not get. */
  caveat: string | undefined
  /** Replaces the values of sensitive variables. */
  redact(text: string): string
  /** Aborted with the reason to stop: LostHold, Stopping, or UnusableOutput for a missed deadline. */
  signal: AbortSignal
  /** Enters a state and starts its deadline; `inTransaction` gets the time of the entry. Throws LostHold. */
  enter(
    from: HeldStatus,
    to: HeldStatus,
    more?: Parameters<typeof advance>[3]['set'],
    inTransaction?: (tx: DeployDeps['db'], time: Date) => Promise<void>,
  ): Promise<void>
  /** Restarts the deadline of the current state, `ms` from now. Build time so far is not billed. Throws LostHold. */
  beginAnew(ms: number): Promise<void>
  /** Lets the current state wait up to `ms` from now. Neither the wait nor the time before it is billed. Throws LostHold. */
  beginWaiting(ms: number): Promise<void>
}
