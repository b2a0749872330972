import type { OutputManifest } from '@platform/build-output/manifest'
import { instant } from '@platform/runtime/columns'
import { type SQL, type SQLWrapper, sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  check,
  customType,
  foreignKey,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  unique,
  uuid,
  varchar,
} from 'drizzle-orm/pg-core'
import { applications, environments } from '../../tenancy/applications/table.ts'
import { organizations } from '../../tenancy/organizations/table.ts'
import type { GitMetadata } from './git-metadata.ts'

/** Text sorted by its bytes. */
export const pathText = customType<{ data: string }>({ dataType: () => 'text collate "C"' })

/** In the order that deployments pass through them; the last two are final (A §3). */
export const deploymentStatuses = [
  'PENDING',
  'QUEUED',
  'STARTING',
  'BUILDING',
  'PROVISIONING',
  'ACTIVE',
  'FAILED',
] as const
export type DeploymentStatus = (typeof deploymentStatuses)[number]

/** A variable that a deployment was provisioned with (D97). digest: distinguishes values without revealing them. */
export interface DeployedVariable {
  key: string
  source: 'organization' | 'application' | 'environment'
  /** As of provisioning; never shown. Absent: provisioned before Functions existed. */
  sensitive?: boolean
  digest: string
}

interface EndColumns {
  status: SQLWrapper
  retiredAt: SQLWrapper
  updatedAt: SQLWrapper
}

/** SQL: true for a deployment that was retired or has failed. */
export const isEnded = ({ status, retiredAt }: EndColumns): SQL =>
  sql`(${retiredAt} is not null or ${status} = 'FAILED')`

/** SQL: when an ended deployment was retired or failed. */
export const endedAt = ({ retiredAt, updatedAt }: EndColumns): SQL<Date> => sql`coalesce(${retiredAt}, ${updatedAt})`

/** An uploaded archive and its deployment. */
export const deployments = pgTable(
  'deployments',
  {
    id: uuid().primaryKey(),
    /** The application's organization, repeated here since quotas and lists count by it. */
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    applicationId: uuid('application_id')
      .notNull()
      .references(() => applications.id, { onDelete: 'cascade' }),
    environmentId: uuid('environment_id').notNull(),
    /** 1, 2, 3 … per environment, in the order of creation: an older deployment never replaces a newer one. */
    seq: bigint({ mode: 'number' }).notNull(),
    status: text().$type<DeploymentStatus>().notNull(),
    /** The first label of its own hostname, claimed at creation (D81). */
    label: varchar({ length: 63 }).notNull(),
    /** null: the application's root directory at the time of its build. */
    rootDirectory: text('root_directory'),
    /** What the client that created it states about its commit: never fetched, never trusted (D122). null: nothing. */
    git: jsonb().$type<GitMetadata>(),
    createdBy: jsonb('created_by').$type<{ type: 'user' | 'api_key'; id: string }>().notNull(),
    failureReason: text('failure_reason'),
    /** Incremented by each worker that claims it; writes of earlier attempts no longer match. */
    attempt: integer().notNull().default(0),
    /** How often its worker fell silent; orderly releases do not count. */
    interruptions: integer().notNull().default(0),
    /** When the worker must have renewed its lease. null: no worker holds it. */
    leaseUntil: instant('lease_until'),
    /** The deadline of the current state. null: none but that of PENDING. */
    deadlineAt: instant('deadline_at'),
    /** The row of `uploads` that holds its parts, from upload/start on; the row is deleted once the deployment has ended. */
    uploadId: uuid('upload_id'),
    /** SHA-256 of the parts that completed the upload, in hex; recognizes repeats (D80). */
    completedParts: text('completed_parts'),
    archiveBytes: bigint('archive_bytes', { mode: 'number' }),
    /** Total bytes of its files. */
    sizeBytes: bigint('size_bytes', { mode: 'number' }),
    buildStartedAt: instant('build_started_at'),
    buildEndedAt: instant('build_ended_at'),
    /** The time of the last line of its build log; the next one is later (D84). */
    lastLogAt: instant('last_log_at'),
    /** How it is served; set before PROVISIONING. */
    output: jsonb().$type<OutputManifest>(),
    variables: jsonb().$type<DeployedVariable[]>(),
    /** The values, sealed; removed at retirement (D97). */
    sealedVariables: text('sealed_variables'),
    activatedAt: instant('activated_at'),
    /** Not retired before this time (D83). */
    pinnedUntil: instant('pinned_until'),
    retiredAt: instant('retired_at'),
    filesRemovedAt: instant('files_removed_at'),
    /** When its compressible files had all been compressed. */
    filesCompressedAt: instant('files_compressed_at'),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [
    unique('deployments_label').on(t.label),
    unique('deployments_seq').on(t.environmentId, t.seq),
    foreignKey({ columns: [t.environmentId], foreignColumns: [environments.id] }).onDelete('cascade'),
    index('deployments_by_organization').on(t.organizationId, t.id),
    index('deployments_by_application').on(t.applicationId, t.id),
    index('deployments_by_environment').on(t.environmentId, t.id),
    index('deployments_of_environment').on(t.environmentId, t.status, t.id),
    // Deployments that a worker may have to claim; few at any time.
    index('deployments_under_way')
      .on(t.organizationId, t.status)
      .where(sql`${t.status} not in ('ACTIVE', 'FAILED')`),
    unique('deployments_upload').on(t.uploadId),
    index('deployments_uncompressed')
      .on(t.id)
      .where(sql`${t.status} = 'ACTIVE' and ${t.retiredAt} is null and ${t.filesCompressedAt} is null`),
    // Deployments that may be retired, and those whose files are to be removed.
    index('deployments_unretired')
      .on(t.id)
      .where(sql`${t.status} = 'ACTIVE' and ${t.retiredAt} is null`),
    index('deployments_with_files_to_remove')
      .on(t.id)
      .where(
        sql`${t.filesRemovedAt} is null and ${t.output} is not null and (${t.retiredAt} is not null or ${t.status} = 'FAILED')`,
      ),
    // Deployments that will be deleted. A FAILED one changes no more, so its last update is its failure.
    index('deployments_ended').on(endedAt(t)).where(isEnded(t)),
    check(
      'deployments_status',
      sql`${t.status} in ('PENDING', 'QUEUED', 'STARTING', 'BUILDING', 'PROVISIONING', 'ACTIVE', 'FAILED')`,
    ),
  ],
)

/** Deployments of an application by state, kept by triggers so that lists need not count rows. */
export const deploymentCounts = pgTable(
  'deployment_counts',
  {
    applicationId: uuid('application_id')
      .notNull()
      .references(() => applications.id, { onDelete: 'cascade' }),
    status: text().$type<DeploymentStatus>().notNull(),
    deployments: bigint({ mode: 'number' }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.applicationId, t.status] })],
)

