import type { Db } from '@platform/runtime/database'
import { and, eq, exists, isNotNull, isNull, or } from 'drizzle-orm'
import { users } from '../accounts/table.ts'
import { passkeys } from '../passkeys/table.ts'

/** True if a user can sign in: with a password or a passkey. */
export async function hasWayIn(db: Pick<Db, 'select'>, userId: string): Promise<boolean> {
  const held = db.select({ id: passkeys.id }).from(passkeys).where(eq(passkeys.userId, userId))
  const rows = await db
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.id, userId), or(isNotNull(users.passwordHash), exists(held))))
  return rows.length > 0
}

/** True if the owner of an account may come in by a welcome: they cannot sign in yet, and the account is not suspended. */
export async function isAwaited(db: Pick<Db, 'select'>, userId: string): Promise<boolean> {
  const rows = await db
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.id, userId), isNull(users.suspendedAt)))
  return rows.length > 0 && !(await hasWayIn(db, userId))
}
