import { index, jsonb, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { instant } from '@platform/runtime/columns'

/** What changed someone's security, and who did it. Rows outlive what they speak of, so nothing refers to it. */
export const auditEvents = pgTable(
  'audit_events',
  {
    id: uuid().primaryKey(),
    at: instant('at').notNull(),
    /** `operator`, `system`, `user:<id>` or `client:<id>`. */
    actor: text().notNull(),
    action: text().notNull(),
    /** `user:<id>`, `client:<id>`, `family:<id>`, `key:<id>`. */
    subject: text().notNull(),
    details: jsonb().$type<Record<string, unknown>>().notNull(),
  },
  (t) => [index('audit_events_by_subject').on(t.subject)],
)
