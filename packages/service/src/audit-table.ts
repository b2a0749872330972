import { instant } from '@platform/runtime/columns'
import { index, jsonb, pgTable, text, uuid } from 'drizzle-orm/pg-core'

/** Changes made by the operator or by a service's own rules, and who made them. Rows outlive their subjects: no foreign keys. */
export const auditEvents = pgTable(
  'audit_events',
  {
    /** A UUIDv7: ids sort by time. */
    id: uuid().primaryKey(),
    at: instant('at').notNull(),
    /** `operator`, `system`, `user:<id>` or `client:<id>`. */
    actor: text().notNull(),
    action: text().notNull(),
    /** For example `user:<id>`, `client:<id>`, `organization:<id>`, `key:<id>`. */
    subject: text().notNull(),
    details: jsonb().$type<Record<string, unknown>>().notNull(),
  },
  (t) => [index('audit_events_by_subject').on(t.subject)],
)
