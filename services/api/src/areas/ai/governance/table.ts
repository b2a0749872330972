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
  unique,
  uniqueIndex,
  uuid,
  varchar,
} from 'drizzle-orm/pg-core'
import { organizations } from '../../tenancy/organizations/table.ts'

/** One attempt at a provider, in order. */
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
/** The owner of a call's key; `local` needs none. */
const keyOwners = ['operator', 'organization', 'local'] as const
const periods = ['day', 'month'] as const

/** UTC days and months. */
export type Period = (typeof periods)[number]

/** A sum of money in nano-USD, over any number of calls. */
const sumOfNanos = (name: string) => numeric(name, { mode: 'bigint', precision: 38, scale: 0 })

/** A check of a single column; migration tests read the allowed values from it. */
const isOneOf = (column: AnyPgColumn, values: readonly string[]): SQL =>
  sql`${column} in (${sql.raw(values.map((value) => `'${value}'`).join(', '))})`

/**
 * One row per request to the AI gateway, partitioned by UTC month. The id is the request's own, a UUIDv7 of its start, so a
 * partition is a range of ids and a request cannot be counted twice. Of prompts and answers it holds only lengths.
 */
export const aiUsageEvents = pgTable(
  'ai_usage_events',
  {
    id: uuid().primaryKey(),
    traceId: text('trace_id'),
    /** No foreign keys: usage outlives its subjects. */
    organizationId: uuid('organization_id').notNull(),
    /** null: the organization itself is billed. */
    applicationId: uuid('application_id'),
    /** A user's id, or the id of the key or of the Function's credential. */
    actorId: text('actor_id').notNull(),
    actorType: text('actor_type', { enum: actorTypes }).notNull(),
    apiKeyId: uuid('api_key_id'),
    authenticatedUserId: text('authenticated_user_id'),
    /** The client's own name for its user. */
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
    // Disjoint: each token counts in exactly one of them (usage.ts).
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
    /** null: no provider was called. */
    keyOwner: text('key_owner', { enum: keyOwners }),
    // What budgets count: 1 request if a provider was called, and at least the charges above, more if those are not certain.
    countedRequests: smallint('counted_requests').notNull().default(0),
    countedTokens: bigint('counted_tokens', { mode: 'number' }).notNull().default(0),
    countedCostNanos: bigint('counted_cost_nanos', { mode: 'bigint' })
      .notNull()
      .default(sql`0`),
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
    index('ai_usage_events_of_user')
      .on(t.organizationId, t.authenticatedUserId, t.id)
      .where(sql`${t.authenticatedUserId} is not null`),
    index('ai_usage_events_of_end_user')
      .on(t.organizationId, t.callerEndUserId, t.id)
      .where(sql`${t.callerEndUserId} is not null`),
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
    check('ai_usage_events_key_owner', isOneOf(t.keyOwner, keyOwners)),
    check('ai_usage_events_counted', sql`least(${t.countedRequests}, ${t.countedTokens}, ${t.countedCostNanos}) >= 0`),
  ],
)

/**
 * Sums of usage events by hour and by day, so that no summary reads more than two hours of events. A trigger of `ai_usage_events`
 * updates them in the transaction that stores an event (migrations/0019), so they always agree with the events.
 */
export const aiUsageSums = pgTable(
  'ai_usage_sums',
  {
    organizationId: uuid('organization_id').notNull(),
    span: text({ enum: ['hour', 'day'] }).notNull(),
    /** Start of the UTC hour or day. Events belong to the hour and day of their start. */
    at: instant('at').notNull(),
    applicationId: uuid('application_id'),
    /** null: calls by keys and Functions. */
    userId: text('user_id'),
    /** As served; `unknown` if none was. */
    model: text().notNull(),
    /** `unknown` if none was found. */
    provider: text().notNull(),
    /** True for calls with the operator's key. */
    isByOperator: boolean('is_by_operator').notNull(),
    requests: bigint({ mode: 'number' }).notNull(),
    successes: bigint({ mode: 'number' }).notNull(),
    errors: bigint({ mode: 'number' }).notNull(),
    cancelled: bigint({ mode: 'number' }).notNull(),
    /** Including cached ones and audio. */
    inputTokens: bigint('input_tokens', { mode: 'number' }).notNull(),
    /** Including reasoning and audio. */
    outputTokens: bigint('output_tokens', { mode: 'number' }).notNull(),
    latencyMs: bigint('latency_ms', { mode: 'number' }).notNull(),
    providerCostNanos: sumOfNanos('provider_cost_nanos').notNull(),
    billableCostNanos: sumOfNanos('billable_cost_nanos').notNull(),
    countedRequests: bigint('counted_requests', { mode: 'number' }).notNull(),
    countedTokens: bigint('counted_tokens', { mode: 'number' }).notNull(),
    countedCostNanos: sumOfNanos('counted_cost_nanos').notNull(),
  },
  (t) => [
    unique('ai_usage_sums_key')
      .on(t.organizationId, t.span, t.at, t.applicationId, t.userId, t.model, t.provider, t.isByOperator)
      .nullsNotDistinct(),
    check('ai_usage_sums_span', sql`${t.span} in ('hour', 'day')`),
  ],
)

