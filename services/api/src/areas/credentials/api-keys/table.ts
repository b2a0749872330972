import { bytea, instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import { check, index, pgTable, text, uuid, varchar } from 'drizzle-orm/pg-core'
import { applications } from '../../tenancy/applications/table.ts'

/**
 * An API key (A §2). The secret itself is not stored: its SHA-256 serves the token exchange, and for keys with storage scopes the
 * sealed states of their SigV4 hash serve `/s3` (D42). Deleted keys, and keys of deleted applications, stay as tombstones, so
 * that their holders learn what happened (D1, D3).
 */
export const apiKeys = pgTable(
  'api_keys',
  {
    id: uuid().primaryKey(),
    /** null: the application was deleted. */
    applicationId: uuid('application_id').references(() => applications.id, { onDelete: 'set null' }),
    name: varchar({ length: 255 }).notNull(),
    scopes: text().array().notNull(),
    secretHash: bytea('secret_hash').notNull(),
    signingState: bytea('signing_state'),
    signingKekId: text('signing_kek_id'),
    /** null: created in the console, never expires. */
    expiresAt: instant('expires_at'),
    /** null: created by the platform, for a deployment. */
    createdByUserId: text('created_by_user_id'),
    /** The deployment whose Functions this credential is for; such keys are never listed (D9). null: created by a person. */
    deploymentId: uuid('deployment_id'),
    /** The environment that the credential's tokens are confined to; set with `deploymentId`. */
    environmentId: uuid('environment_id'),
    /** The beginning of the day, in UTC, on which it was last exchanged or signed for `/s3`. null: never, or a deployment's credential. */
    lastUsedAt: instant('last_used_at'),
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
