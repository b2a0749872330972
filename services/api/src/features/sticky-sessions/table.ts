import { bytea, instant } from '@platform/runtime/columns'
import { index, integer, pgTable, primaryKey, uuid } from 'drizzle-orm/pg-core'
import { deploymentFunctions } from '../deployments/table.ts'

/** Which slot answers the sticky URLs of a key, from the first request by one of them until all of them have expired. */
export const stickyPins = pgTable(
  'sticky_pins',
  {
    functionId: uuid('function_id')
      .notNull()
      .references(() => deploymentFunctions.id, { onDelete: 'cascade' }),
    /** 128 bits of deployment and key. */
    keyHash: bytea('key_hash').notNull(),
    /** The edge whose slots it is about. Another may take it once that one's lease has lapsed. */
    edgeId: uuid('edge_id').notNull(),
    /** The slot's number. null: none was chosen yet. */
    slot: integer(),
    /** The process that had this number when it last answered; another one has lost what the first kept in memory. */
    instance: uuid(),
    /** Of the URLs that were used, a minute behind the last. */
    expiresAt: instant('expires_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.functionId, t.keyHash] }), index('sticky_pins_expired').on(t.expiresAt)],
)
