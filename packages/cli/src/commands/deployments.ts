import {
  all,
  cancelDeployment,
  type Deployment,
  getDeployment,
  listCrons,
  listDeploymentFiles,
  listDeploymentFunctions,
  listDeployments,
  listHostnames,
  promoteDeployment,
} from '@platform/sdk'
import type { Context, EnvironmentSlug } from '../context.ts'
import { CommandFailure, type Next, type Outcome, refuse, goOn } from '../outcome.ts'
import { checkId, reachPlace, unlessForbidden } from '../places.ts'
import { take } from '../lists.ts'
import { bytesText, inOneLine, tableOf } from '../visible-text.ts'

interface Of {
  app?: string | undefined
  env?: EnvironmentSlug | undefined
}

const firstLine = (text: string): string => text.split('\n', 1)[0] ?? ''

/** What a deployment was made of, in a few words. */
const commitOf = ({ git }: Deployment): string =>
  git === null
    ? ''
    : [
        git.commit?.slice(0, 8),
        git.branch && `(${git.branch})`,
        git.isDirty && '+ changes',
        git.message && firstLine(git.message),
      ]
        .filter(Boolean)
        .join(' ')

const stateOf = ({ status, isCurrent, retiredAt }: Deployment): string =>
  retiredAt === null ? `${status}${isCurrent ? ' (current)' : ''}` : 'retired'

/** Deployments of an application, newest first. */
export async function listOf(
  context: Context,
  { app, env, status, limit }: Of & { status?: Deployment['status'] | undefined; limit?: number | undefined },
): Promise<Outcome> {
  const { applicationId } = await reachPlace(context, { app })
  const platform = await context.platform()
  const query = { applicationId, ...(env && { environment: env }), ...(status && { status }) }
  const deployments = await take(
    all(listDeployments, platform, { ...query, ...(limit && { limit: Math.min(limit, 100) }) }, context.call),
    limit,
  )
  const rows = deployments.map((each) => [
    each.id,
    each.environment,
    stateOf(each),
    each.createdAt.slice(0, 19).replace('T', ' '),
    commitOf(each),
  ])
  const text =
    rows.length === 0
      ? 'There is no deployment'
      : tableOf(['ID', 'ENVIRONMENT', 'STATE', 'CREATED (UTC)', 'COMMIT'], rows)
  return { data: deployments, text }
}

/** A deployment with everything that is in it. */
export async function inspect(context: Context, typedId: string): Promise<Outcome> {
  const id = checkId(typedId, 'deployment')
  const platform = await context.platform()
  const [deployment, files, functions, crons] = await Promise.all([
    getDeployment(platform, { id }, context.call),
    take(all(listDeploymentFiles, platform, { id }, context.call)),
    take(all(listDeploymentFunctions, platform, { id }, context.call)),
    take(all(listCrons, platform, { id }, context.call)),
  ])
  const { environment, url, failureReason, sizeBytes, variables, createdAt } = deployment
  const facts: [string, string | undefined][] = [
    ['State', stateOf(deployment)],
    ['Failed', failureReason ?? undefined],
    ['Environment', environment],
    ['Address', url],
    ['Created', createdAt],
    ['Commit', commitOf(deployment) || undefined],
    ['Repository', deployment.git?.repository ?? undefined],
    ['Files', `${files.length}${sizeBytes === null ? '' : `, ${bytesText(sizeBytes)}`}`],
    ['Functions', functions.map(({ path, kind }) => `${path} (${kind})`).join(', ') || undefined],
    ['Crons', crons.map(({ path, schedule }) => `${schedule} ${path}`).join(', ') || undefined],
    ['Variables', variables?.map(({ key }) => key).join(', ') || undefined],
  ]
  const text = facts
    .flatMap(([name, value]) => (value === undefined ? [] : [`${name.padEnd(12)}${inOneLine(value)}`]))
    .join('\n')
  const next = deployment.status === 'FAILED' ? [goOn('read why it failed', 'logs', id, '--build')] : []
  return { data: { ...deployment, files, functions, crons }, text, next }
}

