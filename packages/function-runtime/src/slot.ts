import { randomUUID } from 'node:crypto'
import { lstat, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { removeFolder } from '@platform/sandbox/remove-folder'
import type { Sandbox, SandboxedCommand, SandboxedProcess, SandboxExit } from '@platform/sandbox/sandbox'
import type { Pool } from 'undici'
import { FunctionFailure, type FunctionFailureCode, type FunctionSource } from './function-runtime.ts'
import type { BootMessage, SlotCommand, SlotMessage } from './launcher/messages.ts'
import { isLarger } from './folder-size.ts'
import { mountLauncher } from './launcher-folder.ts'
import { LineBudget } from './line-budget.ts'
import { LogLines, type PrintedLine } from './log-lines.ts'
import { limitsOf, memoryParts } from './slot-limits.ts'

/** In milliseconds. */
export interface SlotTimings {
  startMs: number
  /** How long a slot counts as busy after its event loop was late. */
  lagMs: number
  /** How long a blocked loop may continue if the heap may be full, so that V8 can end the process and say why. */
  collectMs: number
  /** How long its heap may be above its budget. */
  heapMs: number
  headersTimeoutMs: number
  bodyTimeoutMs: number
}

interface SlotFolders {
  /** Holds the launcher's modules. */
  launcher: string
  /** The slot's own folder, which it may write: its socket is created here. */
  own: string
  /** The Function's compile cache, which it may write. */
  cache: string
  /** Where the runtime keeps the socket, out of the slot's reach. */
  socketPath: string
}

interface SlotOptions {
  sandbox: Sandbox
  source: FunctionSource
  /** Variables that name files of certificates, as the slot sees them. */
  certificates: Record<string, string>
  number: number
  /** Unique on this machine. */
  name: string
  folders: SlotFolders
  timings: SlotTimings
  /** requestId undefined: not printed during a request. */
  onLine(line: PrintedLine): void
  /** Receives problems for the operator. */
  onWarning(message: string, error: unknown): void
  onEnd(): void
}

const megabyte = 1024 * 1024
const controlLineMax = 64 * 1024
const linesASecond = 1_000
/** A burst: a complete crash report is more than may be printed continuously. */
const linesAtOnce = 10_000
const bytesASecondMax = 16 * megabyte
/** The cost of reading a line besides its bytes: an empty line costs the platform as much time as this many bytes. */
const lineOverheadBytes = 200
const secondMs = 1_000
const pingsMissedMax = 5
const lastWordsMs = 500
/** If all memory counted reaches this share of V8's heap limit, the heap may be nearly full. */
const suspectShare = 0.75
/** The limit for compiled code, the only thing a slot keeps outside /tmp. */
const writableMax = { bytes: 64 * megabyte, entries: 5_000 }
/** A slot normally sends only a few words a second on the control channel. */
const controlBytesASecondMax = 256 * 1024

/** Where packages leave their programs, for a working folder and those above it. */
function programFolders(workingFolder: string): string[] {
  const segments = workingFolder.split('/').filter(Boolean)
  return [...segments.keys(), segments.length]
    .toReversed()
    .map((length) => join(...segments.slice(0, length), 'node_modules/.bin'))
}

/** Why a slot ended, if its exit does not say: `drained` is a regular end. */
type Verdict = { kind: 'drained' } | { kind: 'failed'; failure: FunctionFailure; line: string }

/** A process that answers a Function's requests. */
export class Slot {
  readonly number: number
  readonly instance = randomUUID()
  readonly source: FunctionSource
  readonly connection: { socketPath: string }
  readonly startedAt = Date.now()
  /** Requests that hold the slot. */
  inFlight = 0
  /** How many pins chose this slot, including expired ones. */
  pins = 0
  /** Milliseconds since 1970. Until then it does not end for lack of requests. */
  pinnedUntil = 0
  isDraining = false
  #process: SandboxedProcess | undefined
  #pool: Pool | undefined
  /** Loaded with the first slot, while it starts: most processes never have one. */
  readonly #client = import('undici')
  #isOpening = false
  #failure: FunctionFailure | undefined
  #verdict: Verdict | undefined
  #hasEnded = false
  #isReady = false
  #pingsMissed = 0
  /** Milliseconds since 1970: when the number of missed pings made its loop count as blocked. */
  #blockedSince: number | undefined
  #lateUntil = 0
  #heapExhausted = false
  /** While its heap is above its budget: the largest that it was. */
  #heapPeakMb: number | undefined
  #isTooLarge = false
  readonly #options: SlotOptions
  readonly #ended = Promise.withResolvers<void>()
  readonly #ready = Promise.withResolvers<void>()

  constructor(options: SlotOptions) {
    this.#options = options
    this.number = options.number
    this.source = options.source
    this.connection = { socketPath: options.folders.socketPath }
    this.#ready.promise.catch(() => {})
  }

  get pool(): Pool {
    return this.#pool!
  }

  get isReady(): boolean {
    return this.#isReady
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Resolves once the slot is gone and its log is complete. */
  get ended(): Promise<void> {
    return this.#ended.promise
  }

  /** Why it ended; undefined while it runs, and after a regular end. */
  get failure(): FunctionFailure | undefined {
    return this.#failure
  }

  isLate(now: number): boolean {
    return now < this.#lateUntil
  }

  memoryBytes(): Promise<number> {
    return this.#process?.memoryBytes() ?? Promise.resolve(0)
  }

  /** Starts the slot. Throws FunctionFailure if it does not become ready; then nothing is left of it. */
  async start(): Promise<void> {
    try {
      await this.#launch()
    } catch (error) {
      // The platform's own fault: the Function never ran.
      this.#hasEnded = true
      this.#options.onEnd()
      this.#ended.resolve()
      await this.#cleanUp()
      throw error instanceof FunctionFailure
        ? error
        : new FunctionFailure('function_crashed', 'The platform could not start it', error)
    }
    const { startMs } = this.#options.timings
    const deadline = setTimeout(() => {
      this.#fail('function_timeout', `It did not start within ${startMs / 1_000} s: do less before the first request.`)
    }, startMs)
    try {
      await this.#ready.promise
    } catch (error) {
      await this.ended
      throw this.#failure ?? error
    } finally {
      clearTimeout(deadline)
    }
  }

  async #launch(): Promise<void> {
    const { sandbox, source, certificates, folders, name, timings } = this.#options
    await Promise.all([sandbox.makeWritable(folders.own), sandbox.makeWritable(folders.cache)])
    const mounts = {
      launcher: mountLauncher(folders.launcher),
      files: { source: source.folder, target: '/var/task' },
      platform: { source: source.platformFolder, target: '/run/platform' },
      own: { source: folders.own, target: '/run/slot', isWritable: true },
      cache: { source: folders.cache, target: '/run/cache', isWritable: true },
    }
    const path = (mount: keyof typeof mounts, ...rest: string[]) => join(sandbox.pathOf(mounts[mount]), ...rest)
    const { heapMb, heapBudgetBytes } = memoryParts(source.memoryMb)
    const { workingFolder = '' } = source
    const working = path('files', workingFolder)
    const command: SandboxedCommand = {
      name,
      networkId: source.deploymentId,
      argv: [process.execPath, `--max-old-space-size=${heapMb}`, path('launcher', 'main.mjs')],
      env: {
        PATH: [
          ...programFolders(workingFolder).map((folder) => path('files', folder)),
          dirname(process.execPath),
          '/usr/local/bin:/usr/bin:/bin',
        ].join(':'),
        HOME: '/tmp',
        TMPDIR: '/tmp',
        LANG: 'C.UTF-8',
        NODE_COMPILE_CACHE: path('cache'),
        ...certificates,
      },
      mounts: Object.values(mounts),
      workingDirectory: working,
      limits: limitsOf(source.memoryMb),
    }
    const boot: BootMessage = {
      kind: source.kind,
      folder: working,
      ...(source.handler !== undefined && { handler: path('files', source.handler) }),
      ...(source.command !== undefined && { command: source.command }),
      isWeb: source.isWeb,
      hasHelpers: source.hasHelpers,
      variables: source.variables,
      socketPath: path('own', 's'),
      apiSocketPath: path('platform', 'api.sock'),
      assetsSocketPath: path('platform', 'assets.sock'),
      cacheSocketPath: path('platform', 'cache.sock'),
      builtAt: source.builtAt,
      heap: { bytes: heapBudgetBytes, forMs: timings.heapMs },
    }
    const started = await sandbox.start(command)
    this.#process = started
    this.#readOutput(started)
    this.#readControl(started)
    void started.exited.then((exit) => this.#onExit(exit))
    // No longer wanted since the start was requested.
    if (this.isDraining) started.kill()
    started.stdin.on('error', () => {})
    started.stdin.end(JSON.stringify(boot))
  }

  #readOutput({ stdout, stderr }: SandboxedProcess): void {
    const { onLine } = this.#options
    const budget = new LineBudget(linesASecond, linesAtOnce)
    let second = 0
    let bytes = 0
    const tellDropped = () => {
      const count = budget.takeDropped()
      if (count === 0) return
      const message = `${count} lines were left out: it printed more than ${linesASecond} lines a second.`
      onLine({ level: 'WARN', requestId: undefined, message })
    }
    const newSecond = () => {
      const now = Math.floor(performance.now() / secondMs)
      if (now === second) return
      second = now
      bytes = 0
      tellDropped()
    }
    for (const [stream, level] of [
      [stdout, 'INFO'],
      [stderr, 'ERROR'],
    ] as const) {
      const reader = new LogLines(level, (line) => {
        if (line.message.includes('heap out of memory')) this.#heapExhausted = true
        if (budget.take()) onLine(line)
      })
      stream.on('data', (chunk: Buffer) => {
        newSecond()
        bytes += chunk.length + lineOverheadBytes * reader.write(chunk)
        if (bytes <= bytesASecondMax || this.#hasEnded) return
        // Its writes block until the second is over.
        stream.pause()
        setTimeout(() => stream.resume(), secondMs - (performance.now() % secondMs)).unref()
      })
      stream.on('error', () => {})
      stream.once('close', () => {
        reader.end()
        tellDropped()
      })
    }
  }

  #readControl({ control }: SandboxedProcess): void {
    let rest = ''
    let second = 0
    let bytes = 0
    control.setEncoding('utf8')
    control.on('error', () => {})
    control.on('data', (text: string) => {
      const now = Math.floor(performance.now() / secondMs)
      if (now !== second) bytes = 0
      second = now
      bytes += text.length
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      if (bytes > controlBytesASecondMax || rest.length > controlLineMax) {
        rest = ''
        control.pause()
        this.#fail('function_crashed', "It wrote to file descriptor 3, which is the platform's.")
        return
      }
      for (const line of lines) this.#onMessage(parseMessage(line))
    })
  }

  #onMessage(message: SlotMessage): void {
    if (message.ready === true) void this.#onReady()
    // The reason comes from the Function itself; otherwise the platform only says that it ended.
    if (typeof message.failed === 'string' && this.#pool === undefined) {
      this.#fail('function_crashed', `It could not be started: ${message.failed}`, lastWordsMs)
    }
    if (message.outOfMemory === true) this.#fail('function_out_of_memory', this.#memorySentence(), lastWordsMs)
    if (typeof message.pong === 'number') {
      this.#pingsMissed = 0
      this.#blockedSince = undefined
      this.#heapPeakMb = typeof message.heapPeakMb === 'number' ? message.heapPeakMb : undefined
    }
    if (message.isHeapTooLarge === true) this.#fail('function_out_of_memory', this.#memorySentence())
    if (typeof message.lag === 'number') this.#lateUntil = Date.now() + this.#options.timings.lagMs
  }

  async #onReady(): Promise<void> {
    if (this.#isOpening || this.#hasEnded) return
    this.#isOpening = true
    const client = await this.#client
    if (this.#hasEnded) return
    const { sandbox, folders, timings } = this.#options
    const { socketPath } = folders
    const pool = new client.Pool('http://slot', {
      socketPath,
      connections: null,
      pipelining: 1,
      headersTimeout: timings.headersTimeoutMs,
      bodyTimeout: timings.bodyTimeoutMs,
    })
    this.#pool = pool
    try {
      // Moved first, then checked: the slot cannot swap it here, and a link is moved as a link.
      await rename(join(folders.own, 's'), socketPath)
      const stats = await lstat(socketPath)
      if (!stats.isSocket() || stats.nlink !== 1) throw new Error('not a socket of its own')
    } catch {
      this.#fail('function_crashed', 'Its socket was taken away or replaced before it was ready.')
      return
    }
    if (sandbox.capabilities.cgroups === undefined) await this.#limitGrowth()
    this.#isReady = true
    this.#ready.resolve()
  }

  /** Without control groups an allocation is refused before the memory sum is checked again. */
  async #limitGrowth(): Promise<void> {
    try {
      await this.#process?.limitGrowth(memoryParts(this.source.memoryMb).growthBytes)
    } catch (error) {
      this.#options.onWarning('The memory of a Function could not be limited by its process', error)
    }
  }

  /** Called every few seconds: the folders that a slot may write are on the platform's disk. */
  async checkFolders(): Promise<void> {
    const { own, cache } = this.#options.folders
    if (this.#hasEnded || this.#isTooLarge || !(await isLarger([own, cache], writableMax))) return
    this.#isTooLarge = true
    const megabytes = writableMax.bytes / megabyte
    this.#fail(
      'function_crashed',
      `It wrote more than ${megabytes} MB or ${writableMax.entries} files outside of /tmp: keep files in /tmp.`,
    )
  }

  /** Called each second while requests are pending, and for a while after the last one. */
  ping(): void {
    if (this.#pingsMissed >= pingsMissedMax) {
      void this.#endBlocked()
      return
    }
    // Among the platform's last where others want every core, it may have got none to answer with.
    if (this.#pingsMissed > 0) this.#process?.allowAnswer()
    this.#pingsMissed += 1
    this.#tell({ ping: this.#pingsMissed })
  }

  /**
   * Ends the slot because its loop is blocked. If its heap may be nearly full, V8 itself may be blocking it: its last
   * collections take many seconds, and then it gives up with a message that says so. Called with each ping until the loop
   * continues.
   */
  async #endBlocked(): Promise<void> {
    const { memoryMb } = this.source
    const { collectMs } = this.#options.timings
    const since = (this.#blockedSince ??= Date.now())
    const usedMb = Math.round((await this.memoryBytes()) / megabyte)
    // The loop has continued meanwhile.
    if (this.#pingsMissed < pingsMissedMax) return
    const isHeapSuspect = usedMb >= memoryParts(memoryMb).heapMb * suspectShare
    if (isHeapSuspect && Date.now() - since < collectMs) return
    const seconds = pingsMissedMax + (isHeapSuspect ? Math.round(collectMs / 1_000) : 0)
    const when = this.inFlight > 0 ? 'while requests waited' : 'after its last request'
    const advice = isHeapSuspect
      ? `, with ${usedMb} of its ${memoryMb} MB of memory in use: keep less in memory at a time, or move long computations out of the request`
      : ': move long computations out of the request, or into a worker thread'
    this.#fail('function_timeout', `It blocked its event loop for ${seconds} s ${when}${advice}.`)
  }

  /** Ends the slot after its pending requests and their waitUntil, or after the given milliseconds. Safe to repeat. */
  async drain(milliseconds: number): Promise<void> {
    if (this.isDraining || this.#hasEnded) return this.ended
    this.isDraining = true
    const deadline = Date.now() + milliseconds
    const kill = setTimeout(() => {
      this.#verdict ??= { kind: 'drained' }
      this.#process?.kill()
    }, milliseconds)
    await Promise.race([this.#untilReleased(), this.ended])
    if (!this.#hasEnded) {
      this.#verdict ??= { kind: 'drained' }
      this.#tell({ drain: Math.max(0, deadline - Date.now()) })
    }
    await this.ended
    clearTimeout(kill)
  }

  #released: (() => void) | undefined

  release(): void {
    this.inFlight -= 1
    if (this.inFlight === 0) this.#released?.()
  }

  #untilReleased(): Promise<void> {
    return new Promise((resolve) => {
      this.#released = resolve
      if (this.inFlight === 0) resolve()
    })
  }

  #tell(command: SlotCommand): void {
    this.#process?.control.write(`${JSON.stringify(command)}\n`)
  }

  #memorySentence(): string {
    const { memoryMb } = this.source
    const used = `It used more than its ${memoryMb} MB of memory`
    const peakMb = this.#heapPeakMb
    if (peakMb === undefined) return `${used}: keep less in memory at a time, or take a plan with more.`
    const { heapMb } = memoryParts(memoryMb)
    return `${used}: its heap, which gets ${heapMb} MB of it, grew to ${peakMb} MB, and collecting garbage did not help. Keep less in memory at a time, or take a plan with more.`
  }

  /** graceMs: time to print more before it ends by itself. */
  #fail(code: FunctionFailureCode, message: string, graceMs = 0): void {
    // A draining slot that abuses its remaining time counts as failed.
    if (this.#verdict?.kind !== 'failed') {
      const failure = new FunctionFailure(code, message)
      this.#verdict = { kind: 'failed', failure, line: `Stopped: ${lower(message)}` }
    }
    const kill = () => this.#process?.kill()
    if (graceMs === 0) kill()
    else setTimeout(kill, graceMs).unref()
  }

  async #onExit(exit: SandboxExit): Promise<void> {
    const wasReady = this.#isReady
    const verdict = this.#verdict?.kind === 'drained' ? this.#verdict : this.#verdictOf(exit, wasReady)
    if (verdict.kind === 'failed') {
      this.#failure = verdict.failure
      this.#options.onLine({ level: 'ERROR', requestId: undefined, message: verdict.line })
    }
    this.#hasEnded = true
    this.#ready.reject(this.#failure ?? new FunctionFailure('function_crashed', 'It was stopped while it started.'))
    this.#options.onEnd()
    this.#ended.resolve()
    await this.#cleanUp()
  }

  #verdictOf({ code, signal, cause }: SandboxExit, wasReady: boolean): Verdict {
    const failed = (failureCode: FunctionFailureCode, message: string, verb: string): Verdict => ({
      kind: 'failed',
      failure: new FunctionFailure(failureCode, message),
      line: `${verb}: ${lower(message)}`,
    })
    if (cause === 'crowded') return failed('function_out_of_memory', CROWDED, 'Stopped')
    if (cause === 'memory' || this.#heapExhausted) {
      return failed('function_out_of_memory', this.#memorySentence(), 'Stopped')
    }
    if (this.#verdict !== undefined) return this.#verdict
    if (cause === 'killed') return { kind: 'drained' }
    const how = signal === null ? `with exit code ${code}` : `by signal ${signal}`
    const when = wasReady ? '' : ' before it was ready'
    const advice = code === 0 ? ': a Function must not call process.exit' : ': the lines before this one say why'
    return failed('function_crashed', `It ended ${how}${when}${advice}.`, 'Crashed')
  }

  async #cleanUp(): Promise<void> {
    const { own, cache, socketPath } = this.#options.folders
    await this.#pool?.destroy().catch(() => {})
    // Not while it runs: it could place a link where files are being removed.
    const folders = this.#isTooLarge ? [own, socketPath, cache] : [own, socketPath]
    await Promise.all(folders.map((path) => removeFolder(path).catch(() => {})))
  }
}

function parseMessage(line: string): SlotMessage {
  try {
    const message: unknown = JSON.parse(line)
    return typeof message === 'object' && message !== null ? message : {}
  } catch {
    // The slot's code can write here too, and it is not trusted.
    return {}
  }
}

const CROWDED = 'It held most memory when the platform had hardly any left: keep less in memory at a time.'
const lower = (sentence: string): string => sentence.charAt(0).toLowerCase() + sentence.slice(1)
