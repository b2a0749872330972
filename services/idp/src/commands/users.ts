import { type Command, requireOption, requireWord } from '@platform/service/cli'
import type { Deps } from '../deps.ts'
import { deleteUser } from '../features/access/delete-user.ts'
import { restoreUser, suspendUser } from '../features/access/suspend-user.ts'
import { createUser, setProductAccess } from '../features/accounts/accounts.ts'
import { removeAuthenticator } from '../features/authenticator/authenticator.ts'
import { removePasskeys } from '../features/passkeys/passkeys.ts'
import { makeResetLink } from '../features/password/reset-password.ts'
import { requireUserId } from './find-user.ts'
import { userInviteCommand } from './user-invite.ts'
import { userListCommand } from './user-list.ts'
import { userShowCommand } from './user-show.ts'
import { userUpdateCommand } from './user-update.ts'

const change = (verb: string, summary: string, run: (deps: Deps, userId: string) => Promise<void>): Command<Deps> => ({
  name: `user ${verb}`,
  usage: `user ${verb} EMAIL|ID`,
  summary,
  async run(deps, args) {
    const userId = await requireUserId(deps, requireWord(args, 0, 'the email or id of a user'))
    await run(deps, userId)
    return { json: { id: userId }, text: `${userId}: ${verb} done` }
  },
})

const product = (verb: 'grant' | 'withdraw', summary: string): Command<Deps> => ({
  name: `product ${verb}`,
  usage: `product ${verb} EMAIL|ID PRODUCT`,
  summary,
  async run(deps, args) {
    const userId = await requireUserId(deps, requireWord(args, 0, 'the email or id of a user'))
    const name = requireWord(args, 1, 'a product')
    await setProductAccess(deps, { userId, product: name, hasAccess: verb === 'grant' })
    return { json: { userId, product: name, hasAccess: verb === 'grant' }, text: `${userId}: ${name} ${verb} done` }
  },
})

export const userCommands: readonly Command<Deps>[] = [
  {
    name: 'user create',
    usage: 'user create --email EMAIL [--given-name NAME] [--family-name NAME] [--password-stdin] [--email-unverified]',
    summary: 'make a user; the password comes on stdin',
    options: {
      email: 'value',
      'given-name': 'value',
      'family-name': 'value',
      'password-stdin': 'switch',
      'email-unverified': 'switch',
    },
    async run(deps, args) {
      const password = args.isSet('password-stdin') ? (await args.readStdin()).replace(/\r?\n$/, '') : undefined
      const user = await createUser(deps, {
        email: requireOption(args, 'email'),
        givenName: args.option('given-name'),
        familyName: args.option('family-name'),
        password,
        emailVerified: !args.isSet('email-unverified'),
      })
      return { json: { id: user.id, email: user.email }, text: `${user.id} ${user.email}` }
    },
  },
  userInviteCommand,
  userListCommand,
  userShowCommand,
  userUpdateCommand,
  change('suspend', 'end all access of a user and let nobody in as them', suspendUser),
  change('restore', 'let a suspended user sign in again', restoreUser),
  {
    name: 'user reset',
    usage: 'user reset EMAIL|ID [--second-factor]',
    summary:
      'print a link with which a user sets a new password; good once and for 30 minutes, and ends all access; --second-factor removes their authenticator app and passkeys as well',
    options: { 'second-factor': 'switch' },
    async run(deps, args) {
      const userId = await requireUserId(deps, requireWord(args, 0, 'the email or id of a user'))
      if (args.isSet('second-factor')) {
        await removeAuthenticator(deps, userId, 'operator')
        await removePasskeys(deps, { userId }, 'operator')
      }
      const link = await makeResetLink(deps, userId)
      return { json: { id: userId, link }, text: `link  ${link}` }
    },
  },
  change('delete', 'delete a user and everything of theirs', deleteUser),
  product('grant', 'give a user access to a product back'),
  product('withdraw', 'take a product from a user'),
]
