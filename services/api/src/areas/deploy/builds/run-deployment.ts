import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Output, readOutput, UnusableOutput } from '@platform/build-output/read-output'
import { readVercel } from '@platform/build-output/read-vercel'
import { compileOutput } from '@platform/build-output/router'
import { explainStart } from '@platform/build-output/start-script'
import { FunctionFailure } from '@platform/function-runtime/function-runtime'
import { storableLine } from '@platform/runtime/storable-text'
import { eq } from 'drizzle-orm'
import {
  type FileContent,
  isCollected,
  type LinkedFunction,
  linkFiles,
  type ServedFile,
  type StoredFile,
  storeFiles,
} from '../artifacts/store-files.ts'
import { createFunctionCredential, storeFunctionCredential } from '../../credentials/api-keys/function-credential.ts'
import { applications } from '../../tenancy/applications/table.ts'
import { findBuildVariables, provisionVariables } from '../deployments/variables.ts'
import { storeCrons } from '../deployments/crons.ts'
import { activateDeployment, advance, type Deployment, failDeployment } from '../deployments/transitions.ts'
import { functionIdOf } from '../deployments/asset-id.ts'
import type { PrintedLine } from '../deployments/trials.ts'
import { quotaOf } from '../../tenancy/products/quotas.ts'
import { openUpload } from '../../storage/objects/read-object.ts'
import { insertLines, openBuildLog, sizeOf } from './build-log.ts'
import { type BuiltSource, buildSource, planSource } from './build-source.ts'
import {
  claimDeployment,
  deadlineMs,
  lateReason,
  enqueueNext,
  giveUpLease,
  type HeldStatus,
  renewLease,
  unturnedReason,
} from './claim.ts'
import { countOf, describeOutput, warnOfCode } from './describe-output.ts'
import { createRedaction } from '../deployments/redact.ts'
import { openKeptVerdicts } from './pattern-verdicts.ts'
import { LostHold, type Run, type RunDeps, Stopping } from './run.ts'
import { type Unpacked, unpackArchive } from './unpack-archive.ts'
import { openWorkFolder } from './work-folder.ts'

const HEARTBEAT_MS = 10_000
/** An artifact may be collected between look-up and link; the files are then stored again, at most three times in all. */
const LINK_TRIES = 3
const TRIED_MAX = 3
/** A Function that is not warm by then starts with its first request. */
const WARM_MS = 5_000
/** Lines of a Function that are looked at for the reason why it did not start. */
const PRINTED_MAX = 1_000

/** Concatenates the parts of an upload into a file. Returns its length in bytes. */
async function fetchArchive({ deps, deployment: { uploadId }, signal }: Run, path: string): Promise<number> {
  if (uploadId === null) throw new UnusableOutput('Nothing was uploaded')
  const file = await open(path, 'wx', 0o600)
  let length = 0
  try {
    for await (const chunk of openUpload(deps, uploadId)) {
      signal.throwIfAborted()
      await file.writeFile(chunk)
      length += chunk.length
    }
  } finally {
    await file.close()
  }
  return length
}

/** Unpacks the archive. Returns it with its length in bytes. */
async function unpack(run: Run, folder: string): Promise<{ unpacked: Unpacked; archiveBytes: number }> {
  const { deps, deployment, log, signal } = run
  const startedAt = performance.now()
  const archive = join(folder, 'archive.zip')
  const archiveBytes = await fetchArchive(run, archive)
  const unpackedBytesMax = await quotaOf(deps, deployment.organizationId, 'unpacked_bytes')
  const unpacked = await unpackArchive(archive, join(folder, 'files'), { unpackedBytesMax, signal })
  await rm(archive)
  const ms = Math.round(performance.now() - startedAt)
  log.line(
    'INFO',
    `Unpacked ${countOf(unpacked.files.size, 'file')} from an archive of ${sizeOf(archiveBytes)} in ${ms} ms`,
  )
  for (const warning of unpacked.warnings) log.line('WARN', warning)
  return { unpacked, archiveBytes }
}

/** The site's root, without leading or trailing slashes. Throws UnusableOutput if the archive has nothing there. */
async function rootOf({ deps, deployment }: Run, { files }: Unpacked): Promise<string> {
  const [application] = await deps.db
    .select({ rootDirectory: applications.rootDirectory })
    .from(applications)
    .where(eq(applications.id, deployment.applicationId))
  const chosen = deployment.rootDirectory ?? application?.rootDirectory ?? ''
  const root = chosen
    .split('/')
    .filter((segment) => segment !== '' && segment !== '.')
    .join('/')
  if (root !== '' && !files.keys().some((path) => path.startsWith(`${root}/`)))
    throw new UnusableOutput(`The root directory ${JSON.stringify(chosen)} is not in the archive`)
  return root
}

