import { all, createOrganization, listOrganizations } from '@platform/sdk'
import type { Context } from '../context.ts'
import { goOn, type Outcome } from '../outcome.ts'
import { take } from '../lists.ts'
import { tableOf } from '../visible-text.ts'

/** Organizations that the person is a member of. */
export async function listOf(context: Context, { limit }: { limit?: number | undefined }): Promise<Outcome> {
  const items = await take(all(listOrganizations, await context.platform(), {}, context.call), limit)
  const rows = items.map(({ id, slug, name }) => [id, slug, name])
  return { data: items, text: rows.length === 0 ? 'You have no organization' : tableOf(['ID', 'SLUG', 'NAME'], rows) }
}

/** Creates an organization, which the person owns. */
export async function create(context: Context, name: string): Promise<Outcome> {
  const organization = await createOrganization(await context.platform(), { body: { name } }, context.call)
  return {
    data: organization,
    text: `Created ${organization.slug} (${organization.id})`,
    next: [goOn('create an application in it', 'apps', 'create', 'app', '--org', organization.slug)],
  }
}
