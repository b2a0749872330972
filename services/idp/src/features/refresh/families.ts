import type { Db } from '@platform/runtime/database'
import { type AuditActor, recordAudit } from '@platform/service/audit'
import { and, eq, inArray, isNull, sql, type SQLWrapper } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { refreshFamilies } from './table.ts'

/** A second use within this time lost a race; a later one is a replay (D61). */
const RACE_MS = 10_000

/** True if a token retired at `retiredAt` is used again so late that it must have been copied (D61). */
export const isReplay = (retiredAt: Date, time: Date): boolean => time.getTime() - retiredAt.getTime() > RACE_MS

/**
 * When the token of an old generation was retired: exact for the last two; for older ones, an upper bound.
 * Undefined for the current generation.
 */
export function retiredAt(
  family: Pick<typeof refreshFamilies.$inferSelect, 'generation' | 'rotatedAt' | 'rotatedBeforeAt'>,
  generation: number,
): Date | undefined {
  if (generation >= family.generation) return undefined
  return (generation === family.generation - 1 ? family.rotatedAt : family.rotatedBeforeAt) ?? undefined
}

type FoundingColumn =
  | 'familyId'
  | 'clientId'
  | 'userId'
  | 'scope'
  | 'authTime'
  | 'amr'
  | 'sid'
  | 'userAgent'
  | 'address'

/**
 * The first row of a family, selected from the code or device code that the same statement consumes. Needs the placeholders
 * `now` and `refreshExpiresAt`.
 */
export const foundedFamily = (consumed: Record<FoundingColumn, SQLWrapper>) => ({
  id: sql<string>`${consumed.familyId}`.as('id'),
  clientId: sql<string>`${consumed.clientId}`.as('client_id'),
  userId: sql<string>`${consumed.userId}`.as('user_id'),
  scope: sql<string>`${consumed.scope}`.as('scope'),
  authTime: sql<Date>`${consumed.authTime}`.as('auth_time'),
  amr: sql<string>`${consumed.amr}`.as('amr'),
  sid: sql<string>`${consumed.sid}`.as('sid'),
  createdAt: sql<Date>`${sql.placeholder('now')}::timestamptz`.as('created_at'),
  userAgent: sql<string | null>`${consumed.userAgent}`.as('user_agent'),
  address: sql<string | null>`${consumed.address}`.as('address'),
  generation: sql<number>`1`.as('generation'),
  expiresAt: sql<Date>`${sql.placeholder('refreshExpiresAt')}::timestamptz`.as('expires_at'),
  rotatedAt: sql<null>`null::timestamptz`.as('rotated_at'),
  rotatedBeforeAt: sql<null>`null::timestamptz`.as('rotated_before_at'),
  revokedAt: sql<null>`null::timestamptz`.as('revoked_at'),
})

/** Selects a user's grants: all, those to one client, or those of one session. */
export interface UserGrants {
  userId: string
  clientId?: string | undefined
  sid?: string | undefined
}

/** Ends grants of offline access of one client, and records each that had not ended before. */
export async function revokeFamilies(
  tx: Pick<Db, 'update' | 'insert'>,
  time: Date,
  { familyIds, clientId }: { familyIds: readonly string[]; clientId: string },
  actor: AuditActor,
  reason: string,
): Promise<void> {
  const revoked = await tx
    .update(refreshFamilies)
    .set({ revokedAt: time })
    .where(
      and(
        inArray(refreshFamilies.id, [...familyIds]),
        eq(refreshFamilies.clientId, clientId),
        isNull(refreshFamilies.revokedAt),
      ),
    )
    .returning({ id: refreshFamilies.id })
  for (const { id } of revoked)
    await recordAudit(tx, time, { actor, action: 'family.revoked', subject: `family:${id}`, details: { reason } })
}

/** Ends one grant of offline access, if it belongs to this client. Safe to repeat. */
export const revokeFamily = (
  { db, now }: Pick<Deps, 'db' | 'now'>,
  { familyId, clientId }: { familyId: string; clientId: string },
  actor: AuditActor,
  reason: string,
): Promise<void> =>
  db.transaction((tx) => revokeFamilies(tx, now(), { familyIds: [familyId], clientId }, actor, reason))

/**
 * Ends every grant of a client, or of a user: all of them, those to one client, or those of one session. Part of the
 * transaction of the change that requires it. Returns the number of grants ended.
 */
export async function revokeFamiliesOf(
  tx: Pick<Db, 'update'>,
  time: Date,
  owner: UserGrants | { clientId: string },
): Promise<number> {
  const revoked = await tx
    .update(refreshFamilies)
    .set({ revokedAt: time })
    .where(
      and(
        'userId' in owner ? eq(refreshFamilies.userId, owner.userId) : undefined,
        owner.clientId === undefined ? undefined : eq(refreshFamilies.clientId, owner.clientId),
        'sid' in owner && owner.sid !== undefined ? eq(refreshFamilies.sid, owner.sid) : undefined,
        isNull(refreshFamilies.revokedAt),
      ),
    )
    .returning({ id: refreshFamilies.id })
  return revoked.length
}
