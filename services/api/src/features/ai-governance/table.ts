import { bytea, instant } from '@platform/runtime/columns'
import { type SQL, sql } from 'drizzle-orm'
import {
  type AnyPgColumn,
  bigint,
  boolean,
  check,
  index,
  integer,
  jsonb,
  numeric,
  pgTable,
  smallint,
  text,
  uniqueIndex,
  uuid,
  varchar,
} from 'drizzle-orm/pg-core'
import { organizations } from '../organizations/table.ts'

/** One try at a provider, in the order of the tries. */
export interface ProviderAttempt {
  provider: string
  error?: string
  statusCode?: number
  tag?: string
}

const operations = ['chat.completions', 'responses', 'audio.speech', 'audio.transcriptions', 'videos'] as const
const statuses = ['pending', 'success', 'error', 'cancelled'] as const
const actorTypes = ['user', 'key', 'function'] as const
const usageSources = ['provider', 'estimated', 'none'] as const

/** A check of one column by itself, of which tests of migrations read what the column may hold. */
const isOneOf = (column: AnyPgColumn, values: readonly string[]): SQL =>
  sql`${column} in (${sql.raw(values.map((value) => `'${value}'`).join(', '))})`

/**
 * One row a request to the AI gateway, in partitions of a UTC month. The id is the request's own, a UUIDv7 of its start, so a partition is
 * a range of ids and a request cannot be counted twice. Holds nothing of prompts and answers but their lengths.
 */
export const aiUsageEvents = pgTable(
  'ai_usage_events',
  {
    id: uuid().primaryKey(),
    traceId: text('trace_id'),
    /** No foreign keys: usage outlives what it was of. */
    organizationId: uuid('organization_id').notNull(),
    /** null: the organization itself is the subject of billing. */
    applicationId: uuid('application_id'),
    /** A user's id, or the id of the key or of the Function's credential. */
    actorId: text('actor_id').notNull(),
    actorType: text('actor_type', { enum: actorTypes }).notNull(),
    apiKeyId: uuid('api_key_id'),
    authenticatedUserId: text('authenticated_user_id'),
    /** As the client names its own user. */
    callerEndUserId: varchar('caller_end_user_id', { length: 255 }),
    modelRequested: varchar('model_requested', { length: 255 }),
    modelServed: varchar('model_served', { length: 255 }),
    provider: text(),
    providerAttempts: jsonb('provider_attempts').$type<readonly ProviderAttempt[]>().notNull(),
    operation: text({ enum: operations }).notNull(),
    status: text({ enum: statuses }).notNull(),
    statusCode: smallint('status_code').notNull(),
    errorCode: varchar('error_code', { length: 255 }),
    errorType: varchar('error_type', { length: 255 }),
    // Disjoint: each token is counted in one of them (usage.ts).
    inputTokens: bigint('input_tokens', { mode: 'number' }).notNull(),
    cacheReadTokens: bigint('cache_read_tokens', { mode: 'number' }).notNull(),
    cacheWriteTokens: bigint('cache_write_tokens', { mode: 'number' }).notNull(),
    inputAudioTokens: bigint('input_audio_tokens', { mode: 'number' }).notNull(),
    outputTokens: bigint('output_tokens', { mode: 'number' }).notNull(),
    reasoningTokens: bigint('reasoning_tokens', { mode: 'number' }).notNull(),
    outputAudioTokens: bigint('output_audio_tokens', { mode: 'number' }).notNull(),
    audioSeconds: numeric('audio_seconds', { mode: 'number', precision: 12, scale: 3 }),
    characters: bigint({ mode: 'number' }),
    usageSource: text('usage_source', { enum: usageSources }).notNull(),
    /** Nano-USD: 10⁻⁹ of a dollar. */
    providerCostNanos: bigint('provider_cost_nanos', { mode: 'bigint' }).notNull(),
    billableCostNanos: bigint('billable_cost_nanos', { mode: 'bigint' }).notNull(),
    priceVersion: text('price_version'),
    streaming: boolean().notNull(),
    latencyMs: integer('latency_ms').notNull(),
    metadata: jsonb().$type<Readonly<Record<string, string>>>(),
    startedAt: instant('started_at').notNull(),
    completedAt: instant('completed_at'),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [
    index('ai_usage_events_of_organization').on(t.organizationId, t.id),
    index('ai_usage_events_of_application')
      .on(t.applicationId, t.id)
      .where(sql`${t.applicationId} is not null`),
    check('ai_usage_events_operation', isOneOf(t.operation, operations)),
    check('ai_usage_events_status', isOneOf(t.status, statuses)),
    check('ai_usage_events_actor_type', isOneOf(t.actorType, actorTypes)),
    check('ai_usage_events_usage_source', isOneOf(t.usageSource, usageSources)),
    check(
      'ai_usage_events_usage',
      sql`least(${t.inputTokens}, ${t.cacheReadTokens}, ${t.cacheWriteTokens}, ${t.inputAudioTokens}, ${t.outputTokens},
${t.reasoningTokens}, ${t.outputAudioTokens}, ${t.audioSeconds}, ${t.characters}, ${t.latencyMs}) >= 0`,
    ),
    check('ai_usage_events_cost', sql`least(${t.providerCostNanos}, ${t.billableCostNanos}) >= 0`),
  ],
)

/** An organization's own key for a provider of the operator's list. The key is sealed; the row's id is its associated data. */
export const aiProviderKeys = pgTable(
  'ai_provider_keys',
  {
    /** New with each key that is set, so that what was sealed before never opens for it. */
    id: uuid().primaryKey(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    provider: text().notNull(),
    ciphertext: bytea().notNull(),
    kekId: text('kek_id').notNull(),
    /** What of its end may be shown: four characters, of a short key fewer. */
    last4: text().notNull(),
    createdByUserId: text('created_by_user_id').notNull(),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [uniqueIndex('ai_provider_keys_provider').on(t.organizationId, t.provider)],
)
