import { type Command, requireWord, UsageError } from '@platform/service/cli'
import type { Deps } from '../deps.ts'
import { inviteUser, mailWelcome } from '../features/welcome/invite-user.ts'

const HOUR_MS = 3_600_000
const unitMs = { h: HOUR_MS, d: 24 * HOUR_MS }
const EXPIRES_MAX_MS = 30 * unitMs.d

/** Reads hours or days, such as `12h` and `7d`, in milliseconds. Throws UsageError. */
function readLifetime(text: string): number {
  const [, number, unit] = /^(\d{1,3})([hd])$/.exec(text) ?? []
  const lifetimeMs = Number(number) * unitMs[unit as keyof typeof unitMs]
  if (!(lifetimeMs > 0 && lifetimeMs <= EXPIRES_MAX_MS))
    throw new UsageError('--expires is a number of hours or days, such as 12h or 7d, at most 30d')
  return lifetimeMs
}

/** Whether the letter was handed on. The link is printed in any case, so a failure is no reason to end with an error. */
async function mailOrSayWhyNot(
  { mailer }: Pick<Deps, 'mailer'>,
  welcome: Awaited<ReturnType<typeof inviteUser>>,
): Promise<{ isMailed: boolean; text: string }> {
  if (!mailer) return { isMailed: false, text: 'mail    none: MAIL_URL is not set; hand the link over yourself' }
  try {
    await mailWelcome(mailer, welcome)
    return { isMailed: true, text: `mail    sent to ${welcome.user.email}` }
  } catch (error) {
    return { isMailed: false, text: `mail    warning: ${(error as Error).message}; hand the link over yourself` }
  }
}

export const userInviteCommand: Command<Deps> = {
  name: 'user invite',
  usage: 'user invite EMAIL [--given-name NAME] [--family-name NAME] [--expires 7d]',
  summary:
    'make an account for somebody, and mail and print a link by which they choose a password or a passkey; good once and for 7 days, or --expires (12h, 30d at most); again for a new link, as long as they have not used one',
  options: { 'given-name': 'value', 'family-name': 'value', expires: 'value' },
  async run(deps, args) {
    const welcome = await inviteUser(deps, {
      email: requireWord(args, 0, 'the email of whom to invite'),
      givenName: args.option('given-name'),
      familyName: args.option('family-name'),
      lifetimeMs: readLifetime(args.option('expires') ?? '7d'),
    })
    const mail = await mailOrSayWhyNot(deps, welcome)
    const { user, isNew, link, expiresAt } = welcome
    return {
      json: { id: user.id, email: user.email, isNew, link, expiresAt, isMailed: mail.isMailed },
      text: [
        `user    ${user.id}  ${isNew ? 'made' : 'kept'}  ${user.email}`,
        mail.text,
        `link    ${link}`,
        `until   ${expiresAt.toISOString()}`,
      ].join('\n'),
    }
  },
}
