import type { Deps } from '../../deps.ts'
import type { advance, Deployment } from '../deployments/transitions.ts'
import type { BuildVariables } from '../deployments/variables.ts'
import type { BuildLog } from './build-log.ts'
import type { HeldStatus } from './claim.ts'

/** The deployment is somebody else's by now, or has ended: nothing more may be written of it. */
export class LostHold extends Error {}
/** The process is about to end. */
export class Stopping extends Error {}

export type RunDeps = Pick<
  Deps,
  | 'db'
  | 'now'
  | 'logger'
  | 'blobs'
  | 'builds'
  | 'sealer'
  | 'variableSigner'
  | 'functions'
  | 'edgeWarmer'
  | 'builder'
  | 'appsUrl'
>

/** What all steps of a run share. */
export interface Run {
  deps: RunDeps
  deployment: Deployment
  /** From when the run began. */
  variables: BuildVariables
  log: BuildLog
  /** Replaces the values of sensitive variables. */
  redact(text: string): string
  /** Aborted with why the run is to end: LostHold, Stopping, or UnusableOutput for a deadline that has passed. */
  signal: AbortSignal
  /** Enters a state: its deadline counts from now. Throws LostHold. */
  enter(
    from: HeldStatus,
    to: HeldStatus,
    more?: Parameters<typeof advance>[3]['set'],
    inTransaction?: (tx: Deps['db']) => Promise<void>,
  ): Promise<void>
  /** Gives the state it is in so long from now on. What passed of the build before is not billed. Throws LostHold. */
  beginAnew(ms: number): Promise<void>
  /** Lets the state it is in wait so long from now on. Nothing of that, nor of what passed before, is billed. Throws LostHold. */
  beginWaiting(ms: number): Promise<void>
}
