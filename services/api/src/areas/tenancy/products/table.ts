import { instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import { bigint, check, pgTable, primaryKey, text, unique, uuid } from 'drizzle-orm/pg-core'
import { organizations } from '../organizations/table.ts'
import type { ProductSlug, Quota } from './registry.ts'

/** An operator's decision for an organization and a product, overriding the product's default. */
export const entitlements = pgTable(
  'product_entitlements',
  {
    id: uuid().primaryKey(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    product: text().$type<ProductSlug>().notNull(),
    status: text().$type<'ACTIVE' | 'SUSPENDED' | 'REVOKED'>().notNull(),
    /** null: the operator, who is not a user. */
    grantedByUserId: text('granted_by_user_id'),
    revokedAt: instant('revoked_at'),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [
    unique('product_entitlements_product').on(t.organizationId, t.product),
    check('product_entitlements_status', sql`${t.status} in ('ACTIVE', 'SUSPENDED', 'REVOKED')`),
  ],
)

/** The plan that an operator activated for an organization and a product. */
export const subscriptions = pgTable(
  'product_subscriptions',
  {
    id: uuid().primaryKey(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    product: text().$type<ProductSlug>().notNull(),
    plan: text().$type<'free' | 'pro'>().notNull(),
    status: text().$type<'ACTIVE' | 'CANCELED'>().notNull(),
    activatedByUserId: text('activated_by_user_id'),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [
    unique('product_subscriptions_product').on(t.organizationId, t.product),
    check('product_subscriptions_plan', sql`${t.plan} in ('free', 'pro')`),
    check('product_subscriptions_status', sql`${t.status} in ('ACTIVE', 'CANCELED')`),
  ],
)

/** An operator's quotas for an organization, overriding its plan's. */
export const quotaOverrides = pgTable(
  'quota_overrides',
  {
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    quota: text().$type<Quota>().notNull(),
    limit: bigint({ mode: 'number' }).notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.organizationId, t.quota] }), check('quota_overrides_limit', sql`${t.limit} >= 0`)],
)

/** The cap on an organization's monthly bill, in millionths of a US dollar. */
export const billingCaps = pgTable(
  'billing_caps',
  {
    organizationId: uuid('organization_id')
      .primaryKey()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    capMicros: bigint('cap_micros', { mode: 'number' }).notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [check('billing_caps_cap', sql`${t.capMicros} >= 0`)],
)

/** Time during which an organization's Functions had a request in progress, by UTC month (D77). */
export const functionTime = pgTable(
  'function_time',
  {
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    month: instant('month').notNull(),
    busyMs: bigint('busy_ms', { mode: 'number' }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.organizationId, t.month] })],
)