/** Limits that an organization sets for all its calls, or those of an application, a user, or a user in an application. */
export const aiBudgets = pgTable(
  'ai_budgets',
  {
    id: uuid().primaryKey(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    /** No foreign key: applications are never deleted, and locking one more table would stop the previous release in mid-work. */
    applicationId: uuid('application_id'),
    userId: text('user_id'),
    period: text({ enum: periods }).notNull(),
    maxCostMicros: bigint('max_cost_micros', { mode: 'number' }),
    maxRequests: bigint('max_requests', { mode: 'number' }),
    maxTokens: bigint('max_tokens', { mode: 'number' }),
    maxRequestCostMicros: bigint('max_request_cost_micros', { mode: 'number' }),
    enabled: boolean().notNull(),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [
    unique('ai_budgets_target').on(t.organizationId, t.applicationId, t.userId, t.period).nullsNotDistinct(),
    check('ai_budgets_period', isOneOf(t.period, periods)),
    check(
      'ai_budgets_maximum',
      sql`least(${t.maxCostMicros}, ${t.maxRequests}, ${t.maxTokens}, ${t.maxRequestCostMicros}) >= 0`,
    ),
  ],
)

/**
 * Amounts spent and held by an organization, application or user in one UTC day or month, once a budget has needed them; kept
 * whatever happens to the budget. `spent` is the sum of the counted usage of all matching events (by the trigger of `ai_usage_events`),
 * `held` the sum over all matching rows of `ai_holds`.
 */
export const aiBudgetWindows = pgTable(
  'ai_budget_windows',
  {
    /** Everybody locks windows in ascending order. */
    id: bigint({ mode: 'number' }).generatedAlwaysAsIdentity().primaryKey(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    /** True for the operator's free allowance, in which only calls with the operator's key count. */
    isAllowance: boolean('is_allowance').notNull(),
    applicationId: uuid('application_id'),
    userId: text('user_id'),
    period: text({ enum: periods }).notNull(),
    startsAt: instant('starts_at').notNull(),
    spentCostNanos: sumOfNanos('spent_cost_nanos').notNull(),
    spentRequests: bigint('spent_requests', { mode: 'number' }).notNull(),
    spentTokens: bigint('spent_tokens', { mode: 'number' }).notNull(),
    heldCostNanos: sumOfNanos('held_cost_nanos').notNull(),
    heldRequests: bigint('held_requests', { mode: 'number' }).notNull(),
    heldTokens: bigint('held_tokens', { mode: 'number' }).notNull(),
  },
  (t) => [
    unique('ai_budget_windows_key')
      .on(t.organizationId, t.startsAt, t.period, t.isAllowance, t.applicationId, t.userId)
      .nullsNotDistinct(),
    index('ai_budget_windows_by_age').on(t.startsAt),
    check('ai_budget_windows_period', isOneOf(t.period, periods)),
  ],
)

/** The maximum cost of a call in progress. Deleted when the call's usage event is stored; an expired one has lost its process. */
export const aiHolds = pgTable(
  'ai_holds',
  {
    /** Id of the call and of its event. */
    id: uuid().primaryKey(),
    /** No foreign keys: each would lock a row for every call. */
    organizationId: uuid('organization_id').notNull(),
    applicationId: uuid('application_id'),
    userId: text('user_id'),
    isByOperator: boolean('is_by_operator').notNull(),
    startedAt: instant('started_at').notNull(),
    costNanos: bigint('cost_nanos', { mode: 'bigint' }).notNull(),
    tokens: bigint({ mode: 'number' }).notNull(),
    /** The usage event to store if nobody settles the call: as if it had cost the full hold. */
    event: jsonb().$type<Readonly<Record<string, unknown>>>().notNull(),
    expiresAt: instant('expires_at').notNull(),
  },
  (t) => [
    index('ai_holds_of_organization').on(t.organizationId),
    index('ai_holds_by_expiry').on(t.expiresAt),
    check('ai_holds_amounts', sql`least(${t.costNanos}, ${t.tokens}) >= 0`),
  ],
)

/** Which models and providers an organization or one of its applications may use. */
export const aiPolicies = pgTable(
  'ai_policies',
  {
    id: uuid().primaryKey(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    /** null: the organization's own policy. */
    applicationId: uuid('application_id'),
    /** null: all. */
    allowedModels: text('allowed_models').array(),
    allowedProviders: text('allowed_providers').array(),
    requireZdr: boolean('require_zdr').notNull(),
    allowFallbacks: boolean('allow_fallbacks').notNull(),
    maxOutputTokens: integer('max_output_tokens'),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [
    unique('ai_policies_target').on(t.organizationId, t.applicationId).nullsNotDistinct(),
    check('ai_policies_output', sql`${t.maxOutputTokens} >= 1`),
  ],
)

/** An organization's own key for a provider of the operator's list. The key is sealed; the row's id is its associated data. */
export const aiProviderKeys = pgTable(
  'ai_provider_keys',
  {
    /** New with each key, so that an earlier sealed value never opens for it. */
    id: uuid().primaryKey(),
    organizationId: uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    provider: text().notNull(),
    ciphertext: bytea().notNull(),
    kekId: text('kek_id').notNull(),
    /** The visible end of the key: four characters, fewer for a short key. */
    last4: text().notNull(),
    createdByUserId: text('created_by_user_id').notNull(),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [uniqueIndex('ai_provider_keys_provider').on(t.organizationId, t.provider)],
)
