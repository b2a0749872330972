import { instant } from '@platform/runtime/columns'
import { bigint, index, jsonb, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { applications } from '../applications/table.ts'

/** Everything that a feed of an application may show. */
export const activityTypes = [
  'variable.created',
  'variable.updated',
  'variable.deleted',
  'hostname.set',
  'api_key.created',
  'api_key.deleted',
  'deployment.created',
  'deployment.active',
  'deployment.failed',
  'deployment.promoted',
  'deployment.cancelled',
  'deployment.retired',
] as const
export type ActivityType = (typeof activityTypes)[number]

/** What happened to an application. Never a value and never a secret. */
export const activities = pgTable(
  'activities',
  {
    applicationId: uuid('application_id')
      .notNull()
      .references(() => applications.id, { onDelete: 'cascade' }),
    /** 1, 2, 3 … per application, in the order of commits. */
    number: bigint({ mode: 'number' }).notNull(),
    type: text().$type<ActivityType>().notNull(),
    actor: jsonb().$type<{ type: 'user' | 'api_key' | 'function' | 'platform'; id: string }>().notNull(),
    subject: jsonb().$type<Record<string, string | boolean | null>>().notNull(),
    createdAt: instant('created_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.applicationId, t.number] }), index('activities_by_age').on(t.createdAt)],
)
