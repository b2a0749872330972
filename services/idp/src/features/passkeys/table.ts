import { bigint, boolean, index, pgTable, text, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import { bytea, instant } from '@platform/runtime/columns'
import { users } from '../accounts/table.ts'

/** Passkeys (WebAuthn credentials) with which users sign in, without a password. */
export const passkeys = pgTable(
  'passkeys',
  {
    id: uuid().primaryKey(),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    credentialId: bytea('credential_id').notNull(),
    /** COSE_Key. */
    publicKey: bytea('public_key').notNull(),
    /** The authenticator's signature counter when it was used last; 0 for one that does not count. */
    counter: bigint({ mode: 'number' }).notNull(),
    /** How the browser reaches it, in the words of WebAuthn. */
    transports: text().array().notNull(),
    /** Copied between the devices of its owner, as opposed to bound to one. */
    isSynced: boolean('is_synced').notNull(),
    /** What its owner calls it. */
    name: text().notNull(),
    createdAt: instant('created_at').notNull(),
    lastUsedAt: instant('last_used_at'),
  },
  (t) => [uniqueIndex('passkeys_credential').on(t.credentialId), index('passkeys_by_user').on(t.userId)],
)

/** Challenges that were answered, until they would expire: none is taken twice. */
export const usedChallenges = pgTable(
  'used_challenges',
  { challengeHash: bytea('challenge_hash').primaryKey(), expiresAt: instant('expires_at').notNull() },
  (t) => [index('used_challenges_by_expiry').on(t.expiresAt)],
)
