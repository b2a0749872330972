import { bytea, instant } from '@platform/runtime/columns'
import { index, pgTable, primaryKey, text } from 'drizzle-orm/pg-core'

/** Creations that a caller named by an Idempotency-Key, for 24 hours. */
export const idempotentRequests = pgTable(
  'idempotent_requests',
  {
    /** `user:` or `key:` and its id: nobody meets another's keys. */
    callerId: text('caller_id').notNull(),
    operation: text().notNull(),
    key: text().notNull(),
    /** What was asked and answered, sealed; null where the answer may not be kept (D79). */
    ciphertext: bytea(),
    kekId: text('kek_id'),
    createdAt: instant('created_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.callerId, t.operation, t.key] }),
    index('idempotent_requests_by_age').on(t.createdAt),
  ],
)
