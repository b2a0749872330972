import { bytea, instant } from '@platform/runtime/columns'
import { index, integer, pgTable, primaryKey, uuid } from 'drizzle-orm/pg-core'
import { deploymentFunctions } from '../../deploy/deployments/table.ts'

/** The slot that answers the sticky URLs of a key, from the first request by one of them until all have expired. */
export const stickyPins = pgTable(
  'sticky_pins',
  {
    functionId: uuid('function_id')
      .notNull()
      .references(() => deploymentFunctions.id, { onDelete: 'cascade' }),
    /** 128 bits derived from deployment and key. */
    keyHash: bytea('key_hash').notNull(),
    /** The edge that runs the slot. Another may take over once that one's lease has lapsed. */
    edgeId: uuid('edge_id').notNull(),
    /** The slot's number. null: not chosen yet. */
    slot: integer(),
    /** The process that ran in this slot when it last answered; a new process has lost the old one's memory. */
    instance: uuid(),
    /** The latest expiry of the URLs used so far, plus a minute. */
    expiresAt: instant('expires_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.functionId, t.keyHash] }), index('sticky_pins_expired').on(t.expiresAt)],
)
