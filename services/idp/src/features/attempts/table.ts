import { index, integer, pgTable, text } from 'drizzle-orm/pg-core'
import { instant } from '@platform/runtime/columns'

/** Counters of guesses at passwords and user codes. The key is a hash: input is not kept. */
export const attempts = pgTable(
  'attempts',
  {
    key: text().primaryKey(),
    count: integer().notNull(),
    /** When counting began. */
    since: instant('since').notNull(),
    blockedUntil: instant('blocked_until').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [index('attempts_by_update').on(t.updatedAt)],
)
