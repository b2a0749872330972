import type { ChildProcess } from 'node:child_process'
import { constants } from 'node:os'
import type { Duplex, Readable, Writable } from 'node:stream'
import type { ControlGroup } from './control-groups.ts'
import { guardMemory } from './memory-guard.ts'
import { countThreads, endProcesses, killProcess, killTree, treeMemoryBytes } from './process-tree.ts'
import type { SandboxedProcess, SandboxExit, SandboxLimits } from './sandbox.ts'

export interface ProcessToWatch {
  /** Of the command. */
  name: string
  child: ChildProcess
  /** Without one, memory is summed up every second, and that of this process's own group is guarded. */
  group: ControlGroup | undefined
  limits: SandboxLimits
  /** Processes that may briefly outlive the child, if no control group lists them. */
  listLeft(): number[]
  limitGrowth(bytes: number): Promise<void>
  onWarning: (message: string) => void
  /** Called once, when no process is left. */
  onGone(): void
}

/**
 * Without control groups: the factor by which the sum may exceed its limit, since it is measured once a second and counts
 * shared memory twice.
 */
const TOLERANCE = 1.25
/** Niceness of commands if no control group distributes the CPU. */
export const NICE = 5
/**
 * A line of a shell script: where no control group divides the memory, the kernel ends the script's command before the platform.
 * Only Linux has the file.
 */
export const END_FIRST = '{ echo 1000 > /proc/self/oom_score_adj; } 2> /dev/null || true'
const WATCH_MS = 1000
/** How long to wait for output that a process outside the tree may keep open. */
const OUTPUT_MS = 5000

const SIGNALS = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name as NodeJS.Signals]))

/** How a command ended, as a shell or bubblewrap reports it: a signal as 128 + its number. */
function describeExit(code: number | null, signal: NodeJS.Signals | null): Pick<SandboxExit, 'code' | 'signal'> {
  const reported = code !== null && code > 128 ? SIGNALS.get(code - 128) : undefined
  return reported === undefined ? { code, signal } : { code: null, signal: reported }
}

/** Watches a process tree until nothing of it is left, and ends it at its memory limit. */
export function watchProcess(watched: ProcessToWatch): SandboxedProcess {
  const { child, group, limits } = watched
  const [stdin, stdout, stderr, control] = child.stdio as unknown as [Writable, Readable, Readable, Duplex]
  const { pid } = child
  if (pid === undefined) throw new Error('The process has not started')
  // Writing to a process that has ended is not the platform's failure: `exited` reports the end.
  stdin.on('error', () => undefined)
  control.on('error', () => undefined)

  let cause: SandboxExit['cause'] = 'exit'
  let isOver = false
  const killed: number[] = []

  const kill = (why: Exclude<SandboxExit['cause'], 'exit'>): void => {
    if (isOver) return
    if (cause === 'exit') cause = why
    // First, since it reads nothing of processes, which many at once can delay.
    group?.kill()
    killed.push(...killTree(pid), ...watched.listLeft())
    for (const each of killed) killProcess(each)
  }

  /** The limit that was reached. With a control group, the kernel has counted what it refused. */
  const findLimit = async (): Promise<'memory' | 'processes' | undefined> => {
    if (group === undefined) {
      if ((await treeMemoryBytes(pid)) > TOLERANCE * limits.memoryBytes) return 'memory'
      return limits.endsAtProcesses === true && countThreads(pid) >= limits.processes ? 'processes' : undefined
    }
    // The kernel kills one process of the tree; the rest is of no use.
    if ((await group.memoryKills()) > 0) return 'memory'
    return limits.endsAtProcesses === true && (await group.processRefusals()) > 0 ? 'processes' : undefined
  }

  const timer = setInterval(() => {
    void (async () => {
      const limit = await findLimit()
      if (limit !== undefined) kill(limit)
    })()
  }, WATCH_MS)
  timer.unref()

  const gone = Promise.withResolvers<void>()
  if (group === undefined)
    guardMemory({
      name: watched.name,
      memoryBytes: () => treeMemoryBytes(pid),
      end: () => {
        if (isOver || cause !== 'exit') return false
        kill('crowded')
        return true
      },
      gone: gone.promise,
      onWarning: watched.onWarning,
    })

  const endOfOutput = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const exited = new Promise<SandboxExit>((resolve) => {
    child.once('exit', (code, signal) => {
      void (async () => {
        // Whoever saw the command go may have ended the rest of it: the reason is what the kernel had done before.
        if (group !== undefined && (cause === 'exit' || cause === 'killed')) cause = (await findLimit()) ?? cause
        isOver = true
        clearInterval(timer)
        await endProcesses(() => [...killed, ...watched.listLeft()])
        await group?.remove()
        watched.onGone()
        gone.resolve()
        const giveUp = setTimeout(() => {
          for (const stream of [stdout, stderr, control]) stream.destroy()
        }, OUTPUT_MS)
        await endOfOutput
        clearTimeout(giveUp)
        resolve({ ...describeExit(code, signal), cause })
      })()
    })
  })

  return {
    pid,
    stdin,
    stdout,
    stderr,
    control,
    exited,
    kill: () => kill('killed'),
    allowAnswer: () => group?.allowAnswer(),
    memoryBytes: async () => {
      if (isOver) return 0
      return group === undefined ? treeMemoryBytes(pid) : group.memoryBytes()
    },
    limitGrowth: (bytes) => (isOver ? Promise.resolve() : watched.limitGrowth(bytes)),
  }
}
