import { Conflict, NotFound } from '@platform/errors/api-error'
import { platformName } from '@platform/look/name'
import type { Mailer } from '@platform/mail/mailer'
import { recordAudit } from '@platform/service/audit'
import { and, eq, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { findUserByEmail, insertUser, readOperatorsAddress, type User } from '../accounts/accounts.ts'
import { users } from '../accounts/table.ts'
import { makeLink } from '../links/one-time-links.ts'
import { oneTimeLinks } from '../links/table.ts'
import { hasWayIn } from './has-way-in.ts'

interface Invited {
  email: string
  givenName?: string | undefined
  familyName?: string | undefined
  /** For how long the link works. */
  lifetimeMs: number
}

/** An invited user, and the link by which they choose how to sign in. */
interface Welcome {
  user: User
  isNew: boolean
  link: string
  expiresAt: Date
}

/**
 * Makes an account for somebody, whose address the operator vouches for, and a link by which they choose how to sign in. For an
 * account that nobody can sign in to yet it makes another link, and the earlier ones stop working.
 *
 * Throws BadRequest for a malformed address, and Conflict for an account that has a way in or is suspended.
 */
export async function inviteUser(
  deps: Pick<Deps, 'db' | 'now' | 'accountUrl' | 'mailer'>,
  { email: typed, givenName, familyName, lifetimeMs }: Invited,
): Promise<Welcome> {
  const email = readOperatorsAddress(typed)
  // What is not given stays: undefined columns are left out.
  const names = { givenName: givenName?.trim() || undefined, familyName: familyName?.trim() || undefined }
  const known = await findUserByEmail(deps, email)
  const time = deps.now()
  return deps.db.transaction(async (tx) => {
    const made = known ? undefined : await insertUser(tx, time, { email, passwordHash: null, ...names }, 'operator')
    const ofAddress = known ? eq(users.id, known.id) : sql`lower(${users.email}) = lower(${email})`
    // Waits for somebody who uses an earlier link just now, or is waited for.
    const [user] = made ? [made] : await tx.select().from(users).where(ofAddress).for('update')
    if (!user) throw new NotFound(`User ${email}`) // deleted meanwhile
    if (!made && (await hasWayIn(tx, user.id)))
      throw new Conflict(`${email} has an account already; \`user reset\` makes a link for another password`)
    if (user.suspendedAt) throw new Conflict(`${email} is suspended; \`user restore\` comes first`)
    if (!made) {
      await tx
        .update(users)
        .set({ ...names, emailVerified: true, updatedAt: time })
        .where(eq(users.id, user.id))
      await tx.delete(oneTimeLinks).where(and(eq(oneTimeLinks.userId, user.id), eq(oneTimeLinks.purpose, 'welcome')))
    }
    const expiresAt = new Date(time.getTime() + lifetimeMs)
    const link = await makeLink(tx, deps, {
      purpose: 'welcome',
      userId: user.id,
      mailedTo: deps.mailer ? user.email : null,
      lifetime: lifetimeMs,
    })
    await recordAudit(tx, time, {
      actor: 'operator',
      action: 'user.invited',
      subject: `user:${user.id}`,
      details: { expiresAt },
    })
    return { user, isNew: made !== undefined, link, expiresAt }
  })
}

/** Mails an invited user their link. Rejects if the letter could not be handed on. */
export const mailWelcome = (mailer: Mailer, { user, link, expiresAt }: Welcome): Promise<void> =>
  mailer.send({
    to: user.email,
    subject: `Your ${platformName} account`,
    text: `Hello,

an account was made for ${user.email}. Choose a password, or a passkey in its place, here:

${link}

The link works once, until ${expiresAt.toISOString().slice(0, 16).replace('T', ' ')} UTC. If you do not know what this is about, do nothing.
`,
  })
