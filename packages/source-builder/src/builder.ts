import type { BuildPlan } from './plan-build.ts'

/** What a build may reach: public addresses, only the operator's package registries, or nothing. */
export type BuildEgress = 'public' | 'registry' | 'none'

/** The build failed because of its source; the message is a sentence for the author. */
export class BuildFailure extends Error {
  override name = 'BuildFailure'
}

export interface BuildLimits {
  memoryMb: number
  /** Limit for everything written below its folder. */
  diskMb: number
  /** From the start of the first program to the end of the last. */
  timeoutMs: number
}

/** The folder of one build. Absolute, and used only by this build; the builder gives it to the user that the build runs as. */
interface BuildFolder {
  /** Holds `project` with the source; `home` and `tmp` are added. */
  folder: string
}

export interface BuildRequest extends BuildFolder {
  /** Unique while the build runs: the id of the deployment. */
  name: string
  plan: BuildPlan
  /** Byte for byte; may include secrets. */
  variables: Record<string, string>
  limits: BuildLimits
  /** The file of an earlier `pack`; absolute. undefined: everything is installed from scratch. */
  cache: string | undefined
  /** The build log: messages of the platform, commands as they begin, and output of programs. */
  log: {
    line(type: 'INFO' | 'WARN', text: string): void
    output(stream: 'stdout' | 'stderr', chunk: Buffer): void
  }
  signal: AbortSignal
}

interface PackRequest extends BuildFolder {
  name: string
  plan: BuildPlan
  /** Limit for the packed files, before compression. */
  bytesMax: number
  signal: AbortSignal
}

interface TraceRequest extends BuildFolder {
  name: string
  plan: BuildPlan
  /** The module that starts the server, below the project. */
  entry: string
  signal: AbortSignal
}

/** Builds source in the sandbox. At most one is open per process. */
export interface Builder {
  readonly egress: BuildEgress
  /**
   * Why nothing can be built here, as a sentence for the deploying user, who may ask their operator; undefined if builds
   * work.
   */
  findObstacle(): Promise<string | undefined>
  /**
   * Installs and builds a project in its folder; the result is in `project`. Once it resolves or rejects, no process of the
   * build is left. Throws BuildFailure, and the signal's abort reason.
   */
  build(request: BuildRequest): Promise<void>
  /**
   * Packs reusable files for the project's next build into one file, also in the sandbox. Returns its absolute path;
   * undefined if there is nothing to keep or too much.
   */
  pack(request: PackRequest): Promise<string | undefined>
  /**
   * Lists what a module of the built project reaches, by paths below the project: files, and links on the way. It runs in the sandbox
   * as the build's user and cannot change the project, but what the build left may make it list anything. Returns undefined if it
   * fails or takes too long.
   */
  trace(request: TraceRequest): Promise<string[] | undefined>
  close(): Promise<void>
}
