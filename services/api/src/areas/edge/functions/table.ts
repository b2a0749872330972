import { instant } from '@platform/runtime/columns'
import { bigint, integer, pgTable, primaryKey, uuid } from 'drizzle-orm/pg-core'
import { deploymentFunctions } from '../../deploy/deployments/table.ts'

const count = (name: string) => bigint(name, { mode: 'number' }).notNull()

/** Usage of a Function's slots on one edge; a row that is no longer renewed belongs to an edge that is gone. */
export const functionSlots = pgTable(
  'function_slots',
  {
    functionId: uuid('function_id')
      .notNull()
      .references(() => deploymentFunctions.id, { onDelete: 'cascade' }),
    processId: uuid('process_id').notNull(),
    slots: integer().notNull(),
    memoryBytes: count('memory_bytes'),
    seenAt: instant('seen_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.functionId, t.processId] })],
)
