import { all, listApplications } from '@platform/sdk'
import { makeApplication } from '../choose-application.ts'
import { type Context, slugsOf } from '../context.ts'
import type { Outcome } from '../outcome.ts'
import { reachOrganization } from '../places.ts'
import { shellWord, tableOf } from '../visible-text.ts'
import { take } from './deployments.ts'

/** Applications in reach, or those of one organization. */
export async function listOf(
  context: Context,
  { org, limit }: { org?: string | undefined; limit?: number | undefined },
): Promise<Outcome> {
  const query =
    org === undefined ? {} : { organizationId: (await reachOrganization(context, { org, command: 'apps ls' })).id }
  const items = await take(all(listApplications, await context.platform(), query, context.call), limit)
  const rows = items.map((each) => [each.id, slugsOf(each), each.name])
  return { data: items, text: rows.length === 0 ? 'There is no application' : tableOf(['ID', 'SLUG', 'NAME'], rows) }
}

/** Creates an application in an organization. */
export async function create(
  context: Context,
  { name, org }: { name: string; org?: string | undefined },
): Promise<Outcome> {
  const application = await makeApplication(context, { name, org, command: `apps create ${shellWord(name)}` })
  return {
    data: application,
    text: `Created ${slugsOf(application)} (${application.id})`,
    next: [{ command: `link --app ${slugsOf(application)}`, when: 'link this folder to it' }],
  }
}