/** What is deployed: the archive itself, or the result of its build. */
type Deployable = Unpacked | BuiltSource

/** Stores the output and moves the deployment to PROVISIONING with its files linked. */
async function store(run: Run, tree: Deployable, { manifest, assets, functions, fallbacks }: Output): Promise<void> {
  const { deps, deployment, log, signal } = run
  const files: ServedFile[] = []
  const contents = new Map<string, FileContent>()
  const contentOf = async (source: string) => {
    const file = await tree.content(source)
    contents.set(file.source, file)
    return file
  }
  for (const { path, source, contentType } of assets) {
    const { sha256, bytes } = await contentOf(source)
    files.push({ path, sha256, bytes, contentType })
  }
  const shownFirst: StoredFile[] = []
  for (const { path, source } of fallbacks) {
    const { sha256, bytes } = await contentOf(source)
    shownFirst.push({ path, sha256, bytes })
  }
  const linked: LinkedFunction[] = []
  for (const { files: own, links = new Map<string, string>(), ...described } of functions) {
    const stored: LinkedFunction['files'][number][] = []
    for (const [path, source] of own) {
      const { sha256, bytes, isExecutable } = await contentOf(source)
      stored.push({ path, sha256, bytes, isExecutable })
    }
    linked.push({ row: { id: functionIdOf(deployment.id, described.path), ...described }, files: stored, links })
  }
  // Functions share most of their files; each counts once.
  const sizeBytes = contents.values().reduce((sum, { bytes }) => sum + bytes, 0)
  for (let tries = 1; ; tries++) {
    const { newFiles, newBytes } = await storeFiles(deps, contents.values(), signal)
    log.line('INFO', `Stored ${countOf(newFiles, 'new file')} (${sizeOf(newBytes)}); the site has ${sizeOf(sizeBytes)}`)
    // The log is flushed before the state changes: the next transaction locks the row that log writes need.
    await log.flush()
    try {
      await run.enter('BUILDING', 'PROVISIONING', { output: manifest, sizeBytes }, async (tx) => {
        await linkFiles(tx, deployment.id, { served: files, functions: linked, fallbacks: shownFirst })
        await storeCrons(tx, deployment.id, manifest.crons ?? [])
      })
      return
    } catch (error) {
      if (!isCollected(error) || tries === LINK_TRIES) throw error
    }
  }
}

