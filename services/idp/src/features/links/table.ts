import { index, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { bytea, instant } from '@platform/runtime/columns'
import { users } from '../accounts/table.ts'

/** Links that let their holder do one thing, once. Only the token's hash is stored; used links are deleted. */
export const oneTimeLinks = pgTable(
  'one_time_links',
  {
    tokenHash: bytea('token_hash').primaryKey(),
    purpose: text().$type<'verify-email' | 'set-password' | 'welcome'>().notNull(),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    /** The address that it was mailed to; null if it was shown to the operator. */
    mailedTo: text('mailed_to'),
    createdAt: instant('created_at').notNull(),
    expiresAt: instant('expires_at').notNull(),
  },
  (t) => [index('one_time_links_by_user').on(t.userId, t.purpose), index('one_time_links_by_expiry').on(t.expiresAt)],
)
