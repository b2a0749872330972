import { instant } from '@platform/runtime/columns'
import { pgTable, text, uuid } from 'drizzle-orm/pg-core'

/** The edges that are there. One that was killed renews its lease no more. */
export const edges = pgTable('edges', {
  /** Of the process, the same as long as it lives. */
  id: uuid().primaryKey(),
  /** Where the other edges reach it: the origin of its internal listener. */
  internalUrl: text('internal_url').notNull(),
  /** By the clock of the database. What it owns is another's to take once it has lapsed. */
  leaseUntil: instant('lease_until').notNull(),
})
