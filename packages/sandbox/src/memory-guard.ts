import { readFileSync } from 'node:fs'
import { openOwnMemory, type OwnMemory } from './own-memory.ts'

/** A command without a control group of its own: what it holds counts in this process's group. */
export interface GuardedCommand {
  /** Of the command. */
  name: string
  memoryBytes(): Promise<number>
  /** Returns whether it was there to be ended. */
  end(): boolean
  /** Resolves once no process of it is left. */
  gone: Promise<void>
  onWarning: (message: string) => void
}

/** The part of the group's limit at which a command is ended. At the limit the kernel may end the whole container. */
const FULL = 0.9
/** Short, since a program takes up to 200 MB in it. */
const WATCH_MS = 100
/** How often it is said that nothing helps. */
const REMIND_MS = 60_000
const MiB = 2 ** 20

/** Of all sandboxes of this process: they share its group. */
const commands = new Set<GuardedCommand>()
let watch: NodeJS.Timeout | undefined

async function findLargest(): Promise<GuardedCommand | undefined> {
  const held = await Promise.all(
    [...commands].map(async (command) => ({ command, bytes: await command.memoryBytes() })),
  )
  return held.toSorted((a, b) => b.bytes - a.bytes)[0]?.command
}

/** What this process itself holds, which no end of a command gives back. */
const ownBytes = (): number =>
  Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1] ?? 0) * 1024

function startWatch(memory: OwnMemory): NodeJS.Timeout {
  let isLooking = false
  let remindedAt = Number.NEGATIVE_INFINITY

  const look = async (): Promise<void> => {
    const limitBytes = memory.limitBytes()
    const fullBytes = FULL * limitBytes
    if (memory.countedBytes() < fullBytes || memory.heldBytes() < fullBytes) return
    const largest = await findLargest()
    if (ownBytes() < fullBytes) {
      if (largest?.end() === true)
        largest.onWarning(
          `Hardly any memory is left to this process and what it runs: ${largest.name} held most, and was ended.`,
        )
      await largest?.gone
    } else if (performance.now() > remindedAt + REMIND_MS) {
      remindedAt = performance.now()
      largest?.onWarning(
        `This process itself holds nearly all of the ${Math.floor(limitBytes / MiB)} MB that it may have together with what it runs: give it more.`,
      )
    }
  }

  return setInterval(() => {
    if (isLooking) return
    isLooking = true
    look()
      // A file could not be read, such as for want of descriptors: the next look may succeed.
      .catch(() => undefined)
      .finally(() => (isLooking = false))
  }, WATCH_MS).unref()
}

/** undefined where this process's group has no limit. */
function openLimitedMemory(): OwnMemory | undefined {
  try {
    const memory = process.platform === 'linux' ? openOwnMemory() : undefined
    return memory !== undefined && Number.isFinite(memory.limitBytes()) ? memory : undefined
  } catch {
    // As above. The next command tries again.
    return undefined
  }
}

/**
 * Ends the command that holds most memory when this process's own control group is nearly full, until it is not; unless this process
 * alone fills it. Of several sandboxes in this process, all are looked at. Does nothing while the group has no limit. command: looked at
 * until it has ended.
 */
export function guardMemory(command: GuardedCommand): void {
  const memory = watch === undefined ? openLimitedMemory() : undefined
  if (memory !== undefined) watch = startWatch(memory)
  commands.add(command)
  const forget = (): void => {
    commands.delete(command)
    if (commands.size > 0) return
    clearInterval(watch)
    watch = undefined
  }
  void command.gone.then(forget)
}
