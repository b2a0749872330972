import type { Duplex, Readable, Writable } from 'node:stream'

/** What commands may reach besides the platform's own sockets. */
export type Egress = 'public' | 'none' | 'host'

/** The walls and limits that hold on this machine; the start line names those that do not. */
export interface SandboxCapabilities {
  /** bubblewrap: separate file tree, processes and users. */
  isIsolated: boolean
  /** A separate network in which private addresses are closed, or no network at all. */
  isNetworkClosed: boolean
  /** Writable control groups: limits of memory and processes cover children, and CPU is shared fairly. */
  cgroups: 'v1' | 'v2' | undefined
  /** Each process tree runs as its own user, so that the process limit works without control groups. */
  hasOwnUsers: boolean
  /** A sentence for each missing wall and limit, with what to install or set. */
  missing: string[]
}

/**
 * A file or folder of this machine that the command sees. It must be readable for everybody, since the command may run as
 * another user (files 0644, folders 0755, Unix sockets 0666); the folders above it need not be accessible.
 */
export interface Mount {
  /** Absolute, on this machine. */
  source: string
  /** Absolute, inside. */
  target: string
  /** Default: read-only. */
  isWritable?: boolean
  /**
   * True to give it to the command's user, with everything in it, as a writable one is: a read-only folder in which files are for
   * their owner alone.
   */
  isGiven?: boolean
}

export interface SandboxLimits {
  /** Limit for all processes together, including in-memory files. */
  memoryBytes: number
  processes: number
  /** At the process limit, either the next process cannot be started (default) or the command ends. */
  endsAtProcesses?: boolean
  openFiles: number
  /** The longest file that may be written. Default: 64 MiB, or the size of /tmp if that is more. */
  fileBytes?: number
  /** Size of /tmp, which is in memory. */
  tmpBytes: number
  /** Share of contended CPU time, as a weight; 100 is one part. */
  cpuShare: number
}

export interface SandboxedCommand {
  /** Unique on this machine while the command runs: of `[a-z0-9-]`, at most 60 characters. Names its control group. */
  name: string
  /** Commands with the same id share a network: the id of a deployment. */
  networkId: string
  /** An absolute program path and its arguments, as seen inside (`pathOf`). Never a secret: others can read them. */
  argv: string[]
  /** The complete environment. Never a secret. */
  env: Record<string, string>
  mounts: Mount[]
  /** Absolute, as seen inside. */
  workingDirectory: string
  limits: SandboxLimits
}

/**
 * How a process tree ended. cause 'memory', 'processes': that limit ended it; 'crowded': it held most memory when the control
 * group of the platform's own process, in which it counted, was nearly full. signal: the signal that ended it, if any; an
 * exit code of 128 plus a signal's number counts as that signal, as shells and bubblewrap report it.
 */
export interface SandboxExit {
  code: number | null
  signal: NodeJS.Signals | null
  cause: 'exit' | 'memory' | 'processes' | 'crowded' | 'killed'
}

export interface SandboxedProcess {
  /** The outermost process, on this machine. */
  readonly pid: number
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** File descriptor 3 of the command, in both directions. */
  readonly control: Duplex
  /** Resolves once every process of the tree has ended and its output is read. Never rejects. */
  readonly exited: Promise<SandboxExit>
  /** Ends every process of the tree at once (SIGKILL). Safe to repeat. */
  kill(): void
  /**
   * For a process that does not answer: has its owner run at normal priority for two seconds, however busy it has been, unless
   * it gets CPU anyway. One that gets none cannot be told from one that hangs.
   */
  allowAnswer(): void
  /** Memory of all its processes, in bytes; 0 once they have ended. */
  memoryBytes(): Promise<number>
  /**
   * Limits further allocations of the command, for programs that need more to start than to run. bytes: of data segments
   * (RLIMIT_DATA), beyond its current size.
   */
  limitGrowth(bytes: number): Promise<void>
}

/** Runs untrusted commands. At most one is open per machine and data folder. */
export interface Sandbox {
  readonly capabilities: SandboxCapabilities
  readonly egress: Egress
  /** The path at which the command finds a mount: the target, or the source if files are not isolated. */
  pathOf(mount: Mount): string
  /**
   * Prepares a folder so that the command may write below it, whichever user it runs as. The folder is created with mode
   * 0700. `start` gives it, with everything in it, to the command's user, so it belongs to the last command that was started.
   */
  makeWritable(folder: string): Promise<void>
  start(command: SandboxedCommand): Promise<SandboxedProcess>
  /** Kills running commands, and removes networks and control groups. */
  close(): Promise<void>
}
