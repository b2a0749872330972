import { type Command, requireWord, UsageError } from '@platform/service/cli'
import type { Deps } from '../deps.ts'
import { updateUser } from '../features/access/update-user.ts'
import { requireUserId } from './find-user.ts'
import { readSwitch } from './read-switch.ts'

export const userUpdateCommand: Command<Deps> = {
  name: 'user update',
  usage: 'user update EMAIL|ID [--email EMAIL] [--given-name NAME] [--family-name NAME] [--email-verified true|false]',
  summary:
    'change the address or the names of a user; a new address counts as proven unless --email-verified false, and ends every link that was mailed or handed over; an empty name is cleared',
  options: { email: 'value', 'given-name': 'value', 'family-name': 'value', 'email-verified': 'value' },
  async run(deps, args) {
    const name = requireWord(args, 0, 'the email or id of a user')
    const changes = {
      email: args.option('email'),
      emailVerified: readSwitch(args, 'email-verified'),
      givenName: args.option('given-name'),
      familyName: args.option('family-name'),
    }
    if (Object.values(changes).every((value) => value === undefined))
      throw new UsageError('Missing: what to change, such as --email')
    const user = await updateUser(deps, { userId: await requireUserId(deps, name), changes })
    const { id, email, emailVerified, givenName, familyName } = user
    return {
      json: { id, email, emailVerified, givenName, familyName },
      text: `${id}: updated  ${email}  ${emailVerified ? 'proven' : 'not proven'}`,
    }
  },
}
