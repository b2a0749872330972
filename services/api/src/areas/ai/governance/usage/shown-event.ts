import { microsOf } from '../micros.ts'
import type { UsageRow } from './find-events.ts'

/** Formats an event for the API: tokens summed up, costs in millionths of a dollar, rounded up. */
export function shownEvent(row: UsageRow) {
  const inputTokens = row.inputTokens + row.cacheReadTokens + row.cacheWriteTokens + row.inputAudioTokens
  const outputTokens = row.outputTokens + row.reasoningTokens + row.outputAudioTokens
  return {
    id: row.id,
    requestId: row.id,
    traceId: row.traceId,
    billingSubjectType: row.applicationId === null ? ('organization' as const) : ('application' as const),
    organizationId: row.organizationId,
    applicationId: row.applicationId,
    actorId: row.actorId,
    actorType: row.actorType,
    apiKeyId: row.apiKeyId,
    authenticatedUserId: row.authenticatedUserId,
    callerEndUserId: row.callerEndUserId,
    modelRequested: row.modelRequested,
    modelServed: row.modelServed,
    provider: row.provider,
    providerAttempts: [...row.providerAttempts],
    status: row.status,
    errorCode: row.errorCode,
    errorType: row.errorType,
    inputTokens,
    outputTokens,
    cachedInputTokens: row.cacheReadTokens,
    totalTokens: inputTokens + outputTokens,
    usageSource: row.usageSource,
    providerCostMicros: microsOf(row.providerCostNanos),
    billableCostMicros: microsOf(row.billableCostNanos),
    streaming: row.streaming,
    latencyMs: row.latencyMs,
    metadata: row.metadata,
    startedAt: row.startedAt,
    completedAt: row.completedAt,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  }
}

export type ShownEvent = ReturnType<typeof shownEvent>
