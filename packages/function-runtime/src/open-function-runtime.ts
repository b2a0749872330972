import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { writeCertificates } from '@platform/sandbox/certificates'
import type { Sandbox } from '@platform/sandbox/sandbox'
import {
  FunctionFailure,
  type FunctionLogLine,
  type FunctionRuntime,
  type FunctionSource,
  type FunctionUsage,
  type Lease,
  type Pin,
} from './function-runtime.ts'
import { removeFolder } from '@platform/sandbox/remove-folder'
import { mountLauncher, writeLauncher } from './launcher-folder.ts'
import type { PrintedLine } from './log-lines.ts'
import { Slot, type SlotTimings } from './slot.ts'

/** In milliseconds. */
export interface RuntimeTimings extends SlotTimings {
  /** A slot without requests ends after this time. */
  idleMs: number
  /** How long current requests may take once a slot is no longer wanted. */
  drainMs: number
  /** How often slots are pinged, and idle ones ended. */
  pingMs: number
  /** Delay before a Function is restarted after three failed starts: doubles up to 30 s. */
  backOffMs: number
}

export interface FunctionRuntimeOptions {
  sandbox: Sandbox
  /** Absolute, writable and short: it will hold sockets, whose paths have at most 107 bytes. */
  folder: string
  /** The log of the platform's operator. A Function's output never goes there. */
  logger: { error(fields: object, message: string): void }
  /** Called in the order of printing within a slot; must not throw. */
  onLog(line: FunctionLogLine): void
  /** The clock for log lines. */
  now?: () => Date
  /** A file of certificates that Functions trust. Default: that of this process's NODE_EXTRA_CA_CERTS. */
  extraCertificates?: string
  timings?: Partial<RuntimeTimings>
}

const timingsDefault: RuntimeTimings = {
  startMs: 10_000,
  lagMs: 2_000,
  collectMs: 10_000,
  heapMs: 5_000,
  headersTimeoutMs: 60_000,
  bodyTimeoutMs: 300_000,
  idleMs: 300_000,
  drainMs: 30_000,
  pingMs: 1_000,
  backOffMs: 1_000,
}
const backOffMsMax = 30_000
const failuresUntilBackOff = 3
/** With this many requests a slot is full, so another is started. */
const inFlightFull = 50
/** Beyond this many a slot accepts no requests, even if no other slot can be started. */
const inFlightMax = 200
const overloadLineMs = 10_000
/** How long a request that broke off waits for its slot's end, which gives the reason. */
const failureWaitMs = 1_000
const ticksAFolderCheck = 5
/** The fraction of its time that counts for a slot with only event streams and WebSockets. */
const streamShare = 0.1
const startsAwaitedMax = 3
const socketPathBytesMax = 107
/** How long a slot is still watched after its last request, because of waitUntil. */
const watchedAfterUseMs = 30_000

/** A slot that is starting. */
interface Start {
  /** The number of its slot, reserved meanwhile. */
  number: number
  /** Number of requests that wait for it. */
  waiting: number
  /** Set once the Function's source is loaded. */
  slot: Slot | undefined
  /** undefined: the plan no longer has this number, so nothing was started. */
  ready: Promise<Slot | undefined>
}

/** All slots of one Function. */
interface Member {
  functionId: string
  source: FunctionSource | undefined
  /** At least 1. Infinity: the plan is not known yet. */
  slotsMax: number
  slots: Set<Slot>
  /** At most one per number, besides those that are being ended. */
  starts: Set<Start>
  failures: number
  failure: FunctionFailure | undefined
  startableAt: number
  overloadToldAt: number
  coldStarts: number
  requests: number
  busyMs: number
}

/**
 * Runs Functions in slots of a sandbox. Only one runtime may use a folder: what an earlier process left in it is removed, so
 * the sandbox must already have ended that process's commands.
 */
export async function openFunctionRuntime(options: FunctionRuntimeOptions): Promise<FunctionRuntime> {
  const runtime = new Runtime(options)
  await runtime.open()
  return runtime
}

