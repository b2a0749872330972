import type { BuildPlan } from './plan-build.ts'

/** What a build may reach: public addresses, the operator's package registries alone, or nothing. */
export type BuildEgress = 'public' | 'registry' | 'none'

/** The build did not succeed by its author's doing; the message is a sentence for the author. */
export class BuildFailure extends Error {
  override name = 'BuildFailure'
}

export interface BuildLimits {
  memoryMb: number
  /** Of all that is written below its folder. */
  diskMb: number
  /** From the first program to the last. */
  timeoutMs: number
}

/** What one build works in. Absolute, and this build's alone; the builder gives it to the user that the build runs as. */
interface BuildFolder {
  /** Holds `project`, which is the source, and gets `home` and `tmp`. */
  folder: string
}

export interface BuildRequest extends BuildFolder {
  /** Unique while it runs: the id of the deployment. */
  name: string
  plan: BuildPlan
  /** Byte for byte; among them secrets. */
  variables: Record<string, string>
  limits: BuildLimits
  /** What an earlier `pack` left; absolute. undefined: everything is installed anew. */
  cache: string | undefined
  /** For the log: what the platform itself says, a command that begins, and what programs print. */
  log: {
    line(type: 'INFO' | 'WARN', text: string): void
    output(stream: 'stdout' | 'stderr', chunk: Buffer): void
  }
  signal: AbortSignal
}

interface PackRequest extends BuildFolder {
  name: string
  plan: BuildPlan
  /** Of what is kept, before compression. */
  bytesMax: number
  signal: AbortSignal
}

/** Builds source in the sandbox. One is open a process. */
export interface Builder {
  readonly egress: BuildEgress
  /** Why nothing can be built here, as a sentence for whoever deploys and may ask their operator; undefined: it can. */
  findObstacle(): Promise<string | undefined>
  /**
   * Installs and builds a project in its folder; what it leaves there is in `project`. When it resolves or rejects, no process of it is
   * left. Throws BuildFailure, and what the signal was aborted with.
   */
  build(request: BuildRequest): Promise<void>
  /**
   * Packs what the next build of the project may begin with into a file, in the sandbox as well. Returns its absolute path; undefined where there is
   * nothing to keep or too much.
   */
  pack(request: PackRequest): Promise<string | undefined>
  close(): Promise<void>
}
