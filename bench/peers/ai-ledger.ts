import { createServer } from 'node:http'
import { noUsage } from '@platform/ai-protocols/usage'
import { admitCall, type Hold } from '@platform/api/areas/ai/governance/budgets/admit-call'
import { openUsageRecorder, type UsageEvent, usageRowOf } from '@platform/api/areas/ai/governance/record-usage'
import { openDatabase } from '@platform/runtime/database'
import { createLogger } from '@platform/runtime/logger'
import { newIdAt } from '@platform/runtime/new-id'
import { readSettings } from './settings.ts'

// Each request holds what a call may cost under an organization's budget, and settles it: as the AI gateway does around a call, and
// nothing of the call itself.

const { port, databaseUrl, organizationId } = readSettings('organizationId')
const { db } = openDatabase(databaseUrl, { name: 'bench', max: 10, prepare: true })
const usage = openUsageRecorder({ db, logger: createLogger('bench', 'warn') })

function eventOf(startedAt: Date): UsageEvent {
  return {
    id: newIdAt(startedAt),
    traceId: null,
    organizationId,
    applicationId: null,
    actorId: 'bench',
    actorType: 'user',
    apiKeyId: null,
    authenticatedUserId: 'bench',
    callerEndUserId: null,
    modelRequested: 'bench',
    modelServed: 'bench',
    provider: 'bench',
    providerAttempts: [{ provider: 'bench', statusCode: 200 }],
    operation: 'chat.completions',
    status: 'success',
    statusCode: 200,
    errorCode: null,
    errorType: null,
    ...noUsage,
    inputTokens: 40,
    outputTokens: 100,
    usageSource: 'provider',
    providerCostNanos: 66_000n,
    billableCostNanos: 66_000n,
    priceVersion: 'operator',
    keyOwner: 'operator',
    countedRequests: 1,
    countedTokens: 140,
    countedCostNanos: 66_000n,
    streaming: false,
    latencyMs: 1,
    metadata: null,
    startedAt,
    completedAt: startedAt,
  }
}

createServer((_, outgoing) => {
  const startedAt = new Date()
  const event = eventOf(startedAt)
  const hold: Hold = {
    id: event.id,
    organizationId,
    applicationId: null,
    userId: 'bench',
    isByOperator: true,
    startedAt,
    costNanos: 200_000n,
    tokens: 400,
    allowanceNanos: null,
    event: usageRowOf(event),
    expiresAt: new Date(startedAt.getTime() + 3_600_000),
  }
  admitCall({ db }, hold).then(
    ({ kind }) => {
      usage.record(event, true)
      return outgoing.writeHead(kind === 'admitted' ? 200 : 429).end()
    },
    () => outgoing.writeHead(503).end(),
  )
}).listen(port, '127.0.0.1')
