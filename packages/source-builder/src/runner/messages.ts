/** One part of a job. Paths are as seen inside the sandbox. */
export type Step =
  /**
   * Runs a program to its end, and first prints its command. unset: variables to remove from its environment. modules: the file in
   * which pnpm leaves what it did not do.
   */
  | { kind: 'run'; argv: string[]; shown: string; folder: string; unset: string[]; modules?: string }
  /** Unpacks a file made by `pack`. If that fails, nothing of it is left. */
  | { kind: 'restore'; file: string; into: string }
  /**
   * Packs every node_modules and .yarn/cache of a project, and .next/cache below `root`, unless they exceed bytesMax before
   * compression.
   */
  | { kind: 'pack'; project: string; root: string; file: string; bytesMax: number }
  /**
   * Prints the files and links below the project that a module reaches, each with a NUL behind it. folder: where the module runs.
   * tracer: a folder with nft among its packages.
   */
  | { kind: 'trace'; project: string; folder: string; entry: string; tracer: string }

/** The runner's standard input. It may hold secrets, so it is never in argv or a file. */
export interface Job {
  environment: Record<string, string>
  steps: Step[]
  /** How registries are reached: the runner offers this Unix socket as an HTTP proxy on a port of its own network. */
  proxy?: { socket: string; port: number }
}

/**
 * A line of JSON on file descriptor 3. message: why a step could not be started. isTmpFull: the state after the step. ignored: packages
 * whose install scripts pnpm did not run.
 */
export type RunnerMessage =
  | { step: number; ok: true; ignored?: string[] }
  | { step: number; ok: false; code: number | null; signal: string | null; isTmpFull?: boolean; message?: string }
