import { noUsage } from '@platform/ai-protocols/usage'
import { newIdAt } from '@platform/runtime/new-id'
import type { TestPlatform } from '@platform/testing/platform'
import type { UsageEvent } from '../src/areas/ai/governance/record-usage.ts'

/** A call that was answered at some moment, for a price. */
export function usageEvent(organizationId: string, startedAt: Date, more: Partial<UsageEvent> = {}): UsageEvent {
  return {
    id: newIdAt(startedAt),
    traceId: null,
    organizationId,
    applicationId: null,
    actorId: 'someone',
    actorType: 'user',
    apiKeyId: null,
    authenticatedUserId: 'someone',
    callerEndUserId: null,
    modelRequested: 'asked/model',
    modelServed: 'model',
    provider: 'provider',
    providerAttempts: [{ provider: 'provider', statusCode: 200 }],
    operation: 'chat.completions',
    status: 'success',
    statusCode: 200,
    errorCode: null,
    errorType: null,
    ...noUsage,
    inputTokens: 10,
    outputTokens: 5,
    usageSource: 'provider',
    providerCostNanos: 1_500n,
    billableCostNanos: 1_500n,
    priceVersion: 'operator',
    keyOwner: 'operator',
    countedRequests: 1,
    countedTokens: 15,
    countedCostNanos: 1_500n,
    streaming: false,
    latencyMs: 100,
    metadata: null,
    startedAt,
    completedAt: startedAt,
    ...more,
  }
}

/** Stores events, a few thousand at a time. */
export async function storeEvents({ api }: Pick<TestPlatform, 'api'>, events: readonly UsageEvent[]): Promise<void> {
  for (let from = 0; from < events.length; from += 5_000) {
    for (const event of events.slice(from, from + 5_000)) api.usage.record(event)
    await api.usage.flush()
  }
}
