import { and, eq, sql } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { recordAudit } from '@platform/service/audit'
import { consents } from './table.ts'

const consentOf = lazyPrepared((db) =>
  db
    .select({ scopes: consents.scopes })
    .from(consents)
    .where(and(eq(consents.userId, sql.placeholder('userId')), eq(consents.clientId, sql.placeholder('clientId'))))
    .prepare('consent_of'),
)

/** True if the user has consented to all of these scopes for the client. */
export async function hasConsent(
  { db }: Pick<Deps, 'db'>,
  { userId, clientId, scopes }: { userId: string; clientId: string; scopes: readonly string[] },
): Promise<boolean> {
  const [row] = await consentOf(db).execute({ userId, clientId })
  return row !== undefined && scopes.every((scope) => row.scopes.includes(scope))
}

/** Adds scopes to the user's consent for the client. Safe to repeat. */
export async function grantConsent(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  { userId, clientId, scopes }: { userId: string; clientId: string; scopes: readonly string[] },
): Promise<void> {
  const time = now()
  await db.transaction(async (tx) => {
    await tx
      .insert(consents)
      .values({ userId, clientId, scopes: [...scopes], createdAt: time, updatedAt: time })
      .onConflictDoUpdate({
        target: [consents.userId, consents.clientId],
        set: {
          scopes: sql`array(select distinct unnest(${consents.scopes} || excluded.scopes))`,
          updatedAt: time,
        },
      })
    await recordAudit(tx, time, {
      actor: `user:${userId}`,
      action: 'consent.granted',
      subject: `client:${clientId}`,
      details: { scopes },
    })
  })
}
