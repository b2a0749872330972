import { chmod, lstat, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Readable } from 'node:stream'
import { writeCertificates } from '@platform/sandbox/certificates'
import { openSandbox, type SandboxOptions } from '@platform/sandbox/open-sandbox'
import { listDescendants } from '@platform/sandbox/process-tree'
import { quote } from '@platform/sandbox/run-program'
import type { Mount, Sandbox, SandboxedProcess, SandboxExit, SandboxLimits } from '@platform/sandbox/sandbox'
import { BuildFailure, type Builder, type BuildEgress, type BuildLimits, type BuildRequest } from './builder.ts'
import { copyPackage } from './copy-package.ts'
import { explainInstallFailure, warnOfIgnoredBuilds } from './install-failure.ts'
import { pathIn, upwards } from './manifests.ts'
import { FETCHED_PROGRAMS, insideFolderOf, managerKinds, pinnedManager, PNPM_ENVIRONMENT } from './package-managers.ts'
import type { Command } from './plan-build.ts'
import { openRegistryProxy, type RegistryProxy } from './registry-proxy.ts'
import type { Job, RunnerMessage, Step } from './runner/messages.ts'
import { readRunnerMessages } from './runner-messages.ts'
import { readTrace, TRACE_BYTES_MAX } from './traced-files.ts'
import { watchDisk } from './watch-disk.ts'

export interface BuilderOptions {
  /** Absolute, used only by this builder; created. */
  folder: string
  /** Called before anything is created there. If it throws, nothing can be built, and the error is the reason. */
  prepare?: () => Promise<void>
  egress: BuildEgress
  /** See SandboxOptions. */
  network?: SandboxOptions['network']
  machineAddresses?: SandboxOptions['machineAddresses']
  /** The origins that a `registry` build may reach. */
  registries: readonly URL[]
  hasControlGroups?: boolean
  /** A file of certificates that builds trust. Default: that of this process's NODE_EXTRA_CA_CERTS. */
  extraCertificates?: string
  /** Receives problems that were recovered from. */
  onWarning: (message: string, error?: unknown) => void
}

const MIB = 1_048_576
const PROCESSES_MAX = 1_024
const ENTRIES_MAX = 500_000
const TMP_BYTES = 256 * MIB
const OPEN_FILES = 65_536
/** Builds use spare CPU time, and otherwise get a small share now and then, since they have a deadline. */
const CPU_SHARE = 25
const CPU_CALM_MS = 200
const PACK_MS = 120_000
const PACK_LIMITS = { memoryMb: 1_024, diskMb: 1_024 }
/** A server that reaches 8,000 files takes half a minute of CPU time and 0.9 GB. */
const TRACE_MS = 240_000
const TRACE_LIMITS = { memoryMb: 2_048, diskMb: 1 }
/** How much output a build may print per second; a faster one has to wait. */
const OUTPUT_BYTES_A_SECOND = 8 * MIB
const PROXY_PORT = 3128
/** How much of what a build printed last is looked at for a reason. */
const PRINTED_KEPT = 16_384
const COMMON = 'common'

const INSIDE = {
  build: '/build',
  project: '/build/project',
  home: '/build/home',
  tmp: '/build/tmp',
  programs: '/opt/build/programs',
  certificates: '/opt/build/certificates',
  runner: '/opt/build/runner',
  nextAdapter: '/opt/build/runner/next-adapter.mts',
  tracer: '/opt/build/tracer',
  registry: '/run/registry.sock',
  cache: '/cache.tar.zst',
  kept: '/kept',
} as const

const USE = {
  name: 'Builds',
  withoutWalls: 'upload what the build makes instead of its source',
  withoutNetwork:
    'set BUILD_EGRESS=registry to let them reach package registries alone, or BUILD_EGRESS=none to let them reach nothing',
}

/** V8 would otherwise derive its limit from the whole machine's memory. */
const heapOption = (memoryMb: number): string => `--max-old-space-size=${Math.floor(memoryMb * 0.75)}`

const inside = (folder: string): string => (folder === '' ? INSIDE.project : `${INSIDE.project}/${folder}`)

/**
 * Writes the programs in a build's PATH: `common`, and before it a folder for the project's manager, since two are called
 * yarn. They set `variables` once more where these are missing: of all variables turbo passes on PATH and few others.
 */
