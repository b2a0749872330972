import { instant } from '@platform/runtime/columns'
import { index, jsonb, pgTable, text, uuid } from 'drizzle-orm/pg-core'

/** What the operator or the rules of a service changed, and who did it. Rows outlive what they speak of, so nothing refers to it. */
export const auditEvents = pgTable(
  'audit_events',
  {
    /** A UUIDv7: the order of ids is the order of time. */
    id: uuid().primaryKey(),
    at: instant('at').notNull(),
    /** `operator`, `system`, `user:<id>` or `client:<id>`. */
    actor: text().notNull(),
    action: text().notNull(),
    /** Such as `user:<id>`, `client:<id>`, `organization:<id>`, `key:<id>`. */
    subject: text().notNull(),
    details: jsonb().$type<Record<string, unknown>>().notNull(),
  },
  (t) => [index('audit_events_by_subject').on(t.subject)],
)
