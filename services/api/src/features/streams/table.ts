import { instant } from '@platform/runtime/columns'
import { index, pgTable, text, uuid } from 'drizzle-orm/pg-core'

/** Streams of server-sent events that are open, in whichever process; what their cap is counted by (D86). */
export const openStreams = pgTable(
  'open_streams',
  {
    id: uuid().primaryKey(),
    /** What is streamed, such as `activity:<application id>`. */
    resource: text().notNull(),
    /** The process that serves it. */
    processId: uuid('process_id').notNull(),
    /** When the row stops counting, unless its process renews it: a process that was killed leaves its rows behind. */
    expiresAt: instant('expires_at').notNull(),
  },
  (t) => [index('open_streams_by_resource').on(t.resource)],
)
