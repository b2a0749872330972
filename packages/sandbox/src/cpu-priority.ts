interface UsageReader {
  /** CPU time used by an owner's processes since their group was created. */
  microseconds(): number
  /** How many processes and threads it has. */
  processes(): number
  close(): void
}

/** When an owner counts as busy. */
export interface CpuTuning {
  /** Fraction of a core that an owner may use continuously. Default: SHARE. */
  share?: number | undefined
  /** Milliseconds below its share after which an owner gets normal priority again. Default: CALM_MS. */
  calmMs?: number | undefined
}

export interface CpuPriorityParts extends CpuTuning {
  /** undefined if unavailable. May throw. */
  openUsage(owner: string): UsageReader | undefined
  /** An idle owner runs only while nothing else on the machine wants to, and yields at once. */
  setIdle(owner: string, isIdle: boolean): void
}

export interface CpuPriority {
  /** Call when the owner's group has just been created. */
  add(owner: string): void
  /** Call when another of its commands starts; it may then use more than usual. */
  allowStart(owner: string): void
  /** Call when one of its commands is killed: it has to run to end. */
  allowEnd(owner: string): void
  /** Call when one of its commands does not answer: it may have had no CPU to answer with. Nothing for an owner that has its share. */
  allowAnswer(owner: string): void
  /** Call when the owner's group goes. An owner that soon returns starts idle. */
  remove(owner: string): void
  close(): void
}

export const LOOK_MS = 100
const SHARE = 0.5
/** CPU time that it may use beyond that, saved up while it uses less. */
const BURST_MICROSECONDS = 100_000
/** CPU time allowed for starting a command: Node alone takes 100 ms. */
export const START_MICROSECONDS = 400_000
/** Time until an owner gets normal priority again; long, since an idle owner on a busy machine looks calm. */
export const CALM_MS = 10_000

/**
 * With more processes and threads than this an owner is never idle. A process interrupted in a fork may hold a lock that every
 * other fork needs, such as that of the mappings of libc; among a thousand idle ones it holds it for seconds, and the machine waits.
 */
export const CROWD = 256
/** How long an owner has normal priority to end a command, or to have it answer. */
const TURN_MS = 2_000
/** An owner that used less than its share for this long may be waiting for the CPU. */
const STARVED_MS = 1_000

interface Owner {
  /** Set while the owner has a group. */
  usage: UsageReader | undefined
  usedMicroseconds: number
  /** CPU time that it may use before it counts as busy. */
  leftMicroseconds: number
  isBusy: boolean
  busyAt: number
  /** Until then it is not idle, though busy. */
  turnUntil: number
  isIdle: boolean
}

/**
 * Puts owners that keep a core busy behind all others. Shares and quotas limit how much CPU time each gets; how long others
 * wait for theirs depends on whether the kernel may preempt it.
 */
export function createCpuPriority({
  openUsage,
  setIdle,
  share = SHARE,
  calmMs = CALM_MS,
}: CpuPriorityParts): CpuPriority {
  const owners = new Map<string, Owner>()
  let lookedAt = performance.now()

  const prioritise = (name: string, owner: Owner, now: number): void => {
    const isIdle = owner.isBusy && now >= owner.turnUntil && (owner.usage?.processes() ?? 0) <= CROWD
    if (isIdle !== owner.isIdle) setIdle(name, isIdle)
    owner.isIdle = isIdle
  }

  const look = (): void => {
    const now = performance.now()
    const shareMicroseconds = (now - lookedAt) * 1_000 * share
    lookedAt = now
    for (const [name, owner] of owners) {
      const { usage } = owner
      if (usage !== undefined) {
        const used = usage.microseconds()
        const left = owner.leftMicroseconds - (used - owner.usedMicroseconds)
        // A start's allowance is kept until it is used; other savings are capped at a burst.
        owner.leftMicroseconds = Math.max(0, left, Math.min(BURST_MICROSECONDS, left + shareMicroseconds))
        if (left + shareMicroseconds <= 0) {
          owner.busyAt = now
          owner.isBusy = true
        }
        owner.usedMicroseconds = used
      }
      if (now - owner.busyAt > calmMs) owner.isBusy = false
      if (usage !== undefined) prioritise(name, owner, now)
      else if (!owner.isBusy) owners.delete(name)
    }
  }
  /** minMs: only if it used less than its share for so long. */
  const allowTurn = (name: string, minMs = 0): void => {
    const owner = owners.get(name)
    const now = performance.now()
    if (owner?.usage === undefined || now - owner.busyAt < minMs) return
    owner.turnUntil = now + TURN_MS
    prioritise(name, owner, now)
  }

  const timer = setInterval(look, LOOK_MS)
  timer.unref()

  return {
    add: (name) => {
      const usage = openUsage(name)
      if (usage === undefined) return
      const { isBusy = false, busyAt = Number.NEGATIVE_INFINITY } = owners.get(name) ?? {}
      const owner = {
        usage,
        usedMicroseconds: usage.microseconds(),
        leftMicroseconds: BURST_MICROSECONDS,
        isBusy,
        busyAt,
        turnUntil: Number.NEGATIVE_INFINITY,
        isIdle: false,
      }
      owners.set(name, owner)
      prioritise(name, owner, performance.now())
    },
    allowStart: (name) => {
      const owner = owners.get(name)
      if (owner !== undefined) owner.leftMicroseconds += START_MICROSECONDS
    },
    allowEnd: (name) => allowTurn(name),
    allowAnswer: (name) => allowTurn(name, STARVED_MS),
    remove: (name) => {
      const owner = owners.get(name)
      owner?.usage?.close()
      if (owner?.isBusy === true) owner.usage = undefined
      else owners.delete(name)
    },
    close: () => {
      clearInterval(timer)
      for (const { usage } of owners.values()) usage?.close()
      owners.clear()
    },
  }
}