class Runtime implements FunctionRuntime {
  readonly #options: FunctionRuntimeOptions
  readonly #timings: RuntimeTimings
  readonly #now: () => Date
  readonly #members = new Map<string, Member>()
  readonly #used = new WeakMap<Slot, { lastAt: number; busySince: number; streams: number }>()
  readonly #starts = new Set<Promise<unknown>>()
  /** Resolves to the variables of certificates. */
  #launcher: Promise<Record<string, string>> | undefined
  #count = 0
  #tickCount = 0
  /** Accepts no more callers. */
  #isClosed = false
  /** Starts nothing any more. */
  #isOver = false
  #ticks: NodeJS.Timeout | undefined

  constructor(options: FunctionRuntimeOptions) {
    this.#options = options
    this.#timings = { ...timingsDefault, ...options.timings }
    this.#now = options.now ?? (() => new Date())
  }

  get capabilities() {
    return this.#options.sandbox.capabilities
  }

  async open(): Promise<void> {
    const { folder } = this.#options
    if (Buffer.byteLength(join(folder, 'sockets', '0'.repeat(8))) > socketPathBytesMax) {
      throw new Error(`The path of the folder for Functions is too long for sockets: ${folder}`)
    }
    for (const name of ['sockets', 'slots', 'launcher']) {
      await removeFolder(join(folder, name))
      await mkdir(join(folder, name), { recursive: true, mode: 0o711 })
    }
    await mkdir(join(folder, 'cache'), { recursive: true, mode: 0o711 })
    this.#ticks = setInterval(() => this.#tick(), this.#timings.pingMs).unref()
  }

