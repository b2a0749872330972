import { bytea, instant } from '@platform/runtime/columns'
import { bigint, index, jsonb, pgTable, primaryKey, smallint, text, uuid } from 'drizzle-orm/pg-core'
import type { HeaderPairs } from '@platform/build-output/router'
import { deployments, pathText } from '../deployments/table.ts'
import { blobs } from '../storage/table.ts'

const number = (name: string) => bigint(name, { mode: 'number' })
const deploymentId = () =>
  uuid('deployment_id')
    .notNull()
    .references(() => deployments.id, { onDelete: 'cascade' })

/** Pages that Prerender Functions made (Incremental Static Regeneration), each for one hostname and what it may differ by. */
export const isrPages = pgTable(
  'isr_pages',
  {
    deploymentId: deploymentId(),
    /** SHA-256 of the output's path, the hostname, and the parameters and headers that the page may differ by. */
    key: bytea('key').notNull(),
    /** In the output, without `.func`. */
    path: pathText('path').notNull(),
    status: smallint().notNull(),
    headers: jsonb().$type<HeaderPairs>().notNull(),
    tags: text().array().notNull(),
    blobId: uuid('blob_id')
      .notNull()
      .references(() => blobs.id),
    bytes: number('bytes').notNull(),
    /** By the clock of the database, when its making began: a tag that was revalidated since counts. */
    begunAt: instant('begun_at').notNull(),
    /** null: for ever. */
    freshUntil: instant('fresh_until'),
    /** Until when it may be shown while it is made anew. null: for ever. */
    staleUntil: instant('stale_until'),
  },
  (t) => [
    primaryKey({ columns: [t.deploymentId, t.key] }),
    index('isr_pages_by_age').on(t.deploymentId, t.begunAt),
    index('isr_pages_by_blob').on(t.blobId),
  ],
)

/** Who makes a page anew, so that one edge does. */
export const isrClaims = pgTable(
  'isr_claims',
  {
    deploymentId: deploymentId(),
    /** Of the page, or of the first of a group that is made together. */
    key: bytea('key').notNull(),
    until: instant('until').notNull(),
  },
  (t) => [primaryKey({ columns: [t.deploymentId, t.key] }), index('isr_claims_by_time').on(t.until)],
)

/** When tags were last revalidated. Times are the database's. */
export const isrTags = pgTable(
  'isr_tags',
  {
    deploymentId: deploymentId(),
    tag: text().notNull(),
    /** What was begun until then is stale. */
    staleAt: instant('stale_at').notNull(),
    /** What was begun until then must not be shown from then on. null: it may be, while it is made anew. */
    expiredAt: instant('expired_at'),
  },
  (t) => [primaryKey({ columns: [t.deploymentId, t.tag] })],
)

/** What frameworks keep between requests in all slots of a deployment: results of fetch, of `use cache`, and pages of a Node server. */
export const isrData = pgTable(
  'isr_data',
  {
    deploymentId: deploymentId(),
    key: text().notNull(),
    /** As the framework's cache handler wrote it. */
    value: bytea('value').notNull(),
    tags: text().array().notNull(),
    bytes: number('bytes').notNull(),
    storedAt: instant('stored_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.deploymentId, t.key] }), index('isr_data_by_age').on(t.deploymentId, t.storedAt)],
)

/** What pages and data of a deployment take; locked by whoever stores, who makes room. */
export const isrTotals = pgTable('isr_totals', {
  deploymentId: deploymentId().primaryKey(),
  pageBytes: number('page_bytes').notNull().default(0),
  pages: number('pages').notNull().default(0),
  dataBytes: number('data_bytes').notNull().default(0),
  data: number('data').notNull().default(0),
})
