import { cancelDeployment, type Deployment, isNotFound, listDeploymentHostnames } from '@platform/sdk'
import { folder as folderSource } from '@platform/sdk/node'
import { type PackPlan, planPack, zip } from '@platform/sdk/pack'
import { deployArchive, DeploymentFailed, packLimits } from '@platform/sdk/uploads'
import type { Context, EnvironmentSlug } from '../context.ts'
import { explain } from '../failure.ts'
import { type Checkout, readCheckout } from '../git.ts'
import { CommandFailure, type Next, type Outcome, refuse, goOn } from '../outcome.ts'
import { type Place, reachPlace, readApplications, unlessForbidden, unlessMissing } from '../places.ts'
import { bytesText, countText, inOneLine } from '../visible-text.ts'
import { findServed } from './deployments.ts'
import { checkFolder } from './link.ts'

interface DeployOptions {
  folder?: string | undefined
  app?: string | undefined
  prod: boolean
  preview: boolean
  prebuilt: boolean
  dryRun: boolean
  include?: readonly string[] | undefined
  wait: boolean
}

const LEFT_SHOWN = 20
const AWAY_MS = 300_000

/** Deploys a folder, and follows the deployment to its end. */
export async function deploy(context: Context, options: DeployOptions): Promise<Outcome> {
  const { output, world, signal } = context
  const startedAt = performance.now()
  if (options.prod && options.preview) refuse('--prod and --preview name two environments: give one of them')
  const environment: EnvironmentSlug = options.preview ? 'preview' : 'production'
  const folder = await checkFolder(context, options.folder)
  if (options.dryRun) return dryRun(context, folder, options)

  const place = await reachPlace(context, { app: options.app, folder })
  const [checkout, known] = await Promise.all([readCheckout(folder, world.env), lookAt(context, place)])
  const plan = await planOf(folder, options, { ...known, signal })
  showPlan(context, plan, options)
  checkPlan(plan)
  if (checkout) showCheckout(context, checkout)

  const platform = await context.platform()
  let created: Deployment | undefined
  let isSent = false
  const deployment = await deployArchive(platform, {
    deployment: { applicationId: place.applicationId, environment, ...(checkout && { git: checkout.git }) },
    archive: zip(plan),
    wait: options.wait,
    signal,
    onState: watchConnection(context),
    onProgress(progress) {
      if (progress.step === 'created') {
        created = progress.deployment
        output.note(`Deployment ${created.id} to ${environment}`)
      } else if (progress.step === 'sent') output.progress(`Sent ${bytesText(progress.sentBytes)}`)
      else if (progress.step === 'complete') isSent = true
      else if (progress.step === 'log') output.note(progress.line.message)
      else output.note(output.styled('dim', progress.status))
    },
  }).catch(async (error: unknown) => {
    throw await explainEnd(context, error, { created, isSent })
  })

  const data = { ...deployment, ...described(plan), durationMs: Math.round(performance.now() - startedAt) }
  if (!options.wait)
    return {
      data: { ...data, addresses: [deployment.url] },
      text: deployment.url,
      next: [goOn('follow it', 'logs', deployment.id, '--build', '--follow')],
    }
  const addresses = await addressesOf(context, deployment).catch(() => [deployment.url])
  for (const address of addresses)
    if (address !== deployment.url) output.note(`Served at ${output.styled('cyan', address)}`)
  const { applicationId, isCurrent } = deployment
  const isUndone =
    isCurrent && (await findServed(context, applicationId, environment).catch(() => undefined))?.previous !== undefined
  const next: Next[] = isUndone ? [goOn('go back', 'rollback', '--app', applicationId, '--env', environment)] : []
  return { data: { ...data, addresses }, text: deployment.url, next }
}

/** Tells of connections that break while the platform builds, and gives up on one that does not come back. */
function watchConnection({ output, giveUp }: Context): (state: 'live' | 'waiting' | 'polling') => void {
  let timer: NodeJS.Timeout | undefined
  return (state) => {
    if (state !== 'waiting') {
      clearTimeout(timer)
      timer = undefined
    } else if (!timer) {
      output.note('The connection is gone: trying again')
      const failure = new CommandFailure('unreachable', `The platform has not answered for ${AWAY_MS / 60_000} minutes`)
      timer = setTimeout(() => giveUp(failure), AWAY_MS)
    }
  }
}

interface Known {
  rootDirectory?: string | undefined
  limits?: Awaited<ReturnType<typeof packLimits>> | undefined
}