/** The Functions to try first: middleware, the one that answers `/`, and the worker or server. */
function functionsToTry({ manifest, assets }: Output): string[] {
  const paths = new Set(assets.map(({ path }) => path))
  const request = { method: 'GET', path: '/', query: '', host: '', headers: {}, protocol: 'https' } as const
  let answer = compileOutput(manifest).route(request, (path) => paths.has(path))
  while (answer.kind === 'middleware') answer = answer.resume({ status: 200, headers: [['x-middleware-next', '1']] })
  const functionPaths = [
    ...manifest.routes.flatMap(({ middlewarePath }) => middlewarePath?.replace(/^\//, '') ?? []),
    ...(answer.kind === 'function' || answer.kind === 'prerender' ? [answer.path] : []),
    ...(manifest.kind === 'build-output' ? [] : Object.keys(manifest.functions)),
  ]
  return [...new Set(functionPaths.flatMap((path) => manifest.functions[path]?.function ?? []))].slice(0, TRIED_MAX)
}

/**
 * Starts what the first visitors will need, so that a Function that cannot start fails its deployment instead of their requests.
 */
async function tryFunctions(
  { deps, deployment, log, signal }: Run,
  output: Output,
  madeServers: readonly string[],
): Promise<void> {
  const paths = functionsToTry(output)
  if (output.functions.length === 0) return
  const { obstacle } = await deps.trials.probe()
  if (obstacle !== undefined) throw new UnusableOutput(`Functions cannot run here: ${obstacle}`)
  for (const path of paths) {
    const startedAt = performance.now()
    const printed: string[] = []
    const onLine = ({ level, message }: PrintedLine): void => {
      if (printed.length < PRINTED_MAX) printed.push(message)
      log.line(level, `${path}: ${message}`)
    }
    try {
      await deps.trials.tryOut(deployment.id, path, { onLine, signal })
    } catch (error) {
      if (!(error instanceof FunctionFailure)) throw error
      const why = output.start && explainStart(output.start, printed, madeServers)
      throw new UnusableOutput(
        `The Function ${path} cannot be started. ${error.message}${why === undefined ? '' : ` ${why}`}`,
      )
    }
    log.line('INFO', `Started the Function ${path} in ${Math.round(performance.now() - startedAt)} ms`)
  }
}

/** Starts Functions where their predecessors run, so that the first visitors of a new deployment do not wait for them. */
async function warmEdges({ deps, deployment, log }: Run): Promise<void> {
  const startedAt = performance.now()
  const { id: deploymentId, environmentId, seq } = deployment
  const { asked, ready } = await deps.trials.warm({ environmentId, deploymentId, seq }, WARM_MS)
  const ms = Math.round(performance.now() - startedAt)
  if (ready > 0) log.line('INFO', `Its Functions run on ${countOf(ready, 'edge')} after ${ms} ms`)
  if (ready < asked)
    log.line('WARN', `On ${countOf(asked - ready, 'edge')} its Functions start with their first request`)
}

/** All steps of a deployment, from archive to live site. Returns what remains to be done afterwards. */
async function work(run: Run, folder: string, startedAt: number): Promise<BuiltSource['keep'] | undefined> {
  const { deps, deployment, log } = run
  const { unpacked, archiveBytes } = await unpack(run, folder)
  const root = await rootOf(run, unpacked)
  const kept = openKeptVerdicts(deps)
  // Before a build, so that a rule that cannot be read costs no minutes of one.
  const vercel = await readVercel(unpacked, root, { kept })
  for (const warning of vercel?.warnings ?? []) log.line('WARN', warning)
  const plan = await planSource(run, unpacked, root)
  await run.enter('STARTING', 'BUILDING', { archiveBytes })
  const built = plan && (await buildSource(run, folder, unpacked, plan))
  const tree: Deployable = built ?? unpacked
  const output = await readOutput(tree, built?.root ?? root, {
    kept,
    vercel,
    appsHostname: deps.appsUrl.hostname,
  })
  run.signal.throwIfAborted()
  describeOutput(log, output)
  warnOfCode(run, unpacked, root, output, plan)
  await store(run, tree, output)
  const credential = await createFunctionCredential(deps, deployment)
  const provisioned = await provisionVariables(deps, deployment, credential)
  await run.enter('PROVISIONING', 'PROVISIONING', provisioned, (tx, time) =>
    storeFunctionCredential(tx, time, credential),
  )
  await tryFunctions(run, output, built?.madeServers ?? [])
  if (output.functions.length > 0) await warmEdges(run)
  log.line('INFO', `Ready in ${((performance.now() - startedAt) / 1_000).toFixed(2)} s`)
  await log.flush()
  run.signal.throwIfAborted()
  if (!(await activateDeployment(deps, deps.now(), deployment))) throw new LostHold()
  return built?.keep
}

const ended = (sentence: string): string => (/[.!?}]$/.test(sentence) ? sentence : `${sentence}.`)

/** Fails a deployment that cannot be deployed; the reason becomes the last line of its log. */
async function failWith({ deps: { db, now }, deployment, log, redact, caveat }: Run, sentence: string): Promise<void> {
  // The reason may quote the author's input: names of files, patterns, folders.
  const reason = storableLine(redact(caveat === undefined ? sentence : `${ended(sentence)} ${caveat}`))
  await log.close()
  await db.transaction(async (tx) => {
    const time = now()
    await insertLines(tx, deployment, [{ at: time.getTime(), type: 'ERROR', text: reason }])
    await failDeployment(tx, time, deployment, reason, 'deployment.failed', { kind: 'platform' })
  })
}

/**
 * Works on a deployment until it has ended, if it can be claimed. Its author's errors end it as FAILED with a sentence. The
 * platform's errors leave it to the next worker: its lease lapses. A worker that lost its lease stops and writes nothing.
 *
 * stop: ends the work between two steps and releases the deployment, so that another worker can continue at once.
 * Never throws on behalf of a deployment; errors are logged.
 */
export async function runDeployment(deps: RunDeps, id: string, stop: AbortSignal): Promise<void> {
  const { logger, now } = deps
  const startedAt = performance.now()
  if (stop.aborted) {
    await deps.builds.enqueue(deps.db, id)
    return
  }
  const deployment = await claimDeployment(deps, id)
  if (!deployment) return
  const { organizationId, attempt } = deployment
  const ending = new AbortController()
  const end = (why: Error): void => ending.abort(why)
  const onStop = (): void => end(new Stopping())
  if (stop.aborted) onStop()
  stop.addEventListener('abort', onStop, { once: true })

  let state: HeldStatus = 'STARTING'
  let deadlineAt = deployment.deadlineAt.getTime()
  let isWaiting = false
  let heartbeat: NodeJS.Timeout | undefined
  let run: Run | undefined
  let isDeployed = false
  const next = (): Promise<void> =>
    enqueueNext(deps, organizationId).catch((error: unknown) =>
      logger.warn({ err: error, organizationId }, 'the next deployment is left to the sweep'),
    )
  try {
    await using folder = await openWorkFolder()
    let { leaseUntil } = deployment
    const beat = async (): Promise<void> => {
      if (now().getTime() >= deadlineAt) end(new UnusableOutput(isWaiting ? unturnedReason : lateReason(state)))
      try {
        await folder.touch()
        const renewed = await renewLease(deps, deployment)
        if (renewed) leaseUntil = renewed
        else end(new LostHold())
      } catch (error) {
        logger.warn({ err: error, deploymentId: id }, 'a lease was not renewed')
        if (now() >= leaseUntil) end(new LostHold())
      }
    }
    heartbeat = setInterval(() => void beat(), HEARTBEAT_MS).unref()
    const variables = await findBuildVariables(deps, deployment)
    const redaction = createRedaction(variables.secrets)
    const log = openBuildLog(deps, deployment, redaction)
    const { signal } = ending
    const extend = async (ms: number, what: 'work' | 'turn'): Promise<void> => {
      signal.throwIfAborted()
      const time = now()
      const set = { deadlineAt: new Date(time.getTime() + ms), buildStartedAt: what === 'work' ? time : null }
      if (!(await advance(deps.db, time, deployment, { from: state, to: state, set }))) throw new LostHold()
      deadlineAt = set.deadlineAt.getTime()
      isWaiting = what === 'turn'
    }
    run = {
      deps,
      deployment,
      variables,
      log,
      caveat: undefined,
      redact(text) {
        const redactor = redaction()
        return redactor.write(text) + redactor.end()
      },
      signal,
      async enter(from, to, set, inTransaction) {
        signal.throwIfAborted()
        const time = now()
        const nextDeadlineAt = to === from ? deadlineAt : time.getTime() + deadlineMs[to]
        await deps.db.transaction(async (tx) => {
          const isHeld = await advance(tx, time, deployment, {
            from,
            to,
            set: { ...set, deadlineAt: new Date(nextDeadlineAt) },
          })
          if (!isHeld) throw new LostHold()
          await inTransaction?.(tx, time)
        })
        state = to
        deadlineAt = nextDeadlineAt
      },
      beginAnew: (ms) => extend(ms, 'work'),
      beginWaiting: (ms) => extend(ms, 'turn'),
    }
    const keep = await work(run, folder.path, startedAt)
    logger.info({ deploymentId: id, attempt, ms: Math.round(performance.now() - startedAt) }, 'deployed')
    isDeployed = true
    await next()
    // The lease and its heartbeat have ended with the deployment; only the folder is needed a little longer.
    clearInterval(heartbeat)
    heartbeat = setInterval(() => void folder.touch().catch(() => {}), HEARTBEAT_MS).unref()
    await keep?.(stop)
  } catch (error) {
    if (isDeployed) logger.warn({ err: error, deploymentId: id }, 'what a build leaves for the next was not kept')
    else
      await endEarly(deps, deployment, run, error).catch((failure: unknown) =>
        // The lease lapses, and another worker finishes.
        logger.warn({ err: failure, deploymentId: id }, 'a deployment could not be ended'),
      )
  } finally {
    clearInterval(heartbeat)
    stop.removeEventListener('abort', onStop)
    await run?.log.close()
    if (!isDeployed) await next()
  }
}

async function endEarly(deps: RunDeps, deployment: Deployment, run: Run | undefined, error: unknown): Promise<void> {
  if (error instanceof LostHold) {
    deps.logger.info(
      { deploymentId: deployment.id, attempt: deployment.attempt },
      'a deployment was taken over or ended',
    )
    return
  }
  if (error instanceof Stopping) {
    await run?.log.close()
    await giveUpLease(deps, deployment)
    return
  }
  if (error instanceof UnusableOutput && run) {
    await failWith(run, error.message)
    return
  }
  deps.logger.warn({ err: error, deploymentId: deployment.id }, 'a deployment is left for another try')
}
