import { bytea, instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import { check, index, pgTable, text, uuid, varchar } from 'drizzle-orm/pg-core'
import { applications } from '../applications/table.ts'

/**
 * An API key (A §2). The secret is kept nowhere: its SHA-256 serves the exchange, and for keys that may reach storage the
 * sealed states of their SigV4 hash serve `/s3` (D42). A deleted key, and one whose application is gone, stays as a
 * tombstone, so that its holder learns what happened (D1, D3).
 */
export const apiKeys = pgTable(
  'api_keys',
  {
    id: uuid().primaryKey(),
    /** null: the application is gone. */
    applicationId: uuid('application_id').references(() => applications.id, { onDelete: 'set null' }),
    name: varchar({ length: 255 }).notNull(),
    scopes: text().array().notNull(),
    secretHash: bytea('secret_hash').notNull(),
    signingState: bytea('signing_state'),
    signingKekId: text('signing_kek_id'),
    /** null: made in the console, never expires. */
    expiresAt: instant('expires_at'),
    /** null: made by the platform, for a deployment. */
    createdByUserId: text('created_by_user_id'),
    /** Of the credential of a deployment's Functions, which is nobody's to list (D9); null: a key that a person made. */
    deploymentId: uuid('deployment_id'),
    /** With `deploymentId`: the environment that its tokens are confined to. */
    environmentId: uuid('environment_id'),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
    deletedAt: instant('deleted_at'),
  },
  (t) => [
    index('api_keys_by_application').on(t.applicationId, t.id),
    index('api_keys_of_deployment')
      .on(t.deploymentId)
      .where(sql`${t.deploymentId} is not null`),
    check('api_keys_owner', sql`(${t.deploymentId} is null) = (${t.createdByUserId} is not null)`),
    check('api_keys_environment', sql`(${t.deploymentId} is null) = (${t.environmentId} is null)`),
  ],
)
