import { instant } from '@platform/runtime/columns'
import { pgTable, text, uuid } from 'drizzle-orm/pg-core'

/** The running edges. A killed edge stops renewing its lease. */
export const edges = pgTable('edges', {
  /** Id of the process, constant for its lifetime. */
  id: uuid().primaryKey(),
  /** The origin of its internal listener, where other edges reach it. */
  internalUrl: text('internal_url').notNull(),
  /** By the database's clock. Once it has lapsed, others may take what the edge owns. */
  leaseUntil: instant('lease_until').notNull(),
})
