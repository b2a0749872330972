import { one } from '@platform/runtime/database'
import { recordAudit } from '@platform/service/audit'
import { eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import type { Source } from '../../site/source.ts'
import type { User } from '../accounts/accounts.ts'
import { users } from '../accounts/table.ts'
import { findLinkOwner, useLink } from '../links/one-time-links.ts'
import { isAwaited } from './has-way-in.ts'

/**
 * The user whom a link invites. Undefined if it does not work, if the account is suspended, or if the user has found another way
 * in meanwhile: from then on it would pass by their second factor. Changes nothing.
 */
export async function findWelcomed(deps: Pick<Deps, 'db' | 'now'>, token: string): ReturnType<typeof findLinkOwner> {
  const owner = await findLinkOwner(deps, 'welcome', token)
  return owner && (await isAwaited(deps.db, owner.id)) ? owner : undefined
}

interface Choice {
  givenName: string
  familyName: string | null
  /** Null if a passkey comes in its place. */
  passwordHash: string | null
  source: Source
}

/**
 * Gives the account of a link the names and the password that its owner chose, and uses the link up. Of several concurrent calls
 * one succeeds. Undefined for a link that findWelcomed would not find.
 */
export async function takeWelcome(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  token: string,
  { source, ...chosen }: Choice,
): Promise<User | undefined> {
  const time = now()
  return db.transaction(async (tx) => {
    const used = await useLink(tx, time, 'welcome', token)
    if (!used || !(await isAwaited(tx, used.userId))) return undefined
    const { userId } = used
    const updated = await tx
      .update(users)
      .set({ ...chosen, updatedAt: time })
      .where(eq(users.id, userId))
      .returning()
    await recordAudit(tx, time, {
      actor: `user:${userId}`,
      action: 'user.welcomed',
      subject: `user:${userId}`,
      details: { way: chosen.passwordHash === null ? 'passkey' : 'password', ...source },
    })
    return one(updated)
  })
}
