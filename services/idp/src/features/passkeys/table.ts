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
    /** The authenticator's signature counter at its last use; 0 for authenticators that do not count. */
    counter: bigint({ mode: 'number' }).notNull(),
    /** How the browser reaches it, in the words of WebAuthn. */
    transports: text().array().notNull(),
    /** Synced between its owner's devices, as opposed to bound to one. */
    isSynced: boolean('is_synced').notNull(),
    /** The name that its owner chose. */
    name: text().notNull(),
    createdAt: instant('created_at').notNull(),
    lastUsedAt: instant('last_used_at'),
  },
  (t) => [uniqueIndex('passkeys_credential').on(t.credentialId), index('passkeys_by_user').on(t.userId)],
)

/** Used challenges, until they would expire: none is accepted twice. */
export const usedChallenges = pgTable(
  'used_challenges',
  { challengeHash: bytea('challenge_hash').primaryKey(), expiresAt: instant('expires_at').notNull() },
  (t) => [index('used_challenges_by_expiry').on(t.expiresAt)],
)