/** The same for an environment. No foreign key: its check would wait for an environment that a promotion holds. */
export const environmentDeploymentCounts = pgTable(
  'environment_deployment_counts',
  {
    environmentId: uuid('environment_id').notNull(),
    status: text().$type<DeploymentStatus>().notNull(),
    deployments: bigint({ mode: 'number' }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.status] })],
)

/** A line of a build log. `createdAt` is unique and ascending within a deployment (D84). */
export const buildLogs = pgTable(
  'build_logs',
  {
    deploymentId: uuid('deployment_id')
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    createdAt: instant('created_at').notNull(),
    id: uuid().notNull(),
    type: text().$type<'INFO' | 'WARN' | 'ERROR' | 'DEBUG'>().notNull(),
    message: text().notNull(),
  },
  (t) => [primaryKey({ columns: [t.deploymentId, t.createdAt] }), unique('build_logs_id').on(t.deploymentId, t.id)],
)

/** A Function of a deployment: a distinct `.func` folder, a worker or the Node server. */
export const deploymentFunctions = pgTable(
  'deployment_functions',
  {
    /** A UUIDv8 of deployment and path (wire.md). */
    id: uuid().primaryKey(),
    deploymentId: uuid('deployment_id')
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    /** Path in the output, without `.func`; for a worker or server, its entry file. */
    path: pathText('path').notNull(),
    kind: text().$type<'handler' | 'edge' | 'worker' | 'server'>().notNull(),
    /** Relative to the Function's files; null: `command`. */
    handler: text(),
    /** A start script. */
    command: text(),
    /** Where it runs, relative to the Function's files. */
    workingFolder: pathText('working_folder').notNull().default(''),
    isWeb: boolean('is_web').notNull(),
    hasHelpers: boolean('has_helpers').notNull(),
    /** What the output requests; null: the plan's maximum. */
    memoryMb: integer('memory_mb'),
    /** Variables that the output itself sets for this Function. */
    environment: jsonb().$type<Record<string, string>>().notNull(),
    coldStarts: bigint('cold_starts', { mode: 'number' }).notNull().default(0),
    requests: bigint({ mode: 'number' }).notNull().default(0),
  },
  (t) => [
    unique('deployment_functions_path').on(t.deploymentId, t.path),
    check('deployment_functions_kind', sql`${t.kind} in ('handler', 'edge', 'worker', 'server')`),
    check('deployment_functions_entry', sql`${t.handler} is not null or ${t.command} is not null`),
  ],
)

/** The crons of deployments: a row for each of the output's `crons`. */
export const deploymentCrons = pgTable(
  'deployment_crons',
  {
    /** A UUIDv8 of deployment, schedule and path. */
    id: uuid().primaryKey(),
    deploymentId: uuid('deployment_id')
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    /** Position in the output, from 0. */
    n: integer().notNull(),
    /** Includes the query. */
    path: pathText('path').notNull(),
    schedule: text().notNull(),
  },
  (t) => [unique('deployment_crons_order').on(t.deploymentId, t.n)],
)
