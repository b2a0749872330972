import { instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import { bigint, check, index, pgTable, text, unique, uuid, varchar } from 'drizzle-orm/pg-core'
import { organizations } from '../organizations/table.ts'

export const applications = pgTable(
  'applications',
  {
    id: uuid().primaryKey(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    name: varchar({ length: 255 }).notNull(),
    slug: varchar({ length: 50 }).notNull(),
    imageUrl: text('image_url'),
    rootDirectory: text('root_directory'),
    /** The number of the latest activity; incrementing it locks the row until the transaction ends. */
    activityNumber: bigint('activity_number', { mode: 'number' }).notNull().default(0),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [
    unique('applications_name').on(t.organizationId, t.name),
    unique('applications_slug').on(t.organizationId, t.slug),
    index('applications_by_organization').on(t.organizationId, t.id),
  ],
)

/** Every application has exactly these two (D74). */
export const environmentSlugs = ['production', 'preview'] as const
export type EnvironmentSlug = (typeof environmentSlugs)[number]

export const environments = pgTable(
  'environments',
  {
    id: uuid().primaryKey(),
    applicationId: uuid('application_id')
      .notNull()
      .references(() => applications.id, { onDelete: 'cascade' }),
    slug: text().$type<EnvironmentSlug>().notNull(),
    name: text().notNull(),
    /** The deployment that its hostname serves; the only record of it. No foreign key: deployments refer to environments. */
    currentDeploymentId: uuid('current_deployment_id'),
    /** The sequence number with which the current deployment was created or promoted; only a higher one replaces it. */
    currentSeq: bigint('current_seq', { mode: 'number' }).notNull().default(0),
    /** The last sequence number handed out. */
    lastSeq: bigint('last_seq', { mode: 'number' }).notNull().default(0),
  },
  (t) => [
    unique('environments_slug').on(t.applicationId, t.slug),
    check('environments_known', sql`${t.slug} in ('production', 'preview')`),
  ],
)
