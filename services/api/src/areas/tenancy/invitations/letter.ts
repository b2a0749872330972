import { plainName } from '@platform/mail/plain-name'
import type { Role } from '../organizations/table.ts'

interface LetterFacts {
  email: string
  /** As its members named it: a stranger's words. */
  organization: string
  /** A stranger's words, too; undefined if no name is known. */
  inviter: string | undefined
  role: Role
  /** The link. */
  url: string
  expiresAt: Date
}

/** The letter of an invitation. Names lose what a mail program would make a link of; the only link is the invitation's. */
export function invitationLetter({ email, organization, inviter, role, url, expiresAt }: LetterFacts) {
  const [who, where] = [plainName(inviter ?? '', 'Somebody'), plainName(organization, 'their organization')]
  const until = expiresAt.toUTCString().replace(/:\d\d GMT$/, ' UTC')
  return {
    to: email,
    subject: `${who} invites you to ${where}`,
    text: `Hello,

${who} invites you to join the organization "${where}" as ${role}.

This page says more, and lets you join:

${url}

The link works until ${until}. You join nothing before you say so there.

If you do not know them, do nothing.
`,
  }
}
