import { boolean, index, integer, pgTable, text, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import { bytea, instant } from '@platform/runtime/columns'
import { users } from '../accounts/table.ts'
import { clients } from '../clients/table.ts'

/** Authorization codes (B §2). A used one stays for a day, so that its replay is detected (D61). */
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
    /** Granted scopes separated by spaces, as in the token. */
    scope: text().notNull(),
    nonce: text(),
    codeChallenge: text('code_challenge'),
    authTime: instant('auth_time').notNull(),
    amr: text().notNull(),
    sid: uuid().notNull(),
    /** The refresh family that redemption founds; null without offline_access. */
    familyId: uuid('family_id'),
    /** The requesting browser, as in sessions; the user recognises the connection by it. Null in older rows. */
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

/** Device authorizations (RFC 8628). Rows stay a day past expiry, so that polls can be answered with `expired_token` (D64). */
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
    /** User-Agent of the requesting program; null if it sent none, and in rows older than the column. */
    userAgent: text('user_agent'),
    /** False if a confidential client sent its id alone, which anybody knows. True in rows of a release without the column. */
    isClientProven: boolean('is_client_proven').notNull().default(true),
    decision: text().$type<'approved' | 'denied'>(),
    /** Who decided, and how they were signed in; null until then. */
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