/** What an environment serves, and the newest deployment before it that can still be served. */
export async function findServed(
  context: Context,
  applicationId: string,
  environment: EnvironmentSlug,
): Promise<{ current?: Deployment; previous?: Deployment }> {
  const query = { applicationId, environment, status: 'ACTIVE' } as const
  let current: Deployment | undefined
  for await (const each of all(listDeployments, await context.platform(), query, context.call))
    if (each.isCurrent) current = each
    else if (current && each.retiredAt === null) return { current, previous: each }
  return current ? { current } : {}
}

/** Promotes a deployment. `next` goes back to what was served before, if that was another one. */
async function promoted(
  context: Context,
  id: string,
  before: Deployment | undefined,
): Promise<{ deployment: Deployment; next: Next[] }> {
  const deployment = await promoteDeployment(await context.platform(), { id }, context.call)
  const next = before && before.id !== id ? [goOn('go back', 'promote', before.id)] : []
  return { deployment, next }
}

async function getTarget(context: Context, typedId: string): Promise<Deployment> {
  const id = checkId(typedId, 'deployment')
  return getDeployment(await context.platform(), { id }, context.call)
}

/** Makes a deployment the current one of its environment. */
export async function promote(context: Context, typedId: string): Promise<Outcome> {
  const targetId = checkId(typedId, 'deployment')
  // Who may not look promotes all the same, and is not told what was served before.
  const target = await unlessForbidden(getTarget(context, targetId))
  const served = target && (await findServed(context, target.applicationId, target.environment))
  const { deployment, next } = await promoted(context, targetId, served?.current)
  const { id, environment } = deployment
  return {
    data: deployment,
    text: `${id} is the current deployment of ${environment}, with the variables that it was deployed with`,
    next,
  }
}

/** Goes back to a deployment, by default the newest one before the current one that can still be served. */
export async function rollback(
  context: Context,
  { id: typedId, app, env = 'production' }: Of & { id?: string | undefined },
): Promise<Outcome> {
  if (typedId !== undefined) checkId(typedId, 'deployment')
  const { applicationId } = await reachPlace(context, { app })
  const chosen = typedId === undefined ? undefined : await getTarget(context, typedId)
  if (chosen && chosen.applicationId !== applicationId)
    refuse(`The deployment ${chosen.id} is one of the application ${chosen.applicationId}, not of ${applicationId}`)
  const environment = chosen?.environment ?? env
  const { current, previous } = await findServed(context, applicationId, environment)
  const target = chosen ?? previous
  if (!target)
    throw new CommandFailure(
      'not_found',
      current
        ? `There is nothing to go back to: no deployment before ${current.id} is still there in ${environment}`
        : `There is nothing to go back from: ${environment} has no current deployment`,
      { next: [goOn('see all', 'deployments', '--app', applicationId)] },
    )
  const { deployment, next } = await promoted(context, target.id, current)
  const { id, createdAt } = deployment
  return {
    data: deployment,
    text: `Back to ${id} of ${createdAt} in ${environment}${commitOf(deployment) && `: ${inOneLine(commitOf(deployment))}`}. Its variables came back with it`,
    next,
  }
}

/** Cancels a deployment that is not active yet. */
export async function cancel(context: Context, typedId: string): Promise<Outcome> {
  const id = checkId(typedId, 'deployment')
  const deployment = await cancelDeployment(await context.platform(), { id }, context.call)
  return { data: deployment, text: `Cancelled ${id}` }
}

/** Opens an address where there is a terminal, and prints it. */
export async function open(
  context: Context,
  { id: typedId, app, env = 'production' }: Of & { id?: string | undefined },
): Promise<Outcome> {
  const url = typedId === undefined ? await addressOf(context, app, env) : (await getTarget(context, typedId)).url
  const isOpened = context.isInteractive
  if (isOpened) context.world.openAddress(url)
  return { data: { url, isOpened }, text: url }
}

async function addressOf(context: Context, app: string | undefined, environment: EnvironmentSlug): Promise<string> {
  const { applicationId } = await reachPlace(context, { app })
  const { current } = await findServed(context, applicationId, environment)
  if (!current)
    throw new CommandFailure('not_found', `${environment} has no current deployment`, {
      next: [goOn('deploy this folder', 'deploy')],
    })
  const { items } = await listHostnames(await context.platform(), { id: applicationId }, context.call)
  const { id } = current
  return (
    items.find(({ type, active, deploymentId }) => type !== 'DEPLOYMENT' && active && deploymentId === id)?.url ??
    current.url
  )
}