/** What the application and its organization say of archives. Who may be told neither, such as a key, is told by the platform. */
async function lookAt(context: Context, { applicationId, organizationId, application: known }: Place): Promise<Known> {
  const applications = known
    ? [known]
    : await unlessForbidden(unlessMissing(readApplications(context, organizationId)).then((found) => found ?? []))
  const application = applications?.find(({ id }) => id === applicationId)
  if (applications && !application && organizationId !== undefined)
    throw new CommandFailure(
      'not_found',
      `The application ${applicationId}, which this folder is linked to, is not in your reach`,
      {
        next: [goOn('link the folder to another one', 'link')],
      },
    )
  const limits =
    organizationId === undefined
      ? undefined
      : await unlessForbidden(packLimits(await context.platform(), { organizationId }, context.call))
  return { rootDirectory: application?.rootDirectory ?? undefined, limits }
}

/** Throws a failure for flags that the folder does not fit. */
const planOf = (
  folder: string,
  { prebuilt, include }: DeployOptions,
  more: Known & { signal: AbortSignal },
): Promise<PackPlan> =>
  planPack(folderSource(folder), { prebuilt, ...(include && { include }), ...more }).catch((error: unknown) => {
    // What the file system refuses has a code.
    if (more.signal.aborted || !(error instanceof Error) || 'code' in error) throw error
    return refuse(error.message, { cause: error })
  })

/** What a plan sends, for the document. */
const described = ({ files, bytes, left }: PackPlan) => ({ files: files.length, bytes, left })

function showPlan({ output }: Context, { files, bytes, left }: PackPlan, { include = [] }: DeployOptions): void {
  output.note(`${countText(files.length, 'file')}, ${bytesText(bytes)}`)
  for (const { path, why } of left.slice(0, LEFT_SHOWN))
    output.note(output.styled('dim', inOneLine(`Left out: ${path} (${why})`)))
  if (left.length > LEFT_SHOWN)
    output.note(output.styled('dim', `and ${left.length - LEFT_SHOWN} more; --dry-run --json lists all`))
  if (left.length > 0 && include.length === 0)
    output.note(output.styled('dim', '--include <path> sends a path all the same'))
}

/** Throws a failure for what the platform would refuse. */
function checkPlan({ refusals, tooLarge, files }: PackPlan): void {
  const [first] = refusals
  if (first === undefined && files.length > 0) return
  throw new CommandFailure('usage', first === undefined ? 'There is no file to deploy' : refusals.join('\n'), {
    data: { refusals, tooLarge },
    hint: 'Nothing was sent.',
  })
}

function showCheckout({ output }: Context, { git, changes }: Checkout): void {
  const at = `${git.commit?.slice(0, 8)}${git.branch ? ` on ${git.branch}` : ''}`
  output.note(
    changes > 0
      ? `Deploying the folder as it is: ${at} with ${countText(changes, 'uncommitted change')}`
      : `Deploying ${at}`,
  )
}

async function dryRun(context: Context, folder: string, options: DeployOptions): Promise<Outcome> {
  const plan = await planOf(folder, options, { signal: context.signal })
  const paths = plan.files.map(({ path }) => path)
  if (!context.output.isJson) showPlan(context, plan, options)
  checkPlan(plan)
  return { data: { ...described(plan), paths, sent: false }, text: paths.join('\n') }
}

/** Where visitors find a deployment: its own address, and those of its environment while they serve it. */
async function addressesOf(context: Context, { id, url }: Deployment): Promise<string[]> {
  const { items } = await listDeploymentHostnames(await context.platform(), { id }, context.call)
  return [...new Set([url, ...items.filter(({ active }) => active).map((hostname) => hostname.url)])]
}

/** Says what became of a deployment that did not end well, and cancels it where nothing would ever come of it. */
async function explainEnd(
  context: Context,
  error: unknown,
  { created, isSent }: { created: Deployment | undefined; isSent: boolean },
): Promise<unknown> {
  if (error instanceof DeploymentFailed || !created) return error
  const { id } = created
  if (isSent) {
    const failure = explain(error, context)
    return new CommandFailure(failure.reason, `${failure.message}: the build goes on`, {
      hint: failure.hint,
      requestId: failure.requestId,
      data: { id },
      next: [goOn('follow it', 'logs', id, '--build', '--follow'), goOn('stop it', 'cancel', id)],
    })
  }
  const failure = explain(error, context)
  // The signal has ended: this call has its own time.
  const isCancelled = await cancelDeployment(await context.platform(), { id }, { timeoutMs: 5_000 }).then(
    () => true,
    (reason: unknown) => isNotFound(reason),
  )
  return new CommandFailure(
    failure.reason,
    isCancelled ? `${failure.message}: the deployment was cancelled` : failure.message,
    {
      hint: failure.hint,
      requestId: failure.requestId,
      data: { ...(failure.data as object | undefined), id },
      next: failure.next,
    },
  )
}