async function writePrograms(folder: string, variables: Record<string, string>): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  const settings = Object.entries(variables).map(([name, value]) => `export ${name}="\${${name}-${value}}"\n`)
  const begin = `#!/bin/sh\n${settings.join('')}`
  for (const kind of managerKinds) {
    const { entry, isScript, command } = pinnedManager(kind)
    const script = `${begin}exec ${isScript ? 'node ' : ''}${insideFolderOf(kind)}/${entry} "$@"\n`
    for (const to of kind === 'berry' ? [kind] : [kind, COMMON]) {
      await mkdir(join(folder, to), { recursive: true, mode: 0o755 })
      await writeFile(join(folder, to, command), script, { mode: 0o755 })
    }
  }
  await writeFile(join(folder, COMMON, 'node'), `${begin}exec ${quote(process.execPath)} "$@"\n`, { mode: 0o755 })
}

/** A sentence on why a limit ended a build. */
type Limit = 'time' | 'bytes' | 'entries' | 'memory' | 'processes' | 'crowded'

function limitSentence(limit: Limit, limits: BuildLimits): string {
  switch (limit) {
    case 'time':
      return limits.timeoutMs < 60_000
        ? `The build took longer than ${limits.timeoutMs / 1_000} seconds`
        : `The build took longer than ${limits.timeoutMs / 60_000} minutes`
    case 'bytes':
      return `The build wrote more than ${limits.diskMb} MB`
    case 'entries':
      return `The build made more than ${ENTRIES_MAX} files and folders`
    case 'memory':
      return `The build needed more than ${limits.memoryMb} MB of memory`
    case 'processes':
      return `The build had more than ${PROCESSES_MAX} processes and threads at once`
    case 'crowded':
      return 'The build held most memory when the platform had hardly any left: deploy again, or build what needs less'
  }
}

/** Reads a process's output, no faster than allowed. */
async function readOutput(
  stream: Readable,
  budget: { take(bytes: number): Promise<void> },
  onChunk: (chunk: Buffer) => void,
): Promise<void> {
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      onChunk(chunk)
      await budget.take(chunk.length)
    }
  } catch {
    // The process was killed, and its output ended.
  }
}

function openOutputBudget(): { take(bytes: number): Promise<void> } {
  let from = performance.now()
  let bytes = 0
  return {
    async take(more) {
      bytes += more
      const dueMs = (bytes / OUTPUT_BYTES_A_SECOND) * 1_000
      const sinceMs = performance.now() - from
      if (sinceMs > 1_000 && dueMs < sinceMs) {
        from = performance.now()
        bytes = 0
      } else if (dueMs > sinceMs + 100) await sleep(dueMs - sinceMs)
    },
  }
}

