import { bytea, instant } from '@platform/runtime/columns'
import { index, pgTable, primaryKey, text } from 'drizzle-orm/pg-core'

/** Creations made under an Idempotency-Key, kept for 24 hours. */
export const idempotentRequests = pgTable(
  'idempotent_requests',
  {
    /** `user:` or `key:` and the caller's id: callers never see each other's keys. */
    callerId: text('caller_id').notNull(),
    operation: text().notNull(),
    key: text().notNull(),
    /** Request hash and answer, sealed; null if the answer may not be kept (D79). */
    ciphertext: bytea(),
    kekId: text('kek_id'),
    createdAt: instant('created_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.callerId, t.operation, t.key] }),
    index('idempotent_requests_by_age').on(t.createdAt),
  ],
)
