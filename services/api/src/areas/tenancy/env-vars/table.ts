import { bytea, instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import { boolean, check, index, pgTable, text, uniqueIndex, uuid, varchar } from 'drizzle-orm/pg-core'
import { applications, environments } from '../applications/table.ts'
import { organizations } from '../organizations/table.ts'

/** The layer of a variable; when layers are merged, later ones win. */
export type Layer = 'organization' | 'application' | 'environment'

/** One table for the three layers. The value is sealed; the row's id is its associated data. */
export const envVars = pgTable(
  'env_vars',
  {
    id: uuid().primaryKey(),
    layer: text().$type<Layer>().notNull(),
    organizationId: uuid('organization_id').references(() => organizations.id, { onDelete: 'cascade' }),
    applicationId: uuid('application_id').references(() => applications.id, { onDelete: 'cascade' }),
    environmentId: uuid('environment_id').references(() => environments.id, { onDelete: 'cascade' }),
    key: varchar({ length: 255 }).notNull(),
    sensitive: boolean().notNull(),
    ciphertext: bytea().notNull(),
    kekId: text('kek_id').notNull(),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [
    uniqueIndex('env_vars_organization_key')
      .on(t.organizationId, t.key)
      .where(sql`${t.layer} = 'organization'`),
    uniqueIndex('env_vars_application_key')
      .on(t.applicationId, t.key)
      .where(sql`${t.layer} = 'application'`),
    uniqueIndex('env_vars_environment_key')
      .on(t.environmentId, t.key)
      .where(sql`${t.layer} = 'environment'`),
    index('env_vars_by_application').on(t.applicationId, t.id),
    check(
      'env_vars_layer',
      sql`case ${t.layer}
        when 'organization' then ${t.organizationId} is not null and ${t.applicationId} is null and ${t.environmentId} is null
        when 'application' then ${t.organizationId} is null and ${t.applicationId} is not null and ${t.environmentId} is null
        when 'environment' then ${t.organizationId} is null and ${t.applicationId} is not null and ${t.environmentId} is not null
        else false end`,
    ),
  ],
)
