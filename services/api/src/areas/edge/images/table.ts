import { bytea, instant } from '@platform/runtime/columns'
import { bigint, index, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { deployments, pathText } from '../../deploy/deployments/table.ts'
import { organizations } from '../../tenancy/organizations/table.ts'
import { blobs } from '../../storage/objects/table.ts'

const number = (name: string) => bigint(name, { mode: 'number' })

/** The images of a deployment. Purging and storing a variant both lock its row, so that each sees the other. */
export const imageCaches = pgTable('image_caches', {
  deploymentId: uuid('deployment_id')
    .primaryKey()
    .references(() => deployments.id, { onDelete: 'cascade' }),
  /** Incremented by a purge of the whole deployment: images begun under a lower epoch are not stored. */
  epoch: number('epoch').notNull(),
})

/** The epochs of single sources; 0 without a row. */
export const imagePurges = pgTable(
  'image_purges',
  {
    deploymentId: uuid('deployment_id')
      .notNull()
      .references(() => imageCaches.deploymentId, { onDelete: 'cascade' }),
    source: pathText('source').notNull(),
    epoch: number('epoch').notNull(),
    purgedAt: instant('purged_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.deploymentId, t.source] }), index('image_purges_by_time').on(t.purgedAt)],
)

/** A generated image (deployments.md Images). */
export const imageVariants = pgTable(
  'image_variants',
  {
    deploymentId: uuid('deployment_id')
      .notNull()
      .references(() => imageCaches.deploymentId, { onDelete: 'cascade' }),
    /** SHA-256 of its epochs, its source with content, and the requested transformation. */
    key: bytea('key').notNull(),
    /** The deployment's organization, repeated here since the quota is the organization's. */
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    /** Path and query within the deployment, or a URL elsewhere. */
    source: pathText('source').notNull(),
    blobId: uuid('blob_id')
      .notNull()
      .references(() => blobs.id),
    bytes: number('bytes').notNull(),
    contentType: text('content_type').notNull(),
    /** Accurate to an hour. */
    lastUsedAt: instant('last_used_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.deploymentId, t.key] }),
    index('image_variants_by_source').on(t.deploymentId, t.source),
    index('image_variants_by_use').on(t.organizationId, t.lastUsedAt),
    index('image_variants_by_blob').on(t.blobId),
  ],
)

/** Total size of an organization's variants, kept by triggers. */
export const imageTotals = pgTable('image_totals', {
  organizationId: uuid('organization_id')
    .primaryKey()
    .references(() => organizations.id, { onDelete: 'cascade' }),
  bytes: number('bytes').notNull(),
})
