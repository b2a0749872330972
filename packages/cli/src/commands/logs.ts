import {
  all,
  type ApplicationRuntimeLog,
  type BuildLog,
  follow,
  getDeployment,
  getRequest,
  listApplicationRuntimeLogs,
  listBuildLogs,
  listDeployments,
  listRequests,
  listRuntimeLogs,
  type RequestLog,
  type RuntimeLog,
  streamApplicationRuntimeLogs,
  streamBuildLog,
  streamRequests,
  streamRuntimeLogs,
} from '@platform/sdk'
import type { Context, EnvironmentSlug } from '../context.ts'
import { interrupted } from '../interrupted.ts'
import { CommandFailure, type Outcome, refuse, goOn } from '../outcome.ts'
import { filtered, take } from '../lists.ts'
import { checkId, reachPlace } from '../places.ts'
import { inOneLine } from '../visible-text.ts'

interface LogsOptions {
  id?: string | undefined
  app?: string | undefined
  env?: EnvironmentSlug | undefined
  build: boolean
  requests: boolean
  follow: boolean
  since?: Date | undefined
  level?: RuntimeLog['level'] | undefined
  search?: string | undefined
  request?: string | undefined
  limit?: number | undefined
}

const LINES_SHOWN = 100
const PAGE_MAX = 1_000

type Line = RuntimeLog | ApplicationRuntimeLog

/** Lines of Functions, of a build, or requests. */
export async function logs(context: Context, options: LogsOptions): Promise<Outcome> {
  const { id, build, requests, level, search, request } = options
  if (build && requests) refuse('--build and --requests show two logs: give one of them')
  if (id !== undefined) checkId(id, 'deployment')
  if (build && request !== undefined) refuse('--request is about what Functions print, and --build is about the build')
  if (requests && (search !== undefined || level !== undefined))
    refuse('--search and --level are about lines, and --requests shows requests')
  if (requests && request !== undefined && options.follow) refuse('--request shows one request: leave out --follow')
  if (build && options.follow && options.limit !== undefined)
    refuse('--limit is about what is there, and --follow goes on')
  if (id !== undefined && (options.app !== undefined || options.env !== undefined))
    refuse('The id names the deployment: leave out --app and --env')
  if (build) return buildLog(context, options)
  return requests ? requestLog(context, options) : runtimeLog(context, options)
}

/** The end of a stream, which is its document. */
const counted = (lines: number, lost: number): Outcome => ({ data: { lines, lost } })

const timeOf = (createdAt: string): string => createdAt.replace('T', ' ').replace('Z', '')

/** Goes on with what comes, until somebody interrupts. */
async function followed<T>(context: Context, events: AsyncIterable<T>, show: (event: T) => unknown): Promise<void> {
  try {
    for await (const event of events) await show(event)
  } catch (error) {
    // Ctrl-C is how a person ends it.
    if (!context.world.signal.aborted) throw error
    throw interrupted(context.world.signal)
  }
}

const onState =
  ({ output }: Context) =>
  (state: 'live' | 'waiting' | 'polling'): void => {
    if (state !== 'live')
      output.progress(
        state === 'waiting' ? 'Connecting again…' : 'Too many streams are open: reading every five seconds',
      )
    else output.progress('')
  }

async function buildLog(
  context: Context,
  { id: typedId, app, env, follow: goesOn, since, level, search, limit }: LogsOptions,
): Promise<Outcome> {
  const platform = await context.platform()
  const id = typedId ?? (await newestOf(context, app, env))
  const { output, call, signal } = context
  let lines = 0
  const isWanted = ({ createdAt, type, message }: BuildLog): boolean =>
    (since === undefined || new Date(createdAt) >= since) &&
    (level === undefined || type === level) &&
    (search === undefined || message.toLowerCase().includes(search.toLowerCase()))
  const show = (line: BuildLog): void => {
    if (!isWanted(line)) return
    lines++
    const mark = line.type === 'INFO' ? '' : `${line.type} `
    output.event({ ...line, level: line.type, type: 'log' }, `${mark}${line.message}`)
  }
  if (!goesOn) {
    const wanted = (await take(all(listBuildLogs, platform, { id, limit: 1_000 }, call))).filter(isWanted)
    for (const line of limit === undefined ? wanted : wanted.slice(-limit)) show(line)
  } else
    await followed(
      context,
      follow(streamBuildLog, platform, { id }, { signal, onState: onState(context) }),
      (happened) => {
        if (happened.event === 'log') show(happened.data)
        else if (happened.event === 'status')
          output.event({ type: 'status', ...happened.data }, output.styled('dim', happened.data.status))
      },
    )
  const { status, failureReason } = await getDeployment(platform, { id }, call)
  // Reading the log succeeded. With --follow the outcome of the build counts.
  if (goesOn && status === 'FAILED')
    throw new CommandFailure('deployment_failed', failureReason ?? 'The deployment failed', { data: { id, lines: [] } })
  return { data: { id, status, failureReason, lines, lost: 0 } }
}

async function newestOf(
  context: Context,
  app: string | undefined,
  environment: EnvironmentSlug | undefined,
): Promise<string> {
  const { applicationId } = await reachPlace(context, { app })
  const query = { applicationId, ...(environment && { environment }), limit: 1 }
  const [newest] = await take(all(listDeployments, await context.platform(), query, context.call), 1)
  if (!newest)
    throw new CommandFailure('not_found', 'There is no deployment', {
      next: [goOn('deploy this folder', 'deploy')],
    })
  return newest.id
}

