import { instant } from '@platform/runtime/columns'
import { index, pgTable, text, uuid } from 'drizzle-orm/pg-core'

/** Open streams of server-sent events in all processes; their cap counts these rows (D86). */
export const openStreams = pgTable(
  'open_streams',
  {
    id: uuid().primaryKey(),
    /** The streamed resource, such as `activity:<application id>`. */
    resource: text().notNull(),
    /** The process that serves the stream. */
    processId: uuid('process_id').notNull(),
    /** When the row stops counting unless its process renews it: a killed process leaves its rows behind. */
    expiresAt: instant('expires_at').notNull(),
  },
  (t) => [index('open_streams_by_resource').on(t.resource)],
)
