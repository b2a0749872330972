import { index, integer, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { bytea, instant } from '@platform/runtime/columns'
import { users } from '../accounts/table.ts'
import { clients } from '../clients/table.ts'

/**
 * One row per grant of offline access, however often its token is rotated. Columns that a rotation changes must not be
 * indexed: only then does Postgres update the row in place (HOT), and the table does not grow.
 */
export const refreshFamilies = pgTable(
  'refresh_families',
  {
    id: uuid().primaryKey(),
    clientId: uuid('client_id')
      .notNull()
      .references(() => clients.id, { onDelete: 'cascade' }),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    scope: text().notNull(),
    authTime: instant('auth_time').notNull(),
    amr: text().notNull(),
    sid: uuid().notNull(),
    createdAt: instant('created_at').notNull(),
    /** The requesting browser or device, and its network; null in rows older than the columns. */
    userAgent: text('user_agent'),
    address: text(),
    /** The generation of the current token. */
    generation: integer().notNull(),
    expiresAt: instant('expires_at').notNull(),
    /** When the previous token was retired, and the one before it: replays are detected by these (D61). */
    rotatedAt: instant('rotated_at'),
    rotatedBeforeAt: instant('rotated_before_at'),
    revokedAt: instant('revoked_at'),
  },
  (t) => [index('refresh_families_by_user').on(t.userId), index('refresh_families_by_client').on(t.clientId)],
)

/** The keys that authenticate refresh tokens, sealed; the id is their associated data. */
export const refreshKeys = pgTable('refresh_keys', {
  id: text().primaryKey(),
  ciphertext: bytea().notNull(),
  kekId: text('kek_id').notNull(),
  activatesAt: instant('activates_at').notNull().unique('refresh_keys_activates_at'),
  /** When the last token it made has expired; set when its successor is created. */
  retiresAt: instant('retires_at'),
})
