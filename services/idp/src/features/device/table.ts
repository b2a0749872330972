import { index, integer, pgTable, text, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import { bytea, instant } from '@platform/runtime/columns'
import { users } from '../accounts/table.ts'
import { clients } from '../clients/table.ts'

/** Device authorizations (RFC 8628). Rows stay a day past expiry, so that `expired_token` can be said (D64). */
export const deviceAuthorizations = pgTable(
  'device_authorizations',
  {
    deviceCodeHash: bytea('device_code_hash').primaryKey(),
    /** Eight characters, without the hyphen. */
    userCode: text('user_code').notNull(),
    clientId: uuid('client_id')
      .notNull()
      .references(() => clients.id, { onDelete: 'cascade' }),
    scope: text().notNull(),
    /** Where the request came from; the approval page shows it. */
    address: text().notNull(),
    /** What the program that asked calls itself; null when it does not say, and in rows older than the column. */
    userAgent: text('user_agent'),
    decision: text().$type<'approved' | 'denied'>(),
    /** Who decided, and how they were signed in; null while nobody has. */
    userId: uuid('user_id').references(() => users.id, { onDelete: 'cascade' }),
    authTime: instant('auth_time'),
    amr: text(),
    sid: uuid(),
    familyId: uuid('family_id'),
    createdAt: instant('created_at').notNull(),
    expiresAt: instant('expires_at').notNull(),
    intervalSeconds: integer('interval_seconds').notNull(),
    polledAt: instant('polled_at'),
    consumedAt: instant('consumed_at'),
  },
  (t) => [
    uniqueIndex('device_authorizations_user_code').on(t.userCode),
    index('device_authorizations_by_client').on(t.clientId),
    index('device_authorizations_by_user').on(t.userId),
    index('device_authorizations_by_expiry').on(t.expiresAt),
  ],
)
