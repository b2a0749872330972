import { instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import { check, index, integer, pgTable, primaryKey, text, unique, uuid, varchar } from 'drizzle-orm/pg-core'

export type Role = 'OWNER' | 'ADMIN' | 'MEMBER'

export const organizations = pgTable(
  'organizations',
  {
    id: uuid().primaryKey(),
    name: varchar({ length: 255 }).notNull(),
    /** Globally unique (D75). */
    slug: varchar({ length: 50 }).notNull(),
    imageUrl: text('image_url'),
    /** Kept by a trigger on applications, so that lists need not count. */
    applicationCount: integer('application_count').notNull().default(0),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [unique('organizations_slug').on(t.slug)],
)

export const members = pgTable(
  'organization_members',
  {
    id: uuid().primaryKey(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    /** `sub` of the identity provider. */
    userId: text('user_id').notNull(),
    role: text().$type<Role>().notNull(),
    joinedAt: instant('joined_at').notNull(),
  },
  (t) => [
    unique('organization_members_user').on(t.organizationId, t.userId),
    index('organization_members_by_user').on(t.userId, t.organizationId),
    check('organization_members_role', sql`${t.role} in ('OWNER', 'ADMIN', 'MEMBER')`),
  ],
)

/**
 * When users who were members last stopped being that. An invitation of before admits them no more (D112). A row is kept until a job
 * discards it, longer than an invitation works.
 */
export const removedMembers = pgTable(
  'removed_members',
  {
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    /** `sub` of the identity provider. */
    userId: text('user_id').notNull(),
    removedAt: instant('removed_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.organizationId, t.userId] }), index('removed_members_by_time').on(t.removedAt)],
)

/** The number of each user's organizations, kept by a trigger on organization_members. */
export const memberships = pgTable('membership_counts', {
  userId: text('user_id').primaryKey(),
  organizations: integer().notNull(),
})
