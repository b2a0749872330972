import { sql } from 'drizzle-orm'
import { boolean, jsonb, pgTable, primaryKey, text, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import { instant } from '@platform/runtime/columns'

/** People. The id is the `sub` of every token and is never reused. */
export const users = pgTable(
  'users',
  {
    id: uuid().primaryKey(),
    email: text().notNull(),
    emailVerified: boolean('email_verified').notNull(),
    /** Argon2id; null until the user has set one. */
    passwordHash: text('password_hash'),
    givenName: text('given_name'),
    familyName: text('family_name'),
    preferredUsername: text('preferred_username'),
    picture: text(),
    locale: text(),
    zoneinfo: text(),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
    suspendedAt: instant('suspended_at'),
    /** Invitations that the user has taken, and until when their access tokens say so (D112). */
    joined: jsonb().$type<{ id: string; issuer: string; until: string }[]>(),
  },
  (t) => [uniqueIndex('users_email').on(sql`lower(${t.email})`)],
)

/** Products withdrawn from a user; without a row the user has access (D69). */
export const productWithdrawals = pgTable(
  'product_withdrawals',
  {
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    product: text().notNull(),
    withdrawnAt: instant('withdrawn_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.product] })],
)
