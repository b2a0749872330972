import { bytea, instant } from '@platform/runtime/columns'
import { sql } from 'drizzle-orm'
import { bigint, boolean, check, index, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { environments } from '../../tenancy/applications/table.ts'
import { deploymentFunctions, deployments, pathText } from '../deployments/table.ts'
import { blobs } from '../../storage/objects/table.ts'

const bytes = (name: string) => bigint(name, { mode: 'number' })

/** Content of deployed files, stored once per SHA-256, in one blob. */
export const artifacts = pgTable(
  'artifacts',
  {
    sha256: bytea('sha256').primaryKey(),
    blobId: uuid('blob_id')
      .notNull()
      .references(() => blobs.id),
    bytes: bytes('bytes').notNull(),
    createdAt: instant('created_at').notNull(),
  },
  (t) => [index('artifacts_by_blob').on(t.blobId)],
)

/** The same content, compressed ahead of time. */
export const artifactEncodings = pgTable(
  'artifact_encodings',
  {
    sha256: bytea('sha256')
      .notNull()
      .references(() => artifacts.sha256, { onDelete: 'cascade' }),
    encoding: text().$type<'br' | 'gzip'>().notNull(),
    /** null: compression saves too little. */
    blobId: uuid('blob_id').references(() => blobs.id),
    bytes: bytes('bytes').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.sha256, t.encoding] }),
    index('artifact_encodings_by_blob').on(t.blobId),
    check('artifact_encodings_encoding', sql`${t.encoding} in ('br', 'gzip')`),
  ],
)

/** The files that a deployment serves, by path without a leading slash. */
export const deploymentFiles = pgTable(
  'deployment_files',
  {
    deploymentId: uuid('deployment_id')
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    path: pathText('path').notNull(),
    sha256: bytea('sha256')
      .notNull()
      .references(() => artifacts.sha256),
    bytes: bytes('bytes').notNull(),
    contentType: text('content_type').notNull(),
  },
  (t) => [primaryKey({ columns: [t.deploymentId, t.path] }), index('deployment_files_by_sha256').on(t.sha256)],
)

/** Fallbacks of Prerender Functions, shown until their first call; no route leads to them. Path below `functions/`. */
export const deploymentFallbacks = pgTable(
  'deployment_fallbacks',
  {
    deploymentId: uuid('deployment_id')
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    path: pathText('path').notNull(),
    sha256: bytea('sha256')
      .notNull()
      .references(() => artifacts.sha256),
    bytes: bytes('bytes').notNull(),
  },
  (t) => [primaryKey({ columns: [t.deploymentId, t.path] }), index('deployment_fallbacks_by_sha256').on(t.sha256)],
)

/** Symlinks among the files of a Function, as package managers create them in node_modules. */
export const functionLinks = pgTable(
  'function_links',
  {
    functionId: uuid('function_id')
      .notNull()
      .references(() => deploymentFunctions.id, { onDelete: 'cascade' }),
    path: pathText('path').notNull(),
    /** Relative to the link's own folder; it stays below the Function's. */
    target: text().notNull(),
  },
  (t) => [primaryKey({ columns: [t.functionId, t.path] })],
)

/** The files of a Function, by path below its folder. */
export const functionFiles = pgTable(
  'function_files',
  {
    functionId: uuid('function_id')
      .notNull()
      .references(() => deploymentFunctions.id, { onDelete: 'cascade' }),
    path: pathText('path').notNull(),
    sha256: bytea('sha256')
      .notNull()
      .references(() => artifacts.sha256),
    bytes: bytes('bytes').notNull(),
    isExecutable: boolean('is_executable').notNull(),
  },
  (t) => [primaryKey({ columns: [t.functionId, t.path] }), index('function_files_by_sha256').on(t.sha256)],
)

/**
 * What builds of an environment start from: node_modules and framework caches, packed by the build that produced them. An
 * environment belongs to one application, so nothing leaks between applications.
 */
export const buildCaches = pgTable(
  'build_caches',
  {
    environmentId: uuid('environment_id')
      .notNull()
      .references(() => environments.id, { onDelete: 'cascade' }),
    /** Hash of package manager, Node version, lockfile and the dependencies in package.json. */
    key: text().notNull(),
    sha256: bytea('sha256')
      .notNull()
      .references(() => artifacts.sha256),
    bytes: bytes('bytes').notNull(),
    usedAt: instant('used_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.key] }),
    index('build_caches_by_sha256').on(t.sha256),
    index('build_caches_by_use').on(t.usedAt),
  ],
)