/** Opens nothing yet: the first build opens the sandbox, and each build its own proxy. */
export function openBuilder(options: BuilderOptions): Builder {
  const { folder, egress, onWarning } = options
  let opening: Promise<{ sandbox: Sandbox; mounts: Mount[]; certificates: Record<string, string> }> | undefined
  let proxies = 0

  async function open() {
    await options.prepare?.()
    const sandbox = await openSandbox({
      folder: join(folder, 's'),
      use: USE,
      mode: 'required',
      cpu: { calmMs: CPU_CALM_MS },
      egress: egress === 'public' ? 'public' : 'none',
      network: options.network,
      machineAddresses: options.machineAddresses,
      ...(options.hasControlGroups === undefined ? {} : { hasControlGroups: options.hasControlGroups }),
      onWarning: (message) => onWarning(message),
    })
    const [programs, trusted] = [join(folder, 'programs'), join(folder, 'certificates')]
    const certificates = await writeCertificates({
      folder: trusted,
      inside: INSIDE.certificates,
      extraFile: options.extraCertificates,
      onWarning: (message) => onWarning(message),
    })
    await writePrograms(programs, {
      ...certificates,
      ...proxyEnvironment,
      ...offlineEnvironment,
      ...PNPM_ENVIRONMENT,
    })
    const mounts: Mount[] = [
      { source: programs, target: INSIDE.programs },
      { source: trusted, target: INSIDE.certificates },
      { source: join(import.meta.dirname, 'runner'), target: INSIDE.runner },
      ...managerKinds.map((kind) => ({ source: pinnedManager(kind).folder, target: insideFolderOf(kind) })),
    ]
    return { sandbox, mounts, certificates }
  }
  /** A failed opening is retried with the next build: the missing program may have been installed. */
  function opened() {
    if (!opening) {
      opening = open()
      opening.catch(() => (opening = undefined))
    }
    return opening
  }
  let tracer: Promise<string> | undefined
  /** The folder of nft, which few builds need. */
  function openTracer(): Promise<string> {
    if (!tracer) {
      const own = join(folder, 'tracer')
      tracer = copyPackage('@vercel/nft', own).then(() => own)
      tracer.catch(() => (tracer = undefined))
    }
    return tracer
  }

  const proxyUrl = `http://127.0.0.1:${PROXY_PORT}`
  const proxyEnvironment: Record<string, string> =
    egress === 'registry'
      ? {
          ...Object.fromEntries(
            [
              'HTTP_PROXY',
              'HTTPS_PROXY',
              'http_proxy',
              'https_proxy',
              'npm_config_proxy',
              'npm_config_https_proxy',
              'YARN_HTTP_PROXY',
              'YARN_HTTPS_PROXY',
            ].map((name) => [name, proxyUrl]),
          ),
          // For servers of the build itself.
          NO_PROXY: 'localhost,127.0.0.1,::1',
          no_proxy: 'localhost,127.0.0.1,::1',
          NODE_USE_ENV_PROXY: '1',
        }
      : {}
  // Otherwise each download would be retried for a minute.
  const offlineEnvironment: Record<string, string> =
    egress === 'none' ? { npm_config_offline: 'true', pnpm_config_offline: 'true', YARN_ENABLE_NETWORK: '0' } : {}

  function environmentOf(
    { variables, plan, limits }: BuildRequest,
    certificates: Record<string, string>,
  ): Record<string, string> {
    const options = variables['NODE_OPTIONS'] ?? ''
    return {
      LANG: 'C.UTF-8',
      CI: '1',
      VERCEL: '1',
      NO_COLOR: '1',
      DO_NOT_TRACK: '1',
      ASTRO_TELEMETRY_DISABLED: '1',
      NEXT_TELEMETRY_DISABLED: '1',
      npm_config_update_notifier: 'false',
      ...(plan.usesNext && { NEXT_ADAPTER_PATH: INSIDE.nextAdapter }),
      ...plan.environment,
      ...certificates,
      ...proxyEnvironment,
      ...offlineEnvironment,
      ...variables,
      PATH: [
        ...(plan.manager.isFetched ? [FETCHED_PROGRAMS] : []),
        `${INSIDE.programs}/${plan.manager.kind}`,
        `${INSIDE.programs}/${COMMON}`,
        // Package managers add these for scripts, but nothing adds them for commands of vercel.json.
        ...[...upwards(plan.root)].map((each) => `${inside(each)}/node_modules/.bin`),
        '/usr/local/bin:/usr/bin:/bin',
      ].join(':'),
      HOME: INSIDE.home,
      TMPDIR: INSIDE.tmp,
      NODE_OPTIONS: `${heapOption(limits.memoryMb)} ${options}`.trim(),
    }
  }

  const tmpBytesOf = ({ memoryMb }: Pick<BuildLimits, 'memoryMb'>): number =>
    Math.min(TMP_BYTES, Math.floor(memoryMb / 4) * MIB)
  const limitsOf = ({ memoryMb, diskMb }: Pick<BuildLimits, 'memoryMb' | 'diskMb'>): SandboxLimits => ({
    memoryBytes: memoryMb * MIB,
    processes: PROCESSES_MAX,
    endsAtProcesses: true,
    openFiles: OPEN_FILES,
    fileBytes: diskMb * MIB,
    tmpBytes: tmpBytesOf({ memoryMb }),
    cpuShare: CPU_SHARE,
  })

  interface Run {
    name: string
    networkId: string
    folder: string
    /** True if the job changes nothing there: what was read of it before the job holds after it. */
    isReadOnly?: boolean
    mounts: Mount[]
    job: Job
    limits: SandboxLimits
    timeoutMs: number
    /** Limit of its folder; undefined if nothing grows there. */
    diskBytesMax: number | undefined
    signal: AbortSignal
    onMessage(message: RunnerMessage): void
    onOutput(stream: 'stdout' | 'stderr', chunk: Buffer): void
  }

  /** Runs a job to its end, or to the first limit. Returns that limit; undefined if it ended by itself. */
  async function run(request: Run): Promise<{ exit: SandboxExit; limit: Limit | undefined }> {
    const { sandbox, mounts } = await opened()
    const { signal, timeoutMs, diskBytesMax } = request
    signal.throwIfAborted()
    await sandbox.makeWritable(request.folder)
    const child: SandboxedProcess = await sandbox.start({
      name: request.name,
      networkId: request.networkId,
      argv: [`${INSIDE.programs}/${COMMON}/node`, `${INSIDE.runner}/main.mts`],
      env: {
        PATH: '/usr/bin:/bin',
        HOME: INSIDE.home,
        NODE_OPTIONS: heapOption(request.limits.memoryBytes / MIB),
      },
      mounts: [
        ...mounts,
        { source: request.folder, target: INSIDE.build, isGiven: true, isWritable: request.isReadOnly !== true },
        ...request.mounts,
      ],
      workingDirectory: INSIDE.project,
      limits: request.limits,
    })
    let limit: Limit | undefined
    const end = (why: typeof limit): void => {
      limit ??= why
      child.kill()
    }
    const onAbort = (): void => child.kill()
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    const timer = setTimeout(() => end('time'), timeoutMs)
    const disk =
      diskBytesMax === undefined
        ? undefined
        : watchDisk({
            folder: request.folder,
            bytesMax: diskBytesMax,
            entriesMax: ENTRIES_MAX,
            listProcesses: () => listDescendants(child.pid),
            onFull: end,
            onWarning: (error) => onWarning('the disk of a build could not be measured', error),
          })
    try {
      child.stdin.end(JSON.stringify(request.job))
      const budget = openOutputBudget()
      const reading = Promise.all([
        readOutput(child.stdout, budget, (chunk) => request.onOutput('stdout', chunk)),
        readOutput(child.stderr, budget, (chunk) => request.onOutput('stderr', chunk)),
        readRunnerMessages(child.control, request.job.steps.length, request.onMessage),
      ])
      const exit = await child.exited
      await reading
      if (exit.cause !== 'exit' && exit.cause !== 'killed') limit ??= exit.cause
      // A program that fails on a full disk can end before the next measurement.
      if (limit === undefined && exit.code !== 0 && !signal.aborted) limit = await disk?.look()
      return { exit, limit }
    } finally {
      clearTimeout(timer)
      disk?.stop()
      signal.removeEventListener('abort', onAbort)
    }
  }

  const runStep = (
    { argv, shown, folder: below }: Command,
    more: { unset?: string[]; modules?: string } = {},
  ): Step => ({
    kind: 'run',
    argv,
    shown,
    folder: inside(below),
    unset: [],
    ...more,
  })
  const proxyOf = (proxy: RegistryProxy | undefined): Pick<Job, 'proxy'> =>
    proxy === undefined ? {} : { proxy: { socket: INSIDE.registry, port: PROXY_PORT } }

  return {
    egress,
    async findObstacle() {
      try {
        await opened()
        return undefined
      } catch (error) {
        return error instanceof Error ? error.message : String(error)
      }
    },
    async build(request) {
      const { plan, log, limits, signal, cache } = request
      const { certificates } = await opened()
      // Each build has its own, so that none uses up the connections of another.
      await using proxy =
        egress === 'registry'
          ? await openRegistryProxy(options.registries, join(folder, `registry-${++proxies}.sock`))
          : undefined
      for (const name of ['home', 'tmp']) await mkdir(join(request.folder, name), { recursive: true, mode: 0o700 })
      const { fetch, manager } = plan
      const steps: { step: Step; shown: string | undefined; explain?: () => string | undefined }[] = []
      if (cache !== undefined) {
        await chmod(cache, 0o644)
        steps.push({ step: { kind: 'restore', file: INSIDE.cache, into: INSIDE.project }, shown: undefined })
      }
      const install = cache === undefined ? plan.install : plan.reinstall
      if (fetch)
        steps.push({
          step: runStep(fetch),
          shown: fetch.shown,
          explain: () =>
            `The project's package manager, ${pinnedManager(manager.kind).command} ${manager.version}, cannot be installed (${plan.managerBy})`,
        })
      let printed = ''
      if (install)
        steps.push({
          // With NODE_ENV=production package managers skip the packages that builds need.
          step: runStep(install, {
            unset: ['NODE_ENV'],
            ...(manager.kind === 'pnpm' && { modules: inside(pathIn(install.folder, 'node_modules/.modules.yaml')) }),
          }),
          shown: install.shown,
          explain: () => plan.lockfile && explainInstallFailure(manager.kind, plan.lockfile, printed),
        })
      for (const build of plan.builds) steps.push({ step: runStep(build), shown: build.shown })
      let failure: Extract<RunnerMessage, { ok: false }> | undefined
      const { exit, limit } = await run({
        name: `build-${request.name}`,
        networkId: request.name,
        folder: request.folder,
        mounts: [
          ...(cache === undefined ? [] : [{ source: cache, target: INSIDE.cache }]),
          ...(proxy === undefined ? [] : [{ source: proxy.socket, target: INSIDE.registry }]),
        ],
        job: {
          environment: environmentOf(request, certificates),
          steps: steps.map(({ step }) => step),
          ...proxyOf(proxy),
        },
        limits: limitsOf(limits),
        timeoutMs: limits.timeoutMs,
        diskBytesMax: limits.diskMb * MIB,
        signal,
        onMessage(message) {
          if (message.ok) {
            const { ignored = [] } = message
            if (ignored.length > 0)
              log.line('WARN', warnOfIgnoredBuilds(ignored, Number(manager.version.split('.', 1)[0])))
            return
          }
          failure = message
          if (steps[message.step]?.step.kind === 'restore')
            log.line('WARN', 'What an earlier build kept could not be unpacked, and is left out')
        },
        onOutput(stream, chunk) {
          printed = (printed + chunk.toString('latin1')).slice(-PRINTED_KEPT)
          log.output(stream, chunk)
        },
      })
      signal.throwIfAborted()
      if (limit !== undefined) throw new BuildFailure(limitSentence(limit, limits))
      if (exit.code === 0) return
      const { shown, explain } = steps[failure?.step ?? -1] ?? {}
      if (failure === undefined || shown === undefined)
        throw new BuildFailure(
          `The build ended ${exit.signal === null ? `with exit code ${exit.code}` : `by ${exit.signal}`}`,
        )
      const { message, signal: by, code, isTmpFull } = failure
      const ended = by === null ? `ended with exit code ${code}` : `was ended by ${by}`
      const hint = isTmpFull === true ? `. /tmp is full: it holds ${tmpBytesOf(limits) / MIB} MB, TMPDIR more` : ''
      const because = explain?.()
      throw new BuildFailure(
        `${because === undefined ? '' : `${because}. `}\`${shown}\` ${message === undefined ? ended : `could not be started: ${message}`}${hint}`,
      )
    },
    async pack({ name, folder: own, plan, bytesMax, signal }) {
      const kept = join(own, '..', 'kept')
      const { sandbox } = await opened()
      await sandbox.makeWritable(kept)
      const file = join(kept, 'cache.tar.zst')
      const step: Step = {
        kind: 'pack',
        project: INSIDE.project,
        root: inside(plan.root),
        file: `${INSIDE.kept}/cache.tar.zst`,
        bytesMax,
      }
      const { exit, limit } = await run({
        name: `pack-${name}`,
        networkId: name,
        folder: own,
        mounts: [{ source: kept, target: INSIDE.kept, isWritable: true }],
        job: { environment: {}, steps: [step] },
        limits: { ...limitsOf(PACK_LIMITS), fileBytes: bytesMax },
        timeoutMs: PACK_MS,
        diskBytesMax: undefined,
        signal,
        onMessage: () => {},
        onOutput: () => {},
      })
      signal.throwIfAborted()
      if (exit.code !== 0 || limit !== undefined) return undefined
      return (await lstat(file)).isFile() ? file : undefined
    },
    async trace({ name, folder: own, plan, entry, signal }) {
      const chunks: Buffer[] = []
      let bytes = 0
      const step: Step = {
        kind: 'trace',
        project: INSIDE.project,
        folder: inside(plan.root),
        entry: inside(entry),
        tracer: INSIDE.tracer,
      }
      const { exit, limit } = await run({
        name: `trace-${name}`,
        networkId: name,
        folder: own,
        isReadOnly: true,
        mounts: [{ source: await openTracer(), target: INSIDE.tracer }],
        job: { environment: {}, steps: [step] },
        limits: limitsOf(TRACE_LIMITS),
        timeoutMs: TRACE_MS,
        diskBytesMax: undefined,
        signal,
        onMessage: () => {},
        onOutput: (stream, chunk) => {
          if (stream !== 'stdout') return
          bytes += chunk.length
          if (bytes <= TRACE_BYTES_MAX) chunks.push(chunk)
        },
      })
      signal.throwIfAborted()
      if (exit.code !== 0 || limit !== undefined || bytes > TRACE_BYTES_MAX) return undefined
      return readTrace(Buffer.concat(chunks))
    },
    async close() {
      const now = await opening?.catch(() => undefined)
      await now?.sandbox.close()
    },
  }
}
