/** One part of a job. Paths are as seen inside the sandbox. */
export type Step =
  /** Runs a program to its end, and prints beforehand what it runs. unset: variables that it does not get. */
  | { kind: 'run'; argv: string[]; shown: string; folder: string; unset: string[] }
  /** Unpacks what `pack` made. One that cannot be unpacked leaves nothing of itself. */
  | { kind: 'restore'; file: string; into: string }
  /** Packs every node_modules and .yarn/cache of a project, and .next/cache below `root`, unless that is more than bytesMax before compression. */
  | { kind: 'pack'; project: string; root: string; file: string; bytesMax: number }

/** What the runner reads from its standard input, to the end. It may hold secrets, so it is never in argv or a file. */
export interface Job {
  environment: Record<string, string>
  steps: Step[]
  /** Where the registries are reached: a Unix socket that the runner offers as an HTTP proxy on a port of its own network. */
  proxy?: { socket: string; port: number }
}

/** A line of JSON on file descriptor 3. message: why a step could not be begun. isTmpFull: as the step left it. */
export type RunnerMessage =
  | { step: number; ok: true }
  | { step: number; ok: false; code: number | null; signal: string | null; isTmpFull?: boolean; message?: string }