  async acquire(functionId: string, load: () => Promise<FunctionSource>, pin?: Pin): Promise<Lease> {
    if (this.#isClosed) throw stopping()
    for (let tries = 0; tries < startsAwaitedMax; tries += 1) {
      const member = this.#memberOf(functionId)
      const slot = this.#findSlot(member, load, pin) ?? (await this.#waitForSlot(member, load, pin))
      if (slot !== undefined && isWarm(slot)) {
        if (pin !== undefined) keepPinned(slot, member, pin)
        return this.#lease(member, slot)
      }
      // A trial start that others joined ends its slot; a slot that crashed has a reason.
      if (slot?.failure !== undefined) throw slot.failure
    }
    throw new FunctionFailure('function_crashed', 'It was stopped as soon as it had started.')
  }

  async start(source: FunctionSource, isTrial = false, signal?: AbortSignal): Promise<void> {
    if (this.#isClosed) throw stopping()
    signal?.throwIfAborted()
    const warm = [...this.#memberOf(source.functionId).slots].find((slot) => isWarm(slot))
    if (warm !== undefined) return
    const isWanted = ({ waiting }: Start): boolean => signal?.aborted !== true || waiting > 0
    let start: Start | undefined
    const onAbort = (): void => {
      if (start?.slot?.isReady === false && !isWanted(start)) void start.slot.drain(0)
    }
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      let slot: Slot | undefined
      while (slot === undefined) {
        start = this.#startSlot(this.#memberOf(source.functionId), async () => source, undefined, isWanted)
        slot = await start.ready
      }
      if (isTrial && slot.inFlight === 0) await slot.drain(this.#timings.drainMs)
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }

  reconcile(isWanted: (deploymentId: string) => boolean): void {
    for (const slot of this.#allSlots()) {
      // A starting slot has no requests to finish.
      if (!isWanted(slot.source.deploymentId)) void slot.drain(slot.isReady ? this.#timings.drainMs : 0)
    }
  }

  async takeUsage(): Promise<FunctionUsage[]> {
    const usages: FunctionUsage[] = []
    for (const member of this.#members.values()) {
      const { functionId, slots } = member
      const memory = await Promise.all([...slots].map((slot) => slot.memoryBytes()))
      for (const slot of slots) this.#settleBusy(member, slot)
      const { coldStarts, requests, busyMs } = member
      member.coldStarts = member.requests = member.busyMs = 0
      const memoryBytes = memory.reduce((sum, bytes) => sum + bytes, 0)
      usages.push({ functionId, slots: slots.size, memoryBytes, coldStarts, requests, busyMs })
      const isOver = slots.size === 0 && member.starts.size === 0
      if (isOver && member.startableAt < Date.now()) this.#members.delete(functionId)
    }
    return usages.filter(({ slots, coldStarts, requests, busyMs }) => slots + coldStarts + requests + busyMs > 0)
  }

  async close(drainMs: number): Promise<void> {
    this.#isClosed = true
    const deadline = Date.now() + drainMs
    // Requests that wait for a start are answered too, if there is time.
    await settledWithin(this.#starts, drainMs)
    this.#isOver = true
    await Promise.all([...this.#allSlots()].map((slot) => slot.drain(Math.max(0, deadline - Date.now()))))
    await Promise.allSettled(this.#starts)
    clearInterval(this.#ticks)
  }

  #memberOf(functionId: string): Member {
    const functionMember = this.#members.get(functionId)
    if (functionMember !== undefined) return functionMember
    const member: Member = {
      functionId,
      source: undefined,
      slotsMax: Infinity,
      slots: new Set(),
      starts: new Set(),
      failures: 0,
      failure: undefined,
      startableAt: 0,
      overloadToldAt: 0,
      coldStarts: 0,
      requests: 0,
      busyMs: 0,
    }
    this.#members.set(functionId, member)
    return member
  }

  *#allSlots(): Generator<Slot> {
    for (const { slots } of this.#members.values()) yield* slots
  }

  /**
   * The warm slot with the fewest requests, or that of the pin. If every warm slot is busy, another is started in the
   * background. Returns undefined if the request has to wait for a start.
   */
  #findSlot(member: Member, load: () => Promise<FunctionSource>, pin: Pin | undefined): Slot | undefined {
    const now = Date.now()
    let lightest: Slot | undefined
    let isBusy = true
    for (const slot of member.slots) {
      if (!isWarm(slot)) continue
      if (slot.inFlight < inFlightFull && !slot.isLate(now)) isBusy = false
      if (lightest === undefined || weightOf(slot, now) < weightOf(lightest, now)) lightest = slot
    }
    if (lightest === undefined) return undefined
    const slot = pin === undefined ? lightest : findPinned(member, pin, now)
    if (slot === undefined) return undefined
    const canGrow = member.slots.size < member.slotsMax && member.startableAt <= now && !this.#isClosed
    // A failed start only writes to the Function's log, since this request has a slot.
    if (isBusy && canGrow && findStart(member) === undefined) this.#startSlot(member, load)
    if (slot.inFlight < inFlightMax) return slot
    const number = numberOf(member, pin)
    if (number !== undefined || findStart(member) === undefined) throw this.#overload(member, number)
    return undefined
  }

  /** Returns undefined if the plan no longer has the number of the awaited start. */
  async #waitForSlot(
    member: Member,
    load: () => Promise<FunctionSource>,
    pin: Pin | undefined,
  ): Promise<Slot | undefined> {
    const number = numberOf(member, pin)
    const start = this.#startSlot(member, load, number)
    if (start.waiting >= inFlightMax) throw this.#overload(member, number)
    start.waiting += 1
    try {
      return await start.ready
    } finally {
      start.waiting -= 1
    }
  }

  /** number: of the slot that the request is pinned to, if any. */
  #overload(member: Member, number: number | undefined): FunctionFailure {
    const now = Date.now()
    const message =
      number === undefined
        ? `Each of its ${Math.max(1, member.slots.size)} slots has ${inFlightMax} requests under way: answer faster, or take a plan with more slots.`
        : `Slot ${number} has ${inFlightMax} requests under way, and sticky URLs lead to no other: answer faster, or let fewer clients share a key.`
    if (now - member.overloadToldAt >= overloadLineMs && member.source !== undefined) {
      member.overloadToldAt = now
      const line: PrintedLine = { level: 'WARN', requestId: undefined, message: `Refused a request: ${message}` }
      this.#log(member.source, number ?? 0, line)
    }
    return new FunctionFailure('function_overloaded', message)
  }

  /**
   * Joins a pending start, or begins one. number: of the slot; undefined: any. isWanted: checked again before the process is
   * started. Throws FunctionFailure if none may start now.
   */
  #startSlot(
    member: Member,
    load: () => Promise<FunctionSource>,
    number?: number,
    isWanted: (start: Start) => boolean = () => true,
  ): Start {
    if (this.#isOver) throw stopping()
    const joined = findStart(member, number)
    if (joined !== undefined) return joined
    if (member.startableAt > Date.now() && member.failure !== undefined) throw member.failure
    const { promise, resolve } = Promise.withResolvers<Slot | undefined>()
    const start: Start = { number: number ?? lowestFree(member), waiting: 0, slot: undefined, ready: promise }
    member.starts.add(start)
    this.#starts.add(promise)
    const started = this.#startOne(member, start, load, isWanted).finally(() => {
      member.starts.delete(start)
      this.#starts.delete(promise)
    })
    resolve(started)
    promise.catch(() => {})
    return start
  }

  async #startOne(
    member: Member,
    start: Start,
    load: () => Promise<FunctionSource>,
    isWanted: (start: Start) => boolean,
  ): Promise<Slot | undefined> {
    const { sandbox, folder, logger } = this.#options
    const { number } = start
    const failuresBefore = member.failures
    const source = await load()
    member.source = source
    member.slotsMax = Math.max(1, source.slotsMax)
    this.#launcher ??= this.#writeLauncher()
    const certificates = await this.#launcher
    if (this.#isOver || !isWanted(start)) throw stopping()
    if (number >= member.slotsMax) return undefined
    this.#count += 1
    const short = this.#count.toString(36)
    const slot = new Slot({
      sandbox,
      source,
      certificates,
      number,
      name: `slot-${process.pid}-${short}`,
      folders: {
        launcher: join(folder, 'launcher'),
        own: join(folder, 'slots', short),
        cache: join(folder, 'cache', createHash('sha256').update(source.functionId).digest('hex').slice(0, 24)),
        socketPath: join(folder, 'sockets', short),
      },
      timings: this.#timings,
      onLine: (line) => this.#log(source, number, line),
      onWarning: (message, err) => logger.error({ err, functionId: source.functionId }, message),
      onEnd: () => {
        this.#settleBusy(member, slot)
        member.slots.delete(slot)
      },
    })
    start.slot = slot
    member.slots.add(slot)
    member.coldStarts += 1
    this.#used.set(slot, { lastAt: Date.now(), busySince: 0, streams: 0 })
    try {
      await slot.start()
    } catch (error) {
      member.slots.delete(slot)
      const failure = error as FunctionFailure
      if (failure.cause !== undefined)
        logger.error({ err: failure.cause, functionId: member.functionId }, failure.message)
      // Concurrent failed starts count as one.
      if (member.failures <= failuresBefore) this.#countFailure(member, failure)
      throw failure
    }
    member.failures = 0
    member.failure = undefined
    this.#used.get(slot)!.lastAt = Date.now()
    return slot
  }

  /** Certificates lie beside the launcher, so that no slot needs a mount more. */
  async #writeLauncher(): Promise<Record<string, string>> {
    const { sandbox, logger, extraCertificates } = this.#options
    const folder = join(this.#options.folder, 'launcher')
    await writeLauncher(folder)
    return writeCertificates({
      folder: join(folder, 'certificates'),
      inside: join(sandbox.pathOf(mountLauncher(folder)), 'certificates'),
      extraFile: extraCertificates,
      onWarning: (message) => logger.error({}, message),
    })
  }

  #countFailure(member: Member, failure: FunctionFailure): void {
    member.failures += 1
    member.failure = failure
    const doublings = member.failures - failuresUntilBackOff
    if (doublings < 0) return
    member.startableAt = Date.now() + Math.min(backOffMsMax, this.#timings.backOffMs * 2 ** doublings)
  }

  #lease(member: Member, slot: Slot): Lease {
    const used = this.#used.get(slot)!
    if (slot.inFlight === used.streams) this.#settleBusy(member, slot)
    slot.inFlight += 1
    member.requests += 1
    let isHeld = true
    let isStream = false
    return {
      slot: slot.number,
      instance: slot.instance,
      dispatcher: slot.pool,
      connection: slot.connection,
      failure: () => failureOf(slot),
      countAsStream: () => {
        if (!isHeld || isStream) return
        this.#settleBusy(member, slot)
        isStream = true
        used.streams += 1
      },
      release: () => {
        if (!isHeld) return
        isHeld = false
        used.lastAt = Date.now()
        if (isStream || slot.inFlight - used.streams === 1) this.#settleBusy(member, slot)
        if (isStream) used.streams -= 1
        slot.release()
      },
    }
  }

  /** Adds the time up to now during which the slot had requests. Call it before its requests change. */
  #settleBusy(member: Member, slot: Slot): void {
    const used = this.#used.get(slot)
    if (used === undefined) return
    const now = performance.now()
    if (slot.inFlight > 0) member.busyMs += (now - used.busySince) * (slot.inFlight === used.streams ? streamShare : 1)
    used.busySince = now
  }

  #tick(): void {
    const now = Date.now()
    this.#tickCount += 1
    const isFolderTick = this.#tickCount % ticksAFolderCheck === 0
    for (const slot of this.#allSlots()) {
      if (this.capabilities.isIsolated && !isWarm(slot)) void slot.checkFolders()
      if (!isWarm(slot)) continue
      const quietMs = slot.inFlight > 0 ? 0 : now - (this.#used.get(slot)?.lastAt ?? now)
      const isInUse = quietMs < watchedAfterUseMs
      if (isInUse) slot.ping()
      // A slot that writes in the background is detected a few seconds later.
      if (this.capabilities.isIsolated && (isInUse || isFolderTick)) void slot.checkFolders()
      if (quietMs >= this.#timings.idleMs && now >= slot.pinnedUntil) void slot.drain(this.#timings.drainMs)
    }
  }

  #log(source: FunctionSource, slot: number, line: PrintedLine): void {
    const { functionId, deploymentId, name } = source
    this.#options.onLog({ functionId, deploymentId, functionName: name, slot, ...line, at: this.#now() })
  }
}

const stopping = () => new FunctionFailure('function_overloaded', 'The platform is stopping.')

const isWarm = (slot: Slot): boolean => slot.isReady && !slot.isDraining && !slot.hasEnded

/**
 * The load of a slot. A late slot counts as full, and one that accepts nothing more comes last. A late slot that has answered
 * everything comes before those with requests: otherwise a burst that keeps the CPU busy would pile up on one process beside
 * idle ones.
 */
function weightOf(slot: Slot, now: number): number {
  if (slot.inFlight >= inFlightMax) return Infinity
  if (!slot.isLate(now)) return slot.inFlight
  return slot.inFlight === 0 ? 0.5 : slot.inFlight + inFlightFull
}

/** The lowest free slot number. A draining slot no longer holds its number. */
function lowestFree({ slots, starts }: Member): number {
  const held = [...slots, ...[...starts].map(({ slot, number }) => slot ?? { number, isDraining: false })]
  const taken = new Set(held.filter(({ isDraining }) => !isDraining).map(({ number }) => number))
  let number = 0
  while (taken.has(number)) number += 1
  return number
}

/** A pending start that others may join, so not one that is being ended. number: of the slot; undefined: any. */
function findStart({ starts }: Member, number?: number): Start | undefined {
  for (const start of starts) {
    if (start.slot?.isDraining !== true && (number === undefined || start.number === number)) return start
  }
  return undefined
}

/** The slot number that a request must use; undefined for any. */
function numberOf({ slotsMax }: Member, pin: Pin | undefined): number | undefined {
  return pin?.slot !== undefined && pin.slot < slotsMax ? pin.slot : undefined
}

/** The warm slot of a pin. If none was chosen yet, the one with the fewest requests, and of those the one chosen least often. */
function findPinned(member: Member, pin: Pin, now: number): Slot | undefined {
  const number = numberOf(member, pin)
  let best: Slot | undefined
  for (const slot of member.slots) {
    if (!isWarm(slot)) continue
    if (slot.number === number) return slot
    // Skips slots that outlive a lowered plan: later requests could not be pinned to them.
    if (number !== undefined || slot.number >= member.slotsMax) continue
    if (best === undefined || weightOf(slot, now) < weightOf(best, now)) best = slot
    else if (weightOf(slot, now) === weightOf(best, now) && slot.pins < best.pins) best = slot
  }
  return best
}

function keepPinned(slot: Slot, member: Member, pin: Pin): void {
  if (numberOf(member, pin) === undefined) slot.pins += 1
  slot.pinnedUntil = Math.max(slot.pinnedUntil, Date.now() + pin.forMs)
}

/** Waits until all have settled, at most for the given milliseconds. */
async function settledWithin(promises: Iterable<Promise<unknown>>, milliseconds: number): Promise<void> {
  const { promise: isOver, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, milliseconds)
  await Promise.race([Promise.allSettled(promises), isOver])
  clearTimeout(timer)
}

async function failureOf(slot: Slot): Promise<FunctionFailure | undefined> {
  await settledWithin([slot.ended], failureWaitMs)
  return slot.failure
}
