import { boolean, index, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { bytea, instant } from '@platform/runtime/columns'

/** The applications that an operator registered; there is no other way to register one (B §1). */
export const clients = pgTable('clients', {
  id: uuid().primaryKey(),
  name: text().notNull(),
  /** The person or organization that the operator registered it for. */
  requester: text(),
  kind: text().$type<'public' | 'confidential'>().notNull(),
  redirectUris: text('redirect_uris').array().notNull(),
  postLogoutRedirectUris: text('post_logout_redirect_uris').array().notNull(),
  grants: text().array().notNull(),
  /** Null: the whole catalogue, including scopes added later. */
  scopes: text().array(),
  isFirstParty: boolean('is_first_party').notNull(),
  /** A product that a user must have access to at redemption (D69). */
  requiredProduct: text('required_product'),
  /** Sign-in policy: exact domains of a verified email, or listed users. Both empty: everyone. */
  policyDomains: text('policy_domains').array().notNull().default([]),
  policyUserIds: uuid('policy_user_ids').array().notNull().default([]),
  requiresSecondFactor: boolean('requires_second_factor').notNull().default(false),
  createdAt: instant('created_at').notNull(),
  updatedAt: instant('updated_at').notNull(),
  disabledAt: instant('disabled_at'),
})

/** Secrets of confidential clients; two may overlap while one is being replaced. */
export const clientSecrets = pgTable(
  'client_secrets',
  {
    id: uuid().primaryKey(),
    clientId: uuid('client_id')
      .notNull()
      .references(() => clients.id, { onDelete: 'cascade' }),
    /** SHA-256: the secret is random, so it does not need a slow hash. */
    secretHash: bytea('secret_hash').notNull(),
    createdAt: instant('created_at').notNull(),
    expiresAt: instant('expires_at'),
  },
  (t) => [index('client_secrets_by_client').on(t.clientId)],
)
