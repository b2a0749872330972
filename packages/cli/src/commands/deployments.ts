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
import { CommandFailure, type Outcome, refuse } from '../outcome.ts'
import { checkId, reachPlace } from '../places.ts'
import { bytesText, inOneLine, tableOf } from '../visible-text.ts'

interface Of {
  app?: string | undefined
  env?: EnvironmentSlug | undefined
}

/** The items of a list, as many at most. */
export async function take<T>(items: AsyncIterable<T>, limit: number | undefined): Promise<T[]> {
  const taken: T[] = []
  if (limit === 0) return taken
  for await (const item of items) {
    taken.push(item)
    if (taken.length === limit) break
  }
  return taken
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
  const { applicationId } = await reachPlace(context, { app, command: 'deployments' })
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
export async function inspect(context: Context, given: string): Promise<Outcome> {
  const id = checkId(given, 'deployment')
  const platform = await context.platform()
  const [deployment, files, functions, crons] = await Promise.all([
    getDeployment(platform, { id }, context.call),
    take(all(listDeploymentFiles, platform, { id }, context.call), undefined),
    take(all(listDeploymentFunctions, platform, { id }, context.call), undefined),
    take(all(listCrons, platform, { id }, context.call), undefined),
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
  const next = deployment.status === 'FAILED' ? [{ command: `logs ${id} --build`, when: 'read why it failed' }] : []
  return { data: { ...deployment, files, functions, crons }, text, next }
}

async function promoted(context: Context, id: string): Promise<Deployment> {
  return promoteDeployment(await context.platform(), { id }, context.call)
}

/** Makes a deployment the current one of its environment. */
export async function promote(context: Context, given: string): Promise<Outcome> {
  const deployment = await promoted(context, checkId(given, 'deployment'))
  const { id, environment, applicationId } = deployment
  return {
    data: deployment,
    text: `${id} is the current deployment of ${environment}, with the variables that it was deployed with`,
    next: [{ command: `rollback --app ${applicationId} --env ${environment}`, when: 'go back' }],
  }
}

/** Goes back to a deployment, by default the newest one before the current one that can still be served. */
export async function rollback(
  context: Context,
  { id: given, app, env = 'production' }: Of & { id?: string | undefined },
): Promise<Outcome> {
  const { applicationId } = await reachPlace(context, {
    app,
    command: `rollback${given === undefined ? '' : ` ${given}`}`,
  })
  const platform = await context.platform()
  const target =
    given === undefined
      ? await findPrevious(context, applicationId, env)
      : await getDeployment(platform, { id: checkId(given, 'deployment') }, context.call)
  if (target.applicationId !== applicationId)
    refuse(`The deployment ${target.id} is one of the application ${target.applicationId}, not of ${applicationId}`)
  const deployment = await promoted(context, target.id)
  const { id, environment, createdAt } = deployment
  return {
    data: deployment,
    text: `Back to ${id} of ${createdAt} in ${environment}${commitOf(deployment) && `: ${inOneLine(commitOf(deployment))}`}. Its variables came back with it`,
    next: [{ command: `deployments --app ${applicationId} --env ${environment}`, when: 'see all' }],
  }
}

async function findPrevious(
  context: Context,
  applicationId: string,
  environment: EnvironmentSlug,
): Promise<Deployment> {
  const platform = await context.platform()
  let current: Deployment | undefined
  for await (const each of all(
    listDeployments,
    platform,
    { applicationId, environment, status: 'ACTIVE' },
    context.call,
  )) {
    if (each.isCurrent) current = each
    else if (current && each.retiredAt === null) return each
  }
  throw new CommandFailure(
    'not_found',
    current
      ? `There is nothing to go back to: no deployment before ${current.id} is still there in ${environment}`
      : `There is nothing to go back from: ${environment} has no current deployment`,
    { next: [{ command: `deployments --app ${applicationId}`, when: 'see all' }] },
  )
}

/** Cancels a deployment that is not active yet. */
export async function cancel(context: Context, given: string): Promise<Outcome> {
  const id = checkId(given, 'deployment')
  const deployment = await cancelDeployment(await context.platform(), { id }, context.call)
  return { data: deployment, text: `Cancelled ${id}` }
}

/** Opens an address where there is a terminal, and prints it. */
export async function open(
  context: Context,
  { id: given, app, env = 'production' }: Of & { id?: string | undefined },
): Promise<Outcome> {
  const url =
    given === undefined
      ? await addressOf(context, app, env)
      : (await getDeployment(await context.platform(), { id: checkId(given, 'deployment') }, context.call)).url
  const isOpened = context.isInteractive
  if (isOpened) context.world.openAddress(url)
  return { data: { url, isOpened }, text: url }
}

async function addressOf(context: Context, app: string | undefined, environment: EnvironmentSlug): Promise<string> {
  const { applicationId } = await reachPlace(context, { app, command: 'open' })
  const platform = await context.platform()
  const deployments = all(listDeployments, platform, { applicationId, environment, status: 'ACTIVE' }, context.call)
  let current: Deployment | undefined
  for await (const each of deployments) {
    if (!each.isCurrent) continue
    current = each
    break
  }
  if (!current)
    throw new CommandFailure('not_found', `${environment} has no current deployment`, {
      next: [{ command: 'deploy', when: 'deploy this folder' }],
    })
  const { items } = await listHostnames(platform, { id: applicationId }, context.call)
  const { id } = current
  return (
    items.find(({ type, active, deploymentId }) => type !== 'DEPLOYMENT' && active && deploymentId === id)?.url ??
    current.url
  )
}
