import type { MockUpstream } from '@platform/testing/mock-ai-upstream'
import type { TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { aiUsageEvents } from '../src/areas/ai/governance/table.ts'
import { setEntitlement } from '../src/areas/tenancy/products/products.ts'
import { newOwner, type Owner } from './scenario.ts'

/** The operator's key at the mock, as tests name its variable. */
export const OPERATOR_KEY = 'sk-operator-0123456789abcdef'
export const aiKeys = { MOCK_KEY: OPERATOR_KEY }

/** A provider that a mock plays. */
export const mockProvider = ({ baseUrl }: Pick<MockUpstream, 'baseUrl'>, id = 'mock', more: object = {}) => ({
  id,
  driver: 'openai-compatible',
  baseUrl,
  keyEnv: 'MOCK_KEY',
  ...more,
})

/** A model with one route, which is called as the mock's model. */
export const mockModel = (id: string, more: object = {}, provider = 'mock', upstreamModel = id) => ({
  id,
  routes: [{ provider, upstreamModel, ...more }],
})

/** An owner whose organization the operator's keys serve. */
export async function newEntitledOwner(platform: TestPlatform): Promise<Owner> {
  const owner = await newOwner(platform)
  await setEntitlement(platform.api, owner.organizationId, 'ai-gateway', 'ACTIVE')
  return owner
}

/** The one user message of a chat. */
export const chatOf = (model: string, more: object = {}) => ({
  model,
  messages: [{ role: 'user', content: 'Hello, wörld' }],
  ...more,
})

/** The usage event of a request, once it is stored. */
export async function eventOf({ api }: Pick<TestPlatform, 'api'>, requestId: string | null | undefined) {
  await api.usage.flush()
  const [event] = await api.db
    .select()
    .from(aiUsageEvents)
    .where(eq(aiUsageEvents.id, requestId ?? ''))
  return event
}