/** An id as the platform made it at that time, which a stream goes on after (UUIDv7). */
function idAt(time: Date): string {
  const digits = time.getTime().toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}-7000-8000-000000000000`
}

/** Before the first line there may be others on their way, by a clock that is not ours. */
const EARLIER_MS = 60_000

async function runtimeLog(context: Context, options: LogsOptions): Promise<Outcome> {
  const { id, app, env, follow: goesOn, since, level, search, request } = options
  const limit = options.limit ?? (since ? undefined : LINES_SHOWN)
  const { output, call, signal } = context
  const platform = await context.platform()
  const applicationId = id ?? (await reachPlace(context, { app })).applicationId
  const isOfEnvironment = environmentCheck(context, env)
  const filter = { ...(level && { level }), ...(search !== undefined && { search }) }
  const query = {
    id: applicationId,
    ...filter,
    limit: Math.min(limit ?? PAGE_MAX, PAGE_MAX),
    ...(request !== undefined && { requestId: request }),
    ...(since && { from: since.toISOString() }),
  }
  let lines = 0
  const show = (line: Line): void => {
    lines++
    const mark = line.level === 'INFO' ? '' : `${line.level} `
    output.event(
      { type: 'log', ...line },
      `${output.styled('dim', timeOf(line.createdAt))} ${inOneLine(line.functionName)} ${mark}${line.message}`,
    )
  }
  const isWanted = (line: Line): boolean | Promise<boolean> =>
    (request === undefined || line.requestId === request) &&
    (!('deploymentId' in line) || isOfEnvironment(line.deploymentId))
  const begunAt = new Date()
  const listed: AsyncIterable<Line> =
    id === undefined
      ? all(listApplicationRuntimeLogs, platform, query, call)
      : all(listRuntimeLogs, platform, query, call)
  // The list is newest first.
  const before = (await take(filtered(listed, isWanted), limit)).toReversed()
  for (const line of before) show(line)
  if (goesOn) {
    const lastEventId = before.at(-1)?.id ?? idAt(since ?? new Date(begunAt.getTime() - EARLIER_MS))
    const stream = { signal, lastEventId, onState: onState(context) }
    const seen = new Set(before.map((line) => line.id))
    const events: AsyncIterable<{ event: string; data: Line }> =
      id === undefined
        ? follow(streamApplicationRuntimeLogs, platform, { id: applicationId, ...filter }, stream)
        : follow(streamRuntimeLogs, platform, { id, ...filter }, stream)
    await followed(context, events, async ({ data }) => {
      if (!seen.has(data.id) && (await isWanted(data))) show(data)
    })
  }
  return counted(lines, 0)
}

/** Tells whether a deployment is one of an environment; always true without one. */
function environmentCheck(
  context: Context,
  environment: EnvironmentSlug | undefined,
): (deploymentId: string) => boolean | Promise<boolean> {
  if (environment === undefined) return () => true
  const known = new Map<string, Promise<boolean>>()
  return (id) => {
    const answer =
      known.get(id) ??
      context
        .platform()
        .then((platform) => getDeployment(platform, { id }, context.call))
        .then((deployment) => deployment.environment === environment)
    known.set(id, answer)
    return answer
  }
}

async function requestLog(context: Context, options: LogsOptions): Promise<Outcome> {
  const { id, app, env, follow: goesOn, since, request } = options
  const limit = options.limit ?? (since ? undefined : LINES_SHOWN)
  const { output, call, signal } = context
  const platform = await context.platform()
  const applicationId =
    id === undefined
      ? (await reachPlace(context, { app })).applicationId
      : (await getDeployment(platform, { id }, call)).applicationId
  const isOfEnvironment = environmentCheck(context, env)
  let [lines, lost] = [0, 0]
  const show = (each: RequestLog): void => {
    lines++
    const { method, hostname, path } = each.request
    const time = output.styled('dim', timeOf(each.startedAt))
    output.event(
      { type: 'request', ...each },
      `${time} ${each.response.status} ${method} ${hostname}${inOneLine(path)} ${each.metrics.durationMs} ms`,
    )
  }
  if (request !== undefined) {
    show(await getRequest(platform, { id: applicationId, requestId: request }, call))
    return counted(lines, lost)
  }
  const isWanted = ({ deployment }: RequestLog): boolean | Promise<boolean> => {
    if (id !== undefined && deployment?.id !== id) return false
    return env === undefined || (deployment !== null && isOfEnvironment(deployment.id))
  }
  const begunAt = new Date()
  const query = {
    id: applicationId,
    ...(id && { deploymentId: id }),
    ...(since && { from: since.toISOString() }),
    limit: Math.min(limit ?? PAGE_MAX, PAGE_MAX),
  }
  const before = (await take(filtered(all(listRequests, platform, query, call), isWanted), limit)).toReversed()
  for (const each of before) show(each)
  if (goesOn) {
    const lastEventId = before.at(-1)?.id ?? idAt(since ?? new Date(begunAt.getTime() - EARLIER_MS))
    const seen = new Set(before.map((each) => each.id))
    const stream = { signal, lastEventId, onState: onState(context) }
    await followed(context, follow(streamRequests, platform, { id: applicationId }, stream), async (happened) => {
      if (happened.event === 'request') {
        if (!seen.has(happened.data.id) && (await isWanted(happened.data))) show(happened.data)
        return
      }
      const { missed, isMore } = happened.data
      lost += missed
      output.event({ type: 'lost', missed, isMore }, `${missed}${isMore ? ' or more' : ''} requests are missing here`)
    })
  }
  return counted(lines, lost)
}
