import type { Duplex, Readable, Writable } from 'node:stream'

/** What may be reached beyond the platform's own sockets. */
export type Egress = 'public' | 'none' | 'host'

/** Which walls and limits hold on this machine; the start line names those that do not. */
export interface SandboxCapabilities {
  /** bubblewrap: own file tree, processes and users. */
  isIsolated: boolean
  /** A network of its own in which private addresses are closed, or none at all. */
  isNetworkClosed: boolean
  /** Control groups that can be written: memory and processes hold over children, and CPU is shared out. */
  cgroups: 'v1' | 'v2' | undefined
  /** Each process tree runs as a user of its own, so that the limit of processes holds without control groups. */
  hasOwnUsers: boolean
  /** A sentence for each wall and limit that does not hold, with what to install or to set. */
  missing: string[]
}

/**
 * A file or folder of this machine as the command sees it. Everybody must be able to read it, since the command may be another user
 * (files 0644, folders 0755, Unix sockets 0666); the folders above it need not be open.
 */
export interface Mount {
  /** Absolute, on this machine. */
  source: string
  /** Absolute, inside. */
  target: string
  /** Default: read-only. */
  isWritable?: boolean
}

export interface SandboxLimits {
  /** Of all processes together, files in memory included. */
  memoryBytes: number
  processes: number
  /** What happens at the limit of processes: the next cannot be started (default), or the command ends. */
  endsAtProcesses?: boolean
  openFiles: number
  /** The longest file that may be written. Default: 64 MiB, or the size of /tmp where that is more. */
  fileBytes?: number
  /** Size of /tmp, which is in memory. */
  tmpBytes: number
  /** Share of the CPU when it is contended; 100 is one part. */
  cpuShare: number
}

export interface SandboxedCommand {
  /** Unique on this machine while it runs: of `[a-z0-9-]`, at most 60 characters. Names its control group. */
  name: string
  /** Commands with one id share a network: the id of a deployment. */
  networkId: string
  /** An absolute program and its arguments, as seen inside (`pathOf`). Never a secret: others can read them. */
  argv: string[]
  /** All of its environment. Never a secret. */
  env: Record<string, string>
  mounts: Mount[]
  /** Absolute, as seen inside. */
  workingDirectory: string
  limits: SandboxLimits
}

/**
 * How a process tree ended. cause 'memory', 'processes': that limit ended it. signal: what ended it, where one did; an exit code of 128 and a
 * signal's number counts as that signal, as shells and bubblewrap report it.
 */
export interface SandboxExit {
  code: number | null
  signal: NodeJS.Signals | null
  cause: 'exit' | 'memory' | 'processes' | 'killed'
}

export interface SandboxedProcess {
  /** The outermost process, on this machine. */
  readonly pid: number
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** File descriptor 3 of the command, both ways. */
  readonly control: Duplex
  /** Resolves once every process of the tree has gone and its output was read. Never rejects. */
  readonly exited: Promise<SandboxExit>
  /** Ends every process of the tree at once (SIGKILL). Safe to repeat. */
  kill(): void
  /** What all its processes hold, in bytes; 0 once it has gone. */
  memoryBytes(): Promise<number>
  /** Lowers what the command may allocate from now on: for what needs more to start than to run. bytes: of data segments (RLIMIT_DATA), beyond what it has now. */
  limitGrowth(bytes: number): Promise<void>
}

/** Runs commands of strangers. One is open a machine and data folder. */
export interface Sandbox {
  readonly capabilities: SandboxCapabilities
  readonly egress: Egress
  /** Where the command finds a mount: the target, or the source where files are not isolated. */
  pathOf(mount: Mount): string
  /**
   * Prepares a folder so that the command may write below it, whichever user it runs as. The folder is made; mode 0700.
   * `start` gives it, with all that is in it, to the user of the command, so it belongs to the one that was started last.
   */
  makeWritable(folder: string): Promise<void>
  start(command: SandboxedCommand): Promise<SandboxedProcess>
  /** Kills what still runs, and removes networks and control groups. */
  close(): Promise<void>
}
