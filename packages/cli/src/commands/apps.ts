import { all, listApplications } from '@platform/sdk'
import { makeApplication } from '../choose-application.ts'
import { type Context, slugsOf } from '../context.ts'
import { goOn, type Outcome } from '../outcome.ts'
import { take } from '../lists.ts'
import { reachOrganization } from '../places.ts'
import { tableOf } from '../visible-text.ts'

/** Applications in reach, or those of one organization. */
export async function listOf(
  context: Context,
  { org, limit }: { org?: string | undefined; limit?: number | undefined },
): Promise<Outcome> {
  const query = org === undefined ? {} : { organizationId: (await reachOrganization(context, org)).id }
  const items = await take(all(listApplications, await context.platform(), query, context.call), limit)
  const rows = items.map((each) => [each.id, slugsOf(each), each.name])
  return { data: items, text: rows.length === 0 ? 'There is no application' : tableOf(['ID', 'SLUG', 'NAME'], rows) }
}

/** Creates an application in an organization. */
export async function create(
  context: Context,
  { name, org }: { name: string; org?: string | undefined },
): Promise<Outcome> {
  const application = await makeApplication(context, { name, org })
  return {
    data: application,
    text: `Created ${slugsOf(application)} (${application.id})`,
    next: [goOn('link this folder to it', 'link', '--app', slugsOf(application))],
  }
}
