import { index, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { bytea, instant } from '@platform/runtime/columns'
import { users } from '../accounts/table.ts'
import { clients } from '../clients/table.ts'

/** Authorization codes (B §2). A used one stays for a day, so that its replay is noticed (D61). */
export const authorizationCodes = pgTable(
  'authorization_codes',
  {
    codeHash: bytea('code_hash').primaryKey(),
    clientId: uuid('client_id')
      .notNull()
      .references(() => clients.id, { onDelete: 'cascade' }),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    redirectUri: text('redirect_uri').notNull(),
    /** Granted scopes with spaces between them, as the token will say them. */
    scope: text().notNull(),
    nonce: text(),
    codeChallenge: text('code_challenge'),
    authTime: instant('auth_time').notNull(),
    amr: text().notNull(),
    sid: uuid().notNull(),
    /** The refresh family that redemption founds; null without offline_access. */
    familyId: uuid('family_id'),
    /** The browser that asked, as in sessions; what the code founds is known to the user by it. Null in older rows. */
    userAgent: text('user_agent'),
    address: text(),
    expiresAt: instant('expires_at').notNull(),
    consumedAt: instant('consumed_at'),
  },
  (t) => [
    index('authorization_codes_by_user').on(t.userId),
    index('authorization_codes_by_client').on(t.clientId),
    index('authorization_codes_by_expiry').on(t.expiresAt),
  ],
)
