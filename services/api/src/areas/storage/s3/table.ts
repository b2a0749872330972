import { instant } from '@platform/runtime/columns'
import type { CorsRule } from '@platform/s3-protocol/wire/cors-rules'
import { jsonb, pgTable, uuid } from 'drizzle-orm/pg-core'
import { buckets, type StoredTags } from '../objects/table.ts'

/** What S3 clients have configured for a bucket; most buckets have no configuration and no row. */
export const bucketConfigurations = pgTable('bucket_configurations', {
  bucketId: uuid('bucket_id')
    .primaryKey()
    .references(() => buckets.id, { onDelete: 'cascade' }),
  /** In order, at least one; null: no CORS configuration. */
  cors: jsonb().$type<CorsRule[]>(),
  /** At least one; null: no tags. */
  tags: jsonb().$type<StoredTags>(),
  updatedAt: instant('updated_at').notNull(),
})
