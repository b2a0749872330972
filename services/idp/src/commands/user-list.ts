import { isUuid } from '@platform/runtime/is-uuid'
import { type Command, UsageError } from '@platform/service/cli'
import type { Deps } from '../deps.ts'
import { type ListedUser, listUsersPage } from '../features/accounts/list-users.ts'

const LIMIT_DEFAULT = 100
const LIMIT_MAX = 1_000

function lineOf({ id, email, emailVerified, givenName, familyName, suspendedAt, createdAt }: ListedUser): string {
  const names = [givenName, familyName].filter((name) => name !== null).join(' ')
  const state = [emailVerified ? 'proven    ' : 'not proven', suspendedAt ? 'suspended' : 'active   '].join('  ')
  return `${id}  ${createdAt.toISOString()}  ${state}  ${email}${names === '' ? '' : `  ${names}`}`
}

export const userListCommand: Command<Deps> = {
  name: 'user list',
  usage: 'user list [--search TEXT] [--limit NUMBER] [--after ID]',
  summary: `show users, oldest first: ${LIMIT_DEFAULT}, or --limit; those with the text in their address or name; --after goes on behind the last of a page`,
  options: { search: 'value', limit: 'value', after: 'value' },
  async run(deps, args) {
    const limit = Number(args.option('limit') ?? LIMIT_DEFAULT)
    if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX)
      throw new UsageError(`--limit is a number from 1 to ${LIMIT_MAX}`)
    const after = args.option('after')
    if (after !== undefined && !isUuid(after)) throw new UsageError('--after is the id of a user')
    const page = await listUsersPage(deps, { search: args.option('search'), limit, after })
    const more = page.next === null ? [] : [`There are more: --after ${page.next}`]
    return { json: page, text: [...page.users.map(lineOf), ...more].join('\n') }
  },
}
