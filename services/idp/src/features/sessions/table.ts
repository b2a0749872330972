import { boolean, index, pgTable, text, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import { bytea, instant } from '@platform/runtime/columns'
import { users } from '../accounts/table.ts'

/** A signed-in browser. The id is the `sid` of tokens; the cookie holds another value, stored here as its hash. */
export const sessions = pgTable(
  'sessions',
  {
    id: uuid().primaryKey(),
    cookieHash: bytea('cookie_hash').notNull(),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    authTime: instant('auth_time').notNull(),
    /** Authentication methods (RFC 8176), separated by spaces. */
    amr: text().notNull(),
    createdAt: instant('created_at').notNull(),
    lastSeenAt: instant('last_seen_at').notNull(),
    expiresAt: instant('expires_at').notNull(),
    /**
     * False if the user did not choose to stay signed in: the cookie ends with the browser, the session after a day without a
     * visit.
     */
    staysSignedIn: boolean('stays_signed_in').notNull().default(true),
    /** The browser's User-Agent at sign-in, and its network; null in rows older than the columns. */
    userAgent: text('user_agent'),
    address: text(),
    /** The authorization request (SHA-256 of its query) that the user last answered here, and the answer. */
    answeredRequest: bytea('answered_request'),
    answer: text().$type<'signed-in' | 'chose-account' | 'declined-second-factor'>(),
  },
  (t) => [
    uniqueIndex('sessions_cookie').on(t.cookieHash),
    index('sessions_by_user').on(t.userId),
    index('sessions_by_expiry').on(t.expiresAt),
  ],
)
