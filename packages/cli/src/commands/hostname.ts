import { listHostnames, setHostname } from '@platform/sdk'
import type { Context } from '../context.ts'
import type { Outcome } from '../outcome.ts'
import { reachPlace } from '../places.ts'
import { tableOf } from '../visible-text.ts'

/** The addresses of an application. */
export async function get(context: Context, { app }: { app?: string | undefined }): Promise<Outcome> {
  const { applicationId } = await reachPlace(context, { app })
  const { label, items } = await listHostnames(await context.platform(), { id: applicationId }, context.call)
  const rows = items.map(({ url, type, active, deploymentId }) => [
    url,
    type,
    active ? 'serves' : 'idle',
    deploymentId ?? '',
  ])
  const text = [
    `Label of production: ${label ?? 'none'}`,
    ...(rows.length > 0 ? [tableOf(['ADDRESS', 'KIND', 'STATE', 'DEPLOYMENT'], rows)] : []),
  ]
  return { data: { label, items }, text: text.join('\n') }
}

/** Chooses the label of production. */
export async function set(
  context: Context,
  { label, app }: { label: string; app?: string | undefined },
): Promise<Outcome> {
  const { applicationId } = await reachPlace(context, { app })
  const chosen = await setHostname(await context.platform(), { id: applicationId, body: { label } }, context.call)
  return {
    data: chosen,
    text: `Production is at ${chosen.hostname}${chosen.live ? '' : ', once something is deployed'}`,
  }
}
