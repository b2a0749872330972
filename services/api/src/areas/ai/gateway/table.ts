import { instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import { bigint, check, index, integer, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { organizations } from '../../tenancy/organizations/table.ts'

/** A /responses answer that its provider stores, so that only its owner can use it as `previous_response_id` (D89). No content. */
export const aiResponses = pgTable(
  'ai_responses',
  {
    provider: text().notNull(),
    /** As the provider made it. */
    id: text().notNull(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    /** null: the call of a user who named no application. */
    applicationId: uuid('application_id'),
    upstreamModel: text('upstream_model').notNull(),
    /** Input and output tokens, once complete. */
    totalTokens: bigint('total_tokens', { mode: 'number' }),
    createdAt: instant('created_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.provider, t.id] }),
    index('ai_responses_by_id').on(t.id),
    index('ai_responses_by_time').on(t.createdAt),
    index('ai_responses_of_organization').on(t.organizationId),
  ],
)

/** An item of such an answer, so that only its owner can refer to its id. No content. */
export const aiResponseItems = pgTable(
  'ai_response_items',
  {
    /** As the provider made it. */
    id: text().notNull(),
    provider: text().notNull(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    /** null: the call of a user who named no application. */
    applicationId: uuid('application_id'),
    createdAt: instant('created_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.id, t.provider] }),
    index('ai_response_items_by_time').on(t.createdAt),
    index('ai_response_items_of_organization').on(t.organizationId),
  ],
)

/** A video job at a provider. Neither the prompt nor the video is stored. */
export const aiVideoJobs = pgTable(
  'ai_video_jobs',
  {
    id: uuid().primaryKey(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    /** null: the call of a user who named no application. */
    applicationId: uuid('application_id'),
    /** The usage event, which stays pending until the job ends. */
    eventId: uuid('event_id').notNull(),
    model: text().notNull(),
    provider: text().notNull(),
    upstreamModel: text('upstream_model').notNull(),
    keyOwner: text('key_owner').$type<'operator' | 'organization' | 'local'>().notNull(),
    /** null: no provider has accepted it yet. */
    upstreamId: text('upstream_id'),
    status: text().$type<'pending' | 'in_progress' | 'completed' | 'failed' | 'cancelled' | 'expired'>().notNull(),
    /** Seconds, as requested. */
    duration: integer(),
    /** URL of the video at the provider; null: below the job itself. */
    contentUrl: text('content_url'),
    errorCode: text('error_code'),
    errorMessage: text('error_message'),
    createdAt: instant('created_at').notNull(),
    /** When to poll the provider next; null: never again. */
    pollAt: instant('poll_at'),
    polls: integer().notNull().default(0),
    expiresAt: instant('expires_at').notNull(),
    completedAt: instant('completed_at'),
  },
  (t) => [
    index('ai_video_jobs_to_poll')
      .on(t.pollAt)
      .where(sql`${t.pollAt} is not null`),
    index('ai_video_jobs_of_organization').on(t.organizationId),
    index('ai_video_jobs_by_expiry').on(t.expiresAt),
    check(
      'ai_video_jobs_status',
      sql`${t.status} in ('pending', 'in_progress', 'completed', 'failed', 'cancelled', 'expired')`,
    ),
    check('ai_video_jobs_key_owner', sql`${t.keyOwner} in ('operator', 'organization', 'local')`),
  ],
)
