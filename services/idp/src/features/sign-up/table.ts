import { bytea, instant } from '@platform/runtime/columns'
import { index, integer, pgTable, text } from 'drizzle-orm/pg-core'

/** People who have begun to create an account, one for each browser; the account is made at the end (D114). */
export const signUps = pgTable(
  'sign_ups',
  {
    /** SHA-256 of the browser's cookie. */
    browserHash: bytea('browser_hash').primaryKey(),
    /** In the form of readMailAddress. */
    email: text().notNull(),
    codeHash: bytea('code_hash').notNull(),
    /** Codes that were typed, the right one among them. */
    guesses: integer().notNull(),
    /** Where the browser wanted to be. */
    returnTo: text('return_to').notNull(),
    /** Of the code; once it was typed, of what it proves. */
    expiresAt: instant('expires_at').notNull(),
    /** When the code was typed; null until then. */
    provenAt: instant('proven_at'),
  },
  (t) => [index('sign_ups_by_expiry').on(t.expiresAt)],
)
