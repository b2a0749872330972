import { instant } from '@platform/runtime/columns'
import { and, eq, sql } from 'drizzle-orm'
import { check, index, pgTable, text, uniqueIndex, uuid, varchar } from 'drizzle-orm/pg-core'
import { applications, environments } from './table.ts'

/** The hostnames of applications. The label is the first one of the hostname; the domain behind it is configuration. */
export const hostnames = pgTable(
  'hostnames',
  {
    id: uuid().primaryKey(),
    applicationId: uuid('application_id')
      .notNull()
      .references(() => applications.id, { onDelete: 'cascade' }),
    type: text().$type<'DEPLOYMENT' | 'BRANCH' | 'APP'>().notNull(),
    label: varchar({ length: 63 }).notNull(),
    source: text().$type<'system' | 'user'>().notNull(),
    /** Set for type DEPLOYMENT only: the other types serve the current deployment of their environment. */
    deploymentId: uuid('deployment_id'),
    branchId: uuid('branch_id'),
    createdAt: instant('created_at').notNull(),
  },
  (t) => [
    uniqueIndex('hostnames_label').on(t.label),
    uniqueIndex('hostnames_production')
      .on(t.applicationId)
      .where(sql`${t.type} = 'APP'`),
    uniqueIndex('hostnames_preview')
      .on(t.applicationId)
      .where(sql`${t.type} = 'BRANCH'`),
    index('hostnames_of_deployment').on(t.deploymentId),
    index('hostnames_by_application').on(t.applicationId, t.id),
    check('hostnames_type', sql`${t.type} in ('DEPLOYMENT', 'BRANCH', 'APP')`),
    check('hostnames_source', sql`${t.source} in ('system', 'user')`),
  ],
)

/** Joins the environment that a hostname serves: production for APP, preview for BRANCH, none for DEPLOYMENT. */
export const isEnvironmentOfHostname = and(
  eq(environments.applicationId, hostnames.applicationId),
  eq(environments.slug, sql`case ${hostnames.type} when 'APP' then 'production' when 'BRANCH' then 'preview' end`),
)
