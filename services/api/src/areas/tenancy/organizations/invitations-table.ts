import { bytea, instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import { boolean, check, foreignKey, index, pgTable, text, unique, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import { members, organizations, type Role } from './table.ts'

/** Invitations to an organization (D112). A row is kept until a job discards it, since the quotas of a day count it. */
export const invitations = pgTable(
  'invitations',
  {
    /** A UUIDv7. The identity provider puts it into `joined` of the tokens of whoever accepts. */
    id: uuid().primaryKey(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    /** As readMailAddress writes it. */
    email: text().notNull(),
    role: text().$type<Role>().notNull(),
    /** SHA-256 of the link's token. */
    tokenHash: bytea('token_hash').notNull(),
    /** A member of the organization; null once they are none, which ends the invitation. */
    invitedByUserId: text('invited_by_user_id'),
    /** Whether a letter was sent to the address. */
    isMailed: boolean('is_mailed').notNull(),
    createdAt: instant('created_at').notNull(),
    expiresAt: instant('expires_at').notNull(),
    /** When it was accepted, revoked or replaced, or when its inviter lost the right to it; null before that. */
    endedAt: instant('ended_at'),
  },
  (t) => [
    unique('invitations_token').on(t.tokenHash),
    uniqueIndex('invitations_live_address')
      .on(t.organizationId, t.email)
      .where(sql`${t.endedAt} is null`),
    index('invitations_by_organization').on(t.organizationId, t.createdAt),
    index('invitations_by_address').on(t.email, t.createdAt),
    index('invitations_by_expiry').on(t.expiresAt),
    // The migration names the column that is set to null; drizzle-kit would set both.
    foreignKey({
      name: 'invitations_inviter',
      columns: [t.organizationId, t.invitedByUserId],
      foreignColumns: [members.organizationId, members.userId],
    }).onDelete('set null'),
    check('invitations_role', sql`${t.role} in ('OWNER', 'ADMIN', 'MEMBER')`),
  ],
)
